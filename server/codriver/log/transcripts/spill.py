"""Spill files: stretches of texts on disk, in a folder that one server has to itself for its life.

A server's folder lies in one that all servers of a workspace know, beside a lock that it holds as long as it lives.
So what a killed server left behind is known by its lock being free, and removed by the next one that starts.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
from bisect import bisect_left, bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING

from codriver.files import Links, Rules, locate
from codriver.files.locking import try_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

PRIVATE_FOLDER = 0o700
# What is read is whole blocks: this many characters take 0.05 ms, and an index of them 100 bytes.
BLOCK_CHARACTERS = 64 * 2**10
NAMES_TRIED = 5
LOCK_ENDING = ".lock"
LOCK_NAME = re.compile(r"[0-9a-f]{12}\.lock")  # all else in a place that somebody chose by a link is not ours
# Output may hold half of a surrogate pair, as programs print what they like.
HALVES = "surrogatepass"


def blocks(spans: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    """The characters of these strings, each from a place to before another, in blocks for a file."""
    found: list[str] = []
    room = BLOCK_CHARACTERS
    for string, start, end in spans:
        place = start
        while place < end:
            found.append(string[place : min(end, place + room)])
            place += len(found[-1])
            room -= len(found[-1])
            if not room:
                yield "".join(found)
                found, room = [], BLOCK_CHARACTERS
    if found:
        yield "".join(found)


class UnlockableError(OSError):
    """No folder could be locked, so nobody could tell later whether its server lives."""


class SpillFolder:
    """The folder of one server in `root`, made when its first file is, for that server's life. Used by one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: Path | None = None
        self._lock: int | None = None

    def path(self) -> Path:
        """The folder, which is there now.

        Raises:
            OSError: it cannot be made.
        """
        self._root.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if self._folder is None:
            self._folder = self._claimed()
        self._folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)  # again, where somebody tidied up
        return self._folder

    def _claimed(self) -> Path:
        """A folder that is ours, by a lock that we hold."""
        for _ in range(NAMES_TRIED):
            folder = self._root / secrets.token_hex(6)
            lock_file = folder.with_suffix(LOCK_ENDING)
            lock = _open(lock_file, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                # A sweep that came between making the lock and holding it takes the file away.
                if try_lock(lock) and lock_file.exists():
                    self._lock = lock
                    return folder
            except BaseException:
                os.close(lock)
                lock_file.unlink(missing_ok=True)
                raise
            os.close(lock)
        raise UnlockableError(f"no folder in {self._root} could be locked")

    def remove(self) -> None:
        """Remove the folder with all that is in it, then give up its lock. Again is harmless."""
        if self._folder is None or self._lock is None:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)
        with suppress(OSError):
            if not self._folder.exists():  # else the next start tries, by the lock
                self._folder.with_suffix(LOCK_ENDING).unlink(missing_ok=True)
        self._folder = self._lock = None

    def sweep(self) -> None:
        """Remove what servers left behind that live no more. Where it cannot be told, or removed, it stays."""
        with suppress(OSError):
            for lock_file in sorted(self._root.iterdir()):
                if LOCK_NAME.fullmatch(lock_file.name):
                    _sweep(lock_file)


def _open(file: Path, flags: int) -> int:
    """A descriptor of this user's own file in a folder that the caller knows; no link in its place is followed.

    Raises:
        OSError: it is something else, or cannot be had.
    """
    with locate(file, Links.NEVER, root=file.parent) as place:
        return place.open_private(flags)


def _sweep(lock_file: Path) -> None:
    try:
        lock = _open(lock_file, os.O_RDWR)
    except OSError:  # gone meanwhile, or not ours
        return
    try:
        if try_lock(lock):
            folder = lock_file.with_suffix("")
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():  # else the next one tries
                lock_file.unlink(missing_ok=True)
    except OSError as error:
        logger.debug("%s stays, as it cannot be told whether its server lives: %s", lock_file, error)
    finally:
        os.close(lock)


class SpillFile:
    """One file with the characters of a text from the place `start` to before `end`.

    One thread appends. Any may read what lies before an `end` that it saw.
    """

    def __init__(self, folder: SpillFolder, name: str, start: int) -> None:
        self._folder = folder
        self._name = name
        self._path: Path | None = None
        self._descriptor: int | None = None
        self.is_full = False
        """Whether it takes no more, for good."""
        self.start = start
        self.end = start
        self._places: list[int] = []
        """Of each block, where its first character stands in the text."""
        self._offsets = [0]
        """Of each block the first byte in the file, and behind the last the file's length."""

    @property
    def size(self) -> int:
        """In bytes."""
        return self._offsets[-1]

    def append(self, blocks: Sequence[str]) -> int:
        """Write what follows in the text; how many bytes it takes. Blocks. Afterwards comes more, or `rest`.

        Raises:
            OSError: it could not be written; what is read stays as before, and the file takes no more.
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
            flags |= os.O_CREAT  # not again: what was appended to an empty one would be found nowhere
        return _open(self._path, flags)

    def rest(self) -> None:
        """Hold no resource of the system until there is more to append. Again is harmless."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def read(self, start: int, end: int) -> str:
        """The characters of the text from `start` to before `end`, all of them in this file. Blocks.

        Raises:
            OSError: the file is not there any more, or not as it was written.
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
        """Remove the file. Blocks; again is harmless."""
        self.rest()
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


def _write(descriptor: int, blocks: list[bytes]) -> None:
    """Write all of it, where the system can in one go and without a copy."""
    written = os.writev(descriptor, blocks) if hasattr(os, "writev") else 0
    if written < sum(map(len, blocks)):
        left = memoryview(b"".join(blocks))[written:]
        while left:
            left = left[os.write(descriptor, left) :]
