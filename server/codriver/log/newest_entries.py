"""Select the newest log entries, limited by number and size."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from codriver.log.entry_sizes import entry_bytes, truncate_entry

if TYPE_CHECKING:
    from codriver.log.log_entries import Entry


class NewestEntries:
    """Collects log entries in any order, and retains those with the highest line numbers within limits.

    If several entries have the same line number, the last one added is retained. `last_line` is the highest line number
    added so far, or 0. `is_complete` is true unless an entry was dropped or truncated.
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
        """Add an entry. If the limits are exceeded, drop the entries with the lowest line numbers."""
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
        """Return the entries in order of their line numbers, each with its size in bytes."""
        return [self._entries[line] for line in sorted(self._entries)]
