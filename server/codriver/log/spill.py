"""Spill files: stretches of long texts on disk, and the store that counts the size of texts and moves them there.

A server's folder lies in one that all servers of a workspace know, beside a lock that the server holds for its life. So
the rests of a killed server are recognised by their free lock, and removed by the next server that starts.
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

from codriver.files import PRIVATE_FOLDER, Links, Rules, locate, remove, remove_tree
from codriver.files.own_folders import make_private_folder, remove_locked, try_lock
from codriver.log.durable_files import DiskTrouble

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
"""The number of texts of the greatest size that fit into the disk space for all."""
FILES_A_STREAM = 16
"""The number of files of a text: its oldest part is dropped a file at a time."""
SMALL_CHARACTERS = 4096  # many thousands of pieces would take longer to go through than these characters to copy
MAX_MOVING = 128 * 2**20
"""Characters on their way to the disk in all: below this bound a text that is printed faster than the disk writes loses
nothing. A disk that hangs must not fill the memory."""
MOST_AHEAD = 16 * 2**20
"""The characters in memory above which a program's output is held up, if possible, until the disk has more."""
AHEAD_S = 0.01
"""Between two looks at that number."""
HANGS_S = 1.0
"""How long no write may end until the disk counts as hanging, for which nobody waits."""
GATHER_S = 0.1
"""How long a new text is left to grow before it is written: far less than memory has room for. Each use of the disk
takes the interpreter from the event loop for a moment, which is a long one on a busy machine."""
CLOSE_S = 2.0
"""How long an end waits for the disk."""


class UnlockableError(OSError):
    """No folder could be locked, so nobody could tell later whether its server lives."""


class SpillFolder:
    """The folder of one server in `root`, made with its first file, for that server's life. Used by one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: Path | None = None
        self._lock: int | None = None

    def path(self) -> Path:
        """The path of the folder, which exists from now on.

        Raises:
            OSError: the folder cannot be made.
        """
        make_private_folder(self._root)
        if self._folder is None:
            self._folder = self._claimed()
        self._folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)  # again, if somebody tidied up
        return self._folder

    def _claimed(self) -> Path:
        """A folder that is ours, by a lock that we hold."""
        for _ in range(NAMES_TRIED):
            folder = self._root / secrets.token_hex(6)
            lock_file = folder.with_suffix(LOCK_ENDING)
            lock = _open(lock_file, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                # A sweep between making the lock and holding it removes the file.
                if try_lock(lock) and lock_file.exists():
                    self._lock = lock
                    return folder
            except BaseException:
                os.close(lock)
                with suppress(OSError):
                    remove(lock_file)
                raise
            os.close(lock)
        raise UnlockableError(f"no folder in {self._root} could be locked")

    def remove(self) -> None:
        """Remove the folder with all its files, then release its lock. A second call is harmless."""
        if self._folder is None or self._lock is None:
            return
        remove_tree(self._folder)
        os.close(self._lock)
        with suppress(OSError):
            if not self._folder.exists():  # else the next start tries, by the lock
                remove(self._folder.with_suffix(LOCK_ENDING))
        self._folder = self._lock = None

    def sweep(self) -> None:
        """Remove the folders of dead servers. A folder of unknown state, or that cannot be removed, stays."""
        with suppress(OSError):
            for lock_file in sorted(self._root.iterdir()):
                if LOCK_NAME.fullmatch(lock_file.name):
                    _sweep(lock_file)


def _open(file: Path, flags: int) -> int:
    """A descriptor of this user's own file in a folder that the caller knows; a link in its place is not followed.

    Raises:
        OSError: the file is something else, or cannot be opened.
    """
    with locate(file, Links.NEVER, root=file.parent) as place:
        return place.open_private(flags)


def _sweep(lock_file: Path) -> None:
    try:
        lock = _open(lock_file, os.O_RDWR)
    except OSError:  # the file is gone, or not ours
        return
    is_over = False
    try:
        if try_lock(lock):
            folder = lock_file.with_suffix("")
            remove_tree(folder)
            is_over = not folder.exists()  # else the next server tries
    except OSError as error:
        logger.debug("%s stays, as it cannot be told whether its server lives: %s", lock_file, error)
    if is_over:
        with suppress(OSError):
            remove_locked(lock_file, lock)
    else:
        os.close(lock)


class SpillFile:
    """One file with the characters of a text from the place `start` to before `end`.

    One thread appends. Any thread may read before an `end` that it saw.
    """

    def __init__(self, folder: SpillFolder, name: str, start: int) -> None:
        self._folder = folder
        self._name = name
        self._path: Path | None = None
        self._descriptor: int | None = None
        self.is_full = False
        """Whether the file takes no more, for good."""
        self.start = start
        self.end = start
        self._places: list[int] = []
        """By block: the place of its first character in the text."""
        self._offsets = [0]
        """By block: its first byte in the file; behind the last the file's length."""

    @property
    def size(self) -> int:
        """The size in bytes."""
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
            self._places.append(self.end)
            self.end += len(block)
        return self.size - before

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND
        if self._path is None:
            self._path = self._folder.path() / self._name
            flags |= os.O_CREAT  # not a second time: text appended to a new empty file would be found nowhere
        return _open(self._path, flags)

    def rest(self) -> None:
        """Hold no resource of the system until there is more to append. A second call is harmless."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def read(self, start: int, end: int) -> str:
        """The characters of the text from `start` to before `end`, all of them in this file. Blocks.

        Raises:
            OSError: the file is missing, or not as it was written.
        """
        if self._path is None or start >= end:
            return ""
        first, beyond = bisect_right(self._places, start) - 1, bisect_left(self._places, end)
        offset, until = self._offsets[first], self._offsets[beyond]
        with locate(self._path, Links.NEVER, root=self._path.parent) as place:
            descriptor = place.open(Rules(Links.NEVER, until))
        with os.fdopen(descriptor, "rb") as file:
            file.seek(offset)
            raw = file.read(until - offset)
        if len(raw) < until - offset:
            raise OSError(f"{self._path} is shorter than what was written")
        try:
            text = raw.decode("utf-8", HALVES)
        except UnicodeDecodeError as error:
            raise OSError(f"{self._path} holds something else than was written") from error
        begun = self._places[first]
        if len(text) < end - begun:
            raise OSError(f"{self._path} holds something else than was written")
        return text[start - begun : end - begun]

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
class SpillRoom:
    """The room for texts too long for memory: at most `max_bytes` in all, in its own folder in `root`."""

    root: Path
    max_bytes: int


class Spilling(Protocol):
    """A text with a part in files."""

    age: int
    """The age: the lower, the older."""

    def drop_file(self) -> SpillFile:
        """Drop the text in the oldest file, and give the file to be removed. Called with the lock held."""


class Store:
    """The room that all texts of a server share, for its life. Without a `room` all of them stay in memory.

    These fields are touched only with the `lock` held, which nobody holds while using the disk: `held`, the characters
    in memory; `moving`, those of them on their way to the disk, and `movers`, the texts that go there; `bytes`, the
    size of all files.
    """

    def __init__(self, max_held: int, room: SpillRoom | None = None) -> None:
        self.max_held = max_held
        """The most characters of one text in memory while the disk takes none."""
        self.small_characters = min(SMALL_CHARACTERS, max_held // 1000)
        """The length below which pieces of a text are put together."""
        self.lock = threading.Lock()
        self.held = self.moving = self.movers = self.bytes = 0
        place = room.root if room else None
        self.trouble = DiskTrouble("long texts of evaluations", place, "of each only the newest is kept, in memory")
        self.is_closed = False
        self.max_bytes = room.max_bytes if room else 0
        self.max_stream_bytes = max(1, self.max_bytes // STREAMS_IN_ALL)
        self.max_file_bytes = max(1, self.max_stream_bytes // FILES_A_STREAM)
        self._root = room.root if room else None
        self._folder = SpillFolder(room.root) if room and room.max_bytes else None
        self._files = 0
        self._used: SpillFile | None = None
        self._writes = 0
        """The number of writes so far."""
        self._hung_after: int | None = None
        """The number of writes when the disk was found to hang."""
        self._spilling: dict[Spilling, None] = {}
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, tell: Callable[[str | None], None] | None = None) -> None:
        """Remove the folders of killed servers, while this server goes on. Also without files of its own.

        `tell` learns that texts cannot be written, in words, and by None that they can be again: in the thread for the
        disk, with the lock held.
        """
        self.trouble.tell = tell
        if self._root is not None and self._root.is_dir():
            self.submit(SpillFolder(self._root).sweep)

    @property
    def spills(self) -> bool:
        """Whether texts go to the disk."""
        return self._folder is not None and not self.is_closed

    def submit(self, job: Callable[[], None]) -> None:
        """Run this job in the thread for the disk, after all earlier jobs."""
        if self.is_closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="spill files", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def is_behind(self, unwritten: int, *, is_moving: bool) -> bool:
        """Whether a text holds more than its bound, with that much unwritten. Called with the lock held."""
        is_hopeful = is_moving and self.trouble.why is None and self.held <= MAX_MOVING
        return unwritten > self.max_held and not is_hopeful

    async def keep_up(self) -> None:
        """Wait while much is on its way to the disk, unless the disk hangs: for callers that can hold up the output."""
        seen, waited_s = self._writes, 0.0
        while self.held > MOST_AHEAD and self.movers and self._writes != self._hung_after:
            await anyio.sleep(AHEAD_S)
            waited_s += AHEAD_S
            if self._writes != seen:
                seen, waited_s = self._writes, 0.0
            elif waited_s >= HANGS_S:
                self._hung_after = seen

    def file_for(self, last: SpillFile | None, name: str, start: int) -> SpillFile:
        """The file to go on in from the place `start`: the last one, or a new one after one that is full."""
        if last is not None and not last.is_full and last.size < self.max_file_bytes:
            return last
        if self._folder is None:
            raise RuntimeError("there is no room for files")
        self._files += 1
        return SpillFile(self._folder, f"{name}.{self._files}", start)

    def use(self, file: SpillFile | None) -> None:
        """Set the file that is appended to next; the one before releases its resources. In the thread for the disk."""
        if self._used is not None and self._used is not file:
            self._used.rest()
        self._used = file

    def wrote(self, text: Spilling, size: int) -> None:
        """Note that a text wrote so many bytes. Called with the lock held."""
        self.bytes += size
        self._writes += 1
        self._spilling[text] = None
        self.trouble.over()

    def failed(self, error: OSError) -> None:
        """Note that the disk could not be written. Called with the lock held."""
        self.trouble.met(error)

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
        """The size of all texts, for people and programs to see: bytes in memory and on disk, and trouble there."""
        with self.lock:
            fields: dict[str, object] = {"keptBytes": self.held, "spilledBytes": self.bytes}
            if self.trouble.why is not None:
                fields["spillTrouble"] = f"long texts cannot be written to {self._root}: {self.trouble.why}"
        return fields

    @property
    def staying_characters(self) -> int:
        """The characters in memory that will not go to the disk soon."""
        return max(0, self.held - min(self.moving, MAX_MOVING))

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
        if self._folder is not None:
            self._folder.remove()
