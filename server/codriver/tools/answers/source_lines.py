"""Numbered lines of source around a place: the whole function if it is short, otherwise the lines near the statement.

Functions of Python are found by indentation and never by parsing: a project's Python may be newer than the server's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codriver import files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


SOURCE: Final = files.Rules(files.Links.ANY, most_bytes=2 * 2**20)
"""The rules for a source file of which an answer shows a part."""

MOST_LINES: Final = 25
"""A longer function is shown in part."""
AROUND: Final = 5
"""Lines before and after the statement, if its function is too long to be shown whole."""
LINE_CHARACTERS: Final = 160
CLOSING: Final = (")", "]", "}")
"""Beginnings of a line that closes brackets, at whatever depth."""
QUOTE: Final = re.compile(r"#|\"\"\"|'''|\"|'")
QUOTE_END: Final = {
    quote: re.compile(rf"(?:\\.|(?!{quote}).)*?{quote}", re.DOTALL) for quote in ('"""', "'''", '"', "'")
}
"""By the opening quote: the rest of a string, up to its end."""
DEFINITION: Final = re.compile(r"(?P<indent>[ \t]*)(?:async[ \t]+def|def|class)\b")


def excerpt_of(file: Path, line: int, *, is_marked: bool = True, most: int = MOST_LINES, around: int = AROUND) -> str:
    """Return an excerpt of a file, as `excerpt` does; empty for a file that cannot be read. Blocks."""
    try:
        lines = files.read_text(file, SOURCE).splitlines()
    except (OSError, ValueError):
        return ""
    return excerpt(lines, line, is_marked=is_marked, most=most, around=around)


def excerpt(
    lines: Sequence[str], line: int, *, is_marked: bool = True, most: int = MOST_LINES, around: int = AROUND
) -> str:
    """Return the numbered lines around `line`, which counts from 1; empty for no such line.

    The function that the line is in is shown whole if it has at most `most` lines, otherwise the lines `around` it.
    `is_marked`: mark the line with `>`.
    """
    if not 0 < line <= len(lines):
        return ""
    bounds = function_around(lines, line)
    if bounds is None or bounds[1] - bounds[0] >= most:
        low, high = bounds or (1, len(lines))
        bounds = max(low, line - around), min(high, line + around)
    return numbered(lines, *bounds, marked=line if is_marked else None)


def numbered(lines: Sequence[str], first: int, last: int, marked: int | None = None) -> str:
    """Return the lines from `first` to `last`, counted from 1, each behind its number."""
    width = len(str(last))
    shown = []
    for number in range(first, last + 1):
        text = lines[number - 1].rstrip("\r\n").expandtabs(4)
        if len(text) > LINE_CHARACTERS:
            text = f"{text[: LINE_CHARACTERS - 1]}…"
        shown.append(f"{'>' if number == marked else ' '}{number:>{width}} {text}".rstrip())
    return "\n".join(shown)


def function_around(lines: Sequence[str], line: int) -> tuple[int, int] | None:
    """Return the first and last line of the innermost function or class around a line, with its decorators."""
    code = _with_code(lines)
    at = line - 1
    while at >= 0 and not code[at]:
        at -= 1
    start = _definition_above(lines, code, at)
    if start is None:
        return None
    depth, last = _indent(lines[start]), start
    for below in range(start + 1, len(lines)):
        if code[below] and _indent(lines[below]) <= depth and not lines[below].lstrip().startswith(CLOSING):
            break
        if lines[below].strip() and (code[below] or not lines[below].lstrip().startswith("#")):
            last = below
    while start > 0 and lines[start - 1].lstrip().startswith("@") and _indent(lines[start - 1]) == depth:
        start -= 1
    return start + 1, max(last, line - 1) + 1


def _definition_above(lines: Sequence[str], code: Sequence[bool], at: int) -> int | None:
    """Return the index of the `def` or `class` that the line at an index is in, or is."""
    if at < 0 or DEFINITION.match(lines[at]):
        return at if at >= 0 else None
    depth = _indent(lines[at])
    if lines[at].lstrip().startswith(CLOSING):
        depth += 1  # it may close the signature of its own function
    for above in range(at - 1, -1, -1):
        text = lines[above]
        if code[above] and _indent(text) < depth and not text.lstrip().startswith(CLOSING):
            depth = _indent(text)
            if DEFINITION.match(text):
                return above
    return None


def _with_code(lines: Sequence[str]) -> list[bool]:
    """Return which lines begin with code: no blank line, no comment, and no line within a string of several lines."""
    found = []
    quote = ""
    for text in lines:
        found.append(not quote and bool(text.strip()) and not text.lstrip().startswith("#"))
        at = 0
        while at < len(text):
            if quote:
                end = QUOTE_END[quote].match(text, at)
                if end is None:
                    break
                quote, at = "", end.end()
            else:
                begun = QUOTE.search(text, at)
                if begun is None or begun[0] == "#":
                    break
                at = begun.end()
                if len(begun[0]) == 3:
                    quote = begun[0]
                else:
                    closed = QUOTE_END[begun[0]].match(text, at)
                    at = closed.end() if closed else len(text)
    return found


def _indent(text: str) -> int:
    expanded = text.expandtabs(8)
    return len(expanded) - len(expanded.lstrip())
