"""Write parts of long strings to disk to limit the memory that they use.

All servers of a workspace share a parent directory. In it, each server has its own directory, and next to that a lock
file, which it keeps locked while it runs. If a server is killed, the next one that starts recognizes the directory by
the free lock, and removes it.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
import time
from bisect import bisect_left, bisect_right
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

import anyio

from codriver.files import PRIVATE_DIRECTORY_MODE, FileRules, Links, locate, remove, remove_tree
from codriver.files.file_locks import remove_locked_file, try_lock
from codriver.files.private_directories import make_private_directory
from codriver.log.durable_files import DiskErrorReporter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

MAX_NAME_ATTEMPTS = 5
"""Maximum number of random names tried for the directory."""
LOCK_SUFFIX = ".lock"
LOCK_NAME_PATTERN = re.compile(r"[0-9a-f]{12}\.lock")  # anything else in that directory does not belong to Codriver
# Programs can print unpaired surrogates.
SURROGATE_ERRORS = "surrogatepass"

FULL_STREAMS = 4
"""Number of strings of the maximum size that fit into the disk space.

The maximum size is computed from this number.
"""
MAX_FILES_PER_STREAM = 16
"""Maximum number of files for one string. The string's oldest part is dropped one file at a time."""
MAX_JOINED_CHARACTERS = 4096
"""Maximum length up to which chunks are joined. Copying is then faster than iterating over many small chunks."""
MAX_UNWRITTEN_CHARACTERS = 128 * 2**20
"""Maximum number of characters waiting to be written, across all strings.

Up to this number, nothing is lost if a string grows faster than the disk can write. The limit keeps the memory from
filling up if the disk is blocked.
"""
PAUSE_THRESHOLD_CHARACTERS = 16 * 2**20
"""Number of unwritten characters above which a program's output is paused, if possible, until some are written."""
PAUSE_POLL_INTERVAL_S = 0.01
"""Interval, in seconds, for checking whether paused output can continue."""
BLOCKED_DISK_THRESHOLD_S = 1.0
"""Seconds without a completed write after which the disk counts as blocked and output no longer waits for it."""
WRITE_DELAY_S = 0.1
"""Time, in seconds, for which text is collected before it is written.

Each disk access prevents the event loop from running for a moment, which can be noticeable on a busy machine.
"""
CLOSE_TIMEOUT_S = 2.0
"""Maximum time, in seconds, to wait for the disk when the store is closed."""


class SpillLockError(OSError):
    """Raised when no directory for spill files could be locked."""


class SpillDirectory:
    """The directory for the spill files of one server, created below `root` with the first file. Not thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._directory: Path | None = None
        self._lock: int | None = None

    def path(self) -> Path:
        """Return the path of the directory, and create it if necessary.

        Raises:
            OSError: the directory cannot be created.
        """
        make_private_directory(self._root)
        if self._directory is None:
            self._directory = self._lock_new_directory()
        self._directory.mkdir(mode=PRIVATE_DIRECTORY_MODE, exist_ok=True)  # again, in case somebody removed it
        return self._directory

    def _lock_new_directory(self) -> Path:
        """Choose an unused name for the directory, and lock it."""
        for _ in range(MAX_NAME_ATTEMPTS):
            directory = self._root / secrets.token_hex(6)
            lock_file = directory.with_suffix(LOCK_SUFFIX)
            lock = _open(lock_file, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                # Another server's sweep may remove the file before it is locked.
                if try_lock(lock) and lock_file.exists():
                    self._lock = lock
                    return directory
            except BaseException:
                os.close(lock)
                with suppress(OSError):
                    remove(lock_file)
                raise
            os.close(lock)
        raise SpillLockError(f"no directory for long texts could be locked in {self._root}")

    def remove(self) -> None:
        """Delete the directory and its files, and release the lock. May be called repeatedly."""
        if self._directory is None or self._lock is None:
            return
        remove_tree(self._directory)
        os.close(self._lock)
        with suppress(OSError):
            if not self._directory.exists():  # otherwise the lock remains, and the next server tries again
                remove(self._directory.with_suffix(LOCK_SUFFIX))
        self._directory = self._lock = None

    def remove_abandoned(self) -> None:
        """Delete the directories of servers that are no longer running. Those that cannot be locked are skipped."""
        with suppress(OSError):
            for lock_file in sorted(self._root.iterdir()):
                if LOCK_NAME_PATTERN.fullmatch(lock_file.name):
                    _remove_abandoned(lock_file)


def _open(file: Path, flags: int) -> int:
    """Open a private file of this user without following links.

    Raises:
        OSError: the file cannot be opened, or is not a private regular file of this user.
    """
    with locate(file, Links.NEVER, root=file.parent) as position:
        return position.open_private(flags)


def _remove_abandoned(lock_file: Path) -> None:
    try:
        lock = _open(lock_file, os.O_RDWR)
    except OSError:  # it has been removed, or belongs to another user
        return
    is_over = False
    try:
        if try_lock(lock):
            directory = lock_file.with_suffix("")
            remove_tree(directory)
            is_over = not directory.exists()  # otherwise the next server tries again
    except OSError as error:
        logger.debug("%s was not removed, because it is unknown whether its server is running: %s", lock_file, error)
    if is_over:
        with suppress(OSError):
            remove_locked_file(lock_file, lock)
    else:
        os.close(lock)


class SpillFile:
    """A file with the characters of a string from position `start` up to but not including `end`.

    One thread may append. Any thread may read up to an `end` that it has observed.
    """

    def __init__(self, directory: SpillDirectory, name: str, start: int) -> None:
        self._directory = directory
        self._name = name
        self._path: Path | None = None
        self._descriptor: int | None = None
        self.is_full = False
        """Whether nothing more can be appended."""
        self.start = start
        self.end = start
        self._positions: list[int] = []
        """The position in the string of each block's first character."""
        self._offsets = [0]
        """The offset in the file of each block's first byte, followed by the size of the file."""

    @property
    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self._offsets[-1]

    def append(self, blocks: Sequence[str]) -> int:
        """Write blocks of text, and return their size in bytes. Blocks on disk I/O.

        Call `close_until_append` if nothing more follows soon.

        Raises:
            OSError: writing failed. The file can still be read, but not appended to.
        """
        encoded = [block.encode("utf-8", SURROGATE_ERRORS) for block in blocks]
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            _write(self._descriptor, encoded)
        except OSError:
            self.is_full = True
            if self._descriptor is not None:
                with suppress(OSError):
                    os.ftruncate(self._descriptor, self.size)
            raise
        before = self.size
        for block, content in zip(blocks, encoded, strict=True):
            self._offsets.append(self.size + len(content))
            self._positions.append(self.end)
            self.end += len(block)
        return self.size - before

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND
        if self._path is None:
            self._path = self._directory.path() / self._name
            flags |= os.O_CREAT  # only once: text appended to a recreated, empty file would never be found
        return _open(self._path, flags)

    def close_until_append(self) -> None:
        """Close the file. The next append opens it again. May be called repeatedly."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def read(self, start: int, end: int) -> str:
        """Return the characters from `start` up to but not including `end`, all of which must be in this file.

        Blocks on disk I/O.

        Raises:
            OSError: the file cannot be read, or another program has changed it.
        """
        if self._path is None or start >= end:
            return ""
        first, beyond = bisect_right(self._positions, start) - 1, bisect_left(self._positions, end)
        offset, until = self._offsets[first], self._offsets[beyond]
        with locate(self._path, Links.NEVER, root=self._path.parent) as located:
            descriptor = located.open(FileRules(Links.NEVER, until))
        with os.fdopen(descriptor, "rb") as file:
            file.seek(offset)
            raw = file.read(until - offset)
        if len(raw) < until - offset:
            raise OSError(f"{self._path} is shorter than expected: another program changed it")
        try:
            text = raw.decode("utf-8", SURROGATE_ERRORS)
        except UnicodeDecodeError as error:
            raise OSError(f"{self._path} does not contain what was written: another program changed it") from error
        started = self._positions[first]
        if len(text) < end - started:
            raise OSError(f"{self._path} does not contain what was written: another program changed it")
        return text[start - started : end - started]

    def remove(self) -> None:
        """Delete the file. Blocks on disk I/O. May be called repeatedly."""
        self.close_until_append()
        if self._path is not None:
            with suppress(OSError):
                remove(self._path)


def _write(descriptor: int, blocks: list[bytes]) -> None:
    """Write all blocks, in one system call and without copying if possible."""
    written = os.writev(descriptor, blocks) if hasattr(os, "writev") else 0
    if written < sum(map(len, blocks)):
        left = memoryview(b"".join(blocks))[written:]
        while left:
            left = left[os.write(descriptor, left) :]


@dataclass(frozen=True, slots=True)
class SpillCapacity:
    """The disk space for long strings: at most `max_bytes` in a directory below `root`."""

    root: Path
    max_bytes: int


class SpilledText(Protocol):
    """A string that is partly in files. `SpillStore` can make it smaller when the disk space is used up."""

    age: int
    """Strings with a lower age lose their files first."""

    def drop_file(self) -> SpillFile:
        """Forget the oldest file and return it, so that the caller can delete it. Requires the store's lock."""


class SpillStore:
    """Manages the memory and disk space that all strings of a server share.

    Without `capacity`, nothing is written to disk. Hold `lock` to access these fields, but never during disk access:

    - `stored` is the number of characters in memory.
    - `moving` is the number of characters waiting to be written.
    - `movers` is the number of strings with such characters.
    - `bytes` is the total size of the files.
    """

    def __init__(self, max_stored: int, capacity: SpillCapacity | None = None) -> None:
        self.max_stored = max_stored
        """Maximum number of characters of one string that stay in memory while they cannot be written."""
        self.small_characters = min(MAX_JOINED_CHARACTERS, max_stored // 1000)
        """Maximum length to which small chunks of a string are joined."""
        self.lock = threading.Lock()
        self.stored = self.moving = self.movers = self.bytes = 0
        position = capacity.root if capacity else None
        self.issue = DiskErrorReporter(
            "long texts of evaluations", position, "only the newest part of each is kept, in memory"
        )
        self.is_closed = False
        self.max_bytes = capacity.max_bytes if capacity else 0
        self.max_stream_bytes = max(1, self.max_bytes // FULL_STREAMS)
        self.max_file_bytes = max(1, self.max_stream_bytes // MAX_FILES_PER_STREAM)
        self._root = capacity.root if capacity else None
        self._directory = SpillDirectory(capacity.root) if capacity and capacity.max_bytes else None
        self._files = 0
        self._used: SpillFile | None = None
        self._writes = 0
        """Number of completed writes."""
        self._hung_after: int | None = None
        """The number of writes that had completed when the disk was found to be blocked."""
        self._spilling: dict[SpilledText, None] = {}
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start_cleanup(self, report: Callable[[str | None], None] | None = None) -> None:
        """Start removing the directories of servers that were killed, in the disk thread.

        `report` receives a message when strings cannot be written, and None when they can be written again. It is
        called in the disk thread with the lock held.
        """
        self.issue.report = report
        if self._root is not None and self._root.is_dir():
            self.submit(SpillDirectory(self._root).remove_abandoned)

    @property
    def writes_to_disk(self) -> bool:
        """Return whether long strings are written to the disk."""
        return self._directory is not None and not self.is_closed

    def submit(self, job: Callable[[], None]) -> None:
        """Run a function in the disk thread, after those submitted before."""
        if self.is_closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_jobs, name="spill files", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def is_behind(self, unwritten: int, *, is_moving: bool) -> bool:
        """Return whether a string must drop text because too much of it is unwritten. Requires the lock.

        Text that is being written (`is_moving`) is retained as long as the disk works and the total is below a limit.
        """
        is_hopeful = is_moving and self.issue.why is None and self.stored <= MAX_UNWRITTEN_CHARACTERS
        return unwritten > self.max_stored and not is_hopeful

    async def wait_until_written(self) -> None:
        """Wait while a lot of text is unwritten, unless the disk is blocked. This slows down a program's output."""
        seen, waited_s = self._writes, 0.0
        while self.stored > PAUSE_THRESHOLD_CHARACTERS and self.movers and self._writes != self._hung_after:
            await anyio.sleep(PAUSE_POLL_INTERVAL_S)
            waited_s += PAUSE_POLL_INTERVAL_S
            if self._writes != seen:
                seen, waited_s = self._writes, 0.0
            elif waited_s >= BLOCKED_DISK_THRESHOLD_S:
                self._hung_after = seen

    def select_file(self, last: SpillFile | None, name: str, start: int) -> SpillFile:
        """Return the file to which text at position `start` is appended.

        This is `last`, or a new file if `last` is full or None.
        """
        if last is not None and not last.is_full and last.size < self.max_file_bytes:
            return last
        if self._directory is None:
            raise RuntimeError("no directory for long texts is configured")
        self._files += 1
        return SpillFile(self._directory, f"{name}.{self._files}", start)

    def close_previous(self, file: SpillFile | None) -> None:
        """Close the file that was used last, unless it is `file`. Runs in the disk thread."""
        if self._used is not None and self._used is not file:
            self._used.close_until_append()
        self._used = file

    def record_written(self, text: SpilledText, size: int) -> None:
        """Record that `size` bytes of a string were written. Requires the lock."""
        self.bytes += size
        self._writes += 1
        self._spilling[text] = None
        self.issue.report_recovery()

    def record_error(self, error: OSError) -> None:
        """Record a disk error. Requires the lock."""
        self.issue.report_error(error)

    def record_dropped(self, size: int) -> None:
        """Record that a file of `size` bytes is no longer used. Requires the lock."""
        self.bytes -= size

    def record_emptied(self, text: SpilledText) -> None:
        """Record that a string has no more files. Requires the lock."""
        self._spilling.pop(text, None)

    def drop_oldest_files(self) -> None:
        """Delete files of the oldest strings while the limit of the disk space is exceeded. Runs in the disk thread."""
        gone: list[SpillFile] = []
        with self.lock:
            while self.bytes > self.max_bytes and self._spilling:
                oldest = min(self._spilling, key=lambda text: text.age)
                gone.append(oldest.drop_file())
        for file in gone:
            file.remove()

    def usage(self) -> dict[str, object]:
        """Return the size of all strings in memory and on disk, and any disk error, for `server_health`."""
        with self.lock:
            fields: dict[str, object] = {"keptBytes": self.stored, "spilledBytes": self.bytes}
            if self.issue.why is not None:
                fields["spillTrouble"] = f"long texts cannot be written to {self._root}: {self.issue.why}"
        return fields

    @property
    def resident_characters(self) -> int:
        """Return the number of characters in memory that are not about to be written to disk."""
        return max(0, self.stored - min(self.moving, MAX_UNWRITTEN_CHARACTERS))

    def close(self) -> None:
        """Remove all files and end the disk thread. Waits up to `CLOSE_TIMEOUT_S`. May be called repeatedly."""
        with self.lock:
            was_closed, self.is_closed = self.is_closed, True
        if self._thread is not None and not was_closed:
            self._jobs.put(None)
            self._thread.join(CLOSE_TIMEOUT_S)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._jobs.empty():
                time.sleep(WRITE_DELAY_S)
            try:
                job()
            except Exception:
                logger.exception("internal error in Codriver while storing a long text")
            if self._jobs.empty():
                self.close_previous(None)
        self.close_previous(None)
        if self._directory is not None:
            self._directory.remove()
