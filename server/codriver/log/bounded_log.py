"""The base class for logs that share one sequence of line numbers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from codriver_datalog.bounded_store import BoundedStore

if TYPE_CHECKING:
    from codriver_datalog.entity_store import Schema, Snapshot

logger = logging.getLogger(__name__)

Follower = Callable[[int], None]
"""A function that is called with the line number of each new entry."""


class BoundedLog:
    """Base class for logs that share one sequence of line numbers.

    A log retains a limited number and size of entries. It calls its followers with the line number of each new entry,
    in the thread that added the entry and without holding the lock. Exceptions in followers are logged.
    """

    def __init__(self, schema: Schema, max_entities: int, max_bytes: int) -> None:
        self._store = BoundedStore(schema, max_entities, max_bytes)
        self._lock = threading.Lock()
        self._followers: tuple[Follower, ...] = ()

    @property
    def first_line(self) -> int | None:
        """Return the lowest line number in the log, or None if it is empty."""
        return self._current_store().first_line

    @property
    def last_line(self) -> int | None:
        """Return the highest line number in the log, or None if it is empty."""
        return self._current_store().last_line

    @property
    def entity_count(self) -> int:
        """Return the number of entries."""
        return len(self._current_store())

    @property
    def text_bytes(self) -> int:
        """Return the total size of the entries in bytes."""
        return self._current_store().bytes

    @contextmanager
    def subscribe(self, follower: Follower) -> Iterator[None]:
        """Call `follower` with the line number of each entry that is added while the context is active."""
        with self._lock:
            self._followers = (*self._followers, follower)
        try:
            yield
        finally:
            with self._lock:
                self._followers = tuple([known for known in self._followers if known is not follower])

    def snapshot(self) -> Snapshot:
        """Return an immutable snapshot of the current entries."""
        store = self._current_store()
        with self._lock:
            return store.snapshot()

    def _current_store(self) -> BoundedStore:
        """Return the store, to which a subclass that defers additions first adds its pending entries."""
        return self._store

    def _notify(self, line: int) -> None:
        for follower in self._followers:
            try:
                follower(line)
            except Exception:  # the entry has been added, so only log the exception
                logger.exception("a query that follows the log failed at log line %d", line)
