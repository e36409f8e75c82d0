"""The file of a history, to which one thread appends lines while another syncs and compacts it.

A line survives a crash of the process once `append` returns, and a crash of the machine after the next `sync`. The
threads only wait for each other while a compacted file replaces the old one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from codriver import files
from codriver.files import UnsafeFileError
from codriver.log import durable_files
from codriver.log.newest_entries import Newest
from codriver.log.transit_format import (
    MAX_LINE_BYTES,
    EntityLines,
    EntityWriter,
    UnreadableError,
    check_version,
    file_chunks,
    last_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from pathlib import Path

    from codriver.log.output_log import Entry

MAX_READ_BYTES = 256 * 2**20
"""Maximum size of a file that is read, which takes about 5 s. Larger if the history's limit requires it."""
HEAD_BYTES = 4096
"""Number of bytes read to check the header."""
TAIL_BYTES = 2**20
"""Number of bytes at the end in which the last line is searched first. If there is none, more are read."""


class HistoryFile:
    """The file of one history, for the lifetime of a server.

    Nothing is appended beyond `most_bytes`, because the file could not be read again. All methods block, and raise
    `OSError` if the disk fails.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.size = 0
        """Size of the file that lines are appended to, or 0 if the file has to be written from scratch."""
        self.writing = threading.RLock()
        """Held while the end of the file changes."""
        self._path = path
        self._compacted = path.with_name(f".{path.name}.compacted.tmp")
        self._most_bytes = most_bytes
        self._writer = EntityWriter()
        self._descriptor: int | None = None
        self._ends_line = True
        """Whether the file ends with a complete line."""
        self._has_unsynced = False
        self._is_new = False
        """Whether the entry of the file in its directory may not be on disk yet."""
        self._appended: list[bytes] | None = None
        """Lines appended since a compaction started, or None if none is running or it was given up."""
        self._appended_bytes = 0

    @property
    def has_unsynced(self) -> bool:
        """Return whether anything was written since the last `sync` started."""
        return self._has_unsynced

    def append(self, added: Iterable[Entry], entries: Callable[[], Iterable[Entry]]) -> None:
        """Append entries, which then survive a crash of the process. A missing file is created with all `entries`.

        If writing fails, a partial line is removed. If that is impossible, the next append ends that line first, so
        that it does not damage others.
        """
        with self.writing:
            descriptor = self._open() if self.size else None
            if descriptor is None:
                self.write_whole(entries(), is_durable=False)
                return
            lines = b"".join(map(self._writer.line_of, added))
            if self.size + len(lines) > self._most_bytes:
                raise OSError(errno.EFBIG, "its file cannot be shortened, and would grow too large to be read")
            content = lines if self._ends_line else b"\n" + lines
            try:
                _write(descriptor, content)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, self.size)
                self._close()
                raise
            self.size += len(content)
            self._ends_line = True
            self._has_unsynced = True
            if self._appended is not None:
                self._note_appended(content)

    def _note_appended(self, content: bytes) -> None:
        """Store lines for the compacted file. If there are too many, give up the compaction."""
        assert self._appended is not None  # noqa: S101  # checked by the caller
        self._appended.append(content)
        self._appended_bytes += len(content)
        if self._appended_bytes > self._most_bytes // 8:
            self._appended = None

    def check(self) -> None:
        """Arrange for the file to be reopened if another program has changed or replaced it."""
        with self.writing:
            if self._descriptor is None:
                return
            opened = os.fstat(self._descriptor)
            with contextlib.suppress(OSError):
                if opened.st_size == self.size and os.path.samestat(opened, os.lstat(self._path)):
                    return
            self._close()

    def sync(self) -> None:
        """Wait until everything appended so far is on disk. Appends continue in the meantime."""
        with self.writing:
            if not self._has_unsynced:
                return
            self._has_unsynced = False
            descriptor = self._descriptor
            if descriptor is None and self.size:  # rewritten, or closed after a failure
                descriptor = self._open()
            if descriptor is None:
                return
            descriptor = os.dup(descriptor)
        try:
            files.put_on_disk(descriptor)
            if self._is_new:
                self._sync_directory()
                self._is_new = False
        except OSError:
            self._has_unsynced = True
            raise
        finally:
            os.close(descriptor)

    def _sync_directory(self) -> None:
        with files.locate(self._path, files.Links.NEVER, root=self._path.parent) as path:
            path.sync()

    def write_whole(self, entries: Iterable[Entry], *, is_durable: bool = True) -> None:
        """Replace the file by one with these entries."""
        with self.writing:
            self._close()
            sizes: list[int] = []
            durable_files.replace(self._path, _noting(sizes, file_chunks(entries)), is_durable=is_durable)
            self._replaced(sum(sizes))
            self._has_unsynced = self._is_new = not is_durable

    def compact(self, entries: Callable[[], Iterable[Entry]]) -> None:
        """Replace the file by one with these entries, and with whatever is appended in the meantime.

        Appends continue, and `sync` remains reliable: lines are on disk in the old file or in the compacted one.
        """
        with self.writing:
            entities = entries()
            self._appended, self._appended_bytes = [], 0
        sizes: list[int] = []
        try:
            durable_files.replace(self._compacted, _noting(sizes, file_chunks(entities)))
            descriptor = files.open_for_writing(self._compacted, links=files.Links.NEVER, root=self._path.parent)
            try:
                _write(descriptor, appended := self._appended_content())
                files.put_on_disk(descriptor)  # from here on, the compacted file is as durable as the old one
                with self.writing:
                    _write(descriptor, last := self._appended_content())
                    os.close(descriptor)
                    descriptor = -1
                    self._close()
                    files.rename(self._compacted, self._path)
                    self._replaced(sum(sizes) + len(appended) + len(last))
                    self._has_unsynced = True
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                files.remove(self._compacted)
            raise
        finally:
            self._appended = None
        self._sync_directory()

    def _appended_content(self) -> bytes:
        with self.writing:
            if self._appended is None:
                raise OSError(errno.EAGAIN, "too much was appended while the file was compacted")
            appended, self._appended = b"".join(self._appended), []
            return appended

    def close(self) -> None:
        """Close the file. A later append opens it again."""
        with self.writing:
            self._close()

    def _replaced(self, size: int) -> None:
        self.size = size
        self._ends_line = True

    def _open(self) -> int | None:
        """Return a descriptor for appending, or None if the file has been removed."""
        if self._descriptor is not None:
            return self._descriptor
        descriptor = files.open_for_writing(self._path, links=files.Links.NEVER, root=self._path.parent)
        try:
            size = os.fstat(descriptor).st_size
            self._ends_line = not size or durable_files.last_byte(self._path, size) == b"\n"
        except OSError:
            os.close(descriptor)
            raise
        if not size:
            os.close(descriptor)
            return None
        self.size, self._descriptor = size, descriptor
        return descriptor

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a file: its newest entries, its number of broken lines, and whether the last is torn."""

    newest: Newest
    broken: int
    is_torn: bool


def open_existing(path: Path, max_bytes: int) -> tuple[int, int]:
    """Check a file's header, cut off a torn last line, and return its size and highest line number.

    Both are 0 if the file is missing or empty. Only the last lines are searched for the line number.

    Raises:
        UnreadableError: the file is not a history.
        NewerFormatError: it was written by a newer version. It is left unchanged.
        OSError: it cannot be used.
    """
    whole, torn, size = b"", b"", 0
    for most in (TAIL_BYTES, 3 * TAIL_BYTES, TAIL_BYTES + MAX_LINE_BYTES):
        try:
            found = durable_files.read_ends(path, most_read_bytes(max_bytes), HEAD_BYTES, most)
        except UnsafeFileError as error:
            raise UnreadableError(error.strerror) from None
        if found is None:
            return 0, 0
        head, tail, size = found
        check_version(head)
        whole, newline, torn = tail.rpartition(b"\n")
        if last_number(whole) or len(tail) == size:
            break
    if torn and (newline or len(torn) == size):
        size -= len(torn)
        descriptor = files.open_for_writing(path, links=files.Links.NEVER, root=path.parent)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)
    return size, last_number(whole)


def read_newest(path: Path, max_entities: int, max_bytes: int, most: int | None = None) -> Reading:
    """Read the newest entries of a file within the limits, or of its first `most` bytes.

    Raises:
        UnreadableError: the file is not a history, or does not exist.
        NewerFormatError: it was written by a newer version.
        OSError: it cannot be read.
    """
    newest = Newest(max_entities, max_bytes)
    with closing(_chunks(path, max_bytes)) as read:  # some systems cannot rename an open file
        chunks = iter(read if most is None else _first(most, read))
        head = next(chunks, b"")
        check_version(head)
        lines = EntityLines(chain([head], chunks))
        for entity in lines.entities():
            newest.add(entity)
    return Reading(newest, lines.broken, lines.is_torn)


def most_read_bytes(max_bytes: int) -> int:
    """Return the maximum size of a file that is read for a history limited to `max_bytes`."""
    return max(MAX_READ_BYTES, 4 * max_bytes)


def _noting(sizes: list[int], chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks and append the length of each to `sizes`."""
    for chunk in chunks:
        sizes.append(len(chunk))
        yield chunk


def _first(most: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the first `most` bytes of the chunks."""
    for chunk in chunks:
        yield chunk[:most]
        most -= len(chunk)
        if most <= 0:
            return


def _chunks(path: Path, max_bytes: int) -> Generator[bytes, None, None]:
    """Yield the content of the file in chunks, or nothing if it does not exist.

    Raises:
        UnreadableError: it is not a file of this user, or it is too large.
    """
    try:
        yield from durable_files.read(path, most_read_bytes(max_bytes))
    except UnsafeFileError as error:
        raise UnreadableError(error.strerror) from None
