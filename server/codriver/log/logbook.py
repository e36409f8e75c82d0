"""The writer of the output log, through which all text from REPLs, the server and applications passes.

Each entry also goes to the history, the transcripts and the subscribers. Applications send events by the thousand,
which would evict all evaluations from the output log. So they have a store of their own, the Datalog source `$app`,
which shares only the line numbers: across both stores, a lower line number means an earlier entry.
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
"""Minimum interval between two notifications that the log has grown, and the maximum delay of one."""


class Logbook:
    """The writer of the log, for the lifetime of one server.

    `log` is for reading and querying, and only `record` appends to it. Secrets are redacted when an entry is recorded.
    `app` has the events of applications, which are not part of the history and the transcripts.
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
        """The pending notification that the log has grown, while `run` is active."""
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
        """Called with the lines of entries that were evicted from the log."""

    def perform(self, effect: Append) -> None:
        """Record an entry that the core has requested."""
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
        """Append an entry to the log, the history and the evaluation's transcript, and return its line."""
        is_code = entry.category == EVALUATED_CODE
        with self._recording_code if is_code else nullcontext():
            line = self.log.append(entry, may_wait=self._notification is not None)
            if is_code:  # added immediately, because the answer waits until the history has it
                self.history.add(self.log.cleared(Entry(line, *entry[1:])))
        if self._notification is not None:
            self._notification.schedule()
        transcript = self._transcripts.get(entry.evaluation) if entry.evaluation else None
        if transcript is not None:
            transcript.saw_line(line)
        return line

    def clean_chunk(self, repl: str, stream: str, chunk: str) -> str:
        """Return what may be recorded of a chunk that belongs to no evaluation, with secrets redacted.

        Text that may be the start of a secret is withheld until the next chunk of the stream, or `flush_chunks`.
        """
        redactor = self._chunk_redactors.get((repl, stream))
        if redactor is None:
            redactor = self._chunk_redactors[repl, stream] = self._redactor.stream()
        return redactor.feed(chunk)

    def flush_chunks(self, repl: str) -> list[tuple[str, str]]:
        """Return the withheld text of each stream of a REPL that prints no more, as pairs of stream and text."""
        finished = [key for key in self._chunk_redactors if key[0] == repl]
        return [(key[1], self._chunk_redactors.pop(key).flush()) for key in finished]

    def learn_secrets(self, source: str, named: Iterable[tuple[str, str]]) -> None:
        """Redact those of the named values whose names mark them as secrets, from now on."""
        found = [(name, value) for name, value in named if name.upper().endswith(NAME_ENDINGS)]
        if found:
            self.learn_sensitive(source, found)

    def learn_sensitive(self, repl: str, strings: Iterable[tuple[str, str]]) -> None:
        """Redact these named strings, which the application in a REPL has declared sensitive, from now on."""
        self.log.add_waiting()  # learning secrets may drop older ones
        self._redactor.learn_sensitive(repl, strings)

    def forget_sensitive(self, repl: str) -> None:
        """Stop redacting the strings that the application in a REPL declared sensitive, because it has ended."""
        self.log.add_waiting()
        self._redactor.forget(repl)

    def remembered(self) -> tuple[Entry, ...]:
        """Return the entries of earlier runs: see `earlier_runs`. Blocks on the disk."""
        first = self.log.first_line or self.log.next_line
        code = map(Entry.from_record, self.history.snapshot().records)
        known = map(Entry.from_record, self._memory.snapshot().records)
        return earlier_runs(known, (entry for entry in code if entry.line < first))

    def query(self, request: LogQuery) -> QueryAnswer:
        """Answer a Datalog query across all sources. It may take up to two seconds, so call it in a thread.

        Raises:
            RefusedError: the query is invalid or requests too much.
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
        """Call `report` whenever the log has grown, at most once per `NOTIFY_S`, until cancelled."""

        def grown() -> None:
            self.log.add_waiting()
            report()

        self._notification = _CoalescedNotification(grown)
        self._notification.schedule()  # for entries recorded before
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
    """A notification that is sent once for all entries within `NOTIFY_S`.

    It uses a timer because a task would take three turns of the event loop for nearly every evaluation.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def schedule(self) -> None:
        """Schedule the notification unless it is scheduled already."""
        if self._timer is None:
            self._timer = self._loop.call_later(NOTIFY_S, self._due)

    def cancel(self) -> None:
        """Cancel the notification. It can be scheduled again."""
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        self._notify()


APP_EVENT: Final = "appEvent"
"""The category of all application events."""
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
        known = (line, APP_EVENT, self.text, self.timestamp, self.who, None, self.session_key, self.evaluation)
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
