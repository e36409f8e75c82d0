"""Answers about recorded runs: the lines beside an evaluation's result, and the parts that are asked for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from codriver.errors import RefusedError
from codriver.log.recorded_runs import UnreadableRunError
from codriver.repls.contract.errors import CapabilityMissingError
from codriver.tools.answers import run_texts
from codriver.tools.answers.answer_budget import json_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.core.state import Repl
    from codriver.log.recorded_runs import Run
    from codriver.tools.calls.base import Answer, Call

TRACING: Final = frozenset({"python", "clojure"})
"""The dialects whose REPLs record calls."""
MEASURING: Final = frozenset({"python"})
"""Those whose REPLs tell lines that did not run, and times."""
NOT_HERE: Final = "this REPL does not record calls: those of Python and of Clojure on the JVM do"
NOT_MEASURED: Final = "this REPL tells neither coverage nor a profile: those of Python do"
WALK_LINES: Final = 60
WALK_BYTES: Final = 900


def _names(given: object) -> object:
    """The names in what was given: none of them for `true`."""
    if given is True or given == "true":
        return ()
    if given in (False, "", "false", None):
        return None
    return tuple(given.replace(",", " ").split()) if isinstance(given, str) else given


Trace = Annotated[tuple[str, ...] | None, BeforeValidator(_names), WithJsonSchema({"type": "string"})]
"""The names whose calls are recorded: empty for all of the project's own, None for none at all."""


class NoRunError(RefusedError):
    """The calls of an evaluation were not recorded, or are not kept any more."""

    reason = "forgotten"

    def __init__(self, evaluation: str, kept: Sequence[str]) -> None:
        known = f"there are those of {', '.join(kept)}" if kept else "there are none"
        super().__init__(
            f"no recorded calls of evaluation {evaluation} are kept: {known}",
            hint="evaluate_code and run_tests record them with trace",
        )


def check_tracing(repl: Repl, trace: Trace, *, measures: bool) -> None:
    """Nothing, where a REPL records what is asked for: calls by `trace`, and coverage or times if it `measures`.

    Raises:
        CapabilityMissingError: it does not.
    """
    if repl.profile is None and repl.dialect == "unknown":
        return
    if trace is not None and repl.dialect not in TRACING:
        raise CapabilityMissingError("trace", message=NOT_HERE)
    if measures and repl.dialect not in MEASURING:
        raise CapabilityMissingError("trace", message=NOT_MEASURED)


async def run_of(call: Call, evaluation: str) -> Run:
    """The run of an evaluation.

    Raises:
        NoRunError: there is none, or it is forgotten.
    """
    runs = call.services.runs
    try:
        run = await call.services.work.texts.run(call.client, partial(runs.get, evaluation))
    except UnreadableRunError:
        run = None
    if run is None:
        raise NoRunError(evaluation, runs.ids())
    return run


async def with_trace(call: Call, answer: Answer, evaluation: str) -> Answer:
    """An answer about an evaluation whose calls were recorded, with the outline of these."""
    if evaluation not in call.services.runs.ids():
        return answer
    try:
        told = _fields(await run_of(call, evaluation), str(call.services.workspace))
    except NoRunError as error:
        told = {"trace": error.message}
    return replace(answer, fields={**answer.fields, **told})


def _fields(run: Run, workspace: str) -> dict[str, object]:
    """The fields of an answer about a run: its outline, the changed lines that no test ran, the slowest functions."""
    told: dict[str, object] = {}
    if run.is_traced or run.refused:
        told["trace"] = "\n".join(run_texts.outline(run))
    if run.unrun is not None:
        told["notRun"] = run_texts.unrun_lines(run, workspace)
    if run.profile is not None:
        told["profile"] = run_texts.profile_text(run)
    return told


async def trace_part(
    call: Call, evaluation: str, path: Sequence[int | str], *, start: int, diff_with: str | None, most_bytes: int | None
) -> dict[str, Any]:
    """The fields of an answer that is asked for a run: a place in it, or what differs from another."""
    run = await run_of(call, evaluation)
    if diff_with is not None:
        other = await run_of(call, diff_with)
        pairs = run_texts.differences(other, run)
        text = "\n".join(run_texts.difference_lines(pairs)) or f"no recorded call differs from those of {diff_with}"
        return {"part": "trace", "text": text}
    # As much as is asked for has room for all calls, and for what is said behind them.
    most = WALK_LINES if most_bytes is None else len(run.calls) + run_texts.OUTLINE_LINES
    lines = run_texts.walk(run, path, most)
    shown = [lines[0], *lines[1 + start :]]
    left = most_bytes or WALK_BYTES
    kept: list[str] = []
    for one in shown:
        left -= json_bytes(one) + 2
        if left < 0 and kept:
            break
        kept.append(one)
    fields: dict[str, Any] = {"part": "trace", "text": "\n".join(kept)}
    if len(kept) < len(shown):
        fields["next"] = start + len(kept) - 1
    return fields
