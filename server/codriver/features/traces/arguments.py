"""The arguments `trace`, `profile` and `coverage`, and their effect on evaluations and test runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from codriver.errors import refused
from codriver.features.traces.recording_request import RecordingRequest
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.testing.changed_lines import changed_lines
from codriver.tools.calls.arguments import UNLISTED_KEY, ArgumentModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl
    from codriver.tools.calls.call import Call

TRACING_DIALECTS: Final = frozenset({"python", "clojure"})
"""The dialects whose REPLs can record calls."""
PROFILING_DIALECTS: Final = frozenset({"python"})
"""The dialects whose REPLs can measure the time spent in functions."""
TRACING_UNSUPPORTED_MESSAGE: Final = (
    "this REPL cannot record calls. Only Python, Clojure on the JVM and the embedded Lisp can"
)
PROFILING_UNSUPPORTED_MESSAGE: Final = "this REPL cannot measure times. Only Python can"


def _parse_names(value: object) -> object:
    """Convert a `trace` argument to names: an empty tuple for `true`, or None if nothing is to be recorded."""
    if value is True or value == "true":
        return ()
    if value in (False, "", "false", None):
        return None
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):  # JSON, because no name starts with these characters
        try:
            return json.loads(value)
        except ValueError:
            return value
    return tuple(value.replace(",", " ").split())


Trace = Annotated[tuple[str, ...] | None, BeforeValidator(_parse_names), WithJsonSchema({"type": "string"})]
"""The names whose calls are recorded.

An empty tuple means all functions of the project, and None means that nothing is recorded.
"""


class TraceArguments(ArgumentModel):
    """The arguments that call tracing adds to the tool `evaluate_code`."""

    trace: Trace = Field(
        None,
        description="List calls of these functions, with arguments and results: module.function, comma-separated. "
        "true: all.",
    )
    profile: bool = Field(default=False, description="Measure where the time goes.")


class TestTraceArguments(ArgumentModel):
    """The arguments that call tracing adds to the tool `run_tests`."""

    __test__ = False  # for pytest, which would otherwise collect the class

    trace: Trace = Field(None, json_schema_extra={UNLISTED_KEY: True})
    coverage: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether to report the changed lines that no test executed."""


def can_record_calls(repl: Repl) -> bool:
    """Return whether the REPL can record calls. In Basilisp, only Codriver's own REPL can."""
    if repl.dialect == "basilisp":
        return repl.profile is None or "frame" in repl.profile.capabilities
    return repl.dialect in TRACING_DIALECTS


def check_tracing(repl: Repl, trace: Trace, *, measures: bool) -> None:
    """Check that a REPL can record calls if `trace` is not None, and measure times if `measures` is true.

    Raises:
        CapabilityMissingError: the REPL cannot do this.
    """
    if repl.profile is None and repl.dialect == "unknown":
        return
    if trace is not None and not can_record_calls(repl):
        raise CapabilityMissingError("trace", message=TRACING_UNSUPPORTED_MESSAGE)
    if measures and repl.dialect not in PROFILING_DIALECTS:
        raise CapabilityMissingError("trace", message=PROFILING_UNSUPPORTED_MESSAGE)


def requested_recording(call: Call, repl: Repl | None) -> RecordingRequest | None:
    """Return the recording requested by the arguments of a tool call, or None.

    Raises:
        RefusedError: the REPL cannot record calls.
    """
    tests = call.added_arguments(TestTraceArguments)
    if tests is not None:
        if repl is not None and tests.coverage:
            message = f"{repl.key} runs tests itself and cannot measure coverage"
            raise CapabilityMissingError("trace", message=message)
        if repl is not None:
            check_tracing(repl, tests.trace, measures=False)
        return None if tests.trace is None else RecordingRequest(tests.trace)
    given = call.added_arguments(TraceArguments)
    if given is None or (given.trace is None and not given.profile):
        return None
    if repl is None:
        raise refused(
            "bad-arguments",
            "calls cannot be recorded in the frames of a failed test",
            hint='use run_tests with trace: "true" to record the calls made by the test',
        )
    check_tracing(repl, given.trace, measures=given.profile)
    return RecordingRequest(given.trace, given.profile)


def requested_recorders(call: Call) -> Mapping[str, Mapping[str, Any]]:
    """Return the options of each recorder that a test run needs. Blocks while determining the changed lines."""
    given = call.added_arguments(TestTraceArguments)
    if given is None:
        return {}
    lines: dict[str, Any] = {"lines": {"lines": changed_lines(call.services.workspace)}} if given.coverage else {}
    return lines if given.trace is None else {**lines, "calls": {"names": list(given.trace)}}


def tracing_hint(repl: Repl) -> str:
    """Return a hint that calls can be recorded, or an empty string if the REPL cannot record calls.

    The hint is for code that failed twice in the same way.
    """
    if not can_record_calls(repl):
        return ""
    return (
        'to record the calls in the next run, pass trace: "true". To compare two runs, call get_evaluation with '
        "diffWith"
    )
