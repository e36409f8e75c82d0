"""Replies from nREPL servers, converted to a common form.

nREPL nests a symbol in `info`, while cider-nrepl and others return its fields directly. Completions are maps or
strings. A symbol that is not found is a status, an empty list, or nothing. Codriver's programs answer in JSON with the
same names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from codriver.core.evaluations import Failure
from codriver.repls.contract import events
from codriver.repls.contract.adapter import CapabilityMissingError, EvaluationFailedError
from codriver.repls.contract.events import FeatureReport, InputNeeded, Listener, Output, SensitiveValues
from codriver.repls.contract.fresh_imports import FreshFinding, finding_lines, read_finding
from codriver.repls.contract.test_run_values import TestResult, TestRun, TestTime
from codriver.repls.nrepl.connection import FAILED_STATUSES, Message
from codriver.repls.nrepl.failures import SentFailure, parse_failure
from codriver.repls.test_results import build_test_run, parse_test_result
from codriver.wire.bencode import TruncatedText
from codriver.wire.untrusted import EMPTY_MAPPING, int_or_none, list_or_empty, mapping_or_empty, text_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.print_limits import PrintLimits, ValuePart
    from codriver.core.profiles import Capability, Profile
    from codriver.repls.dialects.server_dialect import Dialect


MAX_ERR_CHARS: Final = 64 * 1024
"""Maximum number of characters stored from `err` for parsing a failure, more than any known traceback has."""

TRUNCATED_STATUS: Final = "nrepl.middleware.print/truncated"
"""The status of a value that the server truncated."""
NEED_INPUT_STATUS: Final = "need-input"
"""The status of an evaluation waiting for input."""
BACKGROUND_OP: Final = "codriver/background"
"""The worker's op that evaluates on a new thread."""
DECLINED_START_NOTE: Final = (
    "start_repl() did nothing, because this process is a REPL that Codriver started, not your application"
)
"""The note about a call to `start_repl()` that had no effect."""
FRAME_OP: Final = "codriver/frame"
"""The worker's op that evaluates in an error's frame."""
OUTPUT_OPS: Final = ("forward-system-output", "out-subscribe", "cider/out-subscribe")
"""Ops that forward output from threads outside evaluations, in order of preference."""
STORED_VALUE_OP: Final = "codriver/value"
"""The worker's op that returns a part of a stored value."""

SENSITIVE_OP: Final = "codriver/sensitive"
"""The op that requests the values at sensitive paths from the worker, and the field that contains them."""

_STRING_PATTERN: Final = re.compile(r'"(?:\\.|[^"\\])*(?:"|\\?\Z)', re.DOTALL)
"""Matches a string, which may be truncated at the end of the text."""
MAX_SEARCHED_CHARACTERS: Final = 256 * 1024
"""Maximum number of characters at the start of a value that are searched for markers. The search blocks other work."""
SEARCHED_END_CHARACTERS: Final = 16
"""Number of characters at the end of a longer value that are searched too. The outermost collection ends there."""
_CUT_LENGTH_PATTERN: Final = re.compile(r" \.\.\.[)\]}]")
"""Matches the end of a collection that Clojure printed only in part."""
_CUT_LEVEL_PATTERN: Final = re.compile(r"(?<=[\s(\[{])#(?=[\s)\]},])")


class Reply:
    """The replies to one request, including messages received after its end."""

    def __init__(
        self,
        evaluation: str | None,
        listener: Listener,
        limits: PrintLimits | None = None,
        reports: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._evaluation = evaluation
        self._reports = reports
        """The fields that contain reports for features, each with the name of the report."""
        self._limits = limits
        """The print limits, for a REPL that truncates values without reporting it."""
        self._listener = listener
        self._err = ""
        self._ex: str | None = None
        self._root_ex: str | None = None
        self._parts: Mapping[str, object] = EMPTY_MAPPING
        self.status: set[str] = set()
        self.namespace: str | None = None
        self.values: list[str] = []
        self.cut = ""
        """A description of what was omitted from the last value, if the REPL does not store the value itself."""
        self.left_out = 0
        """The number of bytes of text that were discarded."""
        self.is_failed = False
        self._edited = ""
        self._directory = ""
        self._finding: FreshFinding | None = None
        self._is_declined = False

    def receive(self, message: Message) -> None:
        """Report the contents of a message to the listener: output, then the value, then a request for input.

        After `done`, output and values are still reported, but do not change the ending. Such values are marked as
        late.
        """
        for key, name in self._reports:
            if key in message.fields and (report := message.text(key)):
                self._listener(self._evaluation, FeatureReport(name, report))
        out, err, value, namespace, ex, root_ex, edited, directory, finding = message.text_fields(
            "out", "err", "value", "ns", "ex", "root-ex", "codriver/edited", "codriver/folder", "codriver/fresh"
        )
        if out:
            self._print("out", out)
        if err:
            self._print("err", err)
        if self.is_finished:
            if value is not None:
                self._pass_on_value(value, namespace, message, is_late=True)
            return
        if err:
            self._err = (self._err + err)[-MAX_ERR_CHARS:]
        self.namespace = namespace or self.namespace
        self._ex = ex or self._ex
        self._root_ex = root_ex or self._root_ex
        self._edited = edited or self._edited
        self._directory = directory or self._directory
        self._finding = read_finding(finding) if finding else self._finding
        self._is_declined |= "codriver/declined" in message.fields
        if "codriver/error" in message.fields:
            self._parts = mapping_or_empty(message.fields["codriver/error"]) or self._parts
        self.status |= message.status
        # The reply to an interrupt may have `error` next to `done`. `interrupted` then decides the outcome.
        self.is_failed = self.is_failed or bool(self._ex or self._parts or FAILED_STATUSES & message.status)
        if value is not None:
            self.values.append(value[:MAX_ERR_CHARS])
            self._pass_on_value(value, namespace, message, is_late=False)
        if NEED_INPUT_STATUS in message.status:
            self._listener(self._evaluation, InputNeeded())

    def _print(self, stream: Literal["out", "err"], text: str) -> None:
        if isinstance(text, TruncatedText):
            self.left_out += text.left_out
        self._listener(self._evaluation, Output(stream, text))

    def _pass_on_value(self, text: str, namespace: str | None, message: Message, *, is_late: bool) -> None:
        is_cut, cut = TRUNCATED_STATUS in message.status, ""
        if "codriver/cut" in message.fields:
            cut = message.text("codriver/cut") or ""
        if isinstance(text, TruncatedText):
            self.left_out += text.left_out
        seen = cut or (describe_cuts(text, self._limits) if self._limits else "")
        self.cut = "" if cut else seen
        value = events.Value(text, namespace, truncated=is_cut, is_late=is_late, cut=seen, is_stored=bool(cut))
        self._listener(self._evaluation, value)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on edited files, differences from a fresh import, the working directory and discarded output."""
        words = f"{self.left_out:,} bytes of the REPL's output were dropped, because the output is too long to store"
        edited = [f"{file}{events.LOAD_IT_SUFFIX}" for file in self._edited.split("\n") if file]
        moved = f"the working directory of this REPL, which all callers share, is now {self._directory}"
        declined = [DECLINED_START_NOTE] if self._is_declined else []
        fresh = finding_lines(self._finding) if self._finding is not None else ()
        return (*edited, *fresh, *([moved] if self._directory else []), *declined, *([words] if self.left_out else []))

    @property
    def is_finished(self) -> bool:
        """Return whether the server has finished the request."""
        return "done" in self.status

    @property
    def is_interrupted(self) -> bool:
        """Return whether the server has interrupted the evaluation."""
        return "interrupted" in self.status

    @property
    def failure(self) -> SentFailure:
        """Return the parts of the failure as the server sent them."""
        return SentFailure(self._err, self._ex, self._root_ex, frozenset(self.status), self._parts)


def parse_sensitive_values(message: Message) -> SensitiveValues:
    """Return the sensitive values that a worker reports in a message."""
    rows = map(list_or_empty, list_or_empty(message.fields[SENSITIVE_OP]))
    return SensitiveValues(
        tuple([(text_or_none(row[0]) or "", text_or_none(row[1]) or "") for row in rows if len(row) == 2])
    )


def describe_cuts(text: str, limits: PrintLimits) -> str:
    """Describe what print limits omitted from a Lisp value, based on the markers outside strings."""
    searched = text if len(text) <= MAX_SEARCHED_CHARACTERS else _beginning_and_end(text)
    if (
        limits.max_length is not None
        and " ..." in searched
        and _CUT_LENGTH_PATTERN.search(_STRING_PATTERN.sub('""', searched))
    ):
        return f"more than {limits.max_length}"
    if (
        limits.max_depth is not None
        and "#" in searched
        and _CUT_LEVEL_PATTERN.search(_STRING_PATTERN.sub('""', searched))
    ):
        return f"levels below {limits.max_depth}"
    return ""


def _beginning_and_end(text: str) -> str:
    """Return the beginning of a long value without its strings, followed by its last characters outside strings."""
    return (
        _STRING_PATTERN.sub('""', text[:MAX_SEARCHED_CHARACTERS]) + text[-SEARCHED_END_CHARACTERS:].rpartition('"')[2]
    )


def parse_value_part(answer: Sequence[Message]) -> events.Value | str:
    """Parse a worker's reply with part of a stored value, or return why the value is missing."""
    for message in answer:
        if (text := message.text("value")) is not None:
            is_cut = TRUNCATED_STATUS in message.status
            return events.Value(text, truncated=is_cut, cut=message.text("codriver/cut") or "", is_stored=True)
    return next((why for message in answer if (why := message.text("codriver/missing"))), "the REPL gave no reason")


def parse_stored_part(fields: Mapping[str, object], part: ValuePart) -> events.Value | str:
    """Parse the reply from Codriver's program with part of a stored value, or return why the value is missing."""
    text = text_or_none(fields.get("text"))
    if text is None:
        return text_or_none(fields.get("missing")) or "the REPL gave no reason"
    is_cut = (int_or_none(fields.get("size")) or 0) > len(text)
    cut = describe_cut_elements(
        int_or_none(fields.get("count")), describe_cuts(text, part.limits), part.limits, part.start
    )
    return events.Value(text, truncated=is_cut, cut=cut, is_stored=True)


def describe_stored_cuts(fields: Mapping[str, object], seen: str, limits: PrintLimits) -> str:
    """Describe what was omitted from a stored value. The reply contains the print limits set by the user."""
    length, depth = int_or_none(fields.get("length")), int_or_none(fields.get("level"))
    result = replace(
        limits,
        max_length=limits.max_length if limits.is_length_explicit or length is None else length,
        max_depth=limits.max_depth if limits.is_depth_explicit or depth is None else depth,
    )
    seen = f"levels below {result.max_depth}" if seen.startswith("levels") else f"more than {result.max_length}"
    return describe_cut_elements(int_or_none(fields.get("count")), seen, result)


def describe_cut_elements(count: int | None, seen: str, limits: PrintLimits, start: int = 0) -> str:
    """Describe how many elements were omitted. If `count`, the total number, is unknown, return `seen`."""
    end = start + (limits.max_length or 0)
    return f"{count - end} of {count} elements" if limits.max_length and count is not None and count > end else seen


def parse_symbol(answer: Sequence[Message]) -> Mapping[str, object]:
    """Return the fields of a symbol in a reply to `lookup` or `info`. They have no name if the symbol is unknown."""
    fields: dict[str, object] = {}
    for message in answer:
        fields.update(mapping_or_empty(message.fields.get("info")) or message.fields)
    return fields


def parse_cider_tests(answer: Sequence[Message], dialect: Dialect) -> TestRun:
    """Parse the report from cider-nrepl's `test` op, which has a summary and the results by namespace and test."""
    results: list[TestResult] = []
    summary: Mapping[str, object] = {}
    times: list[TestTime] = []
    for message in answer:
        summary = mapping_or_empty(message.fields.get("summary")) or summary
        for tests in mapping_or_empty(message.fields.get("results")).values():
            for assertions in mapping_or_empty(tests).values():
                results += [parse_test_result(mapping_or_empty(item), dialect) for item in list_or_empty(assertions)]
        for namespace, elapsed_ms in mapping_or_empty(message.fields.get("var-elapsed-time")).items():
            for test, elapsed in mapping_or_empty(elapsed_ms).items():
                ms = int_or_none(mapping_or_empty(mapping_or_empty(elapsed).get("elapsed-time")).get("ms"))
                times += [TestTime(namespace, test, ms / 1000)] if ms is not None else []
    return replace(build_test_run(results, tests=int_or_none(summary.get("var")), output=""), times=tuple(times))


def require_capability(profile: Profile, capability: str) -> Capability:
    """Return a capability of the REPL by its name.

    Raises:
        CapabilityMissingError: the REPL does not support it.
    """
    if (support := profile.capabilities.get(capability)) is None:
        raise CapabilityMissingError(capability, profile.missing.get(capability))
    return support


def parse_program_data(what: str, answer: Sequence[Message], dialect: Dialect) -> object:
    """Parse the data in the reply to one of Codriver's programs. `what` describes the program in error messages.

    Raises:
        EvaluationFailedError: the program failed, or its value is not valid data.
    """
    require_success(what, answer, dialect)
    printed = [value for message in answer if (value := message.text("value")) is not None]
    try:
        return dialect.read(printed[-1]) if printed else None
    except (ValueError, SyntaxError) as error:
        excerpt = printed[-1][:200]
        failure = Failure("unreadable", f"the REPL printed {excerpt!r} where JSON was expected")
        raise EvaluationFailedError(what, failure) from error


def require_success(what: str, answer: Sequence[Message], dialect: Dialect) -> None:
    """Check that a reply reports no failure. `what` describes the request in error messages.

    Raises:
        EvaluationFailedError: the reply reports a failure.
    """
    if not any(message.is_failed for message in answer):
        return
    reply = Reply(None, lambda _evaluation, _event: None)
    for message in answer:
        reply.receive(message)
    raise EvaluationFailedError(what, parse_failure(reply.failure, dialect))
