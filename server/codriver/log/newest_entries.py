"""The newest log entries within limits: truncates long strings, measures entries, and accepts them in any order."""

from __future__ import annotations

import heapq
import sys
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

from codriver_datalog.entity_store import utf8_bytes

if TYPE_CHECKING:
    from codriver.log.output_log import Entry

MAX_TEXT_BYTES = 64 * 2**10
"""Maximum size of an entry's text in UTF-8. Longer texts are truncated in the middle."""
RETAINED_END_BYTES = MAX_TEXT_BYTES // 2 - 100
"""Number of bytes that are retained at each end of a truncated text, leaving some for the mark between them."""
EMPTY_TEXT_BYTES = sys.getsizeof("")


def truncate_entry(entry: Entry) -> Entry:
    """Return the entry, with the middle of a text of more than 64 KiB replaced by a mark."""
    text = entry.text
    if len(text) * 4 <= MAX_TEXT_BYTES or (len(text) <= MAX_TEXT_BYTES and utf8_bytes(text) <= MAX_TEXT_BYTES):
        return entry
    head = text[:RETAINED_END_BYTES].encode("utf-8", "replace")[:RETAINED_END_BYTES].decode("utf-8", "ignore")
    tail = text[-RETAINED_END_BYTES:].encode("utf-8", "replace")[-RETAINED_END_BYTES:].decode("utf-8", "ignore")
    omitted = len(text) - len(head) - len(tail)
    return entry._replace(text=f"{head}\n... {omitted:,} of {len(text):,} characters are left out here ...\n{tail}")


def entry_bytes(entry: Entry) -> int:
    """Return the number of bytes that the entry's strings take in memory or in the file, whichever is larger."""
    others = (entry.who, entry.namespace, entry.session_key, entry.evaluation, entry.category)
    names = [text for text in others if text]
    if entry.text.isascii() and (joined := "".join(names)).isascii():  # ASCII characters take one byte each in memory
        return _written(entry.text) + len(joined)
    size = max(sys.getsizeof(entry.text) - EMPTY_TEXT_BYTES, _written(entry.text))
    return size + sum([sys.getsizeof(text) - EMPTY_TEXT_BYTES for text in names])


def _written(text: str) -> int:
    return utf8_bytes(encode_basestring(text)) - 2


class NewestEntries:
    """A collection that retains the entries with the highest line numbers within limits, whatever their order.

    Of two entries with the same line, the later one is retained. `last_line` is the highest line seen so far or 0.
    `is_complete` is true as long as no entry was dropped or truncated.
    """

    def __init__(self, max_entities: int, max_bytes: int) -> None:
        self._max_entities = max(1, max_entities)
        self._max_bytes = max_bytes
        self._entries: dict[int, tuple[Entry, int]] = {}
        self._lines: list[int] = []
        self._bytes = 0
        self.last_line = 0
        self.is_complete = True

    def add(self, entry: Entry) -> None:
        """Add an entry, and drop those with the lowest lines if there are too many."""
        stored = truncate_entry(entry)
        self.is_complete &= stored is entry
        self.last_line = max(self.last_line, entry.line)
        size = entry_bytes(stored)
        if entry.line in self._entries:
            self._bytes -= self._entries[entry.line][1]
        else:
            heapq.heappush(self._lines, entry.line)
        self._entries[entry.line] = stored, size
        self._bytes += size
        while len(self._lines) > 1 and (len(self._lines) > self._max_entities or self._bytes > self._max_bytes):
            self._bytes -= self._entries.pop(heapq.heappop(self._lines))[1]
            self.is_complete = False

    def sorted_with_sizes(self) -> list[tuple[Entry, int]]:
        """Return the entries in order of their lines, each with its size in bytes."""
        return [self._entries[line] for line in sorted(self._entries)]
