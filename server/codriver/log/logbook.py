"""The writer of the output log: the only entry point for text of REPLs, of the server, and of applications.

The history, the transcripts and the subscribers receive each entry. Applications send events by the thousand, which
would push all evaluations out of the output log. So they have a store of their own, Datalog's source `$app`, and share
only the counter of lines: the earlier entry has the lower line, in whichever store.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import anyio

from codriver.errors import cut_counted
from codriver.log.control_characters import one_line
from codriver.log.history import EVALUATED_CODE
from codriver.log.output_log import APP_SCHEMA, NO_LINE, BoundedLog, Entry, Follower, OutputLog, earlier_runs
from codriver.log.redaction import NAME_ENDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from codriver.core.dispatch import Append
    from codriver.log.history import History
    from codriver.log.output_log import LogQuery, Queryable, Report
    from codriver.log.redaction import Redactor, StreamRedactor
    from codriver.log.transcripts import Transcripts
    from codriver_datalog.entity_store import Record, Value
    from codriver_datalog.solve import QueryAnswer


NOTIFY_S = 0.05
"""The longest time until subscribers are notified that the log grew, and the shortest between two times."""


class Logbook:
    """Writer of the log, for the lifetime of one server: the history and the transcripts receive each entry.

    `log` is for reading and querying; only `record` appends to it. Secrets are redacted on the way in. `app` has the
    events of applications, which neither history nor transcripts store.
    """

    def __init__(
        self,
        history: History,
        transcripts: Transcripts,
        memory: Queryable,
        *,
        next_line: int,
        max_entities: int,
        max_bytes: int,
        redactor: Redactor,
    ) -> None:
        self.history = history
        self._memory = memory
        self._transcripts = transcripts
        self._notification: _CoalescedNotification | None = None
        """The notification of growth, only while `run` runs."""
        self._redactor = redactor
        self._recording_code = threading.Lock()
        self._chunk_redactors: dict[tuple[str, str], StreamRedactor] = {}
        self.log = OutputLog(
            max_entities=max_entities,
            max_bytes=max_bytes,
            next_line=next_line,
            redact=redactor,
            listener=self._logged,
        )
        self.app = AppLog(self.log.line_for_another, redact=redactor, follower=history.saw_line)
        self.on_left: Callable[[tuple[int, ...]], None] = lambda _lines: None
        """The function that receives the lines that have left the log."""

    def perform(self, effect: Append) -> None:
        """Record the entry of an effect of the core."""
        self.record(
            Entry(
                NO_LINE,
                effect.category,
                effect.text,
                effect.now,
                effect.who,
                effect.ns,
                effect.session_key,
                effect.evaluation,
                notebook=effect.notebook,
                file=effect.file,
                kind=effect.kind,
                data=effect.data,
            )
        )

    def record(self, entry: Entry) -> int:
        """Append to the log, pass the entry's line to the evaluation's transcript, and return that line."""
        is_code = entry.category == EVALUATED_CODE
        with self._recording_code if is_code else nullcontext():
            line = self.log.append(entry, may_wait=self._notification is not None)
            if is_code:  # in the history at once: the answer waits until it is written there
                self.history.add(self.log.cleared(Entry(line, *entry[1:])))
        if self._notification is not None:
            self._notification.schedule()
        transcript = self._transcripts.get(entry.evaluation) if entry.evaluation else None
        if transcript is not None:
            transcript.saw_line(line)
        return line

    def clean_chunk(self, repl: str, stream: str, chunk: str) -> str:
        """Return a chunk of a REPL's stream, to be recorded for no evaluation, without the beginning of a secret.

        The beginning waits for the next chunk of the stream, or for `flush_chunks`.
        """
        redactor = self._chunk_redactors.get((repl, stream))
        if redactor is None:
            redactor = self._chunk_redactors[repl, stream] = self._redactor.stream()
        return redactor.feed(chunk)

    def flush_chunks(self, repl: str) -> list[tuple[str, str]]:
        """Return the streams of a REPL that prints no more, each with its waiting text, to be recorded."""
        finished = [key for key in self._chunk_redactors if key[0] == repl]
        return [(key[1], self._chunk_redactors.pop(key).flush()) for key in finished]

    def learn_secrets(self, source: str, named: Iterable[tuple[str, str]]) -> None:
        """Take those of these values that have the names of secrets out of all texts from now on."""
        found = [(name, value) for name, value in named if name.upper().endswith(NAME_ENDINGS)]
        if found:
            self.learn_sensitive(source, found)

    def learn_sensitive(self, repl: str, strings: Iterable[tuple[str, str]]) -> None:
        """Treat these strings, each with a name, as secrets: the application in a REPL declared them sensitive."""
        self.log.add_waiting()  # new secrets may push out older ones
        self._redactor.learn_sensitive(repl, strings)

    def forget_sensitive(self, repl: str) -> None:
        """Forget the strings that the application in a REPL declared sensitive, because it is gone."""
        self.log.add_waiting()
        self._redactor.forget(repl)

    def remembered(self) -> tuple[Entry, ...]:
        """Return the entities that earlier runs left: see `earlier_runs`. Blocks."""
        first = self.log.first_line or self.log.next_line
        code = map(Entry.from_record, self.history.snapshot().records)
        known = map(Entry.from_record, self._memory.snapshot().records)
        return earlier_runs(known, (entry for entry in code if entry.line < first))

    def query(self, request: LogQuery) -> QueryAnswer:
        """Answer a Datalog query over all its sources. Run it in a thread: it takes up to two seconds.

        Raises:
            RefusedError: the query cannot be read, or requests too much.
        """
        return self.log.query(
            request.text,
            inputs=request.inputs,
            app=self.app,
            history=self.history,
            memory=self._memory,
            limit=request.limit,
            until=request.until,
            every_row=request.every_row,
        )

    async def run(self, report: Callable[[], None]) -> None:
        """Call `report` when the log has grown, until cancelled. Calls are coalesced if it grows fast."""

        def grown() -> None:
            self.log.add_waiting()
            report()

        self._notification = _CoalescedNotification(grown)
        self._notification.schedule()  # for the entries before
        try:
            await anyio.sleep_forever()
        finally:
            self._notification.cancel()
            self._notification = None
            self.log.add_waiting()

    def _logged(self, report: Report) -> None:
        if report.retracted:
            self.on_left(report.retracted)
        self.history.saw_line(report.last_line)


class _CoalescedNotification:
    """The notification that the log grew, given once for all entries of a while, until it is cancelled.

    A timer gives it, as a task would take three turns of the event loop, and nearly every evaluation schedules one.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def schedule(self) -> None:
        """Schedule the notification after `NOTIFY_S`, unless one is due already."""
        if self._timer is None:
            self._timer = self._loop.call_later(NOTIFY_S, self._due)

    def cancel(self) -> None:
        """Cancel the scheduled notification; a later one may be scheduled."""
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        self._notify()


APP_EVENT: Final = "appEvent"
"""The category of every event."""
MAX_EVENTS: Final = 2000
MAX_BYTES: Final = 4 * 2**20
MAX_TEXT_CHARACTERS: Final = 4000
"""Twice the longest text that a seam shows; a longer line keeps its head."""
MAX_NAME_CHARACTERS: Final = 300
RECORD_BYTES: Final = 400
"""The rough size of an event next to its strings."""
LIBRARY: Final = re.compile(r"(?<![^\s=])/\S*/(?:site|dist)-packages/")
WHO: Final = APP_SCHEMA.attributes.index("who")


@dataclass(frozen=True, slots=True)
class AppEvent:
    """An event of an application. `timestamp` is epoch milliseconds; unknown fields are None.

    `text`: the event in one line. `op` and `name`: its kind and its subject; `cause`: the dispatch that led to it,
    `app_id` its number there, both as the seam has them. `who` and `evaluation`: the caller who caused it through us.
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
        """Return the event as a record of the store, in the order of `APP_SCHEMA`."""
        known = (line, APP_EVENT, self.text, self.timestamp, self.who, None, self.session_key, self.evaluation)
        # `ns`, `run`, `notebook`, `file`, `kind` and `data` belong to other entities.
        return (*known, None, None, None, None, None, self.op, self.name, self.frame, self.cause, self.ms, self.app_id)


def near(text: str, workspace: object) -> str:
    """Return a line with paths of the workspace shortened to relative ones, and those of libraries to their package."""
    return LIBRARY.sub("", text.replace(f"{workspace}/", ""))


class AppLog(BoundedLog):
    """The app log of one server run: the newest events within a number and a length in bytes. Any thread may call.

    `next_line` gives the next line of the output log's counter, and locks the counter until the event is stored.
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
        self.stored = 0
        """The number of events recorded since the start."""
        self.dropped = 0
        """The number of events that arrived too fast and were never recorded: see `drop`."""
        self.last_evicted_line = 0
        """The highest line that has left."""

    def record(self, event: AppEvent) -> int:
        """Add an event and return its line; events beyond the limits are dropped. Secrets and line ends are removed."""
        event = self._clean(event)
        size = RECORD_BYTES + sum([len(text) for text in (event.text, event.op, event.name, event.frame) if text])
        with self._lock, self._next_line() as line:
            retracted = self._store.insert(event.to_record(line), size)
            self.last_evicted_line = retracted[-1] if retracted else self.last_evicted_line
            self.stored += 1
        self._notify(line)
        return line

    def drop(self, count: int) -> None:
        """Count events that are not recorded."""
        with self._lock:
            self.dropped += count

    def count(self, *, since: int | None = None, who: str | None = None) -> int:
        """Return the number of events held after a line and of one caller."""
        return len(self._found(since, who))

    def entries(
        self, *, since: int | None = None, until: int | None = None, who: str | None = None, limit: int
    ) -> list[dict[str, Value]]:
        """Return the newest events that pass every filter given, in line order, by their attributes' names.

        `since`: lines after it. `until`: lines up to and with it.
        """
        found = self._found(since, who)
        if until is not None:
            found = [record for record in found if cast("int", record[0]) <= until]
        return list(map(APP_SCHEMA.document, found[-limit:]))

    def _found(self, since: int | None, who: str | None) -> list[Record]:
        snapshot = self.snapshot()
        records = snapshot.records if who is None else snapshot.with_value(WHO, who)
        return [record for record in records if since is None or cast("int", record[0]) > since]

    def _clean(self, event: AppEvent) -> AppEvent:
        """Return the event without secrets, each text on one line and not too long."""

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
