"""The files of a history: read in chunks, never through a link, and whole even if the process or the machine stops.

Everything in this module blocks, and raises `OSError` if the disk refuses, or if a path is anything but a regular file
of this user. A store whose files cannot be written is reported when that begins and when it ends, not at each attempt.
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
    """Yield the file, in chunks; nothing for a missing file.

    Raises:
        UnsafeFileError: the file is no regular file of this user alone, or has more bytes.
    """
    with contextlib.suppress(FileNotFoundError):
        yield from files.read_chunks(path, Rules(Links.NEVER, most_bytes, is_granting=True), root=path.parent)


def read_ends(path: Path, most_bytes: int, head: int, tail: int) -> tuple[bytes, bytes, int] | None:
    """Return the first and the last bytes of a file, and its size; None for a missing file.

    Raises:
        UnsafeFileError: the file is no regular file of this user alone, or has more bytes.
    """
    rules = Rules(Links.NEVER, most_bytes, is_granting=True)
    with contextlib.suppress(FileNotFoundError), files.locate(path, Links.NEVER, root=path.parent) as position:
        descriptor = position.open(rules)
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
    while len(read) < count and (chunk := os.read(descriptor, count - len(read))):
        read += chunk
    return bytes(read)


def last_byte(path: Path, size: int) -> bytes:
    """Return the last byte of a file of this size."""
    with files.locate(path, Links.NEVER, root=path.parent) as position:
        descriptor = position.open(Rules(Links.NEVER, size))
        try:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            return os.read(descriptor, 1)
        finally:
            os.close(descriptor)


def replace(path: Path, content: bytes | Iterable[bytes], *, is_durable: bool = True) -> None:
    """Replace a file, as a whole or not at all, and wait until a durable one is on disk."""
    files.replace(path, content, links=Links.NEVER, root=path.parent, is_durable=is_durable)


def sweep(path: Path) -> None:
    """Remove the rests that a crash left of replacements for this file, or for files with longer names next to it."""
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


class DiskErrorReporter:
    """Reports errors in writing the files of one store.

    `name` describes the store, `directory` is where its files are, and `consequence` says where its content goes while
    the files cannot be written.
    """

    def __init__(self, name: str, directory: Path | None, consequence: str) -> None:
        self.why: str | None = None
        """The reason why nothing can be written now; None while writing works."""
        self.report: Callable[[str | None], None] | None = None
        """The function that receives a message when errors begin, and None when they end, in the thread that noticed.
        """
        self._name = name
        self._directory = directory
        self._consequence = consequence

    def met(self, error: OSError) -> None:
        """Note that writing failed."""
        is_new, self.why = self.why is None, error.strerror or str(error)
        if is_new:
            fix = "make room on its disk" if error.errno in FULL else "make that a place that you can write"
            self._notify(
                f"{self._name} cannot be written to {self._directory} ({self.why}); {self._consequence}: {fix}, or set "
                "XDG_STATE_HOME and start the server anew"
            )

    def over(self) -> None:
        """Note that writing worked."""
        if self.why is not None:
            self.why = None
            self._notify(None)

    def _notify(self, words: str | None) -> None:
        logger.warning("%s", words or f"{self._name} can be written to {self._directory} again")
        if self.report is not None:
            self.report(words)
