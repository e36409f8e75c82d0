"""Error reports, short: the project's frames in one line each, and no traceback that says them once more.

A REPL says a failure twice: in parts, and as the report that it prints. Of the report only the causes are news; they
are read from it, in one line each. A report that cannot be told for sure from the program's own words is left.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_FRAMES = 5
HEADER: Final = "Traceback (most recent call last):\n"
BETWEEN: Final = (
    "\nThe above exception was the direct cause of the following exception:\n\n",
    "\nDuring handling of the above exception, another exception occurred:\n\n",
)
"""Source: Python's `traceback`, chained exceptions."""
_FRAME: Final = re.compile(r"^(?P<function>.*?) \((?P<file>.+):(?P<line>\d+)\)$")
_PRINTED_FRAME: Final = re.compile(
    r'^ +File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$', re.MULTILINE
)
_CLOJURE: Final = re.compile(
    r"^(?:Syntax error|Unexpected error|Execution error|Error printing return value|Error reading eval result)\b.*"
    r"\(.*\)\.\n",
    re.MULTILINE,
)
"""The first line of a report. Source: `clojure.main/ex-str`, Clojure 1.10 and later."""
_EVALUATED: Final = ("<", "REPL", "NO_SOURCE")
"""How the names of files begin that are none: code that was sent."""
_INSTALLED: Final = ("-packages", ".venv", "venv", "node_modules")


def shortened(error: Mapping[str, Any], workspace: str) -> dict[str, Any]:
    """A failure's keys, its trace the project's innermost frames: `file:line in function`, below the workspace."""
    frames = [match for text in error.get("trace", ()) if (match := _FRAME.match(text))]
    own = [frame for frame in frames if _is_own(frame["file"], workspace)] or frames
    called = [frame for frame in own if not _is_sent(frame)][:MOST_FRAMES]
    short = {key: value for key, value in error.items() if key != "trace" and (key, value) != ("form", 1)}
    if "file" in short:
        short["file"] = _relative(short["file"], workspace)
    if short.get("phase") == "execution":
        # Of what ran the frames say the place; of what cannot be read they do not.
        gone = {"phase", "column"} | ({"file", "line"} if called else set())
        short = {key: value for key, value in short.items() if key not in gone}
        if "file" not in short and short.get("line") == 1:
            del short["line"]  # of the code that was sent, as the first form of it is
    if called:
        short["trace"] = [_line(frame, workspace) for frame in called]
    return short


def without_report(stderr: str, error: Mapping[str, Any], workspace: str) -> tuple[str, list[str]]:
    """What is left of the error output without the report of this failure at its end, and the causes it named."""
    said = f"{error.get('message', '')}".strip()
    if (found := _last_clojure(stderr)) is not None and stderr[found.end() :].strip() == said:
        return stderr[: found.start()], []
    name = str(error.get("class", "")).rsplit(".", 1)[-1]
    start = _block(stderr, len(stderr))
    if start is None or not stderr.rstrip().endswith(f"{name}: {said}" if said else name):
        return stderr, []
    causes: list[str] = []
    while (end := _end_before(stderr, start)) is not None:
        before = _block(stderr, end)
        if before is None or (cause := _cause(stderr[before:end], workspace)) is None:
            return stderr, []
        causes.append(cause)
        start = before
    return stderr[:start], causes


def _last_clojure(stderr: str) -> re.Match[str] | None:
    return next(reversed([*_CLOJURE.finditer(stderr)]), None)


def _block(text: str, end: int) -> int | None:
    """Where the last traceback before `end` begins, if it begins a line."""
    start = text.rfind(HEADER, 0, end)
    return start if start == 0 or (start > 0 and text[start - 1] == "\n") else None


def _end_before(text: str, start: int) -> int | None:
    """Where the traceback ends that the one at `start` came from."""
    return next((start - len(words) for words in BETWEEN if text.endswith(words, 0, start)), None)


def _cause(block: str, workspace: str) -> str | None:
    """A cause in one line; None where it has more than one, and what follows may be the program's own words."""
    lines = block.removeprefix(HEADER).rstrip("\n").split("\n")
    words = [line for line in lines if line and not line.startswith(" ")]
    if len(words) != 1 or words[0] != lines[-1]:
        return None
    frames = [*_PRINTED_FRAME.finditer(block)]
    own = [frame for frame in frames if _is_own(frame["file"], workspace)] or frames
    return f"{words[0]} ({_line(own[-1], workspace)})" if own else words[0]


def _line(frame: re.Match[str], workspace: str) -> str:
    place = f"{_relative(frame['file'], workspace)}:{frame['line']}"
    return f"{place} in {frame['function']}" if frame["function"] else place


def _is_sent(frame: re.Match[str]) -> bool:
    """Whether this is the code that was sent itself, and no function that earlier code defined."""
    if not frame["file"].startswith(_EVALUATED):
        return False
    return not frame["file"].startswith("<") or frame["function"] == "<module>"


def _is_own(file: str, workspace: str) -> bool:
    """Whether a file is of the project, or code that was sent."""
    if any(part in file for part in _INSTALLED):
        return False
    path = PurePath(file)
    return not path.is_absolute() or path.is_relative_to(workspace)


def _relative(file: str, workspace: str) -> str:
    path = PurePath(file)
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else file
