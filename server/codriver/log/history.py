"""The history: the code evaluated in this workspace, across all runs of its servers.

The history is stored in a file of lines, each a transit value, to which new entries are appended. When the file is
twice as long as its newest entries need, it is replaced by a compacted one. A small file next to it stores the line up
to which the log may count, ahead of the lines given so far.

An evaluation whose answer does not say `recorded: false` survives `kill -9`, because its entry was written before the
answer was sent. A power failure costs what was not synced yet: the last `FLUSH_EVERY_S` and the time that the disk
needs. No line number is ever reused. The stored entities are limited in number and in bytes, in memory, on disk, and
while a larger file is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import threading
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import anyio

from codriver import files
from codriver.files.own_folders import make_private_directory
from codriver.log import durable_files
from codriver.log.durable_files import DiskErrorReporter, set_aside
from codriver.log.history_file import HistoryFile, most_read_bytes, open_existing, read_newest
from codriver.log.line_numbers import LineNumbers
from codriver.log.newest_entries import cut, size_of
from codriver.log.output_log import SCHEMA, Entry
from codriver.log.transit_format import EntityWriter, NewerFormatError, UnreadableError
from codriver_datalog.entity_store import BoundedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from codriver.log.output_log import Snapshot

__all__ = ["History", "Loaded", "NewerFormatError", "UnreadableError", "read_history"]

logger = logging.getLogger(__name__)

MAX_ENTITIES = 10_000
MAX_BYTES = 16 * 2**20
FLUSH_EVERY_S = 0.2
"""The rest between two syncs of the file."""
RECORDED_WITHIN_S = 0.1
"""The longest wait of an answer for the disk."""
PREPARED_WITHIN_S = 5.0
"""The longest wait of a first answer for the library that writes lines."""
LINE_BYTES = 200
"""The bytes of a line next to its entity's strings, at most in nearly all."""
SMALL_BYTES = 64 * 2**10
"""The bytes by which a file may always be longer than needed."""
EVALUATED_CODE = "evaluatedCode"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Entries restored at the start, and the line to continue with.

    `report` names the faults of the files in words, None for none.
    """

    entities: tuple[Entry, ...]
    next_line: int
    report: str | None


class History:
    """The history of one workspace, for the lifetime of one server, which holds the workspace's lock.

    `start` comes first, and `read` reads the entries in a thread. A reader of the entries waits for that. `add` and
    `saw_line` may come from any thread and never wait for the disk. While `run` runs, one thread writes their entries
    as they come, and another puts what was written on disk. `close` ends the history.
    """

    def __init__(self, path: Path, *, max_entities: int = MAX_ENTITIES, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._file = HistoryFile(path, most_read_bytes(max_bytes))
        self._line_numbers = LineNumbers(path.with_name(f"{path.name}.lines"))
        self._max_entities = max_entities
        self._max_bytes = max_bytes
        self._stored = BoundedStore(SCHEMA, max_entities, max_bytes)
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._pending: list[Entry] = []
        """The entries that are not written yet."""
        self._unrecorded: dict[str, float] = {}
        """The evaluations whose code is not written yet, with their lines; infinite for one that never will be."""
        lost = "what was evaluated since is in memory only, and lost if the server ends before it can"
        self._disk_errors = DiskErrorReporter("the history", path, lost)
        self._is_refused = False
        """Whether the disk refused what was written last."""
        self._is_writable = False
        self._is_closed = False
        self._is_prepared = threading.Event()
        """Set once lines can be written without the import of a library."""
        self._is_read = threading.Event()
        """Set once the entries of earlier runs are here, or were found to be unreadable."""
        self._is_prepared.set()
        self._is_read.set()
        self._earlier_bytes = 0
        """The length of the file at the start: what follows was appended by this run."""
        self._first_line = 1
        """The first line that this run's log gives."""
        self._writer: _Writer | None = None
        """The thread that writes entries as they come, only while `run` runs."""
        self._waiting: list[Callable[[], object]] = []
        """Wakes the tasks that wait until entries are written."""
        self._sleeper: Callable[[], object] | None = None
        """Wakes the task that waits for work; None while none waits."""

    def load(self) -> Loaded:
        """Start, and read the entries. Blocks."""
        next_line, report = self.start()
        reports = [report, self.read()]
        with self._lock:
            entities = tuple(map(Entry.from_record, self._stored.records))
        return Loaded(entities, next_line, "; ".join(filter(None, reports)) or None)

    def start(self) -> tuple[int, str | None]:
        """Check the file by its beginning and its end, and reserve lines for the log.

        Returns the line to continue with, and a message for each error in the files. A file that holds no history is
        set aside under a dated name. A file of a newer format stays untouched, and then nothing is written: this run's
        history is only in memory.
        """
        errors: list[str] = []
        self._is_writable, last = True, 0
        try:
            make_private_directory(self._path.parent)
            durable_files.sweep(self._path)
            self._file.size, last = open_existing(self._path, self._max_bytes)
        except NewerFormatError as error:
            self._is_writable = False
            errors.append(f"{self._path} {error}: it stays untouched, and this run's history is kept in memory only")
        except UnreadableError as error:
            self._set_aside(f"{self._path} could not be read ({error})", errors)
        except OSError as error:
            self._refuse(error, errors)
        self._line_numbers.load(last, errors if self._is_writable else [])
        self._earlier_bytes = self._file.size
        self._is_prepared.clear()
        if self._file.size:
            self._is_read.clear()
        self._first_line = self._line_numbers.next_line
        return self._first_line, "; ".join(errors) or None

    def read(self) -> str | None:
        """Read the entries of earlier runs, and return the faults of the file in words. Blocks.

        A file with broken lines is set aside under a dated name, and written again with what could be read. Of a file
        with too many entities, only as many as may be held are in memory at any time, and on disk afterwards.
        """
        errors: list[str] = []
        try:
            EntityWriter().prepare()
            self._is_prepared.set()
            if not self._is_read.is_set():
                self._read(errors)
        finally:
            self._is_prepared.set()
            self._is_read.set()
        return "; ".join(errors) or None

    def _read(self, errors: list[str]) -> None:
        reason, is_whole = "", True
        retained: list[tuple[Entry, int]] = []
        try:
            reading = read_newest(self._path, self._max_entities, self._max_bytes, self._earlier_bytes)
            found = reading.newest.with_sizes()
            # The line number of an entry from elsewhere may be one that this run gives.
            retained = [(entry, size) for entry, size in found if entry.line < self._first_line]
            is_whole = reading.newest.is_complete and not reading.is_torn
            if broken := reading.broken + len(found) - len(retained):
                reason = f"{broken} lines of {self._path} could not be read"
        except (UnreadableError, NewerFormatError) as error:
            reason = f"{self._path} could not be read ({error})"
        except OSError as error:
            self._refuse(error, errors)
        with self._lock:
            since, self._stored = self._stored.records, BoundedStore(SCHEMA, self._max_entities, self._max_bytes)
            for entry, size in retained:
                self._stored.insert(tuple(entry), size)
            for record in since:
                self._insert(Entry.from_record(record))
            self._is_read.set()
        if (
            self._is_closed
            or not self._is_writable
            or not (reason or (retained and (not is_whole or self._is_too_long())))
        ):
            return
        with self._file.writing:
            if reason:
                self._file.close()
                self._set_aside(reason, errors)
            try:
                self._file.write_whole(self._written())
            except OSError as error:
                logger.warning("the history's file could not be written again: %s", error)
                self._file.size = 0  # the next entry tries again

    def _set_aside(self, reason: str, errors: list[str]) -> None:
        """Rename the file, which has this reason, and continue without it."""
        self._file.size = 0
        try:
            if os.path.lexists(self._path):
                errors.append(f"{reason}; it is now {set_aside(self._path)}")
        except OSError as error:
            self._refuse(error, errors)

    def _refuse(self, error: OSError, errors: list[str]) -> None:
        """Keep this run's history in memory only, as the file cannot be used."""
        self._is_writable, self._file.size = False, 0
        why = f"the history {self._path} cannot be used ({error.strerror or error}); this run's is in memory only"
        errors.append(f"{why}: make its folder one of yours that can be written, or set XDG_STATE_HOME")

    def snapshot(self) -> Snapshot:
        """Return the entities now, for a query: those of earlier runs, once they are read, and those of this run."""
        self._is_read.wait()
        with self._lock:
            return self._stored.snapshot()

    def usage(self) -> dict[str, int]:
        """Return the size of the history: entities, bytes in memory and on disk, and the limits."""
        with self._lock:
            return {
                "entities": len(self._stored),
                "bytes": self._stored.bytes,
                "maxBytes": self._max_bytes,
                "diskBytes": self._file.size,
            }

    def add(self, *entries: Entry) -> None:
        """Add entries of the log, their lines ascending: evaluated code alone, in memory now, in the file soon.

        A string of more than 64 KiB retains its head and its tail. Entries beyond the limits are dropped, the oldest
        first.
        """
        self.saw_line(entries[-1].line)
        for entry in entries:
            if entry.category == EVALUATED_CODE:
                self._retain(cut(entry))

    def _retain(self, entry: Entry) -> None:
        with self._lock:
            evicted = self._insert(entry)
            if self._is_closed:
                return
            if entry.evaluation:
                self._unrecorded[entry.evaluation] = entry.line if self._is_writable else math.inf
                if len(self._unrecorded) > self._max_entities:
                    del self._unrecorded[next(iter(self._unrecorded))]
            if self._is_writable:
                self._pending.append(entry)
                # While the disk lags, the entries waiting for it must not hold them either.
                if evicted and self._pending[0].line <= evicted[-1]:
                    self._give_up(evicted[-1])
        self._wake()

    def _insert(self, entry: Entry) -> Sequence[int]:
        """Hold an entry, and return the lines of those that leave for it."""
        return self._stored.insert(tuple(entry), size_of(entry))

    def _give_up(self, line: int) -> None:
        """Drop the pending entries up to a line, which are never written."""
        self._unrecorded |= {e.evaluation: math.inf for e in self._pending if e.evaluation and e.line <= line}
        self._pending = [e for e in self._pending if e.line > line]

    def saw_line(self, line: int) -> None:
        """Record a line that the log has given, so that no later run gives it again."""
        if self._line_numbers.note(line):
            self._wake()
            if self._line_numbers.is_used_up:
                if self._writer is None:
                    self._line_numbers.extend()
                else:
                    self._line_numbers.await_extension()

    def _wake(self) -> None:
        if self._writer is not None:
            self._writer.wake()
        if (wake := self._sleeper) is not None:
            self._sleeper = None
            wake()

    def is_recorded(self, evaluations: Collection[str]) -> bool:
        """Return whether the code of these evaluations, as far as it was sent, is in the file."""
        return not self._unrecorded or self._unrecorded.keys().isdisjoint(evaluations)

    async def await_recorded(self, evaluations: Collection[str]) -> bool:
        """Wait until `is_recorded`, for 100 ms of the disk at most; return whether it is."""
        if not self._is_prepared.is_set():
            await anyio.to_thread.run_sync(self._is_prepared.wait, PREPARED_WITHIN_S)
        loop = asyncio.get_running_loop()
        until = loop.time() + RECORDED_WITHIN_S
        while not self.is_recorded(evaluations):
            if self._is_refused or self._writer is None or math.inf in self._lines_of(evaluations):
                return False
            left_s = min(until - loop.time(), self._writer.patience_s())
            if left_s <= 0:
                return False
            written = asyncio.Event()
            with self._lock:
                self._waiting.append(partial(_call_soon, loop, written.set))
            timeout = loop.call_later(left_s, written.set)
            try:
                if not self.is_recorded(evaluations):
                    await written.wait()
            finally:
                timeout.cancel()
        return True

    def _lines_of(self, evaluations: Collection[str]) -> list[float]:
        return [self._unrecorded.get(evaluation, 0) for evaluation in evaluations]

    async def run(self, report: Callable[[str | None], None] | None = None) -> None:
        """Write added entries as they come and make them durable, until cancelled; if the disk fails, try again.

        `report` gets a message when entries cannot be written, and None when they can be written again.
        """
        self._disk_errors.report = report
        self._writer = _Writer(self._write)
        self._writer.wake()
        try:
            while True:
                await self._await_work()
                await anyio.sleep(FLUSH_EVERY_S)
                with contextlib.suppress(OSError):
                    await anyio.to_thread.run_sync(self.flush)
        finally:
            self._writer.end()
            self._writer = None

    async def _await_work(self) -> None:
        """Return when there is something to put on disk."""
        woken, loop = asyncio.Event(), asyncio.get_running_loop()
        # Made before the check for work, so that no work between the two is overlooked.
        self._sleeper = partial(loop.call_soon_threadsafe, woken.set)
        try:
            if not (self._pending or self._file.has_unsynced or self._line_numbers.is_low):
                await woken.wait()
        finally:
            self._sleeper = None

    def _write(self) -> None:
        """Write what is pending. Errors are noted, and the next `flush` tries again."""
        if self._line_numbers.needs_extension or self._line_numbers.is_stalled:
            self._line_numbers.extend()
        try:
            self._write_pending()
        except OSError as error:
            self._disk_errors.met(error)
        finally:
            if self._waiting:
                self._wake_waiting()

    def _wake_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def _write_pending(self) -> None:
        """Append the pending entries to the file: a killed process does not lose them from then on."""
        with self._file.writing:
            pending = self._pending.copy()  # in one step, as all operations of lists
            if not pending:
                return
            try:
                self._file.append(pending, self._entries)
            except OSError:
                self._is_refused = True
                raise
            self._is_refused = False
            last = pending[-1].line
            with self._lock:
                self._pending = [entry for entry in self._pending if entry.line > last]
                for entry in pending:
                    if entry.evaluation and self._unrecorded.get(entry.evaluation, math.inf) <= last:
                        del self._unrecorded[entry.evaluation]

    def flush(self) -> None:
        """Write all entries that are not in the file yet, and put the file on disk. Blocks.

        Raises:
            OSError: the entries cannot be written; nothing is lost, and the next flush tries again.
        """
        with self._syncing:
            try:
                self._line_numbers.renew()
                self._file.check()
                self._write_pending()
                if self._file.size and self._is_too_long():
                    self._compact()
                self._file.sync()
            except OSError as error:
                self._disk_errors.met(error)
                raise
            finally:
                self._wake_waiting()
            self._disk_errors.over()

    def _compact(self) -> None:
        try:
            self._file.compact(self._written)
        except OSError as error:
            logger.warning("the history's file could not be compacted: %s", error)

    def _is_too_long(self) -> bool:
        """Return whether the file is twice as long as its entities need."""
        if not self._is_read.is_set():
            return False
        with self._lock:
            needed = self._stored.bytes + LINE_BYTES * len(self._stored)
        return self._file.size > 2 * needed + SMALL_BYTES

    def _entries(self) -> list[Entry]:
        """Return all entries held."""
        self._is_read.wait()
        with self._lock:
            return list(map(Entry.from_record, self._stored.records))

    def _written(self) -> list[Entry]:
        """Return the entries held that are in the file, while `self._file.writing` is held."""
        with self._lock:
            records, pending = self._stored.records, {entry.line for entry in self._pending}
        return [entry for entry in map(Entry.from_record, records) if entry.line not in pending]

    def close(self) -> None:
        """Write everything, and the exact line to continue with. Blocks; a second call is harmless."""
        if self._is_closed:
            return
        try:
            self.flush()
        except OSError as error:
            logger.warning("the history could not be written at the end: %s", error)
        self._is_closed = True
        self._is_read.set()  # no one has to wait any longer
        self._file.close()
        self._line_numbers.close()


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(function)


class _Writer:
    """A thread that calls `write` after each `wake`, until its end.

    A thread of its own, as it must not wait behind a sync: a lock wakes it within some microseconds.
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._has_work = threading.Lock()  # held while there is none
        self._has_work.acquire()
        self._guard = threading.Lock()
        self._is_awake = False
        self._is_finished = False
        self._busy_since: float | None = None
        threading.Thread(target=self._run, name="history", daemon=True).start()

    def wake(self) -> None:
        """Write everything that was added so far."""
        with self._guard:
            if not self._is_awake:
                self._is_awake = True
                self._has_work.release()

    def end(self) -> None:
        """Let the thread finish its current work and end. No one waits for that, because the disk may block."""
        self._is_finished = True
        self.wake()

    def patience_s(self) -> float:
        """Return how long to wait at most for the present work."""
        since = self._busy_since
        return RECORDED_WITHIN_S if since is None else since + RECORDED_WITHIN_S - monotonic()

    def _run(self) -> None:
        while True:
            self._has_work.acquire()
            with self._guard:
                self._is_awake = False
            if self._is_finished:
                return
            self._busy_since = monotonic()
            try:
                self._write()
            except Exception:
                logger.exception("the history could not be written")
            self._busy_since = None


def forget_history(path: Path) -> None:
    """Remove the entities on disk while no server uses them. Harmless if there are none.

    Raises:
        OSError: the entities cannot be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        files.remove(path)


def read_history(path: Path) -> tuple[Entry, ...]:
    """Return the entities on disk while no server uses them. Blocks; changes nothing.

    Raises:
        UnreadableError: the file holds no history.
        NewerFormatError: a newer version wrote it.
        OSError: the file cannot be read.
    """
    if not os.path.lexists(path):
        return ()
    reading = read_newest(path, MAX_ENTITIES, MAX_BYTES)
    return tuple([entry for entry, _ in reading.newest.with_sizes()])
