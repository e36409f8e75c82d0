"""Select parts of an evaluation's text: a range, matching lines, or the difference from another evaluation."""

from __future__ import annotations

import difflib
import re
from functools import partial
from itertools import zip_longest
from time import monotonic
from typing import TYPE_CHECKING

from codriver.errors import format_count, refused
from codriver.log.growing_text import PART_CHARACTERS
from codriver.tools.answers.answer_budget import cut_to_head, json_bytes
from codriver_datalog.errors import InvalidPatternError, OutOfTimeError
from codriver_datalog.regexes import compile_pattern, find_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codriver.log.transcripts import GrowingText, Part, Transcript
    from codriver_datalog.regexes import Pattern

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
MAX_SEARCHED_CHARACTERS = 2**14
"""Maximum number of characters at the start of a line in which a regular expression is searched."""
SEARCH_TIMEOUT_S = 20.0
"""Time limit for searching an evaluation's text for a regular expression, in seconds."""


def text_excerpt(
    transcript: Transcript, part: Part, *, start: int, length: int | None, max_bytes: int
) -> dict[str, object]:
    """Return a range of characters of a text as answer fields, with at most `max_bytes` bytes.

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


def matching_lines(transcript: Transcript, pattern: str, *, max_bytes: int) -> dict[str, object]:
    """Return the lines of an evaluation's values and output that contain `pattern` as a text or regular expression.

    Each line has the name of its part, and its number counted from 1.

    Raises:
        RefusedError: searching for the regular expression takes too much time or memory.
    """
    found: list[dict[str, object]] = []
    left = max_bytes
    count = 0
    parts: tuple[Part, ...] = ("result", "stdout", "stderr")
    compiled = _regular_expression(pattern)
    find_lines = partial(_matching_lines, pattern) if compiled is None else _RegexSearch(compiled).matching_lines
    dropped = sum(transcript.text(part).dropped for part in parts)
    for part in parts:
        for number, line in find_lines(transcript.text(part).chunks()):
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
    """Compile a regular expression, or return None for a text that is none, or contains no special characters."""
    if re.escape(text) == text:
        return None
    try:
        return compile_pattern(text)
    except InvalidPatternError:
        return None


class _RegexSearch:
    """A search for a regular expression in the lines of an evaluation, with a time limit."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._deadline = monotonic() + SEARCH_TIMEOUT_S

    def remaining_s(self) -> float:
        """Return the remaining time in seconds, as `Clock` requires."""
        remaining = self._deadline - monotonic()
        if remaining <= 0:
            raise OutOfTimeError
        return remaining

    def matching_lines(self, chunks: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Yield the number and text of each line that contains the pattern or its text. Long lines are truncated."""
        number, line = 1, ""
        for chunk in _whole_line_ends(chunks):
            first, *others = f"{chunk}$".splitlines()  # the marker makes an empty unfinished line appear as well
            lines = [line + first, *others]
            for text in lines[:-1]:
                if self._matches(text):
                    yield number, text
                number += 1
            line = lines[-1][:-1][:MAX_SEARCHED_CHARACTERS]
        if line and self._matches(line):
            yield number, line

    def _matches(self, line: str) -> bool:
        if self._pattern.text in line:
            return True
        try:
            return find_first(self, self._pattern, line[:MAX_SEARCHED_CHARACTERS]) is not None
        except (OutOfTimeError, ValueError):
            raise refused(
                "bad-arguments",
                f"searching for the regular expression {self._pattern.text!r} takes too much time or memory",
                hint="Pass a simpler regular expression, or plain text that the lines contain.",
            ) from None


def _matching_lines(pattern: str, chunks: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and the beginning of each line that contains a text, without storing long lines."""
    number = 1
    started_line = _Line(pattern)
    for chunk in _whole_line_ends(chunks):
        *lines, last = f"{chunk}$".splitlines()  # the marker makes an empty unfinished line appear as well
        if not lines:
            started_line.add(chunk)
            continue
        started_line.add(lines[0])
        if started_line.is_found:
            yield number, started_line.safe_beginning
        if pattern in chunk:
            for number_of_line, line in enumerate(lines[1:], number + 1):
                if pattern in line:
                    yield number_of_line, line
        number += len(lines)
        started_line = _Line(pattern)
        started_line.add(last[:-1])
    if started_line.is_found:
        yield number, started_line.safe_beginning


def _whole_line_ends(chunks: Iterable[str]) -> Iterator[str]:
    """Yield the chunks of a text so that no line end is split between two chunks."""
    pending = ""
    for chunk in chunks:
        text = pending + chunk
        pending = "\r" if text.endswith("\r") else ""
        yield text[: len(text) - len(pending)]
    yield pending


class _Line:
    """A line that is read in chunks. Records its beginning and whether it contains `pattern`."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._end = ""
        self.is_found = False
        self.safe_beginning = ""

    def add(self, text: str) -> None:
        """Add the next chunk of the line."""
        if len(self.safe_beginning) < MAX_LINE_BYTES:
            self.safe_beginning += text[: MAX_LINE_BYTES - len(self.safe_beginning)]
        if not self.is_found:
            seen = self._end + text
            self.is_found = self._pattern in seen
            self._end = seen[-len(self._pattern) :]


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
        fields["notes"] = [f"the last {cut.omitted} characters of diff are omitted: pass length to get more of them"]
    return fields


def is_same_text(first: GrowingText, another: GrowingText) -> bool:
    """Return whether the stored parts of two texts are equal."""
    if first.total <= PART_CHARACTERS and another.total <= PART_CHARACTERS:
        return first.read_all() == another.read_all()
    if first.total - first.dropped != another.total - another.dropped:
        return False
    return all(now == then for now, then in zip_longest(first.chunks(), another.chunks()))


def _first_lines(text: GrowingText) -> tuple[list[str], bool]:
    """Return the first stored lines of a text, and whether the text has no others."""
    found = text.read(0, text.dropped + MAX_DIFF_CHARACTERS)
    lines = found.text.splitlines()
    if found.start + len(found.text) < found.total:
        return lines[: max(1, min(MAX_DIFF_LINES, len(lines) - 1))], False  # the last line may be incomplete
    return lines[:MAX_DIFF_LINES], len(lines) <= MAX_DIFF_LINES
