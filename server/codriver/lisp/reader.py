"""Reading Lisp text of the Clojure family as far as its shape: tokens, brackets, top-level forms.

One regular expression cuts the text into tokens, so reading is linear and every character belongs to a token; broken
text is read as far as it goes. Shape is all that checking and splitting need, and a reader that knows nothing but shape
agrees with every dialect.

Covers Clojure, ClojureScript, reader conditionals, EDN, Basilisp, and Hy where its syntax agrees: strings, characters,
regexes, tagged literals, metadata, `#_`, namespaced maps, anonymous functions, comments, commas, all line endings.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSER = {"(": ")", "[": "]", "{": "}"}

TOKEN = re.compile(
    r"""
      (?P<space>[\s,]+)
    | (?P<comment>;[^\r\n]*|\#![^\r\n]*)
    | (?P<string>\#?"(?:[^"\\]|\\.)*")
    | (?P<openstring>\#?"(?:[^"\\]|\\.)*\\?\Z)
    | (?P<discard>\#_)
    | (?P<open>\#?\?@?\(|\#(?::{1,2}[^\s,\[\](){}"';`~@^]*)?\{|\#\(|\#\[|[(\[{])
    | (?P<close>[)\]}])
    | (?P<metadata>\#?\^)
    | (?P<prefix>\#'|\#=|~@|['`~@])
    | (?P<character>\\(?:[^\s\w]|\w[^\s,\[\](){}"';`~@^\\]*))
    | (?P<tag>\#[^\s,\[\](){}"';`~@^\\\#_!?=:'<][^\s,\[\](){}"';`~@^\\]*)
    | (?P<atom>[^\s,\[\](){}"';`~@^\\][^\s,\[\](){}";`~@^\\]*|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Unbalanced:
    """Why text does not balance, in a person's words. Line and column count from 1 and are where to look."""

    message: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Span:
    """A form's place: offsets `start` and `end` in the text, and its first character's line and column from 1."""

    start: int
    end: int
    line: int
    column: int


@dataclass(slots=True)
class _Opener:
    """A bracket that waits for its closer. `wanted`: how many forms a prefix before it still lacks."""

    text: str
    bracket: str
    start: int


class Places:
    """Offsets of a text as lines and columns, both from 1. A line ends with a line feed."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer(r"\n", text))]

    def of(self, offset: int) -> tuple[int, int]:
        """The line and column of `offset`."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def tokens(text: str) -> Iterator[re.Match[str]]:
    """The tokens of `text`, in order and without gaps; a match's `lastgroup` is its kind."""
    return TOKEN.finditer(text)


def check(text: str) -> Unbalanced | None:
    """What a reader would complain of in the brackets and strings of `text`; None when they balance."""
    places = Places(text)
    openers: list[_Opener] = []
    # A form that begins a line while another is open shows that the other was not closed in time.
    suspects: list[tuple[_Opener, int]] = []
    for token in tokens(text):
        match token.lastgroup:
            case "openstring":
                line, column = places.of(token.start())
                return Unbalanced(f"the string that begins at line {line} is never closed", line, column)
            case "open":
                if openers and text[token.start() - 1] == "\n":
                    suspects.append((openers[-1], token.start()))
                openers.append(_Opener(token[0], token[0][-1], token.start()))
            case "close":
                line, column = places.of(token.start())
                if not openers:
                    return Unbalanced(f"the `{token[0]}` at line {line} closes nothing", line, column)
                opener = openers.pop()
                if CLOSER[opener.bracket] != token[0]:
                    at = places.of(opener.start)
                    words = f"the `{opener.text}` at line {at[0]} is closed by `{token[0]}` at line {line}"
                    return Unbalanced(words, line, column)
    return _unclosed(openers, suspects, places) if openers else None


def _unclosed(openers: list[_Opener], suspects: list[tuple[_Opener, int]], places: Places) -> Unbalanced:
    """Name the opener that is most likely the one without a closer, and where its form seems to end."""
    suspect, end = openers[-1], None
    for opener, before in suspects:
        if any(opener is still_open for still_open in openers):
            suspect, end = opener, places.of(before)[0]
            break
    line, column = places.of(suspect.start)
    words = f"the `{suspect.text}` at line {line} is never closed"
    if end is not None:
        words += f"; its form seems to end before line {end}"
    return Unbalanced(words, line, column)


def top_level_forms(text: str) -> tuple[Span, ...]:
    """The forms of `text` that an evaluation would run, in order. Discarded ones (`#_`) and comments are left out.

    A prefix such as a quote, a tag or metadata belongs to the form behind it. In text that does not balance, the last
    form is cut short or missing.
    """
    places = Places(text)
    spans: list[Span] = []
    start: int | None = None
    wanted = 0  # forms that metadata read so far still takes beside the form itself
    discards = 0  # forms that `#_` read so far takes away: stacked ones take as many
    for kind, begin, end in _outermost(text):
        if kind == "discard":
            discards += 1
            continue
        start = begin if start is None else start
        if kind == "metadata":
            wanted += 1
        elif kind == "form" and wanted:
            wanted -= 1
        elif kind == "form":
            if discards:
                discards -= 1
            else:
                spans.append(Span(start, end, *places.of(start)))
            start = None
    return tuple(spans)


def _outermost(text: str) -> Iterator[tuple[str, int, int]]:
    """What stands outside all brackets: `form`, `discard`, `metadata` or `prefix`, with its start and end."""
    depth, begin = 0, 0
    for token in tokens(text):
        kind = token.lastgroup
        if kind in ("space", "comment"):
            continue
        if kind == "open":
            begin = begin if depth else token.start()
            depth += 1
        elif kind == "close" and depth > 1:
            depth -= 1
        elif kind == "close":
            yield "form", begin if depth else token.start(), token.end()
            depth = 0
        elif depth == 0:
            named = {"discard": "discard", "metadata": "metadata", "prefix": "prefix", "tag": "prefix"}
            yield named.get(kind or "", "form"), token.start(), token.end()
