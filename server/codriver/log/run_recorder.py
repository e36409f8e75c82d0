"""The copy of a run's output log in the memory of the workspace, and the earlier runs that queries find there."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from codriver.log.durable_files import DiskTrouble
from codriver.log.memory import Run, run_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.log.memory import Document, Memory
    from codriver.log.output_log import OutputLog, Snapshot

SHORTEST_REST_S = 2.0
"""A short log takes some milliseconds to write, and a crash loses no more."""
LONGEST_REST_S = 30.0
REST_TIMES = 50
"""To write takes 2 % of the time at most: the longest log, a second or so on a slow disk."""


def rest_s(took_s: float) -> float:
    """The rest before a run that changes is written again, in seconds, after a write that took so long."""
    return min(max(SHORTEST_REST_S, REST_TIMES * took_s), LONGEST_REST_S)


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
    kept, this one among them. What the disk refuses is told when that begins and when it ends, and is tried again.
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
        self._is_idle = False
        """True while all is written: nothing but the log's growth wakes it."""
        self._writing = threading.Lock()
        lost = "what passes through the REPLs is in memory only, and later servers will not know it"
        self._runs_trouble = DiskTrouble("the memory of runs", memory.folder, lost)
        lost = "they are in memory only"
        self._documents_trouble = DiskTrouble("checkpoints and REPLs that were given up", memory.folder, lost)

    def remember(self, document: Document) -> None:
        """Keep a document: on disk within a moment. Called in the thread of the loop."""
        self._pending.append(document)
        self._woken.set()

    def log_grew(self) -> None:
        """Write the run within a moment. Called in the thread of the loop, once for all that came in a while."""
        if self._is_idle:
            self._woken.set()

    async def run(self, tells: Callable[[str], Callable[[str | None], None]] | None = None) -> None:
        """Write what there is to write, until cancelled. `tells`: gives `DiskTrouble.tell` by the code of an error."""
        if tells is not None:
            self._runs_trouble.tell = tells("runs-unwritable")
            self._documents_trouble.tell = tells("checkpoints-unwritable")
        await anyio.to_thread.run_sync(self._begin)
        due_s = time.monotonic() + SHORTEST_REST_S
        while True:
            self._is_idle = not self._has_news
            timer = None if self._is_idle else self._wake_at(due_s)
            try:
                await self._woken.wait()
            finally:
                if timer is not None:
                    timer.cancel()
            self._woken = anyio.Event()
            if self._pending:
                await anyio.to_thread.run_sync(self._write_documents)
            began_s = time.monotonic()
            if self._is_idle:
                due_s = max(due_s, began_s + SHORTEST_REST_S)
            elif began_s >= due_s:
                await anyio.to_thread.run_sync(self._write_run, None)
                now_s = time.monotonic()
                due_s = now_s + rest_s(now_s - began_s)

    @property
    def _has_news(self) -> bool:
        return self._log.last_line != self._written_line and self._keep() > 0

    def _wake_at(self, due_s: float) -> asyncio.TimerHandle:
        """A timer of the loop's own: a cancel scope costs three times as much."""
        return asyncio.get_running_loop().call_later(max(0.0, due_s - time.monotonic()), self._woken.set)

    def close(self, ended_ms: int) -> None:
        """Write all that is left, and when the run ended. Blocks; does not raise."""
        self._write_documents()
        self._write_run(ended_ms)

    def _begin(self) -> None:
        _try(self._clear, self._runs_trouble)

    def _clear(self) -> None:
        self._memory.sweep()
        self._drop_old_runs()

    def _write_documents(self) -> None:
        with self._writing:
            while self._pending:
                if not _try(partial(self._memory.remember, self._pending[0]), self._documents_trouble):
                    return
                del self._pending[0]

    def _write_run(self, ended_ms: int | None) -> None:
        """Write this run, if it has something to tell and that has changed, and drop what is then too old."""
        with self._writing:
            last_line = self._log.last_line
            is_news = last_line != self._written_line or ended_ms is not None
            if not is_news or not self._keep() or not self._log.entity_count:
                return
            if _try(partial(self._replace_run, ended_ms), self._runs_trouble):
                self._written_line = last_line

    def _replace_run(self, ended_ms: int | None) -> None:
        newest_first = reversed(self._log.snapshot().records)
        self._memory.write_run(replace(self.started, ended=ended_ms), newest_first)
        self._drop_old_runs()

    def _drop_old_runs(self) -> None:
        """Let so many files be there as are to be kept, this run's among them, whether or not it is written yet."""
        others = [run for run in self._memory.run_ids() if run != self.started.id]
        self._memory.forget_runs(others[: max(0, len(others) - max(0, self._keep() - 1))])


def _try(write: Callable[[], None], trouble: DiskTrouble) -> bool:
    """Whether the run was written; a trouble is told at its beginning and end."""
    try:
        write()
    except OSError as error:
        trouble.met(error)
        return False
    trouble.over()
    return True
