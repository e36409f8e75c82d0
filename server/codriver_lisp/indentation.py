"""Indent new text to fit its position: all lines move by the same amount, except lines inside strings.

When columns are compared, a tab counts as two, as in `codriver_lisp.parinfer`. Tabs are kept: each line starts with the
indentation of the position, including its tabs, followed by the line's own additional indentation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codriver_lisp.reader import LINE_END_PATTERN, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_LAST_LINE_PATTERN = re.compile(r"[^\r\n]*\Z")


def reindent(text: str, base: str, ending: str, old: str = "") -> str:
    """Indent a source text for a position with the indentation `base`, moving all lines by the same amount.

    The first line gets no indentation, blank lines around the text are removed, and line endings become `ending`. Lines
    inside strings keep their indentation, because it is part of the string.

    If the first line has no indentation, it may have been cut out of an indented line while the other lines are already
    indented correctly. That is assumed if more of the lines equal lines of `old`, the text to replace, before they are
    moved than after. In case of a tie, it is assumed if the other lines are aligned only when the first line alone
    moves.
    """
    found = list(tokens(text))
    indent = ""
    if found and found[0].lastgroup == "space":
        indent = last_line(found.pop(0)[0])
    if found and found[-1].lastgroup == "space":
        found.pop()
    is_cut_out = not indent and bool(base) and _is_cut_out(text, found, base, old)
    indent = base if is_cut_out else indent
    parts: list[str] = []
    for token in found:
        if token.lastgroup == "space":
            first, *others = LINE_END_PATTERN.split(token[0])
            parts.append(first)
            for blank in others[:-1]:
                parts += ending, blank
            if others:
                is_left = is_cut_out and display_width(others[-1]) < display_width(base)
                parts += ending, *((others[-1],) if is_left else (base, _extra_indentation(indent, others[-1])))
        else:
            parts.append(LINE_END_PATTERN.sub(ending, token[0]))
    return "".join(parts)


def display_width(text: str) -> int:
    """Return the width of a string in columns. A tab counts as two."""
    return len(text) + text.count("\t")


def _extra_indentation(indent: str, space: str) -> str:
    """Return the part of the whitespace `space` beyond `indent`, or "" if there is none."""
    if space.startswith(indent):
        return space[len(indent) :]
    return " " * (display_width(space) - display_width(indent))


def _is_cut_out(text: str, found: Sequence[re.Match[str]], base: str, old: str) -> bool:
    """Return whether the first line of a source text lacks its indentation while the other lines have theirs.

    This is the case if the first line was cut out of an indented line. `found` contains the tokens of the text.
    """
    old_lines = set(_iterate_lines(old, list(tokens(old))))
    lines = list(_iterate_lines(text, found))
    unmoved = sum(line in old_lines for line in lines)
    moved = sum(base + line in old_lines for line in lines)
    if unmoved != moved:
        return unmoved > moved
    return not _is_aligned(found, 0) and _is_aligned(found, display_width(base))


def _iterate_lines(text: str, found: Sequence[re.Match[str]]) -> Iterator[str]:
    """Yield the lines of a source text, except the first line and lines that start inside a string."""
    for token in found:
        if token.lastgroup == "space" and LINE_END_PATTERN.search(token[0]):
            end = LINE_END_PATTERN.search(text, token.end())
            yield last_line(token[0]) + text[token.end() : end.start() if end else len(text)].rstrip()


def last_line(text: str) -> str:
    """Return the text after the last line ending, or the whole text if there is none."""
    found = _LAST_LINE_PATTERN.search(text)
    return found[0] if found else ""


def _is_aligned(found: Sequence[re.Match[str]], columns: int) -> bool:
    """Return whether the lines would be aligned as usual if all lines but the first moved left by `columns`.

    A line is aligned if it starts one or two columns after its bracket, or below something else in that bracket.
    """
    openers: list[tuple[int, set[int]]] = [(-1, {0})]  # column of a bracket, and columns of its items
    column, leads = 0, False
    for token in found:
        kind = token.lastgroup
        if kind not in ("space", "close", "comment"):
            opener, siblings = openers[-1]
            if leads and column not in siblings and not (len(openers) > 1 and opener < column <= opener + 2):
                return False
            siblings.add(column)
            if kind == "open":
                openers.append((column + len(token[0]) - 1, set()))
        elif kind == "close" and len(openers) > 1:
            openers.pop()
        if LINE_END_PATTERN.search(token[0]) is None:
            column += display_width(token[0]) if kind == "space" else len(token[0])
            leads = leads and kind == "space"
        else:
            column = display_width(last_line(token[0])) - columns
            leads = kind == "space"
    return True
