"""Indentation of new text for its place: its lines move together, and nothing within strings does.

A tab counts as two columns where columns are compared, as to parinfer and in `codriver.lisp.balance`. It stays a tab:
the place's own tabs come before each line, and what a line has beyond them is what was given.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codriver.lisp.tokens import LINE_END, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LAST_LINE = re.compile(r"[^\r\n]*\Z")


def reindented(text: str, base: str, ending: str, old: str = "") -> str:
    """`text` as it stands at a place indented by `base`: its lines moved by as much as its first line moves.

    The first line comes without indentation, blank lines around the text go, line endings become `ending`. Lines within
    strings keep their indentation, which is part of the string.

    A first line without indentation may have been cut out of a line that had some. Then the others are at their place
    already, also those further left. It shows in more lines being as in `old`, the text that was there, if they do not
    move than if they do; and where that does not tell, in that they stand right under the first line only if it is
    moved alone.
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
            first, *others = LINE_END.split(token[0])
            parts.append(first)
            for blank in others[:-1]:
                parts += ending, blank
            if others:
                is_left = is_cut_out and width(others[-1]) < width(base)
                parts += ending, *((others[-1],) if is_left else (base, _beyond(indent, others[-1])))
        else:
            parts.append(LINE_END.sub(ending, token[0]))
    return "".join(parts)


def width(text: str) -> int:
    """The number of columns that `text` takes."""
    return len(text) + text.count("\t")


def _beyond(indent: str, space: str) -> str:
    """The space by which a line that begins with `space` goes beyond `indent`; none, if it has less."""
    if space.startswith(indent):
        return space[len(indent) :]
    return " " * (width(space) - width(indent))


def _is_cut_out(text: str, found: Sequence[re.Match[str]], base: str, old: str) -> bool:
    """Whether the first line of `text`, whose tokens are `found`, alone lacks the indentation `base`."""
    there = set(_lines(old, list(tokens(old))))
    lines = list(_lines(text, found))
    unmoved = sum(line in there for line in lines)
    moved = sum(base + line in there for line in lines)
    if unmoved != moved:
        return unmoved > moved
    return not _is_aligned(found, 0) and _is_aligned(found, width(base))


def _lines(text: str, found: Sequence[re.Match[str]]) -> Iterator[str]:
    """The lines of `text` but for the first, and but for those that begin within a string."""
    for token in found:
        if token.lastgroup == "space" and LINE_END.search(token[0]):
            end = LINE_END.search(text, token.end())
            yield last_line(token[0]) + text[token.end() : end.start() if end else len(text)].rstrip()


def last_line(text: str) -> str:
    """The last line of `text`."""
    found = _LAST_LINE.search(text)
    return found[0] if found else ""


def _is_aligned(found: Sequence[re.Match[str]], columns: int) -> bool:
    """Whether each line stands where such lines do, if all but the first are moved to the left by `columns`.

    That is one or two columns behind the bracket that it is in, or below something else in that bracket.
    """
    openers: list[tuple[int, set[int]]] = [(-1, {0})]  # column, and the columns of what is in it
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
        if LINE_END.search(token[0]) is None:
            column += width(token[0]) if kind == "space" else len(token[0])
            leads = leads and kind == "space"
        else:
            column = width(last_line(token[0])) - columns
            leads = kind == "space"
    return True
