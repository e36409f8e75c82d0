"""The history: all code evaluated in a workspace, across the runs of its servers.

It is a file to which entries are appended, each as a line in the transit format. When the file is twice as large as its
retained entries require, it is compacted. A small file next to it stores a line number that is higher than any the log
has used.

An entry is written before the answer to its evaluation is sent, so it survives `kill -9` unless the answer contains
`recorded: false`. A power failure can lose the entries of the last `SYNC_INTERVAL_S` seconds and any that the disk had
not written yet. Line numbers are never reused. The number and size of entries are limited in memory, on disk, and while
an oversized file is read.
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
from codriver.errors import format_count
from codriver.files.private_directories import make_private_directory
from codriver.log import durable_files
from codriver.log.durable_files import DiskErrorReporter, rename_broken_file
from codriver.log.entry_sizes import entry_bytes, truncate_entry
from codriver.log.existing_history import check_existing, max_read_bytes, read_newest
from codriver.log.history_file import HistoryFile
from codriver.log.line_numbers import LineNumbers
from codriver.log.log_entries import ENTRY_SCHEMA, Entry
from codriver.log.transit_format import EntryEncoder, NewerFormatError, UnreadableError
from codriver_datalog.bounded_store import BoundedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from codriver_datalog.entity_store import Snapshot

__all__ = ["History", "LoadedHistory", "NewerFormatError", "UnreadableError", "read_history"]

logger = logging.getLogger(__name__)

MAX_ENTRIES = 10_000
"""Maximum number of entries in the history."""
MAX_BYTES = 16 * 2**20
"""Maximum total size of the entries in memory."""
SYNC_INTERVAL_S = 0.2
"""Pause between two syncs of the file to disk, in seconds."""
MAX_RECORD_WAIT_S = 0.1
"""Maximum time, in seconds, for which an answer waits until its entry has been written."""
MAX_IMPORT_WAIT_S = 5.0
"""Maximum time, in seconds, for which the first answer waits for the import of the transit library."""
MAX_LINE_OVERHEAD_BYTES = 200
"""Upper bound on the size of a line in bytes, excluding the strings of its entry."""
COMPACTION_SLACK_BYTES = 64 * 2**10
"""Number of bytes by which the file may exceed its needed size before it is compacted."""
EVALUATED_CODE_CATEGORY = "evaluatedCode"


@dataclass(frozen=True, slots=True)
class LoadedHistory:
    """The history at the start of a server: the entries from earlier runs and the next line number.

    `report` describes errors in the files, or is None.
    """

    entities: tuple[Entry, ...]
    next_line: int
    report: str | None


class History:
    """The code evaluated in one workspace, stored in a file across the runs of its servers.

    A history belongs to one server, which must hold the workspace's lock. Call `start` first, and then `read` in a
    thread to load the entries; queries wait until they are loaded. `add` and `record_used_line` may be called from any
    thread and never wait for the disk. While `run` is active, one thread writes new entries and another syncs the file.
    Call `close` at the end.
    """

    def __init__(self, path: Path, *, max_entities: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._file = HistoryFile(path, max_read_bytes(max_bytes))
        self._line_numbers = LineNumbers(path.with_name(f"{path.name}.lines"))
        self._max_entities = max_entities
        self._max_bytes = max_bytes
        self._stored = BoundedStore(ENTRY_SCHEMA, max_entities, max_bytes)
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._pending: list[Entry] = []
        """Entries that have not been written yet."""
        self._unrecorded: dict[str, float] = {}
        """The line of each evaluation whose code has not been written yet, or infinity if it never will be."""
        lost = (
            "new evaluations are only in memory, and will be lost if the server ends before the history can be written"
        )
        self._disk_errors = DiskErrorReporter("the history", path, lost)
        self._is_refused = False
        """Whether the last write failed."""
        self._is_writable = False
        self._is_closed = False
        self._is_prepared = threading.Event()
        """Set when the transit library has been imported, so that lines can be written quickly."""
        self._is_read = threading.Event()
        """Set when the entries from earlier runs have been loaded, or cannot be."""
        self._is_prepared.set()
        self._is_read.set()
        self._earlier_bytes = 0
        """The size of the file at the start. The rest was appended by this run."""
        self._first_line = 1
        """The first line number of this run."""
        self._writer: _Writer | None = None
        """The thread that writes entries, while `run` is active."""
        self._waiting: list[Callable[[], object]] = []
        """Callbacks for the tasks waiting for entries to be written."""
        self._sleeper: Callable[[], object] | None = None
        """Callback for the task, if any, that is waiting for something to write."""

    def load(self) -> LoadedHistory:
        """Start, and load and return the entries from earlier runs. Blocks on disk I/O."""
        next_line, report = self.start()
        reports = [report, self.read()]
        with self._lock:
            entities = tuple(map(Entry.from_record, self._stored.records))
        return LoadedHistory(entities, next_line, "; ".join(filter(None, reports)) or None)

    def start(self) -> tuple[int, str | None]:
        """Check the beginning and the end of the file, and reserve line numbers. Blocks on disk I/O.

        Returns the next line number, and a description of errors in the files, or None. A file that is not a history is
        renamed. A file in a newer format is left unchanged, and this run's history is then only in memory.
        """
        errors: list[str] = []
        self._is_writable, last = True, 0
        try:
            make_private_directory(self._path.parent)
            durable_files.remove_temporary_files(self._path)
            self._file.size, last = check_existing(self._path, self._max_bytes)
        except NewerFormatError as error:
            self._is_writable = False
            errors.append(
                f"{self._path} cannot be used: {error}. The file is left unchanged, and this run's history is only "
                "in memory"
            )
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
        """Load the entries from earlier runs. Blocks on disk I/O.

        Returns a description of errors in the file, or None. A file with broken lines is renamed and replaced by one
        with the readable entries. Only the newest entries within the limits are loaded.
        """
        errors: list[str] = []
        try:
            EntryEncoder().prepare()
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
            found = reading.newest.sorted_with_sizes()
            # A foreign file may contain line numbers that this run will use. Ignore them.
            retained = [(entry, size) for entry, size in found if entry.line < self._first_line]
            is_whole = reading.newest.is_complete and not reading.is_torn
            if broken := reading.broken + len(found) - len(retained):
                reason = f"{format_count(broken, 'line')} of {self._path} could not be read"
        except (UnreadableError, NewerFormatError) as error:
            reason = f"{self._path} could not be read ({error})"
        except OSError as error:
            self._refuse(error, errors)
        with self._lock:
            since, self._stored = self._stored.records, BoundedStore(ENTRY_SCHEMA, self._max_entities, self._max_bytes)
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
                self._file.replace_content(self._written_entries())
            except OSError as error:
                logger.warning("the history file could not be rewritten: %s", error)
                self._file.size = 0  # rewritten with the next entry

    def _set_aside(self, reason: str, errors: list[str]) -> None:
        """Rename the broken file, add a message with the `reason` to `errors`, and continue without the file."""
        self._file.size = 0
        try:
            if os.path.lexists(self._path):
                errors.append(f"{reason}, so the file was renamed to {rename_broken_file(self._path)}")
        except OSError as error:
            self._refuse(error, errors)

    def _refuse(self, error: OSError, errors: list[str]) -> None:
        """Keep the history of this run only in memory, because the file cannot be used."""
        self._is_writable, self._file.size = False, 0
        why = (
            f"cannot use the history {self._path} ({error.strerror or error}), so this run's history is only in memory"
        )
        errors.append(f"{why}. Make sure that its folder belongs to you and is writable, or set XDG_STATE_HOME")

    def snapshot(self) -> Snapshot:
        """Return the current entries for a query. Blocks until the entries from earlier runs are loaded."""
        self._is_read.wait()
        with self._lock:
            return self._stored.snapshot()

    def usage(self) -> dict[str, int]:
        """Return the number of entries, their size in memory and on disk, and the size limit, for `server_health`."""
        with self._lock:
            return {
                "entities": len(self._stored),
                "bytes": self._stored.bytes,
                "maxBytes": self._max_bytes,
                "diskBytes": self._file.size,
            }

    def add(self, *entries: Entry) -> None:
        """Add log entries in ascending order of their lines. Only entries of category `evaluatedCode` are stored.

        Queries find the entries immediately, and they are written to the file soon afterwards. The middle of a text of
        more than 64 KiB is left out. Beyond the limits, the oldest entries are dropped.
        """
        self.record_used_line(entries[-1].line)
        for entry in entries:
            if entry.category == EVALUATED_CODE_CATEGORY:
                self._retain(truncate_entry(entry))

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
                # If the disk is slow, entries waiting for it must not stay in memory after they are evicted.
                if evicted and self._pending[0].line <= evicted[-1]:
                    self._forget_pending(evicted[-1])
        self._wake()

    def _insert(self, entry: Entry) -> Sequence[int]:
        """Store an entry in memory, and return the lines of the entries that were evicted."""
        return self._stored.insert(tuple(entry), entry_bytes(entry))

    def _forget_pending(self, line: int) -> None:
        """Forget pending entries up to `line` without writing them."""
        self._unrecorded |= {e.evaluation: math.inf for e in self._pending if e.evaluation and e.line <= line}
        self._pending = [e for e in self._pending if e.line > line]

    def record_used_line(self, line: int) -> None:
        """Record that the log has used a line number, so that later runs do not use it again."""
        if self._line_numbers.record_used_line(line):
            self._wake()
            if self._line_numbers.may_be_exhausted:
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
        """Return whether the code of these evaluations has been written to the file."""
        return not self._unrecorded or self._unrecorded.keys().isdisjoint(evaluations)

    async def await_recorded(self, evaluations: Collection[str]) -> bool:
        """Wait up to `MAX_RECORD_WAIT_S` until the code of these evaluations is written, and return whether it is."""
        if not self._is_prepared.is_set():
            await anyio.to_thread.run_sync(self._is_prepared.wait, MAX_IMPORT_WAIT_S)
        loop = asyncio.get_running_loop()
        until = loop.time() + MAX_RECORD_WAIT_S
        while not self.is_recorded(evaluations):
            if self._is_refused or self._writer is None or math.inf in self._lines_of(evaluations):
                return False
            left_s = min(until - loop.time(), self._writer.max_wait_s())
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
        """Write and sync entries until cancelled, and retry after disk errors.

        `report` receives a message when entries cannot be written, and None when they can be written again.
        """
        self._disk_errors.report = report
        self._writer = _Writer(self._write)
        self._writer.wake()
        try:
            while True:
                await self._await_work()
                await anyio.sleep(SYNC_INTERVAL_S)
                with contextlib.suppress(OSError):
                    await anyio.to_thread.run_sync(self.flush)
        finally:
            self._writer.end()
            self._writer = None

    async def _await_work(self) -> None:
        """Wait until there is data to sync to disk."""
        woken, loop = asyncio.Event(), asyncio.get_running_loop()
        # Set before the check, so that work that arrives in between is noticed.
        self._sleeper = partial(loop.call_soon_threadsafe, woken.set)
        try:
            if not (self._pending or self._file.has_unsynced or self._line_numbers.is_low):
                await woken.wait()
        finally:
            self._sleeper = None

    def _write(self) -> None:
        """Write pending entries. Errors are reported, and the next `flush` tries again."""
        if self._line_numbers.needs_extension or self._line_numbers.is_stalled:
            self._line_numbers.extend()
        try:
            self._write_pending()
        except OSError as error:
            self._disk_errors.report_error(error)
        finally:
            if self._waiting:
                self._wake_waiting()

    def _wake_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def _write_pending(self) -> None:
        """Append the pending entries to the file, so that they are not lost if the process is killed."""
        with self._file.writing:
            pending = self._pending.copy()  # atomic, like all methods of lists
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
        """Write all pending entries and sync the file to the disk. Blocks.

        Raises:
            OSError: the entries cannot be written. They stay pending for the next flush.
        """
        with self._syncing:
            try:
                self._line_numbers.reserve_on_disk()
                self._file.detect_replacement()
                self._write_pending()
                if self._file.size and self._is_too_long():
                    self._compact()
                self._file.sync()
            except OSError as error:
                self._disk_errors.report_error(error)
                raise
            finally:
                self._wake_waiting()
            self._disk_errors.report_recovery()

    def _compact(self) -> None:
        try:
            self._file.compact(self._written_entries)
        except OSError as error:
            logger.warning("the history file could not be compacted: %s", error)

    def _is_too_long(self) -> bool:
        """Return whether the file is more than twice as large as its entries require."""
        if not self._is_read.is_set():
            return False
        with self._lock:
            needed = self._stored.bytes + MAX_LINE_OVERHEAD_BYTES * len(self._stored)
        return self._file.size > 2 * needed + COMPACTION_SLACK_BYTES

    def _entries(self) -> list[Entry]:
        self._is_read.wait()
        with self._lock:
            return list(map(Entry.from_record, self._stored.records))

    def _written_entries(self) -> list[Entry]:
        """Return the stored entries that are already in the file. Requires the lock `self._file.writing`."""
        with self._lock:
            records, pending = self._stored.records, {entry.line for entry in self._pending}
        return [entry for entry in map(Entry.from_record, records) if entry.line not in pending]

    def close(self) -> None:
        """Write all entries and the exact next line number, and close the file. Blocks. May be called repeatedly."""
        if self._is_closed:
            return
        try:
            self.flush()
        except OSError as error:
            logger.warning("the history could not be written during shutdown: %s", error)
        self._is_closed = True
        self._is_read.set()  # release any waiting readers
        self._file.close()
        self._line_numbers.close()


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(function)


class _Writer:
    """A thread that calls `write` after each `wake`, until `end` is called.

    Writing has its own thread so that it does not wait for syncs.
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._has_work = threading.Lock()  # locked while there is no work
        self._has_work.acquire()
        self._guard = threading.Lock()
        self._is_awake = False
        self._is_finished = False
        self._busy_since: float | None = None
        threading.Thread(target=self._run, name="history", daemon=True).start()

    def wake(self) -> None:
        """Make the thread call `write` soon."""
        with self._guard:
            if not self._is_awake:
                self._is_awake = True
                self._has_work.release()

    def end(self) -> None:
        """Make the thread exit after the current call of `write`. Does not wait, because the disk may be blocked."""
        self._is_finished = True
        self.wake()

    def max_wait_s(self) -> float:
        """Return the maximum number of seconds that a caller should wait for the current write."""
        since = self._busy_since
        return MAX_RECORD_WAIT_S if since is None else since + MAX_RECORD_WAIT_S - monotonic()

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
    """Delete a history's file if it exists. No server may be using it.

    Raises:
        OSError: the file cannot be deleted.
    """
    with contextlib.suppress(FileNotFoundError):
        files.remove(path)


def read_history(path: Path) -> tuple[Entry, ...]:
    """Return the entries of a history that no server is using, without changing the file. Blocks.

    Raises:
        UnreadableError: the file is not a history.
        NewerFormatError: the file was written by a newer version.
        OSError: the file cannot be read.
    """
    if not os.path.lexists(path):
        return ()
    reading = read_newest(path, MAX_ENTRIES, MAX_BYTES)
    return tuple([entry for entry, _ in reading.newest.sorted_with_sizes()])
