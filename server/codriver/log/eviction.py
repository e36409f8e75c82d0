"""Eviction: logs and the history hold the newest entities within a number and a length in bytes."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from codriver.datalog.entity_store import LONG_CHARACTERS, EntityStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.datalog.entity_store import Record, Schema, Snapshot

L = TypeVar("L")


def utf8_bytes(text: str) -> int:
    """The length of the text in UTF-8, by a shortcut for the common case."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


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
            dropped = sizes.popleft()
            self.bytes -= dropped
            evicted.append(self.remove_first(is_long=dropped >= LONG_CHARACTERS))
        return tuple(evicted)


class BoundedLog(Generic[L]):
    """The common part of the output log and the app log: a bounded store, its lock, and listeners to what comes."""

    def __init__(self, schema: Schema, max_entities: int, max_bytes: int, listener: L | None) -> None:
        self._store = BoundedStore(schema, max_entities, max_bytes)
        self._lock = threading.Lock()
        self._listeners: tuple[L, ...] = (listener,) if listener else ()

    @property
    def first_line(self) -> int | None:
        """The lowest line held."""
        return self._store.first_line

    @property
    def last_line(self) -> int | None:
        """The highest line held."""
        return self._store.last_line

    @property
    def entity_count(self) -> int:
        """The number of entities held."""
        return len(self._store)

    @property
    def text_bytes(self) -> int:
        """The size of the entities held, in bytes."""
        return self._store.bytes

    @contextmanager
    def listening(self, listener: L) -> Iterator[None]:
        """Give `listener` all that comes too, for the length of the context."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners = tuple([known for known in self._listeners if known is not listener])

    def snapshot(self) -> Snapshot:
        """The entities as they are now."""
        with self._lock:
            return self._store.snapshot()
