"""Spill files: parts of long strings on disk, and the store that counts the size of strings and moves them to disk.

A server's directory is next to a lock that the server holds while it runs, in a directory that all servers of a
workspace share. So the files of a killed server are recognised by their free lock, and removed by the next server that
starts.
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

from codriver.files import PRIVATE_DIRECTORY_MODE, Links, Rules, locate, remove, remove_tree
from codriver.files.own_folders import make_private_directory, remove_locked, try_lock
from codriver.log.durable_files import DiskErrorReporter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

NAMES_TRIED = 5
LOCK_ENDING = ".lock"
LOCK_NAME = re.compile(r"[0-9a-f]{12}\.lock")  # all other files at a place that somebody chose by a link are not ours
# Output may hold half of a surrogate pair: a program prints anything.
HALVES = "surrogatepass"

STREAMS_IN_ALL = 4
"""The number of strings of the greatest size that fit into the disk space for all."""
FILES_A_STREAM = 16
"""The number of files of a string: its oldest part is dropped a file at a time."""
SMALL_CHARACTERS = 4096  # many thousands of chunks would take longer to go through than these characters to copy
MAX_MOVING = 128 * 2**20
"""Characters on their way to the disk in all: below this bound a string that is printed faster than the disk writes
loses nothing. A disk that hangs must not fill the memory.
"""
MOST_AHEAD = 16 * 2**20
"""The characters in memory above which a program's output is held up, if possible, until the disk has more."""
AHEAD_S = 0.01
"""Between two inspects that number."""
HANGS_S = 1.0
"""How long no write may end until the disk counts as hanging, for which no one waits."""
GATHER_S = 0.1
"""How long a new text may grow before it is written.

Each use of the disk takes the interpreter from the event loop for a moment, which is a long one on a busy machine.
"""
CLOSE_S = 2.0
"""How long an end waits for the disk."""


class UnlockableError(OSError):
    """No directory could be locked, so no one could tell later whether its server lives."""


class SpillDirectory:
    """The directory of one server in `root`, created with its first file. Used by one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._directory: Path | None = None
        self._lock: int | None = None

    def path(self) -> Path:
        """Return the path of the directory, which exists from now on.

        Raises:
            OSError: the directory cannot be made.
        """
        make_private_directory(self._root)
        if self._directory is None:
            self._directory = self._claimed()
        self._directory.mkdir(mode=PRIVATE_DIRECTORY_MODE, exist_ok=True)  # again, if somebody tidied up
        return self._directory

    def _claimed(self) -> Path:
        """Create a directory and claim it by a lock."""
        for _ in range(NAMES_TRIED):
            directory = self._root / secrets.token_hex(6)
            lock_file = directory.with_suffix(LOCK_ENDING)
            lock = _open(lock_file, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                # A sweep between making the lock and holding it removes the file.
                if try_lock(lock) and lock_file.exists():
                    self._lock = lock
                    return directory
            except BaseException:
                os.close(lock)
                with suppress(OSError):
                    remove(lock_file)
                raise
            os.close(lock)
        raise UnlockableError(f"no folder in {self._root} could be locked")

    def remove(self) -> None:
        """Remove the directory with all its files, then release its lock. A second call is harmless."""
        if self._directory is None or self._lock is None:
            return
        remove_tree(self._directory)
        os.close(self._lock)
        with suppress(OSError):
            if not self._directory.exists():  # else the next start tries, by the lock
                remove(self._directory.with_suffix(LOCK_ENDING))
        self._directory = self._lock = None

    def sweep(self) -> None:
        """Remove the directories of dead servers. A directory of unknown state, or that cannot be removed, stays."""
        with suppress(OSError):
            for lock_file in sorted(self._root.iterdir()):
                if LOCK_NAME.fullmatch(lock_file.name):
                    _sweep(lock_file)


def _open(file: Path, flags: int) -> int:
    """Return a descriptor of this user's own file in a directory that the caller knows.

    A link in its place is not followed.

    Raises:
        OSError: the file is something else, or cannot be opened.
    """
    with locate(file, Links.NEVER, root=file.parent) as position:
        return position.open_private(flags)


def _sweep(lock_file: Path) -> None:
    try:
        lock = _open(lock_file, os.O_RDWR)
    except OSError:  # the file is gone, or not ours
        return
    is_over = False
    try:
        if try_lock(lock):
            directory = lock_file.with_suffix("")
            remove_tree(directory)
            is_over = not directory.exists()  # else the next server tries
    except OSError as error:
        logger.debug("%s stays, as it cannot be told whether its server lives: %s", lock_file, error)
    if is_over:
        with suppress(OSError):
            remove_locked(lock_file, lock)
    else:
        os.close(lock)


class SpillFile:
    """One file with the characters of a string from the position `start` to before `end`.

    One thread appends. Any thread may read before an `end` that it saw.
    """

    def __init__(self, directory: SpillDirectory, name: str, start: int) -> None:
        self._directory = directory
        self._name = name
        self._path: Path | None = None
        self._descriptor: int | None = None
        self.is_full = False
        """Whether the file takes no more, permanently."""
        self.start = start
        self.end = start
        self._positions: list[int] = []
        """By block: the place of its first character in the text."""
        self._offsets = [0]
        """By block: its first byte in the file; after the last the file's length."""

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return self._offsets[-1]

    def append(self, blocks: Sequence[str]) -> int:
        """Write the next part of the text; its size in bytes. Blocks. Afterwards comes more, or `rest`.

        Raises:
            OSError: the part could not be written; the file still reads as before, and takes no more.
        """
        encoded = [block.encode("utf-8", HALVES) for block in blocks]
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
            flags |= os.O_CREAT  # not a second time: text appended to a new empty file would be found nowhere
        return _open(self._path, flags)

    def rest(self) -> None:
        """Hold no resource of the system until there is more to append. A second call is harmless."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def read(self, start: int, end: int) -> str:
        """Return the characters of the text from `start` to before `end`, all of them in this file. Blocks.

        Raises:
            OSError: the file is missing, or not as it was written.
        """
        if self._path is None or start >= end:
            return ""
        first, beyond = bisect_right(self._positions, start) - 1, bisect_left(self._positions, end)
        offset, until = self._offsets[first], self._offsets[beyond]
        with locate(self._path, Links.NEVER, root=self._path.parent) as located:
            descriptor = located.open(Rules(Links.NEVER, until))
        with os.fdopen(descriptor, "rb") as file:
            file.seek(offset)
            raw = file.read(until - offset)
        if len(raw) < until - offset:
            raise OSError(f"{self._path} is shorter than what was written")
        try:
            text = raw.decode("utf-8", HALVES)
        except UnicodeDecodeError as error:
            raise OSError(f"{self._path} holds something else than was written") from error
        started = self._positions[first]
        if len(text) < end - started:
            raise OSError(f"{self._path} holds something else than was written")
        return text[start - started : end - started]

    def remove(self) -> None:
        """Remove the file. Blocks; a second call is harmless."""
        self.rest()
        if self._path is not None:
            with suppress(OSError):
                remove(self._path)


def _write(descriptor: int, blocks: list[bytes]) -> None:
    """Write all bytes, in one go and without a copy if the system can."""
    written = os.writev(descriptor, blocks) if hasattr(os, "writev") else 0
    if written < sum(map(len, blocks)):
        left = memoryview(b"".join(blocks))[written:]
        while left:
            left = left[os.write(descriptor, left) :]


@dataclass(frozen=True, slots=True)
class SpillCapacity:
    """The room for strings too long for memory: at most `max_bytes` in all, in its own directory in `root`."""

    root: Path
    max_bytes: int


class Spilling(Protocol):
    """A string with a part in files."""

    age: int
    """The age: the lower, the older."""

    def drop_file(self) -> SpillFile:
        """Drop the text in the oldest file, and give the file to be removed. Called with the lock held."""


class Store:
    """The room that all strings of a server share, for its life. Without a `room` all of them stay in memory.

    These fields are touched only with the `lock` held, which no one holds while using the disk: `held`, the characters
    in memory; `moving`, those of them on their way to the disk, and `movers`, the strings that go there; `bytes`, the
    size of all files.
    """

    def __init__(self, max_stored: int, capacity: SpillCapacity | None = None) -> None:
        self.max_stored = max_stored
        """The most characters of one text in memory while the disk takes none."""
        self.small_characters = min(SMALL_CHARACTERS, max_stored // 1000)
        """The length below which chunks of a string are put together."""
        self.lock = threading.Lock()
        self.stored = self.moving = self.movers = self.bytes = 0
        position = capacity.root if capacity else None
        self.issue = DiskErrorReporter(
            "long texts of evaluations", position, "of each only the newest is kept, in memory"
        )
        self.is_closed = False
        self.max_bytes = capacity.max_bytes if capacity else 0
        self.max_stream_bytes = max(1, self.max_bytes // STREAMS_IN_ALL)
        self.max_file_bytes = max(1, self.max_stream_bytes // FILES_A_STREAM)
        self._root = capacity.root if capacity else None
        self._directory = SpillDirectory(capacity.root) if capacity and capacity.max_bytes else None
        self._files = 0
        self._used: SpillFile | None = None
        self._writes = 0
        """The number of writes so far."""
        self._hung_after: int | None = None
        """The number of writes when the disk was found to hang."""
        self._spilling: dict[Spilling, None] = {}
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, report: Callable[[str | None], None] | None = None) -> None:
        """Remove the directories of killed servers, while this server continues. Also without files of its own.

        `report` gets a message when strings cannot be written, and None when they can be written again. It is called in
        the thread for the disk, with the lock held.
        """
        self.issue.report = report
        if self._root is not None and self._root.is_dir():
            self.submit(SpillDirectory(self._root).sweep)

    @property
    def spills(self) -> bool:
        """Return whether strings go to the disk."""
        return self._directory is not None and not self.is_closed

    def submit(self, job: Callable[[], None]) -> None:
        """Run this job in the thread for the disk, after all earlier jobs."""
        if self.is_closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="spill files", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def is_behind(self, unwritten: int, *, is_moving: bool) -> bool:
        """Return whether a string holds more than its bound, with that much unwritten. Called with the lock held."""
        is_hopeful = is_moving and self.issue.why is None and self.stored <= MAX_MOVING
        return unwritten > self.max_stored and not is_hopeful

    async def wait_until_written(self) -> None:
        """Wait while much is on its way to the disk, unless the disk hangs: for callers that can hold up the output."""
        seen, waited_s = self._writes, 0.0
        while self.stored > MOST_AHEAD and self.movers and self._writes != self._hung_after:
            await anyio.sleep(AHEAD_S)
            waited_s += AHEAD_S
            if self._writes != seen:
                seen, waited_s = self._writes, 0.0
            elif waited_s >= HANGS_S:
                self._hung_after = seen

    def file_for(self, last: SpillFile | None, name: str, start: int) -> SpillFile:
        """Return the file to continue in from the place `start`: the last one, or a new one after one that is full."""
        if last is not None and not last.is_full and last.size < self.max_file_bytes:
            return last
        if self._directory is None:
            raise RuntimeError("there is no room for files")
        self._files += 1
        return SpillFile(self._directory, f"{name}.{self._files}", start)

    def use(self, file: SpillFile | None) -> None:
        """Set the file that is appended to next; the one before releases its resources. In the thread for the disk."""
        if self._used is not None and self._used is not file:
            self._used.rest()
        self._used = file

    def wrote(self, text: Spilling, size: int) -> None:
        """Note that a string wrote so many bytes. Called with the lock held."""
        self.bytes += size
        self._writes += 1
        self._spilling[text] = None
        self.issue.over()

    def failed(self, error: OSError) -> None:
        """Note that the disk could not be written. Called with the lock held."""
        self.issue.met(error)

    def dropped(self, size: int) -> None:
        """Note that a file of so many bytes holds nothing any more. Called with the lock held."""
        self.bytes -= size

    def emptied(self, text: Spilling) -> None:
        """Note that no part of this text is in files any more. Called with the lock held."""
        self._spilling.pop(text, None)

    def trim(self) -> None:
        """Drop from the oldest text while more is on disk than allowed. In the thread for the disk."""
        gone: list[SpillFile] = []
        with self.lock:
            while self.bytes > self.max_bytes and self._spilling:
                oldest = min(self._spilling, key=lambda text: text.age)
                gone.append(oldest.drop_file())
        for file in gone:
            file.remove()

    def usage(self) -> dict[str, object]:
        """Return the size of all strings, in bytes in memory and on disk, and any disk error."""
        with self.lock:
            fields: dict[str, object] = {"keptBytes": self.stored, "spilledBytes": self.bytes}
            if self.issue.why is not None:
                fields["spillTrouble"] = f"long texts cannot be written to {self._root}: {self.issue.why}"
        return fields

    @property
    def staying_characters(self) -> int:
        """Return the characters in memory that will not go to the disk soon."""
        return max(0, self.stored - min(self.moving, MAX_MOVING))

    def close(self) -> None:
        """Remove all files, and end. Blocks, but only a moment if the disk hangs; a second call is harmless."""
        with self.lock:
            was_closed, self.is_closed = self.is_closed, True
        if self._thread is not None and not was_closed:
            self._jobs.put(None)
            self._thread.join(CLOSE_S)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._jobs.empty():
                time.sleep(GATHER_S)
            try:
                job()
            except Exception:
                logger.exception("codriver itself failed in keeping a long text")
            if self._jobs.empty():
                self.use(None)
        self.use(None)
        if self._directory is not None:
            self._directory.remove()
