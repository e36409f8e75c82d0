"""The copy of a run's output log in the memory of the workspace, and the earlier runs that queries find there."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from codriver.log.memory import Run, run_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codriver.log.memory import Document, Memory
    from codriver.log.output_log import OutputLog, Snapshot

logger = logging.getLogger(__name__)

WRITE_EVERY_S = 30.0


class EarlierRuns:
    """Source `$memory` of queries while a run goes on: all that is remembered but that run, which is in the log."""

    def __init__(self, memory: Memory, run: str) -> None:
        self._memory = memory
        self._run = run

    def snapshot(self) -> Snapshot:
        """The entities as they are now."""
        return self._memory.snapshot(without=self._run)


class RunRecorder:
    """Writer of what one run leaves to the memory, for the life of its server.

    `remember` never waits for the disk; `run` writes, off the loop, and `close` ends it. `keep`: how many runs are
    kept, this one among them. Disk errors are logged once, and writing is tried again.
    """

    def __init__(
        self, memory: Memory, log: OutputLog, *, session: str, started_ms: int, keep: Callable[[], int]
    ) -> None:
        self._memory = memory
        self._log = log
        self._keep = keep
        self.started = Run(run_id(started_ms), session, started_ms, None, 0)
        self._pending: list[Document] = []
        self._written_line = log.last_line
        self._woken = anyio.Event()
        self._writing = threading.Lock()
        self._is_failing = False

    def remember(self, document: Document) -> None:
        """Keep a document: on disk within a moment. Called in the thread of the loop."""
        self._pending.append(document)
        self._woken.set()

    async def run(self) -> None:
        """Write what there is to write, until cancelled."""
        await anyio.to_thread.run_sync(self._begin)
        written_s = time.monotonic()
        while True:
            with anyio.move_on_after(max(0.0, written_s + WRITE_EVERY_S - time.monotonic())):
                await self._woken.wait()
            self._woken = anyio.Event()
            await anyio.to_thread.run_sync(self._write_documents)
            if time.monotonic() - written_s >= WRITE_EVERY_S:
                await anyio.to_thread.run_sync(self._write_run, None)
                written_s = time.monotonic()

    def close(self, ended_ms: int) -> None:
        """Write all that is left, and when the run ended. Blocks; does not raise."""
        self._write_documents()
        self._write_run(ended_ms)

    def _begin(self) -> None:
        with self._guarded():
            self._memory.sweep()
            self._drop_old_runs()

    def _write_documents(self) -> None:
        with self._writing, self._guarded():
            while self._pending:
                self._memory.remember(self._pending[0])
                del self._pending[0]

    def _write_run(self, ended_ms: int | None) -> None:
        """Write this run, if it has something to tell and that has changed, and drop what is then too old."""
        with self._writing, self._guarded():
            last_line = self._log.last_line
            if not self._keep() or not self._log.entity_count:
                return
            if last_line != self._written_line or ended_ms is not None:
                newest_first = reversed(self._log.snapshot().records)
                self._memory.write_run(replace(self.started, ended=ended_ms), newest_first)
                self._written_line = last_line
                self._drop_old_runs()

    def _drop_old_runs(self) -> None:
        """Let so many files be there as are to be kept, this run's among them, whether or not it is written yet."""
        others = [run for run in self._memory.run_ids() if run != self.started.id]
        self._memory.forget_runs(others[: max(0, len(others) - max(0, self._keep() - 1))])

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Log that the disk fails, once until it works again."""
        try:
            yield
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                logger.warning("the memory cannot be written, and is tried again: %s", error)
            self._is_failing = True
