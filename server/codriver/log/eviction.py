"""Eviction: logs and the history hold the newest entities within a number and a length in bytes."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from codriver.datalog.entity_store import EntityStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.datalog.entity_store import Record, Schema, Snapshot

Follower = Callable[[int], None]
"""Given the line of an entity that came."""

logger = logging.getLogger(__name__)


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
            line = cast("int", self.first_line)
            self.remove(line)
            self.bytes -= sizes.popleft()
            evicted.append(line)
        return tuple(evicted)


class BoundedLog:
    """The common part of the output log and the app log: a bounded store, its lock, and who follows what comes.

    Followers are called in the thread that brought the entity, with no lock held. When one raises, that is logged and
    the entity stays.
    """

    def __init__(self, schema: Schema, max_entities: int, max_bytes: int) -> None:
        self._store = BoundedStore(schema, max_entities, max_bytes)
        self._lock = threading.Lock()
        self._followers: tuple[Follower, ...] = ()

    @property
    def first_line(self) -> int | None:
        """The lowest line held."""
        return self._current_store().first_line

    @property
    def last_line(self) -> int | None:
        """The highest line held."""
        return self._current_store().last_line

    @property
    def entity_count(self) -> int:
        """The number of entities held."""
        return len(self._current_store())

    @property
    def text_bytes(self) -> int:
        """The size of the entities held, in bytes."""
        return self._current_store().bytes

    @contextmanager
    def followed_by(self, follower: Follower) -> Iterator[None]:
        """Tell `follower` of all that comes, for the length of the context."""
        with self._lock:
            self._followers = (*self._followers, follower)
        try:
            yield
        finally:
            with self._lock:
                self._followers = tuple([known for known in self._followers if known is not follower])

    def snapshot(self) -> Snapshot:
        """The entities as they are now."""
        store = self._current_store()
        with self._lock:
            return store.snapshot()

    def _current_store(self) -> BoundedStore:
        """The store, with all in it that came."""
        return self._store

    def _tell(self, line: int) -> None:
        for follower in self._followers:
            try:
                follower(line)
            except Exception:  # whatever it raises is its own trouble, and the entity is there
                logger.exception("a follower of the log failed at line %d", line)
