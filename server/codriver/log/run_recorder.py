"""Save the output log of the current run for later servers, and provide the logs of earlier runs."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from codriver.log.durable_files import DiskErrorReporter
from codriver.log.memory import Document, Memory, Run, run_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.log.output_log import OutputLog
    from codriver_datalog.entity_store import Snapshot

MIN_WRITE_PAUSE_S = 2.0
"""Minimum pause between two writes of a run, in seconds. A crash can lose the entries of this period."""
MAX_WRITE_PAUSE_S = 30.0
"""Maximum pause between two writes of a run, in seconds."""
WRITE_PAUSE_FACTOR = 50
"""The pause after a write, as a multiple of its duration, so that writing takes at most 2 % of the time."""


def pause_after_write_s(elapsed_s: float) -> float:
    """Return the number of seconds to pause after a write that took `elapsed_s`."""
    return min(max(MIN_WRITE_PAUSE_S, WRITE_PAUSE_FACTOR * elapsed_s), MAX_WRITE_PAUSE_S)


class EarlierRuns:
    """The data source `$memory` of queries: the logs of earlier runs, and the remembered documents.

    The current run is left out, because its entries are in the log.
    """

    def __init__(self, memory: Memory, run: str) -> None:
        self._memory = memory
        self._run = run

    def snapshot(self) -> Snapshot:
        """Return the current entries."""
        return self._memory.snapshot(without=self._run)


class RunRecorder:
    """Writes the log and the documents of one run to files, for the lifetime of the server.

    `remember` never waits for the disk. `run` writes in threads, and `close` writes the rest. `max_runs` returns the
    number of runs to retain, including this one. Failed writes are retried. Disk errors are reported when they begin
    and when they end.
    """

    def __init__(
        self, memory: Memory, log: OutputLog, *, session: str, started_ms: int, max_runs: Callable[[], int]
    ) -> None:
        self._memory = memory
        self._log = log
        self._max_runs = max_runs
        self.started = Run(run_id(started_ms), session, started_ms, None, 0)
        self._pending: list[Document] = []
        self._written_line = log.last_line
        self._woken = anyio.Event()
        self._is_idle = False
        """Whether everything is written, in which case only growth of the log needs to wake the writer."""
        self._writing = threading.Lock()
        lost = "new entries are only in memory, so later servers cannot show them"
        self._runs_errors = DiskErrorReporter("the log of this run", memory.directory, lost)
        lost = "new entries are only in memory"
        self._documents_errors = DiskErrorReporter("the list of checkpoints and failed REPLs", memory.directory, lost)

    def remember(self, document: Document) -> None:
        """Schedule a document to be stored. Must be called on the event loop."""
        self._pending.append(document)
        self._woken.set()

    def schedule_write(self) -> None:
        """Schedule a write because the log has grown. Must be called on the event loop."""
        if self._is_idle:
            self._woken.set()

    async def run(self, create_reporter: Callable[[str], Callable[[str | None], None]] | None = None) -> None:
        """Write changes until cancelled.

        The first entry is written at once, so that even a server that is killed soon is listed among the runs.

        `create_reporter` maps an error code to the function that reports the error, or its end if called with None.
        """
        if create_reporter is not None:
            self._runs_errors.report = create_reporter("runs-unwritable")
            self._documents_errors.report = create_reporter("checkpoints-unwritable")
        await anyio.to_thread.run_sync(self._start)
        first_line, due_s = self._written_line, time.monotonic()
        while True:
            self._is_idle = not self._has_changes
            timer = None if self._is_idle else self._wake_at(due_s)
            try:
                await self._woken.wait()
            finally:
                if timer is not None:
                    timer.cancel()
            self._woken = anyio.Event()
            if self._pending:
                await anyio.to_thread.run_sync(self._write_documents)
            started_s = time.monotonic()
            if self._is_idle and self._written_line != first_line:
                due_s = max(due_s, started_s + MIN_WRITE_PAUSE_S)
            elif started_s >= due_s and self._has_changes:
                await anyio.to_thread.run_sync(self._write_run, None)
                now_s = time.monotonic()
                due_s = now_s + pause_after_write_s(now_s - started_s)

    @property
    def _has_changes(self) -> bool:
        return self._log.last_line != self._written_line and self._max_runs() > 0

    def _wake_at(self, due_s: float) -> asyncio.TimerHandle:
        """Schedule a timer that wakes `run`. A timer is three times cheaper than a cancel scope."""
        return asyncio.get_running_loop().call_later(max(0.0, due_s - time.monotonic()), self._woken.set)

    def close(self, finished_ms: int) -> None:
        """Write everything, including the end of the run. Blocks. Disk errors are reported instead of raised."""
        self._write_documents()
        self._write_run(finished_ms)

    def _start(self) -> None:
        _try(self._clean_up, self._runs_errors)

    def _clean_up(self) -> None:
        self._memory.remove_temporary_files()
        self._drop_old_runs()

    def _write_documents(self) -> None:
        with self._writing:
            while self._pending:
                if not _try(partial(self._memory.remember, self._pending[0]), self._documents_errors):
                    return
                del self._pending[0]

    def _write_run(self, finished_ms: int | None) -> None:
        """Write the run if its entries have changed or it has finished, and delete runs beyond the limit."""
        with self._writing:
            last_line = self._log.last_line
            has_changes = last_line != self._written_line or finished_ms is not None
            if not has_changes or not self._max_runs() or not self._log.entity_count:
                return
            if _try(partial(self._replace_run, finished_ms), self._runs_errors):
                self._written_line = last_line

    def _replace_run(self, finished_ms: int | None) -> None:
        newest_first = reversed(self._log.snapshot().records)
        self._memory.write_run(replace(self.started, finished=finished_ms), newest_first)
        self._drop_old_runs()

    def _drop_old_runs(self) -> None:
        """Delete the oldest runs beyond the limit. The current run counts, even if it has not been written."""
        others = [run for run in self._memory.run_ids() if run != self.started.id]
        self._memory.delete_runs(others[: max(0, len(others) - max(0, self._max_runs() - 1))])


def _try(write: Callable[[], None], errors: DiskErrorReporter) -> bool:
    """Call `write` and return whether it succeeded. Report the first failure, and the first success after failures."""
    try:
        write()
    except OSError as error:
        errors.report_error(error)
        return False
    errors.report_recovery()
    return True
