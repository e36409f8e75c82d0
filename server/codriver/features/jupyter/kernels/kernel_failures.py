"""Failures of code in a kernel, read from `ename`, `evalue` and `traceback`.

A traceback is text for a terminal. All positions are read from IPython's tracebacks, and from those of other languages
the first position that the engine names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.core.values import Failure
from codriver.repls.contract.reports import FRAME
from codriver.wire.untrusted import strings_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping


NOT_RUN: Final = "not-run"
"""The type of the failure of code that the kernel dropped before it began."""

WORKER_DIRECTORY: Final = "/codriver/worker/"
"""The folder of our modules in a kernel's tracebacks: a frame in it is not the user's."""

TRACE_FRAMES: Final = 10
LINK_FRAMES: Final = 3
"""Frames kept of a failure, and of each of its causes."""

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CLASS: Final = re.compile(r"<class '(?:builtins\.)?([^']+)'>")
_FRAME: Final = re.compile(
    r"^ *(?:(?:Cell|Input) In ?\[(?P<cell>\d+)\], line (?P<line>\d+)"
    r"|File (?P<file>.+?)(?::(?P<at>\d+)|, line (?P<row>\d+)))(?:, in (?P<function>[^\s(]+))?.*$",
    re.MULTILINE,
)
"""Source: IPython, `core.ultratb`."""
_IN_CELL: Final = re.compile(r" \(\d+\.py, line \d+\)$")
"""The non-existing file that IPython names for a syntax error in a cell."""
_V8_POSITION: Final = re.compile(r"<anonymous>:(\d+):(\d+)")
_RELATIONS: Final = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}
_WORDS: Final = {relation: words for words, relation in _RELATIONS.items()}
_BETWEEN: Final = re.compile("|".join(f"({re.escape(words)})" for words in _RELATIONS))
_LAST: Final = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.MULTILINE)
_READING: Final = frozenset({"SyntaxError", "IndentationError", "TabError"})
_LIBRARY: Final = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python\d[\d.]*)[/\\]|^<")


@dataclass(frozen=True, slots=True)
class KernelError:
    """An error in a kernel's words."""

    name: str
    value: str
    traceback: str


def plain(text: str) -> str:
    """Return the text without the escape sequences of terminals."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def read_error(content: Mapping[str, object]) -> KernelError:
    """Return the error in the content of an `error` message, or of a reply whose status is `error`."""
    name = text_of(content, "ename")
    match = _CLASS.fullmatch(name)
    lines = (plain(line) for line in strings_of(content, "traceback"))
    return KernelError(match[1] if match else name, plain(text_of(content, "evalue")), "\n".join(lines))


def is_interrupt(error: KernelError) -> bool:
    """Return whether the error is an interrupt."""
    return error.name == "KeyboardInterrupt"


def not_run_failure() -> Failure:
    """Return the failure of code that the kernel dropped before it started."""
    words = "the kernel dropped this before it began, as something before it failed: it did not run, and can be sent"
    return Failure(NOT_RUN, f"{words} again")


def failure_of(error: KernelError, *, language: str, cell: int | None) -> Failure:
    """Return the failure. `cell`: the number of the failed execution, whose lines count as the code's own."""
    if language == "python":
        return _of_python(error, cell)
    kind = "exit status" if language == "bash" else error.name or "Error"
    position = _V8_POSITION.search(error.traceback)
    return Failure(
        kind,
        error.value.strip() or error.traceback.strip(),
        line=int(position[1]) if position else None,  # its column counts in the engine's code around ours
        trace=tuple(line.strip() for line in error.traceback.splitlines()[1 : TRACE_FRAMES + 1] if line.strip()),
    )


def format_report(failure: Failure, *, language: str) -> str:
    """Return the failure as a report for the error output: in Python's form, or in one line and its trace."""
    if language != "python":
        return f"{_words(failure)}\n" + "".join(f"  at {frame}\n" for frame in failure.trace)
    report = ""
    for link in reversed(failure.chain):
        report += f"{_python_report(link)}\n{_WORDS[link.relation]}\n\n"
    return report + _python_report(failure)


def _python_report(failure: Failure) -> str:
    frames = [frame for text in reversed(failure.trace) if (frame := FRAME.match(text))]
    lines = [f'  File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}\n' for frame in frames]
    return f"Traceback (most recent call last):\n{''.join(lines)}{_words(failure)}\n"


def _words(failure: Failure) -> str:
    return f"{failure.type}: {failure.message}" if failure.message else failure.type


def _of_python(error: KernelError, cell: int | None) -> Failure:
    """Return the last traceback's failure, with the tracebacks before it as its chain, the nearest first."""
    parts = _BETWEEN.split(error.traceback)
    width = 1 + len(_RELATIONS)
    tracebacks = parts[::width]
    relations = [next(filter(None, parts[start + 1 : start + width]), "") for start in range(0, len(parts) - 1, width)]
    failure = replace(
        _placed(Failure(error.name or "Error", _IN_CELL.sub("", error.value)), tracebacks[-1], cell),
        phase="read" if error.name in _READING else "execution",
    )
    chain = [
        _placed(replace(_last_line(text), relation=_RELATIONS[words]), text, cell)
        for text, words in zip(tracebacks, relations, strict=False)
    ]
    links = tuple(replace(link, trace=link.trace[:LINK_FRAMES]) for link in reversed(chain))
    return replace(failure, chain=links)


def _last_line(text: str) -> Failure:
    """Return the type and message at the end of a traceback."""
    found = list(_LAST.finditer(text))
    return Failure(found[-1]["type"], found[-1]["message"] or "") if found else Failure("Error", "")


def _placed(failure: Failure, text: str, cell: int | None) -> Failure:
    """The failure with its trace, innermost frame first, and the place of the user's innermost frame."""
    every = list(_FRAME.finditer(text))[::-1]
    # Around our own load there is only the cell that calls it.
    frames = list(takewhile(lambda frame: not (frame["file"] or "").startswith(WORKER_DIRECTORY), every))
    trace = tuple(_text(frame) for frame in frames[:TRACE_FRAMES])
    running = frames[-1]["cell"] if frames and not frames[-1]["function"] else None
    if running is not None:  # executions side by side share a count, so the outermost frame tells its own
        cell = int(running)
    for frame in frames:
        if frame["cell"] is not None and (cell is None or int(frame["cell"]) == cell):
            return replace(failure, line=int(frame["line"]), trace=trace)
        if frame["file"] is not None and not _LIBRARY.search(frame["file"]):
            return replace(failure, file=_whole(frame["file"]), line=int(frame["at"] or frame["row"]), trace=trace)
    return replace(failure, trace=trace)


def _text(frame: re.Match[str]) -> str:
    function = frame["function"] or "<module>"
    if frame["cell"] is not None:
        return f"{function} (<In[{frame['cell']}]>:{frame['line']})"
    return f"{function} ({_whole(frame['file'])}:{frame['at'] or frame['row']})"


def _whole(file: str) -> str:
    """Return the full path: IPython writes the home directory as `~`."""
    return str(Path(file).expanduser()) if file.startswith("~") else file
