"""The app log: the newest events of applications, next to the output log.

Applications send events by the thousand, which would evict all evaluations from the output log. So they have a store of
their own, the Datalog source `$app`, which shares only the line numbers: across both stores, a lower line number means
an earlier entry. Neither the history nor transcripts have events.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from codriver.errors import cut_counted
from codriver.features.applications.event_log import APP_EVENTS
from codriver.log.control_characters import one_line
from codriver.log.output_log import SCHEMA, BoundedLog, Follower
from codriver.log.query_sources import QuerySource

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from codriver_datalog.entity_store import Record, Value

APP_SCHEMA: Final = replace(
    SCHEMA,
    attributes=(*SCHEMA.attributes, "op", "name", "frame", "cause", "ms", "app-id"),
    indexed=SCHEMA.indexed | {"op", "name", "frame", "cause"},
    only_in=(APP_EVENTS.source, len(SCHEMA.attributes)),
)
"""The attributes of an application's event."""
APP_SOURCE: Final = QuerySource(APP_EVENTS.source, APP_SCHEMA, log=APP_EVENTS)
"""The app log as a source of queries."""
MAX_EVENTS: Final = 2000
"""Maximum number of retained events."""
MAX_BYTES: Final = 4 * 2**20
"""Maximum total size of retained events."""
MAX_TEXT_CHARACTERS: Final = 4000
"""Maximum length of an event's text, twice the length of the longest that a seam sends."""
MAX_NAME_CHARACTERS: Final = 300
"""Maximum length of an event's other strings."""
RECORD_BYTES: Final = 400
"""Approximate size of an event without its strings."""
LIBRARY: Final = re.compile(r"(?<![^\s=])/\S*/(?:site|dist)-packages/")
"""Matches the directories in a library's path up to its package."""
WHO: Final = APP_SCHEMA.attributes.index("who")


@dataclass(frozen=True, slots=True)
class AppEvent:
    """An event of an application. `timestamp` is in epoch milliseconds; unknown fields are None.

    `text` describes the event in one line, `op` is its type and `name` its subject. `cause` is the dispatch that led to
    it and `app_id` its number in the application, both as the seam reports them. `who` and `evaluation` identify the
    caller if the event was caused through Codriver.
    """

    text: str
    timestamp: int
    op: str | None = None
    name: str | None = None
    frame: str | None = None
    cause: int | str | None = None
    ms: float | None = None
    app_id: int | None = None
    who: str | None = None
    evaluation: str | None = None
    session_key: str | None = None

    def to_record(self, line: int) -> Record:
        """Return the event as a record in the order of `APP_SCHEMA`."""
        known = (
            line,
            APP_EVENTS.category,
            self.text,
            self.timestamp,
            self.who,
            None,
            self.session_key,
            self.evaluation,
        )
        # Events have no `ns`, `run`, `notebook`, `file`, `kind` and `data`.
        return (*known, None, None, None, None, None, self.op, self.name, self.frame, self.cause, self.ms, self.app_id)


def near(text: str, workspace: object) -> str:
    """Shorten the paths in a line: relative within the workspace, and starting at the package for libraries."""
    return LIBRARY.sub("", text.replace(f"{workspace}/", ""))


class AppLog(BoundedLog):
    """The newest application events of one server run, within limits of number and size. Thread-safe.

    `next_line` provides a line number from the output log's counter, which stays locked until the event is stored.
    `redact` is applied to all strings.
    """

    def __init__(
        self,
        next_line: Callable[[], AbstractContextManager[int]],
        *,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        redact: Callable[[str], str] = str,
        follower: Follower | None = None,
    ) -> None:
        super().__init__(APP_SCHEMA, max_events, max_bytes)
        self._followers = (follower,) if follower else ()
        self._next_line = next_line
        self._redact = redact
        self.stored = 0
        """Number of events recorded since the start."""
        self.dropped = 0
        """Number of events that arrived too fast to be recorded: see `drop`."""
        self.last_evicted_line = 0
        """The highest line number that was evicted."""

    def record(self, event: AppEvent) -> int:
        """Add an event and return its line number.

        Secrets and line endings are removed, and the oldest events are evicted.
        """
        event = self._clean(event)
        size = RECORD_BYTES + sum([len(text) for text in (event.text, event.op, event.name, event.frame) if text])
        with self._lock, self._next_line() as line:
            retracted = self._store.insert(event.to_record(line), size)
            self.last_evicted_line = retracted[-1] if retracted else self.last_evicted_line
            self.stored += 1
        self._notify(line)
        return line

    def drop(self, count: int) -> None:
        """Count events that arrived but were not recorded."""
        with self._lock:
            self.dropped += count

    def count(self, *, since: int | None = None, who: str | None = None) -> int:
        """Return the number of retained events, optionally after a line or of one caller."""
        return len(self._found(since, who))

    def entries(
        self, *, since: int | None = None, until: int | None = None, who: str | None = None, limit: int
    ) -> list[dict[str, Value]]:
        """Return the newest events that pass all given filters, in order of their lines, as JSON objects.

        `since` is exclusive and `until` inclusive.
        """
        found = self._found(since, who)
        if until is not None:
            found = [record for record in found if cast("int", record[0]) <= until]
        return list(map(APP_SCHEMA.document, found[-limit:]))

    def usage(self) -> dict[str, object]:
        """Return the range of lines and the counts for `server_health`, or {} if there were no events."""
        if not self.stored and not self.dropped:
            return {}
        counts = {"entities": self.entity_count, "bytes": self.text_bytes, "kept": self.stored, "dropped": self.dropped}
        return {"firstLine": self.first_line, "lastLine": self.last_line, **counts}

    def _found(self, since: int | None, who: str | None) -> list[Record]:
        snapshot = self.snapshot()
        records = snapshot.records if who is None else snapshot.with_value(WHO, who)
        return [record for record in records if since is None or cast("int", record[0]) > since]

    def _clean(self, event: AppEvent) -> AppEvent:
        """Redact and shorten the strings of an event, each to one line."""

        def name(text: str | None) -> str | None:
            return text and self._text(text, MAX_NAME_CHARACTERS)

        return replace(
            event,
            text=self._text(event.text, MAX_TEXT_CHARACTERS),
            op=name(event.op),
            name=name(event.name),
            frame=name(event.frame),
            cause=name(event.cause) if isinstance(event.cause, str) else event.cause,
            who=name(event.who),
            ms=event.ms if event.ms is None or math.isfinite(event.ms) else None,
        )

    def _text(self, text: str, most: int) -> str:
        return cut_counted(one_line(self._redact(text)), most)
