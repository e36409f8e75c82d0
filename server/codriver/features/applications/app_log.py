"""The app log, which stores the newest events of applications.

Applications can send thousands of events, which would evict all evaluations from the output log. Therefore, events have
a separate store, the Datalog source `$app`. Both stores get their line numbers from the same counter, so a lower line
number means an earlier entry. Events are not added to the history or to transcripts.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from codriver.features.applications.event_log import APP_EVENTS
from codriver.log.event_store import EventStore
from codriver.log.log_entries import ENTRY_SCHEMA
from codriver.log.query_sources import QuerySource

if TYPE_CHECKING:
    from codriver_datalog.entity_store import Record

APP_SCHEMA: Final = replace(
    ENTRY_SCHEMA,
    attributes=(*ENTRY_SCHEMA.attributes, "op", "name", "frame", "cause", "ms", "app-id"),
    indexed=ENTRY_SCHEMA.indexed | {"op", "name", "frame", "cause"},
    only_in=(APP_EVENTS.source, len(ENTRY_SCHEMA.attributes)),
)
"""The attributes of an application event."""
APP_SOURCE: Final = QuerySource(APP_EVENTS.source, APP_SCHEMA, log=APP_EVENTS)
"""The app log as a source for queries."""
MAX_NAME_CHARACTERS: Final = 300
"""Maximum length of an event's strings other than its text."""
PACKAGE_PATH_PREFIX: Final = re.compile(r"(?<![^\s=])/\S*/(?:site|dist)-packages/")
"""Matches the part of a path before an installed package."""


@dataclass(frozen=True, slots=True)
class AppEvent:
    """An application event. Unknown fields are None."""

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
    """Id of the dispatch that caused the event, as reported by the seam."""
    ms: float | None = None
    """Duration in milliseconds."""
    app_id: int | None = None
    """Number of the event within its application."""
    who: str | None = None
    """Caller whose evaluation caused the event."""
    evaluation: str | None = None
    session_key: str | None = None

    def to_record(self, line: int) -> Record:
        """Convert the event to a record with the attributes of `APP_SCHEMA`."""
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
    """Make the paths in a string relative to the workspace, or to `site-packages` for installed libraries."""
    return PACKAGE_PATH_PREFIX.sub("", text.replace(f"{workspace}/", ""))


class AppLog(EventStore):
    """Stores the latest application events."""

    schema = APP_SCHEMA

    dropped = 0
    """Number of events that were received too fast to be recorded. See `count_dropped`."""

    def record(self, event: AppEvent) -> int:
        """Store an event with its strings redacted and shortened. Return its line number."""
        event = self._clean(event)
        return self.insert(event.to_record, (event.text, event.op, event.name, event.frame))

    def count_dropped(self, count: int) -> None:
        """Count events that were received but not recorded."""
        with self._lock:
            self.dropped += count

    def usage(self) -> dict[str, object]:
        """Return the line range and the counts for `server_health`, or an empty dict if no events were received."""
        if not self.stored and not self.dropped:
            return {}
        counts = {"entities": self.entity_count, "bytes": self.text_bytes, "kept": self.stored, "dropped": self.dropped}
        return {"firstLine": self.first_line, "lastLine": self.last_line, **counts}

    def _clean(self, event: AppEvent) -> AppEvent:
        """Redact the strings of an event, and shorten each to one line."""

        def clean_name(text: str | None) -> str | None:
            return text and self.redact_and_shorten(text, MAX_NAME_CHARACTERS)

        return replace(
            event,
            text=self.redact_and_shorten(event.text),
            op=clean_name(event.op),
            name=clean_name(event.name),
            frame=clean_name(event.frame),
            cause=clean_name(event.cause) if isinstance(event.cause, str) else event.cause,
            who=clean_name(event.who),
            ms=event.ms if event.ms is None or math.isfinite(event.ms) else None,
        )
