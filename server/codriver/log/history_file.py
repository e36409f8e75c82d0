"""The file of a history. One thread appends lines to it, while another syncs and compacts it.

A line survives a crash of the process once `append` returns, and a crash of the machine after the next `sync`. The
threads only wait for each other while a compacted file replaces the old one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from typing import TYPE_CHECKING

from codriver import files
from codriver.log import durable_files
from codriver.log.transit_format import EntryEncoder, encode_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from codriver.log.log_entries import Entry


class HistoryFile:
    """A history's file, to which one thread can append while another syncs or compacts it.

    Nothing is appended beyond `max_bytes`, because a larger file could not be read again. All methods block, and raise
    `OSError` if the disk fails.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.size = 0
        """Size of the file that lines are appended to, or 0 if the file has to be written from scratch."""
        self.writing = threading.RLock()
        """Held while the end of the file changes."""
        self._path = path
        self._compacted = path.with_name(f".{path.name}.compacted.tmp")
        self._max_bytes = max_bytes
        self._writer = EntryEncoder()
        self._descriptor: int | None = None
        self._ends_line = True
        """Whether the file ends with a complete line."""
        self._has_unsynced = False
        self._is_new = False
        """Whether the file's directory entry may not be on disk yet."""
        self._appended: list[bytes] | None = None
        """Lines appended since a compaction started, or None if none is running or it was given up."""
        self._appended_bytes = 0

    @property
    def has_unsynced(self) -> bool:
        """Return whether anything was written after the last `sync` started."""
        return self._has_unsynced

    def append(self, added: Iterable[Entry], entries: Callable[[], Iterable[Entry]]) -> None:
        """Append the `added` entries. Once this returns, they survive a crash of the process.

        If the file does not exist, it is created with all `entries` instead. If writing fails, a partial line is
        removed. If it cannot be removed, the next append ends that line first.
        """
        with self.writing:
            descriptor = self._open() if self.size else None
            if descriptor is None:
                self.replace_content(entries(), is_durable=False)
                return
            lines = b"".join(map(self._writer.encode, added))
            if self.size + len(lines) > self._max_bytes:
                raise OSError(
                    errno.EFBIG, "the history file cannot be shortened, and would become too large to be read"
                )
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
                self._add_to_compaction(content)

    def _add_to_compaction(self, content: bytes) -> None:
        """Store lines to add to the compacted file. Cancel the compaction if there are too many."""
        assert self._appended is not None  # noqa: S101  # checked by the caller
        self._appended.append(content)
        self._appended_bytes += len(content)
        if self._appended_bytes > self._max_bytes // 8:
            self._appended = None

    def detect_replacement(self) -> None:
        """Close the file if another program has changed or replaced it, so that the next append reopens it."""
        with self.writing:
            if self._descriptor is None:
                return
            opened = os.fstat(self._descriptor)
            with contextlib.suppress(OSError):
                if opened.st_size == self.size and os.path.samestat(opened, os.lstat(self._path)):
                    return
            self._close()

    def sync(self) -> None:
        """Wait until everything appended so far is on disk. Other threads can append in the meantime."""
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
            files.sync_to_disk(descriptor)
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

    def replace_content(self, entries: Iterable[Entry], *, is_durable: bool = True) -> None:
        """Replace the content of the file atomically with these entries. It is only synced to disk if `is_durable`."""
        with self.writing:
            self._close()
            sizes: list[int] = []
            durable_files.replace(self._path, _record_sizes(sizes, encode_file(entries)), is_durable=is_durable)
            self._record_replacement(sum(sizes))
            self._has_unsynced = self._is_new = not is_durable

    def compact(self, entries: Callable[[], Iterable[Entry]]) -> None:
        """Replace the file with one that contains these entries and those appended in the meantime.

        Other threads can append and sync during the compaction.
        """
        with self.writing:
            entities = entries()
            self._appended, self._appended_bytes = [], 0
        sizes: list[int] = []
        try:
            durable_files.replace(self._compacted, _record_sizes(sizes, encode_file(entities)))
            descriptor = files.open_for_writing(self._compacted, links=files.Links.NEVER, root=self._path.parent)
            try:
                _write(descriptor, appended := self._appended_content())
                files.sync_to_disk(descriptor)  # from here on, the compacted file is as durable as the old one
                with self.writing:
                    _write(descriptor, last := self._appended_content())
                    os.close(descriptor)
                    descriptor = -1
                    self._close()
                    with files.locate(self._path, files.Links.NEVER, root=self._path.parent) as entry:
                        entry.publish(self._compacted.name)
                    self._record_replacement(sum(sizes) + len(appended) + len(last))
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
                raise OSError(errno.EAGAIN, "too many entries were appended while the history file was being compacted")
            appended, self._appended = b"".join(self._appended), []
            return appended

    def close(self) -> None:
        """Close the file. The next append opens it again."""
        with self.writing:
            self._close()

    def _record_replacement(self, size: int) -> None:
        self.size = size
        self._ends_line = True

    def _open(self) -> int | None:
        """Return a descriptor for appending, or None if the file is empty or does not exist."""
        if self._descriptor is not None:
            return self._descriptor
        descriptor = files.open_for_writing(self._path, links=files.Links.NEVER, root=self._path.parent)
        try:
            size = os.fstat(descriptor).st_size
            self._ends_line = not size or durable_files.read_last_byte(self._path, size) == b"\n"
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


def _record_sizes(sizes: list[int], chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks and append the length of each to `sizes`."""
    for chunk in chunks:
        sizes.append(len(chunk))
        yield chunk
