"""Failures as servers tell them, read into one shape, and where they are in the code that was sent.

Clojure says what failed in one line and the message below; the Python family sends whole tracebacks; nbb prints a
map, squint `Type: message`; codriver's worker sends the parts apart. What cannot be read is kept as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from codriver.core.values import Failure
from codriver.repls.adapter_values import NAMESPACE_MISSING, StackFrame, StackTrace
from codriver.repls.nrepl.message import (
    NOTHING,
    as_int,
    as_list,
    as_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.values import Form, Request
    from codriver.repls.dialects import Dialect
    from codriver.wire.bencode import Value

MESSAGE_CHARS: Final = 4000
"""Longest message kept: one that holds a printed value can have megabytes, and the whole is in the output log."""

TRACE_FRAMES: Final = 20

WRAPPERS: Final = ("Compiler$CompilerException", "LispReader$ReaderException")
"""How the names of Clojure's classes end that only say where something else was thrown."""

_CLOJURE: Final = re.compile(
    r"^(?P<what>Syntax error|Unexpected error|Execution error|Error printing return value|Error reading eval result)"
    r"(?: \((?P<type>[^)\s]+)\))?(?P<doing> reading source| macroexpanding| compiling)?(?: (?P<form>\S+))? at "
    r"(?P<symbol>[^(\n]*)\((?P<file>[^()\n]*?)(?::(?P<line>-?\d+))?(?::(?P<column>\d+))?\)\.$",
    re.MULTILINE,
)
"""Source: `clojure.main/ex-str`, Clojure 1.10 and later."""

_PHASES: Final = {
    " reading source": "read-source",
    " macroexpanding": "macroexpansion",
    " compiling": "compilation",
    "Error printing return value": "print-eval-result",
    "Error reading eval result": "read-eval-result",
}

_FRAME: Final = re.compile(r'^ +File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$', re.MULTILINE)
_FRAME_TEXT: Final = re.compile(r"^(?P<function>.*?) \((?P<file>.+):(?P<line>\d+)\)$")
"""A frame as codriver's worker says it, and as `StackFrame.text` does."""
_LAST_LINE: Final = re.compile(r"^(?P<type>[A-Za-z_][\w.$]*)(?:: (?P<message>.*))?$", re.DOTALL)
_TYPED: Final = re.compile(r"^(?P<type>[A-Za-z_$][\w$.]*): (?P<message>.*)$", re.DOTALL)
_NBB_TYPE: Final = re.compile(r":cause #object\[(?P<type>\w+)")
_NBB_PLACE: Final = re.compile(r":line (?P<line>\d+), :column (?P<column>\d+)")
_NBB_PHASE: Final = re.compile(r':phase "(?P<phase>[a-z-]+)"')
_BASILISP_PART: Final = re.compile(r"^ +(?P<key>exception|phase|message|form|location): (?P<value>.*)$", re.MULTILINE)
_BASILISP_PLACE: Final = re.compile(
    r" *\{(?=[^{}]*:line (?P<line>\d+))(?=[^{}]*:col (?P<column>\d+))(?:[^{}]*:phase :(?P<phase>[\w-]+))?[^{}]*\}$"
    r"| \(line: (?P<read_line>\d+), col: (?P<read_column>\d+)\)$"
)
_OUR_CODE: Final = ("<nREPL Input>", "<string>", "<stdin>", "<REPL", "<input>", "<eval", "<repl")
_NO_FILE: Final = frozenset({"REPL", "NO_SOURCE_FILE", "NO_SOURCE_PATH", "null", "", *_OUR_CODE})

READING: Final = frozenset({"read", "read-source"})
BEFORE_RUNNING: Final = READING | {"compile", "compilation", "macroexpansion"}
"""The phases of failures whose place is in the form that failed; what runs may fail in code of any form before."""


@dataclass(frozen=True, slots=True)
class SentFailure:
    """A failure as a server sent it: the keys `ex` and `root-ex`, and all of `err`."""

    err: str = ""
    ex: str | None = None
    root_ex: str | None = None
    status: frozenset[str] = frozenset()
    parts: Mapping[str, Value] = field(default_factory=lambda: NOTHING)
    """codriver's worker: `type`, `message`, `phase`, `file`, `line`, `column`, `form`, `trace`."""


def read_failure(failure: SentFailure, dialect: Dialect) -> Failure:
    """The failure in one shape, its trace cut to the user's frames. Only codriver's worker says which form it was."""
    if failure.parts:
        return _read_parts(failure.parts, dialect)
    for word in ("namespace-not-found", "unknown-session", "no-code", "unknown-op"):
        if word in failure.status and not failure.ex:
            return Failure(word, f"the REPL answered {word!r}")
    if match := _last(_CLOJURE, failure.err):
        return _read_clojure(failure, match)
    if "Traceback (most recent call last)" in (text := failure.ex or "") or "Traceback" in (text := failure.err):
        return _read_traceback(text, failure, dialect)
    if "#error {" in (failure.ex or ""):
        return _read_nbb(failure)
    return _read_plain(failure)


def read_traceback_frames(text: str, dialect: Dialect) -> tuple[StackFrame, ...]:
    """The frames of a Python traceback, innermost first."""
    frames = [
        StackFrame(
            f"{match['function'] or '?'} ({match['file']}:{match['line']})",
            file=match["file"],
            line=int(match["line"]),
            function=match["function"],
            tooling=any(part in match["file"] for part in dialect.tooling),
        )
        for match in _FRAME.finditer(text)
    ]
    return tuple(reversed(frames))


def stack_of(failure: SentFailure, dialect: Dialect) -> StackTrace:
    """The stack trace that came with a failure; without frames where the server sends none."""
    error = read_failure(failure, dialect)
    text = failure.err if "Traceback" in failure.err else failure.ex or ""
    frames = read_traceback_frames(text, dialect)
    if not frames:
        frames = tuple(_read_frame(text, dialect) for text in _trace(failure.parts) or error.trace)
    if not frames and (error.file or error.line):
        frames = (StackFrame(f"{error.file or 'REPL'}:{error.line}", file=error.file, line=error.line),)
    return StackTrace(error.type, error.message, frames)


def _read_frame(text: str, dialect: Dialect) -> StackFrame:
    tooling = any(part in text for part in dialect.tooling)
    if (match := _FRAME_TEXT.match(text)) is None:
        return StackFrame(text, tooling=tooling)
    return StackFrame(text, match["file"], int(match["line"]), match["function"], tooling)


def _trace(parts: Mapping[str, Value]) -> list[str]:
    return [text for item in as_list(parts.get("trace")) if (text := as_text(item))]


def _read_parts(parts: Mapping[str, Value], dialect: Dialect) -> Failure:
    own = [text for text in _trace(parts) if not any(part in text for part in dialect.tooling)]
    return Failure(
        type=as_text(parts.get("type")) or "error",
        message=_cut(as_text(parts.get("message")) or ""),
        phase=as_text(parts.get("phase")) or None,
        file=_file(as_text(parts.get("file"))),
        line=as_int(parts.get("line")),
        column=as_int(parts.get("column")),
        form=as_int(parts.get("form")),
        trace=tuple(own[:TRACE_FRAMES]),
    )


def _read_clojure(failure: SentFailure, match: re.Match[str]) -> Failure:
    full = (failure.root_ex or failure.ex or "").removeprefix("class ")
    short = match["type"]
    wrapper = full.endswith(WRAPPERS)
    named = full if full and not (short and (wrapper or not full.endswith(short))) else short
    line = int(match["line"]) if match["line"] else None
    symbol = match["symbol"].strip()
    return Failure(
        type=named or "error",
        message=_cut(failure.err[match.end() :].strip()),
        phase=_PHASES.get(match["doing"] or match["what"], "execution"),
        file=_file(match["file"]),
        line=line if line and line > 0 else None,
        column=int(match["column"]) if match["column"] and int(match["column"]) > 0 else None,
        trace=(f"{symbol} ({match['file']}:{match['line']})",) if symbol else (),
    )


def _read_traceback(text: str, failure: SentFailure, dialect: Dialect) -> Failure:
    body = text[text.rfind("Traceback (most recent call last)") :].rstrip()
    frames = read_traceback_frames(body, dialect)
    ours = [frame for frame in frames if not frame.tooling]
    place = ours[0] if ours else None
    last = body[max((match.end() for match in _FRAME.finditer(body)), default=0) :]
    # The message follows the last frame and the source lines below it, which are indented.
    lines = last.strip("\n").split("\n")
    while lines and (not lines[0].strip() or lines[0].startswith(" ")):
        lines.pop(0)
    match = _LAST_LINE.match("\n".join(lines))
    parts = {found["key"]: found["value"] for found in _BASILISP_PART.finditer(text)}
    kind = match["type"] if match else (failure.root_ex or failure.ex or "error").split("\n")[0]
    message = (match["message"] or "") if match else "\n".join(lines)
    column, phase = None, (parts.get("phase") or "").lstrip(":") or "execution"
    line = place.line if place else None
    if said := _BASILISP_PLACE.search(message):
        message = message[: said.start()]
        line, column = int(said["line"] or said["read_line"]), int(said["column"] or said["read_column"])
        phase = said["phase"] or ("read-source" if said["read_line"] else phase)
    return Failure(
        type=kind,
        message=_cut(parts.get("message") or message),
        phase=phase,
        file=_file(place.file) if place else None,
        line=line,
        column=column,
        trace=tuple(frame.text for frame in ours[:TRACE_FRAMES]),
    )


def _read_nbb(failure: SentFailure) -> Failure:
    ex = failure.ex or ""
    kind, place, phase = _NBB_TYPE.search(ex), _NBB_PLACE.search(ex), _NBB_PHASE.search(ex)
    return Failure(
        type=kind["type"] if kind else "Error",
        message=_cut(failure.err.strip()),
        phase=phase["phase"] if phase else "execution",
        line=int(place["line"]) if place else None,
        column=int(place["column"]) if place else None,
    )


def _read_plain(failure: SentFailure) -> Failure:
    said = (failure.ex or "").removeprefix("class ")
    if match := _TYPED.match(said):
        return Failure(match["type"], _cut(match["message"]), phase="execution")
    return Failure(said.split("\n")[0] or "error", _cut(failure.err.strip() or said), phase="execution")


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return found[-1] if found else None


def _file(name: str | None) -> str | None:
    return None if name is None or name in _NO_FILE or name.startswith("<") else name


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARS else f"{text[:MESSAGE_CHARS]}…"


def no_namespace(name: str) -> Failure:
    """The failure of an evaluation in a namespace that is not there, in the same words for every REPL."""
    return Failure(
        NAMESPACE_MISSING, f"there is no namespace {name!r}: load or require it first; nothing was evaluated"
    )


def placed(error: Failure, request: Request, form: int | None, *, counts_lines: bool) -> Failure:
    """`error` with its form and its place, as far as they can be known.

    `form`: the number of the form that was sent alone, if one was. `counts_lines`: the server was told where the text
    begins, and counts from there.
    """
    forms = request.forms
    if not forms:
        return error
    if form is not None:
        error = replace(error, form=form)
    if error.line is not None and not counts_lines and error.file is None:
        offset = forms[form - 1].line - 1 if form else 0
        error = replace(error, line=error.line + offset)
    if request.kind == "load-forms" and form is not None and error.file is None:
        # The forms of a file have their places there, also where the server tells none.
        error = replace(error, file=request.file, line=error.line or forms[form - 1].line)
    if error.line is None or error.file not in (None, request.file):
        return error
    place = (error.line, error.column or 1)
    if error.form is None and error.phase in BEFORE_RUNNING:
        error = replace(error, form=_form_at(place, error, forms))
    if error.form and error.phase in READING and place >= _end(forms[error.form - 1]):
        # A reader that fails at the end of a token says where it stood, which is beyond it and may be the next line.
        culprit = forms[error.form - 1]
        error = replace(error, line=culprit.line, column=culprit.column)
    return error


def _form_at(place: tuple[int, int], error: Failure, forms: tuple[Form, ...]) -> int | None:
    """The number of the form that a place belongs to."""
    if error.column is None:
        return sum(form.line <= place[0] for form in forms) or None
    # A reader stands behind what it could not read, which may be where the next form begins.
    last = (place[0], place[1] - (error.phase in READING))
    return sum((form.line, form.column) <= last for form in forms) or None


def _end(form: Form) -> tuple[int, int]:
    """The line and column just behind a form."""
    *before, last = form.text.split("\n")
    return (form.line + len(before), (1 if before else form.column) + len(last))
