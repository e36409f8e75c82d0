"""Select numbered source lines around a location: the whole function if it is short, otherwise the nearest lines.

The docstring of a long function is replaced by its line numbers, so that its code is displayed. Python functions are
found by indentation and not by parsing, because a project's Python may be newer than the server's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.editing.source_encoding import decode_with_replacement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


SOURCE_FILE_RULES: Final = files.FileRules(files.Links.ANY, max_bytes=2 * 2**20)
"""Limits for a source file quoted in an answer."""

MAX_LINES: Final = 25
"""Maximum number of lines in a function quoted in full."""
CONTEXT_LINES: Final = 5
"""Number of quoted lines before and after the statement in a longer function."""
MAX_LINE_CHARACTERS: Final = 160
"""Maximum number of characters in a quoted line."""
CLOSING_BRACKETS: Final = (")", "]", "}")
"""Closing brackets, which may start a line with any indentation."""
LINE_ENDING_PATTERN: Final = re.compile(r"\r\n|\r|\n")
"""Matches the end of a line."""
COMMENT_OR_QUOTE_PATTERN: Final = re.compile(r"#|\"\"\"|'''|\"|'")
"""Matches the start of a comment or a string."""
STRING_REST_PATTERNS: Final = {
    quote: re.compile(rf"(?:\\.|(?!{quote})[^\\])*+{quote}", re.DOTALL) for quote in ('"""', "'''", '"', "'")
}
"""Patterns that match the rest of a string, by its opening quote."""
DOCSTRING_START_PATTERN: Final = re.compile(r"[ \t]*[rRuU]?(?:\"\"\"|\'\'\'|\"|\')")
"""Matches a line that starts with a docstring, up to its opening quote."""
LINE_NUMBER_PATTERN: Final = re.compile(r"^(?P<mark>[ >]) *\d+(?: |$)(?P<first>[ \t]?)", re.MULTILINE)
"""Matches the number before a line in an excerpt, and the first blank of the line."""
DEFINITION_PATTERN: Final = re.compile(r"(?P<indent>[ \t]*)(?:async[ \t]+def|def|class)\b")
"""Matches the start of the definition of a function or class, including its indentation."""


def source_lines(file: Path) -> list[str]:
    """Return the lines of a source file, or an empty list if it cannot be read.

    Reads the file, so it blocks.
    """
    try:
        return split_lines(decode_with_replacement(file, files.read(file, SOURCE_FILE_RULES)))
    except (OSError, ValueError):
        return []


def split_lines(text: str) -> list[str]:
    """Return the lines of a source file as Python and editors count them.

    Unlike with `str.splitlines`, a form feed or another separator does not start a new line.
    """
    lines = LINE_ENDING_PATTERN.split(text)
    return lines if lines[-1] else lines[:-1]


def file_excerpt(
    file: Path,
    line: int,
    *,
    is_marked: bool = True,
    most: int = MAX_LINES,
    around: int = CONTEXT_LINES,
    whole_characters: int = 0,
) -> str:
    """Return an excerpt of a file, or an empty string if it cannot be read. See `excerpt`.

    Reads the file, so it blocks.
    """
    lines = source_lines(file)
    return excerpt(lines, line, is_marked=is_marked, most=most, around=around, whole_characters=whole_characters)


def excerpt(
    lines: Sequence[str],
    line: int,
    *,
    is_marked: bool = True,
    most: int = MAX_LINES,
    around: int = CONTEXT_LINES,
    whole_characters: int = 0,
    documented_characters: int = 0,
) -> str:
    """Return the numbered lines around `line`, or an empty string if there is no such line. Lines are counted from 1.

    A function that contains the line is returned in full if it has at most `most` lines without its docstring, or if
    the excerpt has at most `whole_characters`. For a longer function, `around` lines before and after the line are
    returned, or the first lines of the function if the line is in its signature. The docstring is included only if the
    function with its docstring has at most `documented_characters`. With `is_marked`, the line is marked with `>`.
    """
    if not 0 < line <= len(lines):
        return ""
    marked = line if is_marked else None
    bounds = function_around(lines, line)
    first, last = bounds or (max(1, line - around), min(len(lines), line + around))
    documented = number_lines(lines, range(first, last + 1), marked=marked)
    if bounds is None or last - first < most or len(documented) <= documented_characters:
        return documented
    code = _lines_with_code(lines)
    body = _body_start(lines, code, first - 1, last) + 1
    docstring = _docstring_lines(lines, body, last)
    if line in docstring:
        docstring = range(0)
    displayed = [number for number in range(first, last + 1) if number not in docstring]
    whole = number_lines(lines, displayed, marked=marked, docstring=docstring)
    if len(displayed) > most and len(whole) > whole_characters:
        at = displayed.index(line)
        displayed = displayed[:most] if line < body else displayed[max(0, at - around) : at + around + 1]
        text = number_lines(lines, displayed, marked=marked, docstring=docstring)
        return f"{text}\n {displayed[-1] + 1}-{last} …" if line < body and displayed[-1] < last else text
    return whole


def function_excerpt(lines: Sequence[str], line: int) -> str:
    """Return the numbered lines of the function at a line, without its docstring.

    The result is empty if there is no function at that line.
    """
    bounds = function_around(lines, line) if 0 < line <= len(lines) else None
    if bounds is None:
        return ""
    first, last = bounds
    docstring = _docstring_lines(lines, _body_start(lines, _lines_with_code(lines), first - 1, last) + 1, last)
    return number_lines(
        lines, [number for number in range(first, last + 1) if number not in docstring], docstring=docstring
    )


def numbered_definition(text: str, first: int, fits: Callable[[str], bool], *, is_python: bool) -> str:
    """Return the numbered lines of a definition that starts at line `first` of its file.

    If `fits` returns false for a Python definition, its docstring is left out.
    """
    lines = text.splitlines()
    last = len(lines)
    whole = number_lines(lines, range(1, last + 1), first=first, line_characters=None)
    if fits(whole) or not is_python:
        return whole
    docstring = _docstring_lines(lines, _body_start(lines, _lines_with_code(lines), 0, last) + 1, last)
    displayed = [number for number in range(1, last + 1) if number not in docstring]
    return number_lines(lines, displayed, docstring=docstring, first=first, line_characters=None)


def number_lines(
    lines: Sequence[str],
    numbers: Sequence[int],
    *,
    marked: int | None = None,
    docstring: range = range(0),
    first: int = 1,
    line_characters: int | None = MAX_LINE_CHARACTERS,
) -> str:
    """Return the lines with the given numbers, counted from 1, each preceded by its number.

    Lines of a docstring that are left out are replaced by one line.
    """
    added = first - 1
    width = len(str(numbers[-1] + added))
    quoted = []
    for before, number in zip([numbers[0] - 1, *numbers], numbers, strict=False):
        if before + 1 < number and before + 1 in docstring:
            quoted.append(f" {before + 1 + added}-{number - 1 + added} (docstring)")
        text = lines[number - 1].rstrip("\r\n").expandtabs(4)
        if line_characters is not None and len(text) > line_characters:
            text = f"{text[: line_characters - 1]}…"
        quoted.append(f"{'>' if number == marked else ' '}{number + added:>{width}} {text}".rstrip())
    return "\n".join(quoted)


def without_numbers(text: str) -> str:
    """Remove the line numbers from an excerpt. A marked line keeps its `>`."""
    return LINE_NUMBER_PATTERN.sub(lambda found: ">" if found["mark"] == ">" else found["first"], text)


def function_around(lines: Sequence[str], line: int) -> tuple[int, int] | None:
    """Return the first and last line of the innermost function or class that contains a line, including decorators.

    Returns None if the line is at the top level.
    """
    code = _lines_with_code(lines)
    at = line - 1
    while at >= 0 and not code[at]:
        at -= 1
    start = _definition_below(lines, at) if at >= 0 and lines[at].lstrip().startswith("@") else None
    if start is None:
        start = _definition_above(lines, code, at)
    if start is None:
        return None
    depth, last = _indentation(lines[start]), start
    for below in range(start + 1, len(lines)):
        if (
            code[below]
            and _indentation(lines[below]) <= depth
            and not lines[below].lstrip().startswith(CLOSING_BRACKETS)
        ):
            break
        if lines[below].strip() and (code[below] or not lines[below].lstrip().startswith("#")):
            last = below
    while start > 0 and lines[start - 1].lstrip().startswith("@") and _indentation(lines[start - 1]) == depth:
        start -= 1
    return start + 1, max(last, line - 1) + 1


def _definition_below(lines: Sequence[str], decorator: int) -> int | None:
    """Return the index of the `def` or `class` line that a decorator belongs to, or None."""
    depth = _indentation(lines[decorator])
    for below in range(decorator + 1, len(lines)):
        if DEFINITION_PATTERN.match(lines[below]) and _indentation(lines[below]) == depth:
            return below
        if lines[below].strip() and _indentation(lines[below]) < depth:
            return None
    return None


def _definition_above(lines: Sequence[str], code: Sequence[bool], at: int) -> int | None:
    """Return the index of the innermost `def` or `class` line that contains the line at index `at`, or None."""
    if at < 0 or DEFINITION_PATTERN.match(lines[at]):
        return at if at >= 0 else None
    depth = _indentation(lines[at])
    if lines[at].lstrip().startswith(CLOSING_BRACKETS):
        depth += 1  # the line may close the signature of the function
    for above in range(at - 1, -1, -1):
        text = lines[above]
        if code[above] and _indentation(text) < depth and not text.lstrip().startswith(CLOSING_BRACKETS):
            depth = _indentation(text)
            if DEFINITION_PATTERN.match(text):
                return above
    return None


def _body_start(lines: Sequence[str], code: Sequence[bool], start: int, last: int) -> int:
    """Return the index of the first line after the signature of a definition."""
    definition = next((at for at in range(start, last) if DEFINITION_PATTERN.match(lines[at])), start)
    for at in range(definition, last):
        if code[at] and lines[at].partition("#")[0].rstrip().endswith(":"):
            return at + 1
    return start


def _docstring_lines(lines: Sequence[str], body: int, last: int) -> range:
    """Return the line numbers of a docstring at the start of a body.

    The range is empty if there is no docstring, or if it has only one line.
    """
    first = next((number for number in range(body, last + 1) if lines[number - 1].strip()), last)
    if not DOCSTRING_START_PATTERN.match(lines[first - 1]):
        return range(0)
    inside = _inside_strings(lines)
    end = first
    while end < last and inside[end]:
        end += 1
    return range(first, end + 1) if end > first else range(0)


def _lines_with_code(lines: Sequence[str]) -> list[bool]:
    """Return for each line whether it starts with code, and not with a comment or inside a multi-line string."""
    return [
        not is_inside and bool(text.strip()) and not text.lstrip().startswith("#")
        for text, is_inside in zip(lines, _inside_strings(lines), strict=True)
    ]


def _inside_strings(lines: Sequence[str]) -> list[bool]:
    """Return for each line whether it starts inside a multi-line string."""
    found = []
    quote = ""
    for text in lines:
        found.append(bool(quote))
        at = 0
        while at < len(text):
            if quote:
                end = STRING_REST_PATTERNS[quote].match(text, at)
                if end is None:
                    break
                quote, at = "", end.end()
            else:
                opening = COMMENT_OR_QUOTE_PATTERN.search(text, at)
                if opening is None or opening[0] == "#":
                    break
                at = opening.end()
                if len(opening[0]) == 3:
                    quote = opening[0]
                else:
                    closed = STRING_REST_PATTERNS[opening[0]].match(text, at)
                    at = closed.end() if closed else len(text)
    return found


def _indentation(text: str) -> int:
    """Return the indentation of a line in columns."""
    expanded = text.expandtabs(8)
    return len(expanded) - len(expanded.lstrip())
