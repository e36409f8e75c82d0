r"""Tokenizer of the Clojure family: the shape of its grammar, as tokens and lines.

One regular expression cuts the text. Every character belongs to exactly one token, so that tokens joined give the text
back, and each quantifier is possessive, so that broken text costs no more than sound text: cutting is linear.

Where dialects differ the grammar takes the side that keeps brackets right. A character literal is the backslash with
whatever follows it (`\(`), and if that is alphanumeric the rest of the word (`\newline`). `#!` begins a comment
wherever a token may begin. Letters before a string (`f"…"` in Hy) are a symbol of their own. `#[word[` begins a string
that `]word]` ends, as in Hy; nothing else of the family has `#[`.

Source: Clojure's `LispReader` (macros, dispatch macros, terminating characters), the EDN specification, the readers of
Basilisp and Hy.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSERS = {"(": ")", "[": "]", "{": "}"}

_WORD = r"""[^\s,\[\](){}"';`~@^\\]"""
"""The pattern of a word's first character."""
_REST = r"""[^\s,\[\](){}";`~@^\\]"""
"""The pattern of a word's further characters: `'` does not end one."""

TOKEN = re.compile(
    rf"""
      (?P<space>[\s,]++)
    | (?P<bracketed>\#\[(?P<word>[^\s()\[\]{{}}"]*+)\[
        [^\]]*+(?:\](?!(?P=word)\])[^\]]*+)*+(?:(?P<ending>\](?P=word)\])|\Z))
    | (?P<open>\#?[(\[{{])
    | (?P<close>[)\]}}])
    | (?P<comment>;[^\r\n]*+|\#![^\r\n]*+)
    | (?P<string>\#?"[^"\\]*+(?:\\.[^"\\]*+)*+(?:(?P<quote>")|\\?\Z))
    | (?P<discard>\#_)
    | (?P<metadata>\#?\^)
    | (?P<prefix>\#'|\#=|\#\?@?|\#::?{_REST}*+|~@|['`~@])
    | (?P<character>\\(?:\w{_REST}*+|.)?)
    | (?P<tag>\#[^\s,\[\](){{}}"';`~@^\\\#<]{_REST}*+)
    | (?P<atom>{_WORD}{_REST}*+|.)
    """,
    re.VERBOSE | re.DOTALL,
)

LINE_END = re.compile(r"\r\n|\r|\n")
"""The end of a line. A form feed, a vertical tab or a Unicode separator does not, unlike in `str.splitlines`."""


class Places:
    """Line and column of any offset in one text, and back. Lines and columns count from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in LINE_END.finditer(text))]

    def line(self, offset: int) -> int:
        """The line that `offset` is in."""
        return bisect_right(self._starts, offset)

    def of(self, offset: int) -> tuple[int, int]:
        """The line and column of `offset`."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def start(self, line: int) -> int:
        """The offset at which `line` begins; the line must exist."""
        return self._starts[line - 1]

    @property
    def count(self) -> int:
        """The number of lines; a text that ends with a line end has an empty last one."""
        return len(self._starts)


def tokens(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """The tokens of `text` from `start` on, in order and without gaps; a match's `lastgroup` is its kind."""
    return TOKEN.finditer(text, start)
