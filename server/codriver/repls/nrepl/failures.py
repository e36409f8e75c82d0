"""Failures sent by nREPL servers, parsed into `Failure` and `StackTrace`.

Clojure sends the class of the error on one line and the message below it. Python servers send complete tracebacks, nbb
prints a map, and Codriver's worker sends separate fields. A failure that cannot be parsed is kept as text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from codriver.core.evaluations import Failure
from codriver.repls.contract.stack_frames import fold_repeated_frames, format_frame, parse_frame
from codriver.repls.contract.stack_trace_values import NO_MESSAGE_TEXT, StackFrame, StackTrace
from codriver.repls.stack_traces import (
    MAX_TRACE_FRAMES,
    parse_failure_fields,
    parse_trace_fields,
    real_file_name,
    shorten_message,
    trace_with_chain,
    trace_without_chain,
)
from codriver.wire.untrusted import EMPTY_MAPPING
from codriver_lisp.reader import read_forms, top_level_forms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.repls.dialects.server_dialect import Dialect


MAX_NESTED_ERRORS: Final = 10
"""Maximum number of nested errors that are parsed."""
MAX_DATA_CHARACTERS: Final = 4000
"""Maximum length of an error's printed data."""
MAX_LINK_FRAMES: Final = 5
"""Maximum number of frames for each further error in a chain."""

WRAPPER_CLASS_SUFFIXES: Final = ("Compiler$CompilerException", "LispReader$ReaderException")
"""Name suffixes of Clojure exception classes that only add a position to another error."""

JVM_ERROR_CLASSES: Final = frozenset({
    "ArithmeticException", "ArityException", "ArrayIndexOutOfBoundsException", "ClassCastException",
    "IndexOutOfBoundsException", "NullPointerException", "NumberFormatException", "StringIndexOutOfBoundsException",
})  # fmt: skip
"""Classes of errors that the JVM itself throws, which have no cause."""

_CLOJURE_ERROR_PATTERN: Final = re.compile(
    r"^(?P<what>Syntax error|Unexpected error|Execution error|Error printing return value|Error reading eval result)"
    r"(?: \((?P<type>[^)\s]+)\))?(?P<doing> reading source| macroexpanding| compiling)?(?: (?P<form>\S+))? at "
    r"(?P<symbol>[^(\n]*)\((?P<file>[^()\n]*?)(?::(?P<line>-?\d+))?(?::(?P<column>\d+))?\)\.$",
    re.MULTILINE,
)
"""Matches the first line of an error. Source: `clojure.main/ex-str` in Clojure 1.10 and later."""

_PHASE_BY_TEXT: Final = {
    " reading source": "read-source",
    " macroexpanding": "macroexpansion",
    " compiling": "compilation",
    "Error printing return value": "print-eval-result",
    "Error reading eval result": "read-eval-result",
}
"""Phases of Clojure errors, by the words in the message."""

_FRAME_PATTERN: Final = re.compile(
    r'^ +File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$'
    r"|^ +\[Previous line repeated (?P<times>\d+) more times?\]$",
    re.MULTILINE,
)
"""Matches a frame in a Python traceback, or the line that replaces repeated frames."""
TRACEBACK_SEPARATOR_PATTERN: Final = re.compile(
    r"\n(?:(?P<cause>The above exception was the direct cause of the following exception:)"
    r"|During handling of the above exception, another exception occurred:)\n\n"
)
"""Matches the text between the tracebacks of chained errors. Source: Python's `traceback`."""
_LAST_LINE_PATTERN: Final = re.compile(r"^(?P<type>[A-Za-z_][\w.$]*)(?:: (?P<message>.*))?$", re.DOTALL)
_TYPED_MESSAGE_PATTERN: Final = re.compile(r"^(?P<type>[A-Za-z_$][\w$.]*): (?P<message>.*)$", re.DOTALL)
"""Matches the class of an exception followed by its message."""
_NBB_TYPE_PATTERN: Final = re.compile(r":cause #object\[(?P<type>\w+)")
_NBB_OBJECT_PATTERN: Final = re.compile(r"#object\[\w+ (?P<type>\w+)(?:: (?P<message>.*))?\]$", re.DOTALL)
_NBB_POSITION_PATTERN: Final = re.compile(r":line (?P<line>\d+), :column (?P<column>\d+)")
_NBB_PHASE_PATTERN: Final = re.compile(r':phase "(?P<phase>[a-z-]+)"')
_BASILISP_PART_PATTERN: Final = re.compile(
    r"^ +(?P<key>exception|phase|message|form|location): (?P<value>.*)$", re.MULTILINE
)
_BASILISP_POSITION_PATTERN: Final = re.compile(
    r" *\{(?=[^{}]*:line (?P<line>\d+))(?=[^{}]*:col (?P<column>\d+))(?:[^{}]*:phase :(?P<phase>[\w-]+))?[^{}]*\}$"
    r"| \(line: (?P<read_line>\d+), col: (?P<read_column>\d+)\)$"
)


@dataclass(frozen=True, slots=True)
class SentFailure:
    """A failure as a server sent it: the fields `ex` and `root-ex`, and all text in `err`."""

    err: str = ""
    ex: str | None = None
    root_ex: str | None = None
    status: frozenset[str] = frozenset()
    parts: Mapping[str, object] = field(default_factory=lambda: EMPTY_MAPPING)
    """The fields that Codriver's worker sends, such as `type`, `message`, `file`, `line`, `trace` and `chain`."""

    @property
    def traceback(self) -> str:
        """Return the text that contains a Python traceback, or "" if there is none."""
        if "Traceback (most recent call last)" in (self.ex or ""):
            return self.ex or ""
        return self.err if "Traceback" in self.err else ""


def parse_failure(failure: SentFailure, dialect: Dialect) -> Failure:
    """Parse a failure. Its trace has only frames of user code.

    `form` is only set for failures of Codriver's worker.
    """
    if failure.parts:
        return parse_failure_fields(failure.parts, dialect)
    for word in ("namespace-not-found", "unknown-session", "no-code", "unknown-op"):
        if word in failure.status and not failure.ex:
            return Failure(word, f"the REPL answered {word!r}")
    if match := _last(_CLOJURE_ERROR_PATTERN, failure.err):
        return _read_clojure(failure, match)
    if failure.traceback:
        return _read_traceback(failure.traceback, failure, dialect)
    if "#error {" in (failure.ex or ""):
        return _read_nbb(failure)
    return _read_plain(failure, dialect)


def parse_traceback_frames(text: str, dialect: Dialect) -> tuple[StackFrame, ...]:
    """Parse the frames in a Python traceback, innermost first. Frames that the traceback only counts are repeated."""
    frames: list[StackFrame] = []
    for match in _FRAME_PATTERN.finditer(text):
        if match["times"]:
            frames += frames[-1:] * int(match["times"])
            continue
        frame = f"{match['function'] or '?'} ({match['file']}:{match['line']})"
        is_tooling = any(part in match["file"] for part in dialect.tooling)
        frames.append(StackFrame(frame, match["file"], int(match["line"]), match["function"], is_tooling))
    return tuple(reversed(frames))


def split_tracebacks(text: str) -> list[tuple[str, str]]:
    """Split chained tracebacks, each with its relation to the next one: `cause`, `context`, or "" for the last."""
    found: list[tuple[str, str]] = []
    start = 0
    for match in TRACEBACK_SEPARATOR_PATTERN.finditer(text):
        found.append(("cause" if match["cause"] else "context", text[start : match.start()]))
        start = match.end()
    return [*found, ("", text[start:])]


def last_traceback(text: str) -> str:
    """Return the last traceback in a string, or the whole text if it contains none."""
    return text[max(text.rfind("Traceback (most recent call last)"), 0) :].rstrip()


def is_complete_error(error: Failure, sent: SentFailure) -> bool:
    """Return whether the server sent everything about an error: no other error wraps it, and it has no data."""
    if error.phase is None or not sent.ex or sent.ex != sent.root_ex:
        return error.phase is None
    return error.type.rpartition(".")[2] in JVM_ERROR_CLASSES


def _read_clojure(failure: SentFailure, match: re.Match[str]) -> Failure:
    full = (failure.root_ex or failure.ex or "").removeprefix("class ")
    short = match["type"]
    wrapper = full.endswith(WRAPPER_CLASS_SUFFIXES)
    named = full if full and not (short and (wrapper or not full.endswith(short))) else short
    line = int(match["line"]) if match["line"] else None
    symbol = match["symbol"].strip()
    message = failure.err[match.end() :].strip()
    return Failure(
        type=named or "error",
        message="" if message == NO_MESSAGE_TEXT else shorten_message(message),
        phase=_PHASE_BY_TEXT.get(match["doing"] or match["what"], "execution"),
        file=real_file_name(match["file"]),
        line=line if line and line > 0 else None,
        column=int(match["column"]) if match["column"] and int(match["column"]) > 0 else None,
        trace=(f"{symbol} ({match['file']}:{match['line']})",) if symbol else (),
    )


def _read_traceback(text: str, failure: SentFailure, dialect: Dialect) -> Failure:
    *before, _ = split_tracebacks(text)
    causes = [replace(_read_one(part, failure, dialect), relation=relation) for relation, part in reversed(before)]
    chain = tuple(replace(cause, trace=cause.trace[:MAX_LINK_FRAMES]) for cause in causes)
    return replace(_read_one(text, failure, dialect), chain=chain)


def _read_one(text: str, failure: SentFailure, dialect: Dialect) -> Failure:
    """Parse the last traceback in a string."""
    body = last_traceback(text)
    frames = parse_traceback_frames(body, dialect)
    user_frames = [frame for frame in frames if not frame.tooling]
    innermost = user_frames[0] if user_frames else None
    last = body[max((match.end() for match in _FRAME_PATTERN.finditer(body)), default=0) :]
    # The message follows the last frame and its indented source lines.
    lines = last.strip("\n").split("\n")
    while lines and (not lines[0].strip() or lines[0].startswith(" ")):
        lines.pop(0)
    match = _LAST_LINE_PATTERN.match("\n".join(lines))
    parts = {found["key"]: found["value"] for found in _BASILISP_PART_PATTERN.finditer(text)}
    kind = match["type"] if match else (failure.root_ex or failure.ex or "error").split("\n")[0]
    message = (match["message"] or "") if match else "\n".join(lines)
    column, phase = None, (parts.get("phase") or "").lstrip(":") or "execution"
    line = innermost.line if innermost else None
    if position := _BASILISP_POSITION_PATTERN.search(message):
        message = message[: position.start()]
        line, column = (
            int(position["line"] or position["read_line"]),
            int(position["column"] or position["read_column"]),
        )
        phase = position["phase"] or ("read-source" if position["read_line"] else phase)
    return Failure(
        type=kind,
        message=shorten_message(parts.get("message") or message),
        phase=phase,
        file=real_file_name(innermost.file) if innermost else None,
        line=line,
        column=column,
        trace=tuple(format_frame(frame) for frame in fold_repeated_frames(user_frames)[:MAX_TRACE_FRAMES]),
    )


def _read_nbb(failure: SentFailure) -> Failure:
    ex = failure.ex or ""
    kind, position, phase = (
        _NBB_TYPE_PATTERN.search(ex),
        _NBB_POSITION_PATTERN.search(ex),
        _NBB_PHASE_PATTERN.search(ex),
    )
    error = Failure(
        type=kind["type"] if kind else "Error",
        # A thrown value that is not an error has no message, so its printed form is used.
        message=shorten_message(failure.err.strip() or _nbb_parts(ex).get(":cause", "")),
        phase=phase["phase"] if phase else "execution",
        line=int(position["line"]) if position else None,
        column=int(position["column"]) if position else None,
    )
    links = [*parse_nbb_errors(ex)]
    if links and ":type :sci/error" in (links[0].data or ""):
        links = links[1:]  # sci's own error, which wraps the thrown one
    if not links or links[0].message not in error.message:
        return error
    chain = tuple(replace(cause, relation="cause") for cause in links[1:])
    return replace(error, type=links[0].type, data=links[0].data, chain=chain)


def parse_nbb_errors(printed: str) -> Iterator[Failure]:
    """Yield the nested errors in text printed by nbb, outermost first, until one cannot be parsed."""
    for _ in range(MAX_NESTED_ERRORS):
        if match := _NBB_OBJECT_PATTERN.match(printed):
            yield Failure(match["type"], shorten_message(match["message"]))
        parts = _nbb_parts(printed)
        if not parts:
            return
        message = parts.get(":message", "")
        data = parts.get(":data", "")
        yield Failure(
            "ExceptionInfo",
            shorten_message(json.loads(message, strict=False) if message.startswith('"') else message),
            data=data[:MAX_DATA_CHARACTERS] or None,
        )
        printed = parts.get(":cause", "")


def _nbb_parts(printed: str) -> dict[str, str]:
    """Return the parts of an error printed by nbb, by key, or an empty dict for any other text."""
    if not printed.startswith("#error {") or read_forms(printed).imbalance is not None:
        return {}
    inner = printed.removeprefix("#error {")[:-1]
    forms = [inner[span.start : span.end] for span in top_level_forms(inner)]
    return dict(zip(forms[::2], forms[1::2], strict=False))


def _read_plain(failure: SentFailure, dialect: Dialect) -> Failure:
    type_name = (failure.ex or "").removeprefix("class ")
    if match := _TYPED_MESSAGE_PATTERN.match(type_name):
        return Failure(match["type"], shorten_message(match["message"]), phase="execution")
    if dialect.name == "nbb" and not failure.err:  # a promise was rejected with a value that is not an error
        return Failure("Error", shorten_message(type_name), phase="execution")
    return Failure(
        type_name.split("\n")[0] or "error", shorten_message(failure.err.strip() or type_name), phase="execution"
    )


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return found[-1] if found else None


def parse_sent_trace(failure: SentFailure, dialect: Dialect) -> StackTrace:
    """Parse the stack trace sent with a failure. It has no frames if the server sends none."""
    if failure.parts:
        return parse_trace_fields(failure.parts, dialect)
    error = parse_failure(failure, dialect)
    traces = [
        parse_traceback_frames(last_traceback(text), dialect)
        for _, text in reversed(split_tracebacks(failure.traceback))
    ]
    chain = [trace_without_chain(link, frames) for link, frames in zip(error.chain, traces[1:], strict=False)]
    frames = traces[0] or tuple(parse_frame(text, dialect.tooling) for text in error.trace)
    return trace_with_chain(error, frames, chain)


def failure_from_trace(trace: StackTrace) -> Failure:
    """Convert an error in a chain to a failure with frames of user code only."""
    user_frames = fold_repeated_frames([frame for frame in trace.frames if not frame.tooling])[:MAX_LINK_FRAMES]
    return Failure(
        type=trace.type,
        message=shorten_message(trace.message),
        trace=tuple(format_frame(frame) for frame in user_frames),
        data=trace.data,
        notes=trace.notes,
        relation=trace.relation,
    )
