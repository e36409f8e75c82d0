"""Read files in chunks, replace files atomically, and report disk errors.

All functions block, and raise `OSError` if the disk fails or a path is not a regular file of this user. No function
follows links. Errors in writing a store are reported when they begin and when they end, not for each attempt.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from typing import TYPE_CHECKING

from codriver import files
from codriver.files import FileRules, Links, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


def read(path: Path, max_bytes: int) -> Iterator[bytes]:
    """Yield the content of a file in chunks. Yields nothing if the file does not exist.

    Raises:
        UnsafeFileError: the path is not a regular file that belongs only to this user, or the file is larger than
            `max_bytes`.
    """
    with contextlib.suppress(FileNotFoundError):
        yield from files.read_chunks(path, FileRules(Links.NEVER, max_bytes, is_granting=True), root=path.parent)


def read_ends(path: Path, max_bytes: int, head: int, tail: int) -> tuple[bytes, bytes, int] | None:
    """Return the first `head` bytes, the last `tail` bytes and the size of a file, or None if it does not exist.

    Raises:
        UnsafeFileError: the path is not a regular file that belongs only to this user, or the file is larger than
            `max_bytes`.
    """
    rules = FileRules(Links.NEVER, max_bytes, is_granting=True)
    with contextlib.suppress(FileNotFoundError), files.locate(path, Links.NEVER, root=path.parent) as position:
        descriptor = position.open(rules)
        try:
            size = os.fstat(descriptor).st_size
            if size > max_bytes:
                raise TooLargeError(path, max_bytes, size)
            first = os.read(descriptor, head)
            os.lseek(descriptor, max(0, size - tail), os.SEEK_SET)
            return first, _read_exactly(descriptor, min(size, tail)), size
        finally:
            os.close(descriptor)
    return None


def _read_exactly(descriptor: int, count: int) -> bytes:
    read = bytearray()
    while len(read) < count and (chunk := os.read(descriptor, count - len(read))):
        read += chunk
    return bytes(read)


def read_last_byte(path: Path, size: int) -> bytes:
    """Return the last byte of a file of `size` bytes."""
    with files.locate(path, Links.NEVER, root=path.parent) as position:
        descriptor = position.open(FileRules(Links.NEVER, size))
        try:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            return os.read(descriptor, 1)
        finally:
            os.close(descriptor)


def replace(path: Path, content: bytes | Iterable[bytes], *, is_durable: bool = True) -> None:
    """Replace a file atomically. If `is_durable`, wait until the content is on disk."""
    files.replace(path, content, links=Links.NEVER, root=path.parent, is_durable=is_durable)


def remove_temporary_files(path: Path) -> None:
    """Remove the temporary files left in the directory of `path` by interrupted replacements of it."""
    for leftover in path.parent.glob(f".{path.name}*.tmp"):
        with contextlib.suppress(OSError):
            files.remove(leftover)


def rename_broken_file(path: Path) -> Path:
    """Append the current time to the name of an unreadable file, and return the new path."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    number = 0
    while True:
        aside = path.with_name(f"{path.name}.unreadable-{stamp}" + (f"-{number}" if number else ""))
        if not os.path.lexists(aside):
            files.rename(path, aside)
            return aside
        number += 1


logger = logging.getLogger(__name__)

DISK_FULL_ERRORS = frozenset((errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)))
"""Error numbers for a full disk and an exceeded quota."""


class DiskErrorReporter:
    """Reports when writing to a store starts to fail and when it works again.

    `name` describes the store, `directory` is its location, and `consequence` describes what happens to new data in the
    meantime. Repeated errors are not reported.
    """

    def __init__(self, name: str, directory: Path | None, consequence: str) -> None:
        self.why: str | None = None
        """The current error, or None while writing works."""
        self.report: Callable[[str | None], None] | None = None
        """Receives a message when errors begin and None when they end, in the thread that noticed."""
        self._name = name
        self._directory = directory
        self._consequence = consequence

    def report_error(self, error: OSError) -> None:
        """Report a failed write, unless the previous write failed too."""
        is_new, self.why = self.why is None, error.strerror or str(error)
        if is_new:
            fix = "Free some space on this disk" if error.errno in DISK_FULL_ERRORS else "Make this folder writable"
            self._notify(
                f"{self._name} cannot be written to {self._directory} ({self.why}); {self._consequence}. {fix}, or set "
                "XDG_STATE_HOME and restart the server"
            )

    def report_recovery(self) -> None:
        """Report that writing works again, if the previous write failed."""
        if self.why is not None:
            self.why = None
            self._notify(None)

    def _notify(self, message: str | None) -> None:
        logger.warning("%s", message or f"{self._name} can be written to {self._directory} again")
        if self.report is not None:
            self.report(message)
