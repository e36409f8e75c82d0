"""Access files through an open directory, subject to the rules in `codriver.files.file_rules`."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Final, Self

from codriver.files.file_rules import (
    OTHERS_PERMISSIONS,
    FileRules,
    NotOwnedError,
    TooLargeError,
    check_readable,
    check_writable,
    is_private_directory,
)
from codriver.systems.file_system import CLOEXEC, HAS_MODES, NOFOLLOW, change_owner, is_mine, is_open, set_mode
from codriver.systems.machine import sync_to_disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from codriver.systems.file_system import OpenDirectory


PRIVATE_FILE_MODE: Final = 0o600
PRIVATE_DIRECTORY_MODE: Final = 0o700

_NONBLOCKING_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Flags that prevent `open` from blocking on a pipe or a terminal."""
_CHUNK_BYTES: Final = 1 << 20
NS_PER_S: Final = 10**9


class DirectoryEntry:
    """A name in an open directory, whether or not a file with that name exists.

    All operations apply to the directory that was opened, even if its path is changed, until the entry is closed or the
    `with` block ends. `path` is the path at the time of opening, for messages.
    """

    def __init__(self, directory: OpenDirectory, name: str, path: Path) -> None:
        self._directory = directory
        self.name = name
        self.path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory. May be called repeatedly."""
        self._directory.close()

    def status(self) -> os.stat_result | None:
        """Return the `stat` result of the entry without following links, or None if it does not exist."""
        with contextlib.suppress(FileNotFoundError):
            return self._directory.entry_status(self.name)
        return None

    def directory_status(self) -> os.stat_result:
        """Return the `stat` result of the directory that contains the entry."""
        return self._directory.status()

    def make_directory_private(self) -> None:
        """Restrict access to the directory to this user.

        Raises:
            NotOwnedError: the directory belongs to another user, or its file system does not support modes.
        """
        if not is_mine(self.directory_status().st_uid):
            raise NotOwnedError(self.path.parent, "the directory belongs to another user")
        if HAS_MODES and is_private_directory(self.directory_status()):
            return
        self._directory.restrict_to_owner()
        if not is_private_directory(self.directory_status()):
            raise NotOwnedError(
                self.path.parent,
                "other users can access the directory, because its file system does not store permissions",
            )

    def open(self, rules: FileRules) -> int:
        """Open the file for reading, and return its descriptor. The caller must close it.

        The file is checked against `rules`, except for its size.

        Raises:
            FileNotFoundError: the entry does not exist.
            UnsafeFileError: the file violates the rules.
        """
        # Check before opening, because opening some devices has side effects.
        check_readable(self._directory.entry_status(self.name), rules, self.path)
        descriptor = self._directory.open(
            self.name, os.O_RDONLY | CLOEXEC | NOFOLLOW | _NONBLOCKING_FLAGS, PRIVATE_FILE_MODE
        )
        try:
            check_readable(os.fstat(descriptor), rules, self.path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def open_private(self, flags: int) -> int:
        """Open one of this user's regular files with these flags, and remove the permissions of other users.

        Raises:
            FileNotFoundError: the entry does not exist, and `flags` do not create it.
            UnsafeFileError: the entry is a link, not a regular file, another user's file, or has additional hard links.
        """
        now = self.status()
        if now is not None:
            check_writable(now, self.path)
        flags |= CLOEXEC | NOFOLLOW | _NONBLOCKING_FLAGS
        descriptor = self._directory.open(self.name, flags, PRIVATE_FILE_MODE)
        try:
            status = os.fstat(descriptor)
            check_writable(status, self.path)
            if is_open(status, OTHERS_PERMISSIONS):
                set_mode(descriptor, PRIVATE_FILE_MODE)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, rules: FileRules) -> bytes:
        """Return the content of the file.

        Raises:
            TooLargeError: the file has more than `rules.max_bytes`.
            FileNotFoundError, UnsafeFileError: the file cannot be opened.
        """
        return self.read_with_status(rules)[0]

    def read_with_status(self, rules: FileRules) -> tuple[bytes, os.stat_result]:
        """Return the content of the file and its `stat` result. Raises the same errors as `read`."""
        descriptor = self.open(rules)
        try:
            return b"".join(self._read_chunks(descriptor, rules)), os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def read_chunks(self, rules: FileRules) -> Iterator[bytes]:
        """Yield the content of the file in chunks of up to 1 MiB.

        The same errors as for `read` are raised before the first chunk, unless the file grows while it is being read.
        """
        descriptor = self.open(rules)
        try:
            yield from self._read_chunks(descriptor, rules)
        finally:
            os.close(descriptor)

    def read_head(self, rules: FileRules) -> bytes:
        """Return the first `rules.max_bytes` of the file, which may be larger. Raises the same errors as `open`."""
        descriptor = self.open(rules)
        try:
            return os.read(descriptor, rules.max_bytes)
        finally:
            os.close(descriptor)

    def _read_chunks(self, descriptor: int, rules: FileRules) -> Iterator[bytes]:
        size = os.fstat(descriptor).st_size
        if size > rules.max_bytes:
            raise TooLargeError(self.path, rules.max_bytes, size)
        left = rules.max_bytes
        while chunk := os.read(descriptor, min(_CHUNK_BYTES, left + 1)):
            left -= len(chunk)
            if left < 0:  # the file has grown, or its file system reports no size
                raise TooLargeError(self.path, rules.max_bytes)
            yield chunk

    def is_writable(self) -> bool:
        """Return whether this user may write to the entry."""
        return self._directory.is_writable(self.name)

    def stage(
        self,
        data: bytes | Iterable[bytes],
        *,
        mode: int | None = PRIVATE_FILE_MODE,
        owner: tuple[int, int] | None = None,
        is_durable: bool = True,
        temporary: str | None = None,
    ) -> str:
        """Write `data` to a temporary file in the directory, and return its name for `publish` or `discard`.

        `temporary` overrides the generated name. If `mode` is None, the umask applies. `owner` is the user and group of
        the new file, as far as permitted. If it is given, extended attributes are copied from the existing file, and
        the new file gets a later modification time (see `_distinguish_time`). If `is_durable`, the data is synced to
        disk.
        """
        temporary = temporary or temporary_name(self.path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC | NOFOLLOW
        descriptor = self._directory.open(temporary, flags, 0o666 if mode is None else PRIVATE_FILE_MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines((data,) if isinstance(data, bytes) else data)
                file.flush()
                if owner is not None:
                    change_owner(descriptor, owner)
                if mode is not None:
                    set_mode(descriptor, mode)
                if owner is not None:
                    self._copy_attributes(descriptor)
                    self._distinguish_time(temporary, os.fstat(descriptor))
                if is_durable:
                    sync_to_disk(descriptor)
        except BaseException:
            self.discard(temporary)
            raise
        return temporary

    def replace(
        self,
        data: bytes | Iterable[bytes],
        *,
        mode: int | None = PRIVATE_FILE_MODE,
        owner: tuple[int, int] | None = None,
        is_durable: bool = True,
    ) -> None:
        """Replace the file atomically. Readers see either the old or the new content.

        The parameters are the same as for `stage`.
        """
        temporary = self.stage(data, mode=mode, owner=owner, is_durable=is_durable)
        try:
            self.publish(temporary)
        except BaseException:
            self.discard(temporary)
            raise
        if is_durable:
            self.sync()

    def _distinguish_time(self, temporary: str, status: os.stat_result) -> None:
        """Give a new file the next full second if it has the size of the file that it replaces and is no newer.

        Python recognizes the source of compiled code only by its size and the second of its last change, so it would
        use the code compiled from the replaced file. `status` is the `stat` result of the new file.
        """
        replaced = self.status()
        if replaced is None or replaced.st_size != status.st_size:
            return
        second = replaced.st_mtime_ns // NS_PER_S
        if status.st_mtime_ns // NS_PER_S <= second:
            self._directory.set_modification_time(temporary, (second + 1) * NS_PER_S)

    def _copy_attributes(self, to: int) -> None:
        """Copy the extended attributes of the existing file to a new file, as far as permitted."""
        list_names, read, write = (getattr(os, f"{verb}xattr", None) for verb in ("list", "get", "set"))
        if list_names is None or read is None or write is None:
            return  # only on Linux
        with contextlib.suppress(OSError):
            descriptor = self._directory.open(
                self.name, os.O_RDONLY | CLOEXEC | NOFOLLOW | _NONBLOCKING_FLAGS, PRIVATE_FILE_MODE
            )
            try:
                for attribute in list_names(descriptor):
                    with contextlib.suppress(OSError):
                        write(to, attribute, read(descriptor, attribute))
            finally:
                os.close(descriptor)

    def publish(self, temporary: str) -> None:
        """Rename a staged file to the entry's name. An existing file or link is replaced, but not a directory."""
        self._directory.replace(self.name, by=temporary)

    def publish_new(self, temporary: str) -> None:
        """Rename a staged file to the entry's name, unless that name is in use.

        Raises:
            FileExistsError: the name is in use.
        """
        try:
            self._directory.create_link(self.name, to=temporary)
        except FileExistsError:
            raise
        except (OSError, NotImplementedError):  # the file system has no hard links
            if self.status() is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path)) from None
            self.publish(temporary)

    def discard(self, temporary: str) -> None:
        """Delete a staged file if it still exists."""
        with contextlib.suppress(FileNotFoundError):
            self._directory.remove(temporary)

    def remove(self) -> None:
        """Remove the entry. A link itself is removed, not its target.

        Raises:
            FileNotFoundError: the entry does not exist.
        """
        self._directory.remove(self.name)

    def make_directory(self) -> None:
        """Create a directory with the entry's name and the default mode.

        Raises:
            FileExistsError: the name is in use.
        """
        self._directory.make_directory(self.name)

    def remove_directory(self) -> None:
        """Remove the entry, which must be an empty directory.

        Raises:
            OSError: the entry is not empty, or not a directory.
        """
        self._directory.remove_directory(self.name)

    def sync(self) -> None:
        """Sync the directory's entries to disk, if the file system supports that."""
        self._directory.sync()


def temporary_name(path: Path) -> str:
    """Return a unique name for a temporary file that will be renamed to `path`."""
    return f".{path.name[:100]}.{os.urandom(6).hex()}.tmp"
