"""A store that evicts its oldest entities to stay within limits on their number and size."""

from __future__ import annotations

from collections import deque
from typing import cast

from codriver_datalog.entity_store import EntityStore, Record, Schema


class BoundedStore(EntityStore):
    """An entity store that evicts the entities with the lowest lines to limit their number and size. Not thread-safe.

    The newest entity is never evicted. Add entities only with `insert`, which records their sizes.
    """

    def __init__(self, schema: Schema, max_entities: int, max_bytes: int) -> None:
        super().__init__(schema)
        self._max_entities = max(1, max_entities)
        self._max_bytes = max_bytes
        self._sizes: deque[int] = deque()
        self.bytes = 0
        """The total size of all entities."""

    def insert(self, record: Record, size: int) -> tuple[int, ...]:
        """Add an entity of `size` bytes, evict old entities beyond the limits, and return the evicted lines.

        Raises:
            ValueError: the entity's line is not higher than all lines in the store.
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
