"""Rules for opening files: links on the path, type, size, owner and mode. Violations raise specific exceptions."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from codriver.systems.file_system import is_mine, is_open, is_trusted

if TYPE_CHECKING:
    from pathlib import Path

KIBIBYTE: Final = 1 << 10
MEBIBYTE: Final = 1 << 20
OTHERS_PERMISSIONS: Final = 0o077
"""The permission bits of the group and of all other users."""
_FILE_TYPES: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a link"),
)
"""Functions that recognize files that are not regular, each with a description of such a file for messages."""


class Links(Enum):
    """The symbolic links that a path may contain."""

    NEVER = "never"
    """No links: for files that decide where code and secrets are sent."""
    WITHIN = "within"
    """Links that stay below the root: for files that a project may arrange freely."""
    OF_USER = "own"
    """Links owned by this user or root to files owned by this user or root: for the user's home directory."""
    ANY = "any"
    """All links: for edits outside the workspace, if the user allows them."""


class UnsafeFileError(OSError):
    """Raised when a file violates the rules and is not opened. `strerror` is the reason without the path."""

    def __init__(self, path: str | os.PathLike[str], why: str, number: int = errno.EPERM) -> None:
        super().__init__(number, why, os.fspath(path))


class LinkRefusedError(UnsafeFileError):
    """Raised when a path contains a link that must not be followed."""


class NotRegularError(UnsafeFileError):
    """Raised when a path leads to something other than a regular file."""

    def __init__(self, path: str | os.PathLike[str], mode: int) -> None:
        shape = next((name for is_shape, name in _FILE_TYPES if is_shape(mode)), "something else")
        super().__init__(path, f"the path is {shape}, not a regular file", errno.EINVAL)


class TooLargeError(UnsafeFileError):
    """Raised when a file exceeds the size limit."""

    def __init__(self, path: str | os.PathLike[str], max_bytes: int, size: int | None = None) -> None:
        found = f"{size:,} bytes" if size is not None and size > max_bytes else "more"
        super().__init__(path, f"the file has {found}, but at most {max_bytes:,} bytes are read", errno.EFBIG)


class NotOwnedError(UnsafeFileError):
    """Raised when a file that must be private belongs to another user or is open to others."""


@dataclass(frozen=True, slots=True)
class FileRules:
    """The conditions under which a file may be read."""

    links: Links
    """The links that the path of the file may contain."""
    max_bytes: int
    """The maximum size of the file."""
    is_granting: bool = False
    """Whether the content grants rights.

    The file must then belong to the current user or root, and must not be writable by anybody else.
    """
    is_secret: bool = False
    """Whether the file must not be readable by anybody else."""


def is_owned_by_user(status: os.stat_result) -> bool:
    """Return whether a file belongs to this user or root, and nobody else can write to it."""
    return is_trusted(status.st_uid) and not is_open(status, 0o022)


def is_private_directory(directory: os.stat_result) -> bool:
    """Return whether a directory belongs to this user or root, and nobody else can access it."""
    return is_owned_by_user(directory) and not is_open(directory, OTHERS_PERMISSIONS)


def check_readable(status: os.stat_result, rules: FileRules, path: Path) -> None:
    """Check the `stat` result of a file against `rules`, except for its size.

    Raises:
        UnsafeFileError: the file violates the rules.
    """
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(path, status.st_mode)
    if (rules.is_granting or rules.is_secret) and not is_owned_by_user(status):
        raise NotOwnedError(path, "the file belongs to another user, or other users may write to it")
    if rules.is_secret and is_open(status, OTHERS_PERMISSIONS):
        raise NotOwnedError(path, "other users may read the file: change its mode to 0600")
    if rules.links is Links.OF_USER and not is_trusted(status.st_uid):
        raise NotOwnedError(path, "the file belongs to another user")


def check_writable(status: os.stat_result, path: Path) -> None:
    """Check that a file is a regular file that belongs only to this user.

    Raises:
        UnsafeFileError: the path is a link, not a regular file, another user's file, or has additional hard links.
    """
    if stat.S_ISLNK(status.st_mode):
        raise LinkRefusedError(path, "the path is a link, and links are not followed", errno.ELOOP)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(path, status.st_mode)
    if not is_mine(status.st_uid):
        raise NotOwnedError(path, "the file belongs to another user")
    if status.st_nlink > 1:
        raise NotOwnedError(path, "the file has another hard link")
