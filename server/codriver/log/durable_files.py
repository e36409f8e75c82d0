"""The files of a history: read in pieces, whole whenever the process or the machine ends, never through a link.

Everything here blocks, and raises `OSError` if the disk refuses, or if anything but a regular file of this user lies in
a file's place. Disk trouble, a store whose files cannot be written, is told at its begin and end and not at each try.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from typing import TYPE_CHECKING

from codriver import files
from codriver.files import Links, Rules, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


def read(path: Path, most_bytes: int) -> Iterator[bytes]:
    """The file, in pieces; nothing for a missing file.

    Raises:
        UnsafeFileError: the file is no regular file of this user alone, or has more bytes.
    """
    with contextlib.suppress(FileNotFoundError):
        yield from files.read_pieces(path, Rules(Links.NEVER, most_bytes, is_granting=True), root=path.parent)


def read_ends(path: Path, most_bytes: int, head: int, tail: int) -> tuple[bytes, bytes, int] | None:
    """Return the first and the last bytes of a file, and its size; None for a missing file.

    Raises:
        UnsafeFileError: the file is no regular file of this user alone, or has more bytes.
    """
    rules = Rules(Links.NEVER, most_bytes, is_granting=True)
    with contextlib.suppress(FileNotFoundError), files.locate(path, Links.NEVER, root=path.parent) as place:
        descriptor = place.open(rules)
        try:
            size = os.fstat(descriptor).st_size
            if size > most_bytes:
                raise TooLargeError(path, most_bytes, size)
            first = os.read(descriptor, head)
            os.lseek(descriptor, max(0, size - tail), os.SEEK_SET)
            return first, _read_whole(descriptor, min(size, tail)), size
        finally:
            os.close(descriptor)
    return None


def _read_whole(descriptor: int, count: int) -> bytes:
    read = bytearray()
    while len(read) < count and (piece := os.read(descriptor, count - len(read))):
        read += piece
    return bytes(read)


def last_byte(path: Path, size: int) -> bytes:
    """Return the last byte of a file of this size."""
    with files.locate(path, Links.NEVER, root=path.parent) as place:
        descriptor = place.open(Rules(Links.NEVER, size))
        try:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            return os.read(descriptor, 1)
        finally:
            os.close(descriptor)


def replace(path: Path, content: bytes | Iterable[bytes], *, is_durable: bool = True) -> None:
    """Replace a file, as a whole or not at all, and wait until a durable one is on disk."""
    files.replace(path, content, links=Links.NEVER, root=path.parent, is_durable=is_durable)


def sweep(path: Path) -> None:
    """Remove the rests that a crash left of replacements for this file, or for files with longer names beside it."""
    for leftover in path.parent.glob(f".{path.name}*.tmp"):
        with contextlib.suppress(OSError):
            files.remove(leftover)


def set_aside(path: Path) -> Path:
    """Rename a file to a name with the date; the new path."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    number = 0
    while True:
        aside = path.with_name(f"{path.name}.unreadable-{stamp}" + (f"-{number}" if number else ""))
        if not os.path.lexists(aside):
            files.rename(path, aside)
            return aside
        number += 1


logger = logging.getLogger(__name__)

FULL = frozenset((errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)))


class DiskTrouble:
    """Trouble in writing the files of one store, for the store's life.

    `name`: the store's, in words. `place`: the folder of its files. `meanwhile`: the place and the fate of its content
    while the files cannot be written.
    """

    def __init__(self, name: str, place: Path | None, meanwhile: str) -> None:
        self.why: str | None = None
        """The reason why nothing can be written now; None while writing works."""
        self.tell: Callable[[str | None], None] | None = None
        """The function that is told of a trouble that begins, in words, and of its end by None; in the thread that met
        it."""
        self._name = name
        self._place = place
        self._meanwhile = meanwhile

    def met(self, error: OSError) -> None:
        """Note that writing failed."""
        is_news, self.why = self.why is None, error.strerror or str(error)
        if is_news:
            mend = "make room on its disk" if error.errno in FULL else "make that a place that you can write"
            self._say(
                f"{self._name} cannot be written to {self._place} ({self.why}); {self._meanwhile}: {mend}, or set "
                "XDG_STATE_HOME and start the server anew"
            )

    def over(self) -> None:
        """Note that writing worked."""
        if self.why is not None:
            self.why = None
            self._say(None)

    def _say(self, words: str | None) -> None:
        logger.warning("%s", words or f"{self._name} can be written to {self._place} again")
        if self.tell is not None:
            self.tell(words)
