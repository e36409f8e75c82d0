"""Indenting text for the place it comes to: its lines move together, and nothing within strings does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codriver.lisp.tokens import LINE_END, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAST_LINE = re.compile(r"[^\r\n]*\Z")


def place(text: str, base: str, ending: str) -> str:
    """`text` as it stands at a place indented by `base`: its lines moved by as much as its first line moves.

    The first line comes without indentation, blank lines around the text go, line endings become `ending`. Lines within
    strings keep their indentation, which is part of the string.

    A first line without indentation may have been cut out of a line that had some. Then the others are at their place
    already, which shows in that they stand right under the first line only if it is moved alone.
    """
    found = list(tokens(text))
    indent = ""
    if found and found[0].lastgroup == "space":
        indent = last_line(found.pop(0)[0])
    if found and found[-1].lastgroup == "space":
        found.pop()
    if not indent and base and not _is_aligned(found, 0) and _is_aligned(found, len(base)):
        indent = base
    parts: list[str] = []
    for token in found:
        if token.lastgroup == "space":
            first, *others = LINE_END.split(token[0])
            parts.append(first)
            if others:
                moved = base + others[-1].removeprefix(indent) if others[-1].startswith(indent) else base
                parts += [ending * len(others), moved]
        else:
            parts.append(LINE_END.sub(ending, token[0]))
    return "".join(parts)


def last_line(text: str) -> str:
    """What of `text` stands on its last line."""
    found = _LAST_LINE.search(text)
    return found[0] if found else ""


def _is_aligned(found: Sequence[re.Match[str]], width: int) -> bool:
    """Whether each line stands where such lines do, if all but the first are moved to the left by `width`.

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
            column += len(token[0])
            leads = leads and kind == "space"
        else:
            column = len(last_line(token[0])) - width
            leads = kind == "space"
    return True
