"""Plain forms: short code that is seen to be one balanced form without a tree of it being built.

Most of what an agent evaluates is one call of a few words, and its tree would only tell that its brackets balance. What
has anything but words, numbers, strings, quotes and brackets in it is for the reader (`codriver.lisp.reader`).
"""

from __future__ import annotations

import re
from typing import Final

from codriver.lisp.tokens import CLOSERS

MAX_CHARACTERS: Final = 2_000
"""Of a text that is looked at."""

_NOTABLE = re.compile(
    r"""
      "[^"\\]*+(?:\\.[^"\\]*+)*+"   # a string
    | [()\[\]{}]
    | '(?![\w(\[{])                 # a quote with nothing behind it
    | [^\w\s'.,:?!*+/<>=&%$-]       # what only the reader knows
    """,
    re.VERBOSE | re.DOTALL,
)


def is_plain_form(text: str) -> bool:
    """Whether `text` is one balanced form in brackets, from its first character to its last.

    False says nothing: the reader knows.
    """
    if text[:1] != "(" or len(text) > MAX_CHARACTERS:
        return False
    expected: list[str] = []
    notable = _NOTABLE.findall(text)
    last = len(notable) - 1
    for index, piece in enumerate(notable):
        if piece in CLOSERS:
            expected.append(CLOSERS[piece])
        elif piece == expected[-1]:
            expected.pop()
            if not expected:
                return index == last and text[-1] == piece
        elif piece[0] != '"' or len(piece) == 1:
            return False
    return False
