"""The app log, which contains the newest events of applications.

Applications can send thousands of events, which would evict all evaluations from the output log. Therefore, events have
a separate store, the Datalog source `$app`. Both stores get their line numbers from the same counter, so a lower line
number means an earlier entry. Events are not added to the history or to transcripts.
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
"""Matches the part of a path in front of an installed package."""
WHO: Final = APP_SCHEMA.attributes.index("who")


@dataclass(frozen=True, slots=True)
class AppEvent:
    """An event of an application. Unknown fields are None."""

    text: str
    """Description of the event in one line."""
    timestamp: int
    """Time of the event in epoch milliseconds."""
    op: str | None = None
    """Type of the event, such as `fx` or `error`."""
    name: str | None = None
    """Subject of the event."""
    frame: str | None = None
    cause: int | str | None = None
    """Id of the dispatch that caused the event, as the seam reports it."""
    ms: float | None = None
    """Duration in milliseconds."""
    app_id: int | None = None
    """Number of the event in its application."""
    who: str | None = None
    """Caller whose evaluation caused the event."""
    evaluation: str | None = None
    session_key: str | None = None

    def to_record(self, line: int) -> Record:
        """Return the event as a record in the order of `APP_SCHEMA`."""
        output_values = (
            line,
            APP_EVENTS.category,
            self.text,
            self.timestamp,
            self.who,
            None,
            self.session_key,
            self.evaluation,
        )
        # Events do not have `ns`, `run`, `notebook`, `file`, `kind` or `data`.
        return (
            *output_values,
            None,
            None,
            None,
            None,
            None,
            self.op,
            self.name,
            self.frame,
            self.cause,
            self.ms,
            self.app_id,
        )


def shorten_paths(text: str, workspace: object) -> str:
    """Make paths in a text relative to the workspace, or for installed libraries, to their `site-packages`."""
    return LIBRARY.sub("", text.replace(f"{workspace}/", ""))


class AppLog(BoundedLog):
    """The newest events of applications, up to a maximum number and total size. Thread-safe.

    `next_line` returns a context with the next line number, which stays locked until the event is stored. `redact`
    removes secrets from a string. `follower` is called with the line number of each new event.
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
        """Number of events that were received too fast to be recorded: see `drop`."""
        self.last_evicted_line = 0
        """The highest line number that was evicted."""

    def record(self, event: AppEvent) -> int:
        """Redact and shorten an event, store it, and return its line number. Evicts the oldest events if necessary."""
        event = self._clean(event)
        size = RECORD_BYTES + sum([len(text) for text in (event.text, event.op, event.name, event.frame) if text])
        with self._lock, self._next_line() as line:
            retracted = self._store.insert(event.to_record(line), size)
            self.last_evicted_line = retracted[-1] if retracted else self.last_evicted_line
            self.stored += 1
        self._notify(line)
        return line

    def drop(self, count: int) -> None:
        """Count events that were received but not recorded."""
        with self._lock:
            self.dropped += count

    def count(self, *, since: int | None = None, who: str | None = None) -> int:
        """Return the number of stored events after the line `since`, or caused by `who`, if given."""
        return len(self._filtered(since, who))

    def entries(
        self, *, since: int | None = None, until: int | None = None, who: str | None = None, limit: int
    ) -> list[dict[str, Value]]:
        """Return the newest `limit` events that match all filters, oldest first, as JSON objects.

        `since` and `until` are line numbers. `since` is exclusive and `until` inclusive.
        """
        records = self._filtered(since, who)
        if until is not None:
            records = [record for record in records if cast("int", record[0]) <= until]
        return list(map(APP_SCHEMA.document, records[-limit:]))

    def usage(self) -> dict[str, object]:
        """Return the line range and counts for `server_health`, or an empty dict if there were no events."""
        if not self.stored and not self.dropped:
            return {}
        counts = {"entities": self.entity_count, "bytes": self.text_bytes, "kept": self.stored, "dropped": self.dropped}
        return {"firstLine": self.first_line, "lastLine": self.last_line, **counts}

    def _filtered(self, since: int | None, who: str | None) -> list[Record]:
        snapshot = self.snapshot()
        records = snapshot.records if who is None else snapshot.with_value(WHO, who)
        return [record for record in records if since is None or cast("int", record[0]) > since]

    def _clean(self, event: AppEvent) -> AppEvent:
        """Redact and shorten the strings of an event, each to one line."""

        def clean_name(text: str | None) -> str | None:
            return text and self._clean_text(text, MAX_NAME_CHARACTERS)

        return replace(
            event,
            text=self._clean_text(event.text, MAX_TEXT_CHARACTERS),
            op=clean_name(event.op),
            name=clean_name(event.name),
            frame=clean_name(event.frame),
            cause=clean_name(event.cause) if isinstance(event.cause, str) else event.cause,
            who=clean_name(event.who),
            ms=event.ms if event.ms is None or math.isfinite(event.ms) else None,
        )

    def _clean_text(self, text: str, max_characters: int) -> str:
        return cut_counted(one_line(self._redact(text)), max_characters)
