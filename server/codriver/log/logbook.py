"""Record all text from REPLs and the server in the output log, the history and the transcripts."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

import anyio

from codriver.log.history import EVALUATED_CODE_CATEGORY
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog, merge_earlier_runs
from codriver.log.redaction import SECRET_NAME_ENDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codriver.core.effects import AppendEntry
    from codriver.log.evaluation_transcripts import Transcripts
    from codriver.log.history import History
    from codriver.log.output_log import LogChange, LogQuery
    from codriver.log.query_sources import Queryable
    from codriver.log.redaction import Redactor, StreamRedactor
    from codriver_datalog.solve import QueryAnswer


NOTIFY_INTERVAL_S = 0.05
"""Minimum interval between two notifications of new entries, and maximum delay of one, in seconds."""


class Logbook:
    """Records entries in the output log, the history and the transcripts, for the lifetime of one server.

    Secrets are redacted first. Use `log` for reading and queries, but only append to it with `record`.
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
            listener=self._on_change,
        )
        self.on_evicted: Callable[[tuple[int, ...]], None] = lambda _lines: None
        """Called with the lines of entries that were evicted from the log."""

    def perform(self, effect: AppendEntry) -> None:
        """Record an entry that the core has requested."""
        self.record(
            Entry(
                UNASSIGNED_LINE,
                effect.category,
                effect.text,
                effect.now,
                effect.who,
                effect.ns,
                effect.session_key,
                effect.evaluation,
                notebook=effect.document,
                file=effect.file,
                kind=effect.kind,
                data=effect.data,
            )
        )

    def record(self, entry: Entry) -> int:
        """Append an entry to the log, the history and the evaluation's transcript, and return its line number."""
        is_code = entry.category == EVALUATED_CODE_CATEGORY
        with self._recording_code if is_code else nullcontext():
            line = self.log.append(entry, may_wait=self._notification is not None)
            if is_code:  # added immediately, because the answer waits until the history has it
                self.history.add(self.log.redact_entry(Entry(line, *entry[1:])))
        if self._notification is not None:
            self._notification.schedule()
        transcript = self._transcripts.get(entry.evaluation) if entry.evaluation else None
        if transcript is not None:
            transcript.record_log_line(line)
        return line

    def redact_chunk(self, repl: str, stream: str, chunk: str) -> str:
        """Redact a chunk of output that belongs to no evaluation, and return the text to record.

        Text that may be the start of a secret is withheld until the next chunk of the same stream, or `flush_chunks`.
        """
        redactor = self._chunk_redactors.get((repl, stream))
        if redactor is None:
            redactor = self._chunk_redactors[repl, stream] = self._redactor.new_stream_redactor()
        return redactor.feed(chunk)

    def flush_chunks(self, repl: str) -> list[tuple[str, str]]:
        """Return the withheld text of a REPL that prints nothing more, as pairs of stream name and text."""
        finished = [key for key in self._chunk_redactors if key[0] == repl]
        return [(key[1], self._chunk_redactors.pop(key).flush()) for key in finished]

    def add_secrets(self, source: str, named: Iterable[tuple[str, str]]) -> None:
        """Start redacting the named values whose names mark them as secrets, such as `API_KEY`."""
        found = [(name, value) for name, value in named if name.upper().endswith(SECRET_NAME_ENDINGS)]
        if found:
            self.add_sensitive_strings(source, found)

    def add_sensitive_strings(self, repl: str, strings: Iterable[tuple[str, str]]) -> None:
        """Start redacting named strings that the application in a REPL has declared sensitive."""
        self.log.add_waiting()  # learning secrets may drop older ones
        self._redactor.add_sensitive_strings(repl, strings)

    def remove_sensitive_strings(self, repl: str) -> None:
        """Stop redacting the strings that the application in a REPL has declared sensitive."""
        self.log.add_waiting()
        self._redactor.remove_sensitive_strings(repl)

    def earlier_entries(self) -> tuple[Entry, ...]:
        """Return the entries from earlier runs, merged as by `merge_earlier_runs`. Blocks on disk I/O."""
        first = self.log.first_line or self.log.next_line
        code = map(Entry.from_record, self.history.snapshot().records)
        known = map(Entry.from_record, self._memory.snapshot().records)
        return merge_earlier_runs(known, (entry for entry in code if entry.line < first))

    def query(self, request: LogQuery) -> QueryAnswer:
        """Answer a Datalog query about the log, the history, the memory and features' logs.

        A query may take two seconds, so call this in a thread.

        Raises:
            RefusedError: the query is invalid or exceeds a limit.
        """
        return self.log.query(
            request.text,
            inputs=request.inputs,
            history=self.history,
            memory=self._memory,
            limit=request.limit,
            until=request.until,
            every_row=request.every_row,
        )

    async def run(self, report: Callable[[], None]) -> None:
        """Call `report` after the log has grown, at most once per `NOTIFY_INTERVAL_S`, until cancelled."""

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

    def _on_change(self, report: LogChange) -> None:
        if report.retracted:
            self.on_evicted(report.retracted)
        self.history.record_used_line(report.last_line)


class _CoalescedNotification:
    """Combines notifications: `notify` is called once for all calls of `schedule` within `NOTIFY_INTERVAL_S`.

    It uses a timer because a task would take three turns of the event loop for nearly every evaluation.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def schedule(self) -> None:
        """Call `notify` after `NOTIFY_INTERVAL_S`, unless a call is already scheduled."""
        if self._timer is None:
            self._timer = self._loop.call_later(NOTIFY_INTERVAL_S, self._run)

    def cancel(self) -> None:
        """Cancel the scheduled call."""
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        self._timer = None
        self._notify()
