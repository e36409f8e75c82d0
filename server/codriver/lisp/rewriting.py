"""Rewriting a text by splices and renamings, with a proof, token by token, that neither ran into the other.

Where they would, as forms that touch do when another comes between, a space is put there, or behind a comment a line
end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver.lisp.indentation import last_line
from codriver.lisp.tokens import tokens

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    from codriver.lisp.source_text import Document
    from codriver.lisp.splices import Splice


@dataclass(frozen=True, slots=True)
class Naming:
    """A renaming of one name: from `start` to `end` it becomes `new`, for the edit of this index."""

    start: int
    end: int
    new: str
    index: int


@dataclass(frozen=True, slots=True)
class Assembly:
    """A text after its changes.

    `places` says, for the index of an edit, at which offset of the new text its change begins; for names that is their
    first place. `broken` is the index of an edit whose new text would run into the code beside it; the text is then of
    no use.
    """

    text: str
    places: dict[int, int]
    broken: int | None


@dataclass(frozen=True, slots=True)
class _Change:
    start: int
    end: int
    new: str
    index: int
    is_name: bool


def assemble(document: Document, splices: Sequence[tuple[Splice, int]], names: Sequence[Naming]) -> Assembly:
    """The document's text after `splices`, each with the index of its edit, and after `names` outside of them.

    Both are sorted, and the cores of the splices do not overlap. The space around cores may: it goes once.
    """
    text = document.text
    starts = [form.start for form in document.reading.forms]
    parts: list[str] = []
    places: dict[int, int] = {}
    broken: int | None = None
    done = length = 0
    for low, high, changes in _regions(_merged(splices, names), starts, len(text)):
        parts.append(text[done:low])
        length += low - done
        expected = _expected(text[low:high], low, changes)
        pieces = _pieces(text, low, high, changes)
        if _words("".join(pieces)) != expected:
            pieces = _kept_apart(pieces, document.ending)
            if broken is None and _words("".join(pieces)) != expected:
                broken = changes[0].index
        for number, piece in enumerate(pieces):
            if number % 2:
                change = changes[number // 2]
                shown = len(piece) - len(piece.lstrip())
                if change.index not in places or (shown < len(piece) and not change.is_name):
                    places[change.index] = length + (shown if shown < len(piece) else 0)
            length += len(piece)
        parts += pieces
        done = high
    parts.append(text[done:])
    return Assembly("".join(parts), places, broken)


def _merged(splices: Sequence[tuple[Splice, int]], names: Sequence[Naming]) -> list[_Change]:
    """All changes in the text's order, none into another: names in replaced text are gone."""
    merged: list[_Change] = []
    at, number = 0, 0
    for splice, index in splices:
        start = max(splice.start, at)
        end = max(splice.end, start)
        while number < len(names) and names[number].start < end:
            name = names[number]
            if name.end <= start:
                merged.append(_Change(name.start, name.end, name.new, name.index, is_name=True))
            number += 1
        merged.append(_Change(start, end, splice.new, index, is_name=False))
        at = end
    merged += [_Change(name.start, name.end, name.new, name.index, is_name=True) for name in names[number:]]
    return merged


def _regions(
    changes: Sequence[_Change], starts: Sequence[int], length: int
) -> Iterator[tuple[int, int, list[_Change]]]:
    """The changes with the part of the text that each can have an effect on: from a form's first token to another's.

    A token depends on nothing before it, and its end on the character behind it; so what is in front of a form that
    begins before a change, and what is behind the beginning of one that begins after it, is as it was.
    """
    group: list[_Change] = []
    low = high = 0
    for change in changes:
        before = bisect_left(starts, change.start) - 1
        after = bisect_right(starts, change.end)
        begin = starts[before] if before >= 0 else 0
        end = starts[after] if after < len(starts) else length
        if group and begin < high:
            group.append(change)
            high = max(high, end)
            continue
        if group:
            yield low, high, group
        group, low, high = [change], begin, end
    if group:
        yield low, high, group


def _pieces(text: str, low: int, high: int, changes: Sequence[_Change]) -> list[str]:
    """The pieces of the changed text: one that stays before each change, the new one, and the rest at the end."""
    pieces: list[str] = []
    at = low
    for change in changes:
        pieces += text[at : change.start], change.new
        at = change.end
    return [*pieces, text[at:high]]


def _kept_apart(pieces: Sequence[str], ending: str) -> list[str]:
    """The pieces with space before those that would run into what is before them; behind a comment, a line end."""
    apart: list[str] = []
    before = ""
    for piece in pieces:
        put = piece
        if piece and _words(before + piece) != _words(before) + _words(piece):
            line = last_line(before)
            is_comment = [token.lastgroup for token in tokens(before)][-1:] == ["comment"]
            put = ending + line[: len(line) - len(line.lstrip())] + piece.lstrip(" \t") if is_comment else " " + piece
        apart.append(put)
        before += put
    return apart


def _words(text: str) -> list[str]:
    """The tokens of `text` but for space."""
    return [_word(token) for token in tokens(text) if token.lastgroup != "space"]


def _word(token: re.Match[str]) -> str:
    """The token's text; what is blank at the end of a comment does not count."""
    return token[0].rstrip() if token.lastgroup == "comment" else token[0]


def _expected(text: str, offset: int, changes: Sequence[_Change]) -> list[str]:
    """The tokens that `text`, which stands at `offset`, has after `changes`: those left, and those that come in."""
    expected: list[str] = []
    number = 0
    for token in tokens(text):
        start, end = token.start() + offset, token.end() + offset
        while number < len(changes) and changes[number].end <= start:
            expected += _words(changes[number].new)
            number += 1
        is_changed = number < len(changes) and changes[number].start < end
        if token.lastgroup != "space" and not is_changed:
            expected.append(_word(token))
    for change in changes[number:]:
        expected += _words(change.new)
    return expected


def rename_within(text: str, names: Sequence[Naming], start: int, end: int) -> str:
    """The part of `text` from `start` to `end`, with the sorted `names` in it renamed."""
    parts: list[str] = []
    at = start
    for name in names[bisect_left(names, start, key=lambda name: name.start) :]:
        if name.end > end:
            break
        parts += text[at : name.start], name.new
        at = name.end
    return "".join([*parts, text[at:end]])
