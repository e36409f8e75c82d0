"""Parts of an evaluation's texts by request: a range, the lines that contain a text, or the difference to another."""

from __future__ import annotations

import difflib
from itertools import zip_longest
from typing import TYPE_CHECKING

from codriver.log.growing_text import PART_CHARACTERS
from codriver.tools.answers.answer_budget import head, json_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codriver.log.transcripts import Part, Text, Transcript

DIFF_LINES = 2000
"""The lines of the longest texts that are compared: a comparison's time can grow with their product."""
DIFF_CHARACTERS = 8 * 2**20
"""The characters of the longest texts that are compared: both are in memory as a whole meanwhile."""
MATCH_BYTES = 45
"""The bytes of a found line beside its text."""
LINE_BYTES = 2000
"""The bytes shown of a found line."""


def excerpt(transcript: Transcript, part: Part, *, start: int, length: int | None, max_bytes: int) -> dict[str, object]:
    """Characters `start` to `start + length` of a part, within `max_bytes`; `next` is the place to go on from.

    Places count from the beginning of the whole text, so they stay valid when the oldest part is dropped.
    """
    # A character has at least one byte.
    piece = transcript.chunk(part, start, max_bytes if length is None else min(length, max_bytes))
    text = head(piece.text, max_bytes).text or piece.text[:1]  # at least one character, as `next` is to lead on
    end = piece.start + len(text)
    fields: dict[str, object] = {"part": part, "text": text, "from": piece.start, "totalCharacters": piece.total}
    if end < piece.total:
        fields["next"] = end
    if piece.dropped:
        fields["droppedCharacters"] = piece.dropped
    return fields


def matching(transcript: Transcript, wanted: str, *, max_bytes: int) -> dict[str, object]:
    """The lines of all parts that contain the text `wanted`, each with its part and its number from 1."""
    found: list[dict[str, object]] = []
    left = max_bytes
    count = 0
    parts: tuple[Part, ...] = ("result", "stdout", "stderr")
    dropped = sum(transcript.text(part).dropped for part in parts)
    for part in parts:
        for number, line in _lines_with(wanted, transcript.text(part).chunks()):
            count += 1
            if left > 0:
                shown = head(line, min(left, LINE_BYTES)).text
                left -= json_bytes(shown) + MATCH_BYTES
                found.append({"part": part, "line": number, "text": shown})
    fields: dict[str, object] = {"matches": found, "count": count}
    if count > len(found):
        fields["notes"] = [f"{count - len(found)} more lines are left out: ask with length for more of them"]
    if dropped:
        fields["droppedCharacters"] = dropped
    return fields


def _lines_with(wanted: str, chunks: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and the beginning of each line that contains the text, however long the lines are."""
    number = 1
    begun = _Line(wanted)
    for chunk in _whole_line_ends(chunks):
        *lines, last = f"{chunk}$".splitlines()  # the mark stands in the unfinished line, also in an empty one
        if not lines:
            begun.add(chunk)
            continue
        begun.add(lines[0])
        if begun.is_found:
            yield number, begun.beginning
        if wanted in chunk:
            for place, line in enumerate(lines[1:], number + 1):
                if wanted in line:
                    yield place, line
        number += len(lines)
        begun = _Line(wanted)
        begun.add(last[:-1])
    if begun.is_found:
        yield number, begun.beginning


def _whole_line_ends(chunks: Iterable[str]) -> Iterator[str]:
    """Yield the text in chunks, with no line end split between two of them."""
    kept = ""
    for chunk in chunks:
        text = kept + chunk
        kept = "\r" if text.endswith("\r") else ""
        yield text[: len(text) - len(kept)]
    yield kept


class _Line:
    """A line that comes in chunks: whether `wanted` is in the line, and its beginning."""

    def __init__(self, wanted: str) -> None:
        self._wanted = wanted
        self._end = ""
        self.is_found = False
        self.beginning = ""

    def add(self, text: str) -> None:
        """Add the next chunk of the line."""
        if len(self.beginning) < LINE_BYTES:
            self.beginning += text[: LINE_BYTES - len(self.beginning)]
        if not self.is_found:
            seen = self._end + text
            self.is_found = self._wanted in seen
            self._end = seen[-len(self._wanted) :]


def difference(transcript: Transcript, other: Transcript, *, max_bytes: int) -> dict[str, object]:
    """Return the difference from the other evaluation to this one, part by part, as a unified diff."""
    lines: list[str] = []
    parts: tuple[Part, ...] = ("result", "stdout", "stderr")
    for part in parts:
        one, another = other.text(part), transcript.text(part)
        if is_same(one, another):
            continue
        before, after = _first_lines(one), _first_lines(another)
        compared = min([DIFF_LINES, *(len(first) for first, is_all in (before, after) if not is_all)])
        names = f"{other.evaluation} {part}", f"{transcript.evaluation} {part}"
        lines += difflib.unified_diff(before[0][:compared], after[0][:compared], *names, lineterm="", n=2)
        if not (before[1] and after[1]):
            lines.append(f"(only the first {compared} lines of {part} were compared)")
    cut = head("\n".join(lines), max_bytes)
    fields: dict[str, object] = {"same": not lines, "diff": cut.text}
    if cut.omitted:
        fields["notes"] = [f"the last {cut.omitted} characters of diff are left out: ask with length for more of them"]
    return fields


def is_same(one: Text, another: Text) -> bool:
    """Return whether two texts are equal, as far as they are held."""
    if one.total <= PART_CHARACTERS and another.total <= PART_CHARACTERS:
        return one.all() == another.all()
    if one.total - one.dropped != another.total - another.dropped:
        return False
    return all(now == then for now, then in zip_longest(one.chunks(), another.chunks()))


def _first_lines(text: Text) -> tuple[list[str], bool]:
    """Return the first lines of the text held, and whether these are all."""
    found = text.read(0, text.dropped + DIFF_CHARACTERS)
    lines = found.text.splitlines()
    if found.start + len(found.text) < found.total:
        return lines[: max(1, min(DIFF_LINES, len(lines) - 1))], False  # the last line may be incomplete
    return lines[:DIFF_LINES], len(lines) <= DIFF_LINES
