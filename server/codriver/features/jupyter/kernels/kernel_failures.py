"""Failures of code in a kernel, read from `ename`, `evalue` and `traceback`.

A traceback is text for a terminal. All positions are read from IPython's tracebacks. From those of other languages,
only the first position named by the engine is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.core.evaluations import Failure
from codriver.repls.contract.stack_frames import FRAME_PATTERN
from codriver.wire.untrusted import strings_at, text_at

if TYPE_CHECKING:
    from collections.abc import Mapping


NOT_RUN_TYPE: Final = "not-run"
"""Failure type for code that the kernel discarded without running it."""

WORKER_DIRECTORY: Final = "/codriver/worker/"
"""Directory of Codriver's modules in tracebacks. Frames from it are not the user's."""

MAX_TRACE_FRAMES: Final = 10
"""Maximum number of frames in a failure."""
MAX_CAUSE_FRAMES: Final = 3
"""Maximum number of frames in each cause."""

_ANSI_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""Matches an escape sequence with which terminals color text."""
_CLASS_TEXT: Final = re.compile(r"<class '(?:builtins\.)?([^']+)'>")
_FRAME_PATTERN: Final = re.compile(
    r"^ *(?:(?:Cell|Input) In ?\[(?P<cell>\d+)\], line (?P<line>\d+)"
    r"|File (?P<file>.+?)(?::(?P<at>\d+)|, line (?P<row>\d+)))(?:, in (?P<function>[^\s(]+))?.*$",
    re.MULTILINE,
)
"""Matches the line of a traceback with the position of a frame. Source: IPython, `core.ultratb`."""
_CELL_FILE_SUFFIX: Final = re.compile(r" \(\d+\.py, line \d+\)$")
"""Matches the nonexistent file name in IPython's message for a syntax error in a cell."""
_V8_POSITION: Final = re.compile(r"<anonymous>:(\d+):(\d+)")
"""Matches the line and column of code in a V8 stack trace."""
_RELATIONS_BY_LINE: Final = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}
"""The relations between chained exceptions, by the line between their tracebacks."""
_LINES_BY_RELATION: Final = {relation: line for line, relation in _RELATIONS_BY_LINE.items()}
_RELATION_PATTERN: Final = re.compile("|".join(f"({re.escape(line)})" for line in _RELATIONS_BY_LINE))
_LAST_LINE: Final = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.MULTILINE)
"""Matches the line of a traceback with the exception's class and message."""
_SYNTAX_ERRORS: Final = frozenset({"SyntaxError", "IndentationError", "TabError"})
_LIBRARY_FILE: Final = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python\d[\d.]*)[/\\]|^<")
"""Matches a path in an installed package or in the standard library."""


@dataclass(frozen=True, slots=True)
class KernelError:
    """An error as reported by a kernel: the name of its class, its value as text, and its traceback."""

    name: str
    value: str
    traceback: str


def strip_escapes(text: str) -> str:
    """Return the text without terminal escape sequences."""
    return _ANSI_SEQUENCE.sub("", text) if "\x1b" in text else text


def parse_error(content: Mapping[str, object]) -> KernelError:
    """Parse the content of an `error` message, or of a reply whose status is `error`."""
    name = text_at(content, "ename")
    match = _CLASS_TEXT.fullmatch(name)
    lines = (strip_escapes(line) for line in strings_at(content, "traceback"))
    return KernelError(match[1] if match else name, strip_escapes(text_at(content, "evalue")), "\n".join(lines))


def is_interrupt(error: KernelError) -> bool:
    """Return whether the error is an interrupt."""
    return error.name == "KeyboardInterrupt"


def not_run_failure() -> Failure:
    """Return the failure of code that the kernel discarded because earlier code had failed."""
    message = "the kernel discarded this code without running it, because earlier code failed. Send it again"
    return Failure(NOT_RUN_TYPE, message)


def failure_from_error(error: KernelError, *, language: str, cell: int | None) -> Failure:
    """Convert a kernel's error to a failure.

    `cell` is the execution count of the failed code. Frames with this count belong to the code itself.
    """
    if language == "python":
        return _python_failure(error, cell)
    error_type = "exit status" if language == "bash" else error.name or "Error"
    position = _V8_POSITION.search(error.traceback)
    return Failure(
        error_type,
        error.value.strip() or error.traceback.strip(),
        line=int(position[1]) if position else None,  # the column includes code that the kernel added
        trace=tuple(line.strip() for line in error.traceback.splitlines()[1 : MAX_TRACE_FRAMES + 1] if line.strip()),
    )


def format_report(failure: Failure, *, language: str) -> str:
    """Format a failure for stderr, either in the style of Python tracebacks or as a message followed by the trace."""
    if language != "python":
        return f"{_message_line(failure)}\n" + "".join(f"  at {frame}\n" for frame in failure.trace)
    report = ""
    for link in reversed(failure.chain):
        report += f"{_python_report(link)}\n{_LINES_BY_RELATION[link.relation]}\n\n"
    return report + _python_report(failure)


def _python_report(failure: Failure) -> str:
    frames = [frame for text in reversed(failure.trace) if (frame := FRAME_PATTERN.match(text))]
    lines = [f'  File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}\n' for frame in frames]
    return f"Traceback (most recent call last):\n{''.join(lines)}{_message_line(failure)}\n"


def _message_line(failure: Failure) -> str:
    return f"{failure.type}: {failure.message}" if failure.message else failure.type


def _python_failure(error: KernelError, cell: int | None) -> Failure:
    """Convert an error from a Python kernel. Earlier tracebacks become the failure's chain, nearest first."""
    parts = _RELATION_PATTERN.split(error.traceback)
    step = 1 + len(_RELATIONS_BY_LINE)
    tracebacks = parts[::step]
    relations = [next(filter(None, parts[start + 1 : start + step]), "") for start in range(0, len(parts) - 1, step)]
    failure = replace(
        _add_position(Failure(error.name or "Error", _CELL_FILE_SUFFIX.sub("", error.value)), tracebacks[-1], cell),
        phase="read" if error.name in _SYNTAX_ERRORS else "execution",
    )
    chain = [
        _add_position(replace(_parse_last_line(text), relation=_RELATIONS_BY_LINE[relation_text]), text, cell)
        for text, relation_text in zip(tracebacks, relations, strict=False)
    ]
    links = tuple(replace(link, trace=link.trace[:MAX_CAUSE_FRAMES]) for link in reversed(chain))
    return replace(failure, chain=links)


def _parse_last_line(text: str) -> Failure:
    """Parse the error type and the message on the last line of a traceback."""
    matches = list(_LAST_LINE.finditer(text))
    return Failure(matches[-1]["type"], matches[-1]["message"] or "") if matches else Failure("Error", "")


def _add_position(failure: Failure, text: str, cell: int | None) -> Failure:
    """Add the trace, innermost frame first, and the position of the user's innermost frame."""
    all_frames = list(_FRAME_PATTERN.finditer(text))[::-1]
    # Apart from Codriver's frames, there is only the cell that calls them.
    frames = list(takewhile(lambda frame: not (frame["file"] or "").startswith(WORKER_DIRECTORY), all_frames))
    trace = tuple(_frame_text(frame) for frame in frames[:MAX_TRACE_FRAMES])
    outermost_cell = frames[-1]["cell"] if frames and not frames[-1]["function"] else None
    if outermost_cell is not None:  # concurrent executions may report the same count, but this frame has its own
        cell = int(outermost_cell)
    for frame in frames:
        if frame["cell"] is not None and (cell is None or int(frame["cell"]) == cell):
            return replace(failure, line=int(frame["line"]), trace=trace)
        if frame["file"] is not None and not _LIBRARY_FILE.search(frame["file"]):
            return replace(
                failure, file=_expand_home(frame["file"]), line=int(frame["at"] or frame["row"]), trace=trace
            )
    return replace(failure, trace=trace)


def _frame_text(frame: re.Match[str]) -> str:
    function = frame["function"] or "<module>"
    if frame["cell"] is not None:
        return f"{function} (<In[{frame['cell']}]>:{frame['line']})"
    return f"{function} ({_expand_home(frame['file'])}:{frame['at'] or frame['row']})"


def _expand_home(file: str) -> str:
    """Expand the `~` with which IPython abbreviates the home directory."""
    return str(Path(file).expanduser()) if file.startswith("~") else file
