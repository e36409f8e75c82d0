"""The app log: the events that applications tell by their seams, beside the output log, as Datalog's source `$app`.

Events come by the thousand, and would push all evaluations out of the output log. So they have a store of their own,
and share only the counter of lines: what came first has the lower line, in whichever of the two it is.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from codriver.log.control_characters import one_line
from codriver.log.eviction import BoundedLog, Follower
from codriver.log.output_log import APP_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from codriver.datalog.entity_store import Record, Value

APP_EVENT: Final = "appEvent"
"""The category of every event."""
MAX_EVENTS: Final = 2000
MAX_BYTES: Final = 4 * 2**20
MAX_TEXT_CHARACTERS: Final = 4000
"""Twice the longest text that a seam shows; of a longer line the head is kept."""
MAX_NAME_CHARACTERS: Final = 300
RECORD_BYTES: Final = 400
"""Roughly what an event takes beside its texts."""
LIBRARY: Final = re.compile(r"(?<![^\s=])/\S*/(?:site|dist)-packages/")
WHO: Final = APP_SCHEMA.attributes.index("who")


@dataclass(frozen=True, slots=True)
class AppEvent:
    """An event of an application. `timestamp` is epoch milliseconds; what is not known is None.

    `text`: the event in one line. `op` and `name`: its kind and what it is about; `cause`: the dispatch that it came
    of, `app_id` its number there, both as the seam has them. `who` and `evaluation`: of whom caused it through us.
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
        """The event as the store holds it, in the order of `APP_SCHEMA`."""
        known = (line, APP_EVENT, self.text, self.timestamp, self.who, None, self.session_key, self.evaluation)
        # `ns`, `run` and `notebook` are of evaluations.
        return (*known, None, None, self.op, self.name, self.frame, self.cause, self.ms, self.app_id)


def near(text: str, workspace: object) -> str:
    """A line with its places as they are named from the workspace, and those of libraries from where they lie."""
    return LIBRARY.sub("", text.replace(f"{workspace}/", ""))


class AppLog(BoundedLog):
    """The app log of one server run: the newest events within a number and a length in bytes. Any thread may call.

    `next_line` gives the next line of the output log's counter and lets nobody have the one after it meanwhile.
    `redact` is applied to every text on its way in.
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
        self.kept = 0
        """The number of events recorded since the start."""
        self.dropped = 0
        """The number of those told of and never recorded, as they came too fast: see `drop`."""
        self.last_evicted_line = 0
        """The highest line that has left."""

    def record(self, event: AppEvent) -> int:
        """Add an event and give its line; what is then over the caps leaves. Its texts lose secrets and line ends."""
        event = self._clean(event)
        size = RECORD_BYTES + sum([len(text) for text in (event.text, event.op, event.name, event.frame) if text])
        with self._lock, self._next_line() as line:
            retracted = self._store.insert(event.to_record(line), size)
            self.last_evicted_line = retracted[-1] if retracted else self.last_evicted_line
            self.kept += 1
        self._tell(line)
        return line

    def drop(self, count: int) -> None:
        """Count events that are not recorded."""
        with self._lock:
            self.dropped += count

    def count(self, *, since: int | None = None, who: str | None = None) -> int:
        """The number of events held that come after a line and from somebody."""
        return len(self._found(since, who))

    def entries(self, *, since: int | None = None, who: str | None = None, limit: int) -> list[dict[str, Value]]:
        """The newest events that pass every filter given, in line order, by their attributes' names."""
        return list(map(APP_SCHEMA.document, self._found(since, who)[-limit:]))

    def _found(self, since: int | None, who: str | None) -> list[Record]:
        snapshot = self.snapshot()
        records = snapshot.records if who is None else snapshot.with_value(WHO, who)
        return [record for record in records if since is None or cast("int", record[0]) > since]

    def _clean(self, event: AppEvent) -> AppEvent:
        """The event without secrets, each text on one line and not too long."""

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
        text = one_line(self._redact(text))
        return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
