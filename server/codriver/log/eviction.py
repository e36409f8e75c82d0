"""Eviction: the log and the history hold the newest entities within a number and a length in bytes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, cast

from codriver.datalog.entity_store import EntityStore

if TYPE_CHECKING:
    from codriver.datalog.entity_store import Record, Schema


class BoundedStore(EntityStore):
    """A store that evicts the lowest lines, for the life of its log. The newest entity stays. One caller at a time.

    Entities come by `insert` alone, which knows their sizes.
    """

    def __init__(self, schema: Schema, max_entities: int, max_bytes: int) -> None:
        super().__init__(schema)
        self._max_entities = max(1, max_entities)
        self._max_bytes = max_bytes
        self._sizes: deque[int] = deque()
        self.bytes = 0
        """The sizes of all entities held."""

    def insert(self, record: Record, size: int) -> tuple[int, ...]:
        """Add an entity of so many bytes, whose line is above all before; the lines that are evicted for it.

        Raises:
            ValueError: its line is not above all before.
        """
        self.add(record)
        sizes = self._sizes
        sizes.append(size)
        self.bytes += size
        evicted: list[int] = []
        while (self.bytes > self._max_bytes or len(sizes) > self._max_entities) and len(sizes) > 1:
            line = cast("int", self.first_line)
            self.remove(line)
            self.bytes -= sizes.popleft()
            evicted.append(line)
        return tuple(evicted)
