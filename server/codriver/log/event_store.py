"""The base class for features' event logs, which take their line numbers from the output log."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, cast

from codriver.errors import truncate_with_length
from codriver.log.bounded_log import BoundedLog, Follower
from codriver.log.control_characters import escape_to_one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from codriver_datalog.entity_store import Record, Schema, Value

DEFAULT_MAX_EVENTS: Final = 2000
"""Default maximum number of retained events."""
DEFAULT_MAX_BYTES: Final = 4 * 2**20
"""Default maximum total size of retained events."""
MAX_TEXT_CHARACTERS: Final = 4000
"""Maximum length of an event's text. Programs that send events truncate texts to half this length."""
EVENT_OVERHEAD_BYTES: Final = 400
"""Approximate size of an event in memory without its strings."""


class EventStore(BoundedLog):
    """Stores the newest events of a feature, up to a maximum number and total size. Thread-safe.

    `next_line` returns a context manager that yields the next line number and holds the output log's lock until the
    event is stored. `redact` removes secrets from a string. `follower` is called with the line number of each new
    event.
    """

    schema: ClassVar[Schema]
    """The attributes of the events. Each subclass has its own."""

    def __init__(
        self,
        next_line: Callable[[], AbstractContextManager[int]],
        *,
        max_events: int = DEFAULT_MAX_EVENTS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        redact: Callable[[str], str] = str,
        follower: Follower | None = None,
    ) -> None:
        super().__init__(self.schema, max_events, max_bytes)
        self._followers = (follower,) if follower else ()
        self._next_line = next_line
        self._redact = redact
        self.stored = 0
        """Number of events recorded since the start."""
        self.last_evicted_line = 0
        """The highest line number that was evicted."""

    def redact_and_shorten(self, text: str, max_characters: int = MAX_TEXT_CHARACTERS) -> str:
        """Redact secrets, escape line endings, and truncate the text to `max_characters`."""
        return truncate_with_length(escape_to_one_line(self._redact(text)), max_characters)

    def insert(self, record_at: Callable[[int], Record], strings: Iterable[str | None]) -> int:
        """Store an event, evict the oldest events if necessary, and return the line number of the new event.

        `record_at` creates the event's record from its line number. `strings` are the record's long strings, from which
        its size is estimated.
        """
        size = EVENT_OVERHEAD_BYTES + sum([len(text) for text in strings if text])
        with self._lock, self._next_line() as line:
            retracted = self._store.insert(record_at(line), size)
            self.last_evicted_line = retracted[-1] if retracted else self.last_evicted_line
            self.stored += 1
        self._notify(line)
        return line

    def count(self, *, since: int | None = None, who: str | None = None) -> int:
        """Return the number of stored events.

        `since` limits the count to events after that line, and `who` to events from that caller.
        """
        return len(self._matching_records(since, who))

    def entries(
        self, *, since: int | None = None, until: int | None = None, who: str | None = None, limit: int
    ) -> list[dict[str, Value]]:
        """Return the newest `limit` events that match all filters, oldest first, as JSON objects.

        `since` and `until` are line numbers. `since` is exclusive, and `until` is inclusive.
        """
        records = self._matching_records(since, who)
        if until is not None:
            records = [record for record in records if cast("int", record[0]) <= until]
        return list(map(self.schema.document, records[-limit:]))

    def usage(self) -> dict[str, object]:
        """Return the line range and the counts for `server_health`, or {} if no event was ever stored."""
        if not self.stored:
            return {}
        counts = {"entities": self.entity_count, "bytes": self.text_bytes, "kept": self.stored}
        return {"firstLine": self.first_line, "lastLine": self.last_line, **counts}

    def _matching_records(self, since: int | None, who: str | None) -> list[Record]:
        snapshot = self.snapshot()
        records = snapshot.records if who is None else snapshot.with_value(self.schema.attributes.index("who"), who)
        return [record for record in records if since is None or cast("int", record[0]) > since]
