"""Replies of nREPL servers, checked and read into one shape: to forms, to ops, and to our own questions.

nREPL nests a symbol under `info`, cider-nrepl and others give its parts flat; completions are maps or texts; nothing
found is a status, an empty list, or nothing at all. Answers to our own questions come as JSON under the same names. A
check refuses the reply of a REPL that lacks a capability, or failed.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from codriver.core.values import Capability, Failure
from codriver.repls.contract import adapter_values
from codriver.repls.contract.adapter import CapabilityMissingError, EvaluationFailedError
from codriver.repls.contract.adapter_values import (
    AppEvents,
    InputNeeded,
    Listener,
    Output,
    Reported,
    SeamFound,
    SensitiveSeen,
    TestResult,
    TestRun,
    TestTime,
)
from codriver.repls.contract.fresh_imports import FreshFinding, finding_lines, read_finding
from codriver.repls.nrepl.connection import FAILED, Message
from codriver.repls.nrepl.failures import SentFailure, read_failure
from codriver.repls.test_results import result_of, run_of
from codriver.wire.bencode import CutText
from codriver.wire.untrusted import NOTHING, as_int, as_list, as_map, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.values import PrintLimits, Profile, ValuePart
    from codriver.repls.dialects.server_dialect import Dialect


ERR_CHARS: Final = 64 * 1024
"""The characters at the end of `err` that are kept to read a failure from: more than any traceback seen."""

TRUNCATED: Final = "nrepl.middleware.print/truncated"
NEED_INPUT: Final = "need-input"
BACKGROUND: Final = "codriver/background"
"""The op by which Codriver's worker evaluates on a thread of its own."""
DECLINED: Final = (
    "start_repl() started no REPL: this process is a REPL that Codriver started, and not your application's own"
)
FRAME: Final = "codriver/frame"
"""The op by which Codriver's worker evaluates in a frame of an error."""
OUTPUT_OPS: Final = ("forward-system-output", "out-subscribe", "cider/out-subscribe")
"""Ops for the output of threads outside of evaluations, the best first."""
STORED_VALUE: Final = "codriver/value"
"""The op of Codriver's worker for a part of a cut value that it keeps."""

SEAM_OP: Final = "codriver/seam"
"""The op of Codriver's worker that asks the application's seam; also the field of its answer."""

APP_EVENTS: Final = "codriver/app-events"
"""The field in which the worker pushes the application's events to subscribers."""

SENSITIVE_OP: Final = "codriver/sensitive"
"""The op that has Codriver's worker tell texts at sensitive paths; also the field of these messages."""

_STRING: Final = re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL)
_CUT_LENGTH: Final = re.compile(r" \.\.\.[)\]}]")
_CUT_LEVEL: Final = re.compile(r"(?<=[\s(\[{])#(?=[\s)\]},])")


class Reply:
    """The answer to one evaluating request. Lives as long as messages about it may come."""

    def __init__(
        self,
        evaluation: str | None,
        listener: Listener,
        limits: PrintLimits | None = None,
        reports: Mapping[str, str] = NOTHING,
    ) -> None:
        self._evaluation = evaluation
        self._reports = reports
        """The names of features' reports, by the fields that carry them."""
        self._limits = limits
        """The print limits, for a REPL that cuts values without telling."""
        self._listener = listener
        self._err = ""
        self._ex: str | None = None
        self._root_ex: str | None = None
        self._parts: Mapping[str, object] = NOTHING
        self.status: set[str] = set()
        self.namespace: str | None = None
        self.values: list[str] = []
        self.cut = ""
        """The omissions of the last value, in words, if the REPL does not keep the value by itself."""
        self.left_out = 0
        """Bytes of its texts that were not held."""
        self.is_failed = False
        self._edited = ""
        self._directory = ""
        self._finding: FreshFinding | None = None
        self._is_declined = False

    def receive(self, message: Message) -> None:
        """Pass on the parts of `message` in order: output, value, request for input.

        Messages after `done` are passed on too, a value as a late one, and do not change the ending.
        """
        if APP_EVENTS in message.fields and (frame := message.text(APP_EVENTS)):
            self._pass_on_events(frame)
        out, err, value, namespace, ex, root_ex, edited, directory, finding = message.text_fields(
            "out", "err", "value", "ns", "ex", "root-ex", "codriver/edited", "codriver/folder", "codriver/fresh"
        )
        if out:
            self._print("out", out)
        if err:
            self._print("err", err)
        if self.is_over:
            if value is not None:
                self._pass_on_value(value, namespace, message, is_late=True)
            return
        if err:
            self._err = (self._err + err)[-ERR_CHARS:]
        self.namespace = namespace or self.namespace
        self._ex = ex or self._ex
        self._root_ex = root_ex or self._root_ex
        self._edited = edited or self._edited
        self._directory = directory or self._directory
        self._finding = read_finding(finding) if finding else self._finding
        self._is_declined |= "codriver/declined" in message.fields
        if self._reports:
            self._pass_on_reports(message)
        if "codriver/error" in message.fields:
            self._parts = as_map(message.fields["codriver/error"]) or self._parts
        self.status |= message.status
        # `error` also stands beside `done` of an interrupt's own answer; `interrupted` then tells the outcome.
        self.is_failed = self.is_failed or bool(self._ex or self._parts or FAILED & message.status)
        if value is not None:
            self.values.append(value[:ERR_CHARS])
            self._pass_on_value(value, namespace, message, is_late=False)
        if NEED_INPUT in message.status:
            self._listener(self._evaluation, InputNeeded())
        if SEAM_OP in message.fields and (seam := message.text(SEAM_OP)):
            self._listener(self._evaluation, SeamFound(seam))

    def _pass_on_reports(self, message: Message) -> None:
        for key, name in self._reports.items():
            if key in message.fields and (report := message.text(key)):
                self._listener(self._evaluation, Reported(name, report))

    def _print(self, stream: Literal["out", "err"], text: str) -> None:
        if isinstance(text, CutText):
            self.left_out += text.left_out
        self._listener(self._evaluation, Output(stream, text))

    def _pass_on_events(self, text: str) -> None:
        """Pass on the application's events, which belong to no evaluation. Data that are no frame are dropped."""
        try:
            frame = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(frame, dict):
            self._listener(None, AppEvents(frame))

    def _pass_on_value(self, text: str, namespace: str | None, message: Message, *, is_late: bool) -> None:
        is_cut, cut = TRUNCATED in message.status, ""
        if "codriver/cut" in message.fields:
            cut = message.text("codriver/cut") or ""
        if isinstance(text, CutText):
            self.left_out += text.left_out
        seen = cut or (cut_in(text, self._limits) if self._limits else "")
        self.cut = "" if cut else seen
        value = adapter_values.Value(text, namespace, truncated=is_cut, is_late=is_late, cut=seen, is_stored=bool(cut))
        self._listener(self._evaluation, value)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on edited files, on loads that differ from a fresh import, on the folder, and on output not held."""
        words = f"{self.left_out:,} bytes of what the REPL said were left out: so long a text is not held whole"
        edited = [f"{one}{adapter_values.LOAD_IT}" for one in self._edited.split("\n") if one]
        moved = f"{self._directory} is the working folder of everybody in this REPL now, where relative paths begin"
        declined = [DECLINED] if self._is_declined else []
        fresh = finding_lines(self._finding) if self._finding is not None else ()
        return (*edited, *fresh, *([moved] if self._directory else []), *declined, *([words] if self.left_out else []))

    @property
    def is_over(self) -> bool:
        """Return whether the server said that it is finished with the request."""
        return "done" in self.status

    @property
    def is_interrupted(self) -> bool:
        """Return whether the server said that it interrupted the evaluation."""
        return "interrupted" in self.status

    @property
    def failure(self) -> SentFailure:
        """Return the parts of the failure as sent."""
        return SentFailure(self._err, self._ex, self._root_ex, frozenset(self.status), self._parts)


def read_sensitive(message: Message) -> SensitiveSeen:
    """Return the texts that a worker declares sensitive."""
    rows = map(as_list, as_list(message.fields[SENSITIVE_OP]))
    return SensitiveSeen(tuple([(as_text(row[0]) or "", as_text(row[1]) or "") for row in rows if len(row) == 2]))


def cut_in(text: str, limits: PrintLimits) -> str:
    """Return the omissions in a Lisp's printed value, in words, from its marks outside of strings."""
    if limits.max_length is not None and " ..." in text and _CUT_LENGTH.search(_STRING.sub('""', text)):
        return f"more than {limits.max_length}"
    if limits.max_depth is not None and "#" in text and _CUT_LEVEL.search(_STRING.sub('""', text)):
        return f"levels below {limits.max_depth}"
    return ""


def read_part(answer: Sequence[Message]) -> adapter_values.Value | str:
    """Return the part of a kept value in a worker's answer, or the reason why there is none."""
    for message in answer:
        if (text := message.text("value")) is not None:
            is_cut = TRUNCATED in message.status
            return adapter_values.Value(text, truncated=is_cut, cut=message.text("codriver/cut") or "", is_stored=True)
    return next((why for message in answer if (why := message.text("codriver/missing"))), "it was not told")


def read_stored(fields: Mapping[str, object], part: ValuePart) -> adapter_values.Value | str:
    """Return the part of a kept value in the answer to our own question, or the reason why there is none."""
    text = as_text(fields.get("text"))
    if text is None:
        return as_text(fields.get("missing")) or "it was not told"
    is_cut = (as_int(fields.get("size")) or 0) > len(text)
    cut = elements_cut(as_int(fields.get("count")), cut_in(text, part.limits), part.limits, part.start)
    return adapter_values.Value(text, truncated=is_cut, cut=cut, is_stored=True)


def read_cut(fields: Mapping[str, object], seen: str, limits: PrintLimits) -> str:
    """Return the omissions of a value that the REPL keeps, in words. The REPL tells the limits that its user set."""
    length, depth = as_int(fields.get("length")), as_int(fields.get("level"))
    result = replace(
        limits,
        max_length=limits.max_length if limits.is_length_explicit or length is None else length,
        max_depth=limits.max_depth if limits.is_depth_explicit or depth is None else depth,
    )
    seen = f"levels below {result.max_depth}" if seen.startswith("levels") else f"more than {result.max_length}"
    return elements_cut(as_int(fields.get("count")), seen, result)


def elements_cut(count: int | None, seen: str, limits: PrintLimits, start: int = 0) -> str:
    """The elements left out, in words, by the count of all if that is known; `seen`: the printed text."""
    end = start + (limits.max_length or 0)
    return f"{count - end} of {count} elements" if limits.max_length and count is not None and count > end else seen


def read_symbol(answer: Sequence[Message]) -> Mapping[str, object]:
    """The parts of the symbol in an answer of `lookup` or `info`; without a name for an unknown symbol."""
    fields: dict[str, object] = {}
    for message in answer:
        fields.update(as_map(message.fields.get("info")) or message.fields)
    return fields


def read_tests(answer: Sequence[Message], dialect: Dialect) -> TestRun:
    """Return the run in a report of cider-nrepl's `test`: results by namespace and test, and a summary."""
    results: list[TestResult] = []
    summary: Mapping[str, object] = {}
    times: list[TestTime] = []
    for message in answer:
        summary = as_map(message.fields.get("summary")) or summary
        for tests in as_map(message.fields.get("results")).values():
            for assertions in as_map(tests).values():
                results += [result_of(as_map(item), dialect) for item in as_list(assertions)]
        for namespace, elapsed_ms in as_map(message.fields.get("var-elapsed-time")).items():
            for test, elapsed in as_map(elapsed_ms).items():
                ms = as_int(as_map(as_map(elapsed).get("elapsed-time")).get("ms"))
                times += [TestTime(namespace, test, ms / 1000)] if ms is not None else []
    return replace(run_of(results, tests=as_int(summary.get("var")), output=""), times=tuple(times))


def require(profile: Profile, capability: str) -> Capability:
    """Return the REPL's support of `capability`.

    Raises:
        CapabilityMissingError: the REPL has no support for the capability.
    """
    if (support := profile.capabilities.get(capability)) is None:
        raise CapabilityMissingError(capability, profile.missing.get(capability))
    return support


def read_data(what: str, answer: Sequence[Message], dialect: Dialect) -> object:
    """Return the data in an answer to our own code.

    Raises:
        EvaluationFailedError: the code failed, or printed something else.
    """
    check(what, answer, dialect)
    printed = [value for message in answer if (value := message.text("value")) is not None]
    try:
        return dialect.read(printed[-1]) if printed else None
    except (ValueError, SyntaxError) as error:
        excerpt = printed[-1][:200]
        failure = Failure("unreadable", f"the REPL printed {excerpt!r} where JSON was expected")
        raise EvaluationFailedError(what, failure) from error


def check(what: str, answer: Sequence[Message], dialect: Dialect) -> None:
    """Refuse an answer that tells a failure.

    Raises:
        EvaluationFailedError: the answer tells a failure.
    """
    if not any(message.is_failed for message in answer):
        return
    reply = Reply(None, lambda _evaluation, _event: None)
    for message in answer:
        reply.receive(message)
    raise EvaluationFailedError(what, read_failure(reply.failure, dialect))
