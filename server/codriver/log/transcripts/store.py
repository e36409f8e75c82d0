"""What the texts of one server take, in memory and on disk, and the thread that moves them from one to the other."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from codriver.log.transcripts.spill import SpillFile, SpillFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

logger = logging.getLogger(__name__)

STREAMS_IN_ALL = 4
"""How many texts of the greatest size fit into what all may take on disk."""
FILES_A_STREAM = 16
"""How finely the oldest part of a text on disk is dropped: a file at a time."""
SMALL_CHARACTERS = 4096  # many thousands of pieces would take longer to go through than these to copy
MAX_MOVING = 128 * 2**20
"""Characters on their way to the disk in all: while there are fewer, a text that is printed faster than the disk takes
it loses nothing. A disk that hangs must not fill the memory."""
GATHER_S = 0.1
"""How long a text that comes is left to grow before it is written: far less than memory has room for. Each use of the
disk takes the interpreter from the event loop for a moment, which is a long one where the machine is busy."""
CLOSE_S = 2.0
"""How long an end waits for the disk."""


@dataclass(frozen=True, slots=True)
class SpillRoom:
    """Where texts that are too long for memory go: at most `max_bytes` in all, in a folder of their own in `root`."""

    root: Path
    max_bytes: int


class Spilling(Protocol):
    """A text of which a part is in files."""

    age: int
    """The lower the older."""

    def drop_file(self) -> SpillFile:
        """Drop what is in the oldest file, and give that to be removed. Called with the lock held."""


class Store:
    """The room that all texts of a server share, for its life. Without a `room` all of them stay in memory.

    What follows is touched only with the `lock` held, which nobody holds while using the disk: `held`, the characters
    in memory; `moving`, those of them on their way to the disk; `bytes`, what files take.
    """

    def __init__(self, max_held: int, room: SpillRoom | None = None) -> None:
        self.max_held = max_held
        """What one text keeps in memory where it cannot go to the disk, in characters."""
        self.small_characters = min(SMALL_CHARACTERS, max_held // 1000)
        """What comes in pieces smaller than this is put together."""
        self.lock = threading.Lock()
        self.held = self.moving = self.bytes = 0
        self.trouble: str | None = None
        """Why nothing can be written at the moment."""
        self.is_closed = False
        self.max_bytes = room.max_bytes if room else 0
        self.max_stream_bytes = max(1, self.max_bytes // STREAMS_IN_ALL)
        self._max_file_bytes = max(1, self.max_stream_bytes // FILES_A_STREAM)
        self._root = room.root if room else None
        self._folder = SpillFolder(room.root) if room and room.max_bytes else None
        self._files = 0
        self._used: SpillFile | None = None
        self._spilling: dict[Spilling, None] = {}
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Remove what killed servers left of theirs, while this one goes on. Also where this one keeps no files."""
        if self._root is not None and self._root.is_dir():
            self.submit(SpillFolder(self._root).sweep)

    @property
    def spills(self) -> bool:
        """Whether texts go to the disk."""
        return self._folder is not None and not self.is_closed

    def submit(self, job: Callable[[], None]) -> None:
        """Do this in the thread for the disk, after all that it was given before."""
        if self.is_closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="spill files", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def is_behind(self, unwritten: int, *, is_moving: bool) -> bool:
        """Whether a text holds more than it may, with so much that is not written. Called with the lock held."""
        is_hopeful = is_moving and self.trouble is None and self.held <= MAX_MOVING
        return unwritten > self.max_held and not is_hopeful

    def file_for(self, last: SpillFile | None, name: str, start: int) -> SpillFile:
        """The file to go on in from the place `start`: the last one, or a new one after one that is full."""
        if last is not None and not last.is_full and last.size < self._max_file_bytes:
            return last
        if self._folder is None:
            raise RuntimeError("there is no room for files")
        self._files += 1
        return SpillFile(self._folder, f"{name}.{self._files}", start)

    def use(self, file: SpillFile | None) -> None:
        """Say which file is appended to next; the one before lets go of the system. In the thread for the disk."""
        if self._used is not None and self._used is not file:
            self._used.rest()
        self._used = file

    def wrote(self, text: Spilling, size: int) -> None:
        """A text wrote so many bytes. Called with the lock held."""
        self.bytes += size
        self._spilling[text] = None
        if self.trouble is not None:
            logger.warning("long texts of evaluations can be written to disk again")
        self.trouble = None

    def failed(self, error: OSError) -> None:
        """The disk could not be written. Called with the lock held."""
        if self.trouble is None:
            logger.warning("long texts of evaluations cannot be written to disk, and are kept in memory: %s", error)
        self.trouble = error.strerror or str(error)

    def dropped(self, size: int) -> None:
        """A file of so many bytes holds nothing any more. Called with the lock held."""
        self.bytes -= size

    def emptied(self, text: Spilling) -> None:
        """Nothing of this text is in files any more. Called with the lock held."""
        self._spilling.pop(text, None)

    def trim(self) -> None:
        """While there is more on disk than may be, drop from the oldest text. In the thread for the disk."""
        gone: list[SpillFile] = []
        with self.lock:
            while self.bytes > self.max_bytes and self._spilling:
                oldest = min(self._spilling, key=lambda text: text.age)
                gone.append(oldest.drop_file())
        for file in gone:
            file.remove()

    def usage(self) -> dict[str, object]:
        """What texts take, for people and programs to see: bytes in memory and on disk, and what is wrong there."""
        with self.lock:
            fields: dict[str, object] = {"keptBytes": self.held, "spilledBytes": self.bytes}
            if self.trouble is not None:
                fields["spillTrouble"] = f"long texts cannot be written to {self._root}: {self.trouble}"
        return fields

    @property
    def settled(self) -> int:
        """The characters in memory that do not go to the disk soon."""
        return max(0, self.held - min(self.moving, MAX_MOVING))

    def close(self) -> None:
        """Remove all files, and end. Blocks, but no longer than a moment where the disk hangs; again is harmless."""
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
