"""Replies of nREPL servers, read into one shape whatever server gave them: to forms, to ops, and to our own questions.

nREPL nests a symbol under `info`, cider-nrepl and others give its parts flat; completions are maps or texts; nothing
found is a status, an empty list, or nothing at all. Answers to our own questions come as JSON under the same names.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from codriver.lisp.reader import top_level_forms
from codriver.repls.contract import adapter_values
from codriver.repls.contract.adapter_values import (
    AppEvents,
    ClojureDocs,
    Completion,
    InputNeeded,
    Listed,
    Listener,
    Names,
    Output,
    SeamShown,
    SensitiveSeen,
    Symbol,
    TestResult,
    TestRun,
    TestTime,
)
from codriver.repls.contract.drift_values import Difference, DriftKind
from codriver.repls.nrepl.failures import SentFailure
from codriver.repls.nrepl.message import (
    FAILED,
    NOTHING,
    Message,
    as_int,
    as_list,
    as_map,
    as_text,
)
from codriver.repls.nrepl.stack_traces import frames_of
from codriver.wire.bencode import CutText

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codriver.core.values import PrintLimits, ValuePart
    from codriver.repls.dialects.server_dialect import Dialect
    from codriver.wire.bencode import Value

ERR_CHARS: Final = 64 * 1024
"""How much of the end of `err` is kept to read a failure from: more than any traceback seen, whatever was printed."""

TRUNCATED: Final = "nrepl.middleware.print/truncated"
NEED_INPUT: Final = "need-input"
KINDS_OF_DRIFT: Final[Mapping[str, DriftKind]] = {kind: kind for kind in get_args(DriftKind)}
COLLECTION: Final = "(collection)"
"""The row of a test file that pytest could not read, or skipped as a whole: no test."""
BESIDE: Final = "codriver/background"
"""The op by which Codriver's worker evaluates on a thread of its own."""
KEEPS_VALUES: Final = "codriver/value"
"""The op of Codriver's worker that tells a part of a value which it cut and keeps."""

SEAM_OP: Final = "codriver/seam"
"""The op of Codriver's worker that asks the application's seam; also the field that tells of it."""

APP_EVENTS: Final = "codriver/app-events"
"""The field in which it pushes what the application does to whoever subscribed, for as long as that stands."""

SENSITIVE_OP: Final = "codriver/sensitive"
"""The op of Codriver's worker that has it tell texts at sensitive paths; also the field of the messages that do."""

_STRING: Final = re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL)
_CUT_LENGTH: Final = re.compile(r" \.\.\.[)\]}]")
_CUT_LEVEL: Final = re.compile(r"(?<=[\s(\[{])#(?=[\s)\]},])")
_SYMBOL_KEYS: Final = frozenset({
    "id", "session", "status", "name", "ns", "doc", "docstring", "arglists", "arglists-str", "file", "line", "column",
    "macro", "protocol",
})  # fmt: skip
_WORST_FIRST: Final = {"error": 0, "fail": 1, "pass": 2}
OUTPUT_CHARS: Final = 50_000


class Reply:
    """The answer to one request that evaluates. Lives as long as messages for it may come."""

    def __init__(self, evaluation: str | None, listener: Listener, limits: PrintLimits | None = None) -> None:
        self._evaluation = evaluation
        self._limits = limits
        """The limits of printing, for a REPL that cuts values and does not tell."""
        self._listener = listener
        self._err = ""
        self._ex: str | None = None
        self._root_ex: str | None = None
        self._parts: Mapping[str, Value] = NOTHING
        self.status: set[str] = set()
        self.namespace: str | None = None
        self.values: list[str] = []
        self.cut = ""
        """The omissions of the last value, in words, where the REPL does not keep it by itself."""
        self.left_out = 0
        """Bytes of its texts that were not held."""
        self.is_failed = False

    def take(self, message: Message) -> None:
        """Pass on what `message` says, in its order: output, value, request for input.

        What comes behind `done` is passed on too, a value as a late one, and changes nothing of how it ended.
        """
        if APP_EVENTS in message.fields and (frame := message.text(APP_EVENTS)):
            self._pass_on_events(frame)
        out, err, value, namespace, ex, root_ex = message.texts("out", "err", "value", "ns", "ex", "root-ex")
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
        if "codriver/error" in message.fields:
            self._parts = as_map(message.fields["codriver/error"]) or self._parts
        self.status |= message.status
        # `error` also stands beside `done` of an interrupt's own answer; `interrupted` then says what happened.
        self.is_failed = self.is_failed or bool(self._ex or self._parts or FAILED & message.status)
        if value is not None:
            self.values.append(value[:ERR_CHARS])
            self._pass_on_value(value, namespace, message, is_late=False)
        if NEED_INPUT in message.status:
            self._listener(self._evaluation, InputNeeded())
        if SEAM_OP in message.fields and (seam := message.text(SEAM_OP)):
            self._listener(self._evaluation, SeamShown(seam))

    def _print(self, stream: Literal["out", "err"], text: str) -> None:
        if isinstance(text, CutText):
            self.left_out += text.left_out
        self._listener(self._evaluation, Output(stream, text))

    def _pass_on_events(self, text: str) -> None:
        """Pass on what the application did, which belongs to no evaluation. What is no frame says nothing."""
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
        value = adapter_values.Value(text, namespace, truncated=is_cut, is_late=is_late, cut=seen, is_kept=bool(cut))
        self._listener(self._evaluation, value)

    @property
    def notes(self) -> tuple[str, ...]:
        """A note on what was not held of it."""
        words = f"{self.left_out:,} bytes of what the REPL said were left out: so long a text is not held whole"
        return (words,) if self.left_out else ()

    @property
    def is_over(self) -> bool:
        """Whether the server said that it is finished with the request."""
        return "done" in self.status

    @property
    def is_interrupted(self) -> bool:
        """Whether the server said that it interrupted the evaluation."""
        return "interrupted" in self.status

    @property
    def failure(self) -> SentFailure:
        """The parts of the failure as they were sent."""
        return SentFailure(self._err, self._ex, self._root_ex, frozenset(self.status), self._parts)


def read_sensitive(message: Message) -> SensitiveSeen:
    """The texts that a worker tells to be sensitive."""
    rows = map(as_list, as_list(message.fields[SENSITIVE_OP]))
    return SensitiveSeen(tuple([(as_text(row[0]) or "", as_text(row[1]) or "") for row in rows if len(row) == 2]))


def cut_in(text: str, limits: PrintLimits) -> str:
    """The parts that a Lisp left out of a printed value, in words, by the marks it leaves outside of strings."""
    if limits.max_length is not None and " ..." in text and _CUT_LENGTH.search(_STRING.sub('""', text)):
        return f"more than {limits.max_length}"
    if limits.max_depth is not None and "#" in text and _CUT_LEVEL.search(_STRING.sub('""', text)):
        return f"levels below {limits.max_depth}"
    return ""


def read_part(answer: Sequence[Message]) -> adapter_values.Value | str:
    """The part of a kept value that a worker tells, or why there is none."""
    for message in answer:
        if (text := message.text("value")) is not None:
            is_cut = TRUNCATED in message.status
            return adapter_values.Value(text, truncated=is_cut, cut=message.text("codriver/cut") or "", is_kept=True)
    return next((why for message in answer if (why := message.text("codriver/missing"))), "it was not told")


def read_kept(fields: Mapping[str, Value], part: ValuePart) -> adapter_values.Value | str:
    """The part of a kept value that our own question tells, or why there is none."""
    text = as_text(fields.get("text"))
    if text is None:
        return as_text(fields.get("missing")) or "it was not told"
    is_cut = (as_int(fields.get("size")) or 0) > len(text)
    cut = elements_cut(as_int(fields.get("count")), cut_in(text, part.limits), part.limits, part.start)
    return adapter_values.Value(text, truncated=is_cut, cut=cut, is_kept=True)


def read_cut(fields: Mapping[str, Value], seen: str, limits: PrintLimits) -> str:
    """The omissions of a value that the REPL keeps, in words. It tells the limits that its user has set."""
    length, depth = as_int(fields.get("length")), as_int(fields.get("level"))
    own = replace(
        limits,
        max_length=limits.max_length if limits.length_is_asked or length is None else length,
        max_depth=limits.max_depth if limits.depth_is_asked or depth is None else depth,
    )
    seen = f"levels below {own.max_depth}" if seen.startswith("levels") else f"more than {own.max_length}"
    return elements_cut(as_int(fields.get("count")), seen, own)


def elements_cut(count: int | None, seen: str, limits: PrintLimits, start: int = 0) -> str:
    """The elements left out, in words, by the count of all where that is known; `seen`: as the text shows it."""
    end = start + (limits.max_length or 0)
    return f"{count - end} of {count} elements" if limits.max_length and count is not None and count > end else seen


def read_symbol(name: str, answer: Sequence[Message]) -> Symbol | None:
    """The symbol that an answer of `lookup` or `info` describes; None when it was not found."""
    fields: dict[str, Value] = {}
    for message in answer:
        fields.update(as_map(message.fields.get("info")) or message.fields)
    return symbol_of(name, fields)


def symbol_of(name: str, fields: Mapping[str, Value]) -> Symbol | None:
    """The symbol with these parts; None when they say nothing."""
    printed = as_text(fields.get("arglists-str")) or as_text(fields.get("arglists")) or ""
    arglists: list[Value] = as_list(fields.get("arglists")) or [*_arities(printed)]
    symbol = Symbol(
        name=as_text(fields.get("name")) or name,
        namespace=as_text(fields.get("ns")) or None,
        doc=as_text(fields.get("doc")) or as_text(fields.get("docstring")) or None,
        arglists=tuple(text for item in arglists if (text := as_text(item))),
        file=read_file(as_text(fields.get("file"))),
        line=as_int(fields.get("line")),
        column=as_int(fields.get("column")),
        macro=as_text(fields.get("macro")) in {"true", "True", "1"},
        extra={key: text for key, value in fields.items() if key not in _SYMBOL_KEYS and (text := as_text(value))},
    )
    is_known = as_text(fields.get("name")) or as_text(fields.get("class")) or symbol.doc or symbol.arglists
    return symbol if is_known else None


def _arities(printed: str) -> list[str]:
    """Argument lists, one an arity, from one a line or, as plain nREPL prints them, from a list of vectors."""
    if not (printed.startswith("([") and printed.endswith("])")):
        return printed.split("\n")
    inner = printed[1:-1]
    return [inner[span.start : span.end] for span in top_level_forms(inner)]


def read_completions(items: Iterable[Value]) -> tuple[Completion, ...]:
    """Completions from a list of maps, or of texts."""
    found = []
    for item in items:
        fields = as_map(item)
        if candidate := as_text(item) or as_text(fields.get("candidate")):
            kind, namespace = as_text(fields.get("type")), as_text(fields.get("ns"))
            found.append(Completion(candidate, kind or None, namespace or None))
    return tuple(found)


def read_names(fields: Mapping[str, Value]) -> Names | None:
    """The list that an answer to `codriver/names`, or to our own question, gives; None when there is none."""
    if "rows" not in fields:
        return None
    rows = [as_map(item) for item in as_list(fields["rows"])]
    listed = [
        Listed(name, as_text(row.get("type")), as_text(row.get("args")) or "", as_text(row.get("doc")) or "")
        for row in rows
        if (name := as_text(row.get("name")))
    ]
    return Names(tuple(listed), as_int(fields.get("omitted")) or 0)


def read_drift(fields: Mapping[str, Value]) -> tuple[Difference, ...]:
    """The differences that an answer to `codriver/drift` tells."""
    found = []
    for row in map(as_map, as_list(fields.get("rows"))):
        module, name, kind = (as_text(row.get(key)) or "" for key in ("module", "name", "kind"))
        if module and name and kind in KINDS_OF_DRIFT:
            source, of = as_text(row.get("file")) or "", as_text(row.get("of")) or ""
            path = as_text(row.get("path")) or ""
            found.append(Difference(module, name, KINDS_OF_DRIFT[kind], source.startswith("<eval"), of, path=path))
    return tuple(found)


def read_tests(answer: Sequence[Message], dialect: Dialect) -> TestRun:
    """The run that cider-nrepl's `test` reports: results by namespace and test, and a summary."""
    results: list[TestResult] = []
    summary: Mapping[str, Value] = {}
    times: list[TestTime] = []
    for message in answer:
        summary = as_map(message.fields.get("summary")) or summary
        for tests in as_map(message.fields.get("results")).values():
            for assertions in as_map(tests).values():
                results += [_result(as_map(item), dialect) for item in as_list(assertions)]
        for namespace, took in as_map(message.fields.get("var-elapsed-time")).items():
            for test, elapsed in as_map(took).items():
                ms = as_int(as_map(as_map(elapsed).get("elapsed-time")).get("ms"))
                times += [TestTime(namespace, test, ms / 1000)] if ms is not None else []
    return replace(_run(results, tests=as_int(summary.get("var")), output=""), times=tuple(times))


def tests_of(data: object, dialect: Dialect, *, output: str) -> TestRun:
    """The run that our own question reports."""
    fields = as_map(cast("Value", data))
    results = [_result(as_map(item), dialect) for item in as_list(fields.get("results"))]
    times = tuple(time for item in as_list(fields.get("times")) for time in _times(item))
    run = replace(_run(results, tests=as_int(fields.get("tests")), output=output), times=times)
    stopped = as_map(fields.get("stopped"))
    return replace(run, stopped=_result(stopped, dialect)) if stopped else run


def _times(item: object) -> Iterator[TestTime]:
    """The time of a test, told as its namespace, its name and seconds; nothing where it is told otherwise."""
    match item:
        case [str(namespace), str(test), float() | int() as seconds]:
            yield TestTime(namespace, test, float(seconds))


def _run(results: list[TestResult], *, tests: int | None, output: str) -> TestRun:
    outcomes = [result.outcome for result in results]
    return TestRun(
        tests=len({(result.namespace, result.test) for result in results}) if tests is None else tests,
        passed=sum(one.outcome == "pass" and one.test != COLLECTION for one in results),
        failed=outcomes.count("fail"),
        errors=outcomes.count("error"),
        results=tuple(sorted(results, key=lambda result: _WORST_FIRST[result.outcome])),
        output=output[-OUTPUT_CHARS:],
    )


def _result(fields: Mapping[str, Value], dialect: Dialect) -> TestResult:
    outcome = as_text(fields.get("outcome")) or as_text(fields.get("type"))
    file, line = read_file(as_text(fields.get("file"))), as_int(fields.get("line"))
    # An error is reported where it was thrown, which may be in a library; the test's own place says more.
    if fields.get("var-file") and (file is None or outcome == "error"):
        file, line = read_file(as_text(fields.get("var-file"))), as_int(fields.get("var-line"))
    context, message = as_text(fields.get("context")), as_text(fields.get("message"))
    return TestResult(
        test=as_text(fields.get("test")) or as_text(fields.get("var")) or "?",
        namespace=as_text(fields.get("ns")) or "?",
        outcome="pass" if outcome == "pass" else "fail" if outcome == "fail" else "error",
        message=": ".join(part for part in (context, message) if part) or None,
        expected=(as_text(fields.get("expected")) or "").rstrip() or None,
        actual=(as_text(fields.get("actual")) or as_text(fields.get("error")) or "").rstrip() or None,
        file=file,
        line=line,
        frames=frames_of(fields, dialect),
        is_skipped=fields.get("skipped") is True,
    )


def read_clojuredocs(answer: Sequence[Message]) -> ClojureDocs | None:
    """The entry that cider-nrepl's `clojuredocs-lookup` gives; None when it has none."""
    for message in answer:
        if fields := as_map(message.fields.get("clojuredocs")):
            return ClojureDocs(
                name=as_text(fields.get("name")) or "?",
                namespace=as_text(fields.get("ns")) or "?",
                examples=_texts(fields.get("examples")),
                see_alsos=_texts(fields.get("see-alsos")),
                notes=_texts(fields.get("notes")),
                doc=as_text(fields.get("doc")),
                href=as_text(fields.get("href")),
            )
    return None


def _texts(value: Value | None) -> tuple[str, ...]:
    return tuple(text for item in as_list(value) if (text := as_text(item)))


def read_file(name: str | None) -> str | None:
    """A file's name as a path; None for the words that stand for no file."""
    if not name or name in {"NO_SOURCE_PATH", "NO_SOURCE_FILE", "REPL", "<nREPL Input>", "<string>", "null"}:
        return None
    # nbb gives the text of a loaded file in the place of its name.
    if "\n" in name:
        return None
    if name.startswith("file:"):
        return "/" + name.removeprefix("file:").lstrip("/")
    return name
