"""A place: a file's name in a folder held open by a descriptor, where the file is read, staged, replaced or removed.

Rules say how a file has to be to be opened: links on its path, kind, size, owner, mode; there is an error for each.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from codriver.systems.file_system import CLOEXEC, HAS_MODES, NOFOLLOW, give, is_mine, is_open, is_trusted, set_mode
from codriver.systems.machine import put_on_disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from codriver.systems.file_system import OpenDirectory


PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY_MODE: Final = 0o700

_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_CHUNK_BYTES: Final = 1 << 20


class DirectoryEntry:
    """A name in a folder that is held open: whatever happens to the path, everything is done in that very folder.

    Lives until it is closed, or the `with` block ends. `path` is the folder's path when it was opened, for messages.
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
        """Let the directory go. Again is harmless."""
        self._directory.close()

    def status(self) -> os.stat_result | None:
        """Return the status of the entry with the name, of a link itself; None when nothing has the name."""
        with contextlib.suppress(FileNotFoundError):
            return self._directory.status_of(self.name)
        return None

    def directory_status(self) -> os.stat_result:
        """Return the status of the directory."""
        return self._directory.status()

    def make_directory_private(self) -> None:
        """Let no one but this user into the directory.

        Raises:
            NotOwnError: it is another user's, or its file system does not keep its mode.
        """
        if not is_mine(self.directory_status().st_uid):
            raise NotOwnedError(self.path.parent, "it is another user's folder")
        if HAS_MODES and is_private(self.directory_status()):
            return
        self._directory.close_to_others()
        if not is_private(self.directory_status()):
            raise NotOwnedError(self.path.parent, "it stays open to others: its file system keeps no modes")

    def open(self, rules: Rules) -> int:
        """A descriptor of the file for reading, checked by `rules` but for its size; the caller closes it.

        Raises:
            FileNotFoundError: nothing has the name.
            UnsafeFileError: the file breaks the rules.
        """
        # Asked before the opening: some devices act when they are opened.
        check_readable(self._directory.status_of(self.name), rules, self.path)
        descriptor = self._directory.open(self.name, os.O_RDONLY | CLOEXEC | NOFOLLOW | _NO_WAIT, PRIVATE_FILE)
        try:
            check_readable(os.fstat(descriptor), rules, self.path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def open_private(self, flags: int) -> int:
        """A descriptor of this user's own regular file to write or lock; others lose what they may do with it.

        Raises:
            FileNotFoundError: nothing has the name, and `flags` do not say to make it.
            UnsafeFileError: the file is a link, no regular file, another user's, or has another name too.
        """
        now = self.status()
        if now is not None:
            check_writable(now, self.path)
        flags |= CLOEXEC | NOFOLLOW | _NO_WAIT
        descriptor = self._directory.open(self.name, flags, PRIVATE_FILE)
        try:
            status = os.fstat(descriptor)
            check_writable(status, self.path)
            if is_open(status, OTHERS):
                set_mode(descriptor, PRIVATE_FILE)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, rules: Rules) -> bytes:
        """Return the whole file. Raises like `open`, and TooLargeError."""
        return self.read_with_status(rules)[0]

    def read_with_status(self, rules: Rules) -> tuple[bytes, os.stat_result]:
        """Return the whole file, and the status of that very file. Raises like `read`."""
        descriptor = self.open(rules)
        try:
            return b"".join(self._chunks(descriptor, rules)), os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def read_chunks(self, rules: Rules) -> Iterator[bytes]:
        """Yield the whole file in chunks of up to 1 MiB.

        Raises like `read`: before the first, but for a file that grows.
        """
        descriptor = self.open(rules)
        try:
            yield from self._chunks(descriptor, rules)
        finally:
            os.close(descriptor)

    def read_head(self, rules: Rules) -> bytes:
        """Return the first `most_bytes` of a file of any size. Raises like `open`."""
        descriptor = self.open(rules)
        try:
            return os.read(descriptor, rules.most_bytes)
        finally:
            os.close(descriptor)

    def _chunks(self, descriptor: int, rules: Rules) -> Iterator[bytes]:
        size = os.fstat(descriptor).st_size
        if size > rules.most_bytes:
            raise TooLargeError(self.path, rules.most_bytes, size)
        left = rules.most_bytes
        while chunk := os.read(descriptor, min(_CHUNK_BYTES, left + 1)):
            left -= len(chunk)
            if left < 0:  # the file has grown, or its file system tells no sizes
                raise TooLargeError(self.path, rules.most_bytes)
            yield chunk

    def is_writable(self) -> bool:
        """Return whether mode and file system let this user write to the entry with the name."""
        return self._directory.is_writable(self.name)

    def stage(
        self,
        data: bytes | Iterable[bytes],
        *,
        mode: int | None = PRIVATE_FILE,
        owner: tuple[int, int] | None = None,
        is_durable: bool = True,
        temporary: str | None = None,
    ) -> str:
        """Write `data` to a new file beside the name; its name, for `put` or `discard`. `temporary` is to be the name.

        `mode` None leaves what the user's umask leaves to a new file. `owner`: user and group, kept where we may.
        `is_durable`: the data is on the disk for good when the call returns.
        """
        temporary = temporary or temporary_name(self.path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC | NOFOLLOW
        descriptor = self._directory.open(temporary, flags, 0o666 if mode is None else PRIVATE_FILE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines((data,) if isinstance(data, bytes) else data)
                file.flush()
                if owner is not None:
                    give(descriptor, owner)
                if mode is not None:
                    set_mode(descriptor, mode)
                if owner is not None:
                    self._copy_attributes(descriptor)
                if is_durable:
                    put_on_disk(descriptor)
        except BaseException:
            self.discard(temporary)
            raise
        return temporary

    def replace(
        self,
        data: bytes | Iterable[bytes],
        *,
        mode: int | None = PRIVATE_FILE,
        owner: tuple[int, int] | None = None,
        is_durable: bool = True,
    ) -> None:
        """Write the whole file in one step, so that no one ever sees half of it. Takes what `stage` takes."""
        temporary = self.stage(data, mode=mode, owner=owner, is_durable=is_durable)
        try:
            self.put(temporary)
        except BaseException:
            self.discard(temporary)
            raise
        if is_durable:
            self.sync()

    def _copy_attributes(self, to: int) -> None:
        """Give a new file the extended attributes of the one with the name, as far as the system allows."""
        list_names, read, write = (getattr(os, f"{verb}xattr", None) for verb in ("list", "get", "set"))
        if list_names is None or read is None or write is None:
            return  # of Linux alone
        with contextlib.suppress(OSError):
            descriptor = self._directory.open(self.name, os.O_RDONLY | CLOEXEC | NOFOLLOW | _NO_WAIT, PRIVATE_FILE)
            try:
                for attribute in list_names(descriptor):
                    with contextlib.suppress(OSError):
                        write(to, attribute, read(descriptor, attribute))
            finally:
                os.close(descriptor)

    def put(self, temporary: str) -> None:
        """Give a staged file the name, in place of the entry with the name. A directory is not replaced."""
        self._directory.replace(self.name, by=temporary)

    def put_new(self, temporary: str) -> None:
        """Give a staged file the name if nothing has it.

        Raises:
            FileExistsError: something has it.
        """
        try:
            self._directory.link(self.name, to=temporary)
        except FileExistsError:
            raise
        except (OSError, NotImplementedError):  # not every file system has links
            if self.status() is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path)) from None
            self.put(temporary)

    def discard(self, temporary: str) -> None:
        """Remove a staged file, if it is still there."""
        with contextlib.suppress(FileNotFoundError):
            self._directory.remove(temporary)

    def remove(self) -> None:
        """Remove the entry with the name: a link itself, not its target.

        Raises:
            FileNotFoundError: nothing has it.
        """
        self._directory.remove(self.name)

    def make_directory(self) -> None:
        """Make a directory of this name, with the mode that the user's umask leaves.

        Raises:
            FileExistsError: something has the name.
        """
        self._directory.make_directory(self.name)

    def remove_directory(self) -> None:
        """Remove the empty directory with the name; OSError for a directory with entries, or no directory."""
        self._directory.remove_directory(self.name)

    def sync(self) -> None:
        """Put the folder's entries on the disk for good, where the file system can do that with folders."""
        self._directory.sync()


def temporary_name(path: Path) -> str:
    """Return the name of a new file next to `path`, which no one else has."""
    return f".{path.name[:100]}.{os.urandom(6).hex()}.tmp"


KIBIBYTE: Final = 1 << 10
MEBIBYTE: Final = 1 << 20
OTHERS: Final = 0o077
"""The mode bits by which anybody but the owner may do anything."""
_SHAPES: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a link"),
)


class Links(Enum):
    """The links that a path may lead through, below its root."""

    NEVER = "never"
    """None: for files that say where to send code and secrets."""
    WITHIN = "within"
    """Links that stay below the root: for files that a project may arrange as it likes."""
    OF_USER = "own"
    """Links of this user or root that lead to a file of this user or root: for the user's own home."""
    ANY = "any"
    """All links: for edits that the user has allowed to leave the workspace."""


class UnsafeFileError(OSError):
    """A file is not opened, since it breaks the rules for its place. `strerror` says why, without the path."""

    def __init__(self, path: str | os.PathLike[str], why: str, number: int = errno.EPERM) -> None:
        super().__init__(number, why, os.fspath(path))


class LinkRefusedError(UnsafeFileError):
    """The path leads through a link that is not followed here."""


class NotRegularError(UnsafeFileError):
    """The path leads to something that is no regular file."""

    def __init__(self, path: str | os.PathLike[str], mode: int) -> None:
        shape = next((name for is_shape, name in _SHAPES if is_shape(mode)), "something else")
        super().__init__(path, f"it is {shape}, not a regular file", errno.EINVAL)


class TooLargeError(UnsafeFileError):
    """The file has more bytes than are read of such a file."""

    def __init__(self, path: str | os.PathLike[str], most_bytes: int, size: int | None = None) -> None:
        found = f"{size:,} bytes" if size is not None and size > most_bytes else "more"
        super().__init__(path, f"it has {found}, and {most_bytes:,} bytes are the most that is read", errno.EFBIG)


class NotOwnedError(UnsafeFileError):
    """The file is another user's, or open to others, but has to be this user's own."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that a file has to meet to be read.

    `links`: the links that the path may lead through. `most_bytes`: the most that is read. `is_granting`: the file's
    content is trusted, so the file must be this user's (or root's) and writable by nobody else. `is_secret`: nobody
    else may even read it.
    """

    links: Links
    most_bytes: int
    is_granting: bool = False
    is_secret: bool = False


def is_owned_by_user(status: os.stat_result) -> bool:
    """Return whether a file is this user's or root's, and no one else may write to it. Root has every right anyway."""
    return is_trusted(status.st_uid) and not is_open(status, 0o022)


def is_private(directory: os.stat_result) -> bool:
    """Return whether a directory is this user's or root's, and no one else may enter it."""
    return is_owned_by_user(directory) and not is_open(directory, OTHERS)


def check_readable(status: os.stat_result, rules: Rules, path: Path) -> None:
    """Refuse to read a file that breaks `rules`, by its status.

    Raises:
        UnsafeFileError: the file breaks the rules; its size is not inspected.
    """
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(path, status.st_mode)
    if (rules.is_granting or rules.is_secret) and not is_owned_by_user(status):
        raise NotOwnedError(path, "it is another user's, or others may write to it")
    if rules.is_secret and is_open(status, OTHERS):
        raise NotOwnedError(path, "others may read it: its mode has to be 0600")
    if rules.links is Links.OF_USER and not is_trusted(status.st_uid):
        raise NotOwnedError(path, "it is another user's")


def check_writable(status: os.stat_result, path: Path) -> None:
    """Refuse to write to any file but one of this user's alone.

    Raises:
        UnsafeFileError: the file is a link, no regular file, another user's, or has another name too.
    """
    if stat.S_ISLNK(status.st_mode):
        raise LinkRefusedError(path, "it is a link, and none is followed here", errno.ELOOP)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(path, status.st_mode)
    if not is_mine(status.st_uid):
        raise NotOwnedError(path, "it is another user's")
    if status.st_nlink > 1:
        raise NotOwnedError(path, "it has another name too, by a hard link")
