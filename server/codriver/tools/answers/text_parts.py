"""Select parts of an evaluation's text: a range, matching lines, or the difference from another evaluation."""

from __future__ import annotations

import difflib
from itertools import zip_longest
from time import monotonic
from typing import TYPE_CHECKING

from codriver.errors import format_count, refused
from codriver.log.growing_text import PART_CHARACTERS
from codriver.tools.answers.answer_budget import cut_to_head, json_bytes
from codriver_datalog.errors import InvalidPatternError, OutOfTimeError
from codriver_datalog.regexes import compile_pattern, find_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codriver.log.evaluation_transcripts import GrowingText, Part, Transcript
    from codriver_datalog.regexes import Pattern

OUTPUT_PARTS: tuple[Part, ...] = ("stdout", "stderr")
"""The output streams of an evaluation."""
ALL_PARTS: tuple[Part, ...] = ("result", *OUTPUT_PARTS)
"""The parts of an evaluation's text."""
MAX_DIFF_LINES = 2000
"""Maximum number of lines that are compared.

The time for a comparison can grow with the product of both texts' line counts.
"""
MAX_DIFF_CHARACTERS = 8 * 2**20
"""Maximum number of characters in two texts that are compared, because both are loaded into memory."""
MATCH_OVERHEAD_BYTES = 45
"""Number of bytes counted for a matching line in addition to its text."""
MAX_LINE_BYTES = 2000
"""Maximum number of bytes in a matching line."""
SPECIAL_CHARACTERS = frozenset("\\^$.|?*+()[]{}")
"""Characters without which a string matches only itself as a regular expression."""
MAX_SEARCHED_CHARACTERS = 2**14
"""Maximum number of characters at the start of a line in which a regular expression is searched."""
SEARCH_TIMEOUT_S = 20.0
"""Time limit for searching an evaluation's text for a regular expression, in seconds."""


def text_excerpt(
    transcript: Transcript, part: Part, *, start: int, length: int | None, max_bytes: int
) -> dict[str, object]:
    """Return a range of characters of a string as fields of an answer, with at most `max_bytes` bytes.

    `next` is the position at which to continue reading. Positions count from the beginning of the complete text, so
    they remain valid when its oldest part is dropped.
    """
    # A character has at least one byte.
    raw = transcript.chunk(part, start, max_bytes if length is None else min(length, max_bytes))
    text = cut_to_head(raw.text, max_bytes).text or raw.text[:1]  # at least one character, so that `next` advances
    end = raw.start + len(text)
    fields: dict[str, object] = {"part": part, "text": text, "from": raw.start, "totalCharacters": raw.total}
    if end < raw.total:
        fields["next"] = end
    if raw.dropped:
        fields["droppedCharacters"] = raw.dropped
    return fields


def matching_output(transcript: Transcript, pattern: str, *, max_bytes: int) -> tuple[dict[str, object], list[str]]:
    """Return the lines of an evaluation's output that contain `pattern`, as fields of an answer, and notes about them.

    See `matching_lines`.
    """
    found = matching_lines(transcript, pattern, max_bytes=max_bytes, parts=OUTPUT_PARTS)
    rows = found["matches"]
    assert isinstance(rows, list)  # noqa: S101  # as it was created
    fields: dict[str, object] = {}
    for part in OUTPUT_PARTS:
        if lines := [str(row["text"]) for row in rows if row["part"] == part]:
            fields[part] = "".join(f"{line}\n" for line in lines)
    notes = [] if rows else ["no line of the output matches grep"]
    if (left := int(str(found["count"])) - len(rows)) > 0:
        left_out = format_count(left, "more line of the output matches", "more lines of the output match")
        notes = [f"{left_out}: get_evaluation with grep and length returns them"]
    return fields, notes


def matching_lines(
    transcript: Transcript, pattern: str, *, max_bytes: int, parts: Sequence[Part] = ALL_PARTS
) -> dict[str, object]:
    """Return the lines of an evaluation's values and output that contain `pattern` as a string or regular expression.

    Each line is returned with the name of its part, and with its number counted from 1.

    Raises:
        RefusedError: searching for the regular expression takes too much time or memory.
    """
    found: list[dict[str, object]] = []
    left = max_bytes
    count = 0
    compiled = _regular_expression(pattern)
    search = None if compiled is None else _RegexSearch(compiled)
    dropped = sum(transcript.text(part).dropped for part in parts)
    for part in parts:
        for number, line in _matching_lines(pattern, search, transcript.text(part).chunks()):
            count += 1
            if left > 0:
                line_start = cut_to_head(line, min(left, MAX_LINE_BYTES)).text
                left -= json_bytes(line_start) + MATCH_OVERHEAD_BYTES
                found.append({"part": part, "line": number, "text": line_start})
    fields: dict[str, object] = {"matches": found, "count": count}
    if count > len(found):
        left_out = format_count(count - len(found), "more line is", "more lines are")
        fields["notes"] = [f"{left_out} omitted: pass length to get more of them"]
    if dropped:
        fields["droppedCharacters"] = dropped
    return fields


def _regular_expression(text: str) -> Pattern | None:
    """Compile a regular expression, or return None if the text is invalid as one or has no special characters."""
    if SPECIAL_CHARACTERS.isdisjoint(text):
        return None
    try:
        return compile_pattern(text)
    except InvalidPatternError:
        return None


class _RegexSearch:
    """A search for a regular expression in many lines, with a time limit for all of them."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._deadline = monotonic() + SEARCH_TIMEOUT_S

    def remaining_s(self) -> float:
        """Return the remaining time in seconds, as `Clock` requires."""
        remaining = self._deadline - monotonic()
        if remaining <= 0:
            raise OutOfTimeError
        return remaining

    def matches(self, line: str) -> bool:
        """Return whether the start of a line contains a match."""
        try:
            return find_first(self, self._pattern, line[:MAX_SEARCHED_CHARACTERS]) is not None
        except (OutOfTimeError, ValueError):
            raise refused(
                "bad-arguments",
                f"searching for the regular expression {self._pattern.text!r} takes too much time or memory",
                hint="Pass a simpler regular expression, or plain text that the lines contain.",
            ) from None


def _matching_lines(text: str, search: _RegexSearch | None, chunks: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and the beginning of each line with the string or a match, without storing long lines."""
    number = 1
    started_line = _Line(text, search)
    for chunk in _whole_line_ends(chunks):
        *lines, last = f"{chunk}$".splitlines()  # the marker makes an empty unfinished line appear as well
        if not lines:
            started_line.add(chunk)
            continue
        started_line.add(lines[0])
        if started_line.is_match():
            yield number, started_line.beginning
        if search is not None or text in chunk:
            for number_of_line, line in enumerate(lines[1:], number + 1):
                if text in line or (search is not None and search.matches(line)):
                    yield number_of_line, line
        number += len(lines)
        started_line = _Line(text, search)
        started_line.add(last[:-1])
    if started_line.beginning and started_line.is_match():
        yield number, started_line.beginning


def _whole_line_ends(chunks: Iterable[str]) -> Iterator[str]:
    """Yield the chunks of a string so that no line end is split between two chunks."""
    pending = ""
    for chunk in chunks:
        text = pending + chunk
        pending = "\r" if text.endswith("\r") else ""
        yield text[: len(text) - len(pending)]
    yield pending


class _Line:
    """A line that is read in chunks. Records its beginning and whether it contains `text`."""

    def __init__(self, text: str, search: _RegexSearch | None) -> None:
        self._text = text
        self._search = search
        self._end = ""
        self._contains_text = False
        self.beginning = ""

    def add(self, chunk: str) -> None:
        """Add the next chunk of the line."""
        if len(self.beginning) < MAX_SEARCHED_CHARACTERS:
            self.beginning += chunk[: MAX_SEARCHED_CHARACTERS - len(self.beginning)]
        if not self._contains_text:
            seen = self._end + chunk
            self._contains_text = self._text in seen
            self._end = seen[-len(self._text) :]

    def is_match(self) -> bool:
        """Return whether the line contains the text, or the beginning of the line a match of the regular expression."""
        return self._contains_text or (self._search is not None and self._search.matches(self.beginning))


def text_difference(transcript: Transcript, other: Transcript, *, max_bytes: int) -> dict[str, object]:
    """Return a unified diff from another evaluation's values and output to those of this one."""
    lines: list[str] = []
    parts: tuple[Part, ...] = ("result", "stdout", "stderr")
    for part in parts:
        expected, another = other.text(part), transcript.text(part)
        if is_same_text(expected, another):
            continue
        before, after = _first_lines(expected), _first_lines(another)
        compared = min([MAX_DIFF_LINES, *(len(first) for first, is_all in (before, after) if not is_all)])
        names = f"{other.evaluation} {part}", f"{transcript.evaluation} {part}"
        lines += difflib.unified_diff(before[0][:compared], after[0][:compared], *names, lineterm="", n=2)
        if not (before[1] and after[1]):
            lines.append(f"(only the first {compared} lines of {part} were compared)")
    cut = cut_to_head("\n".join(lines), max_bytes)
    fields: dict[str, object] = {"same": not lines, "diff": cut.text}
    if cut.omitted:
        fields["notes"] = [
            f"the last {cut.omitted} characters of the diff are omitted. Pass length to get more of them"
        ]
    return fields


def is_same_text(first: GrowingText, another: GrowingText) -> bool:
    """Return whether the stored parts of two texts are equal."""
    if first.total <= PART_CHARACTERS and another.total <= PART_CHARACTERS:
        return first.read_all() == another.read_all()
    if first.total - first.dropped != another.total - another.dropped:
        return False
    return all(now == then for now, then in zip_longest(first.chunks(), another.chunks()))


def _first_lines(text: GrowingText) -> tuple[list[str], bool]:
    """Return the first stored lines of a string, and whether the text has no others."""
    found = text.read(0, text.dropped + MAX_DIFF_CHARACTERS)
    lines = found.text.splitlines()
    if found.start + len(found.text) < found.total:
        return lines[: max(1, min(MAX_DIFF_LINES, len(lines) - 1))], False  # the last line may be incomplete
    return lines[:MAX_DIFF_LINES], len(lines) <= MAX_DIFF_LINES
