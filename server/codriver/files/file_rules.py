"""The rules for what a file has to be to be opened: links on its path, kind, size, owner, mode; an error for each."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from codriver.systems.owners import is_mine, is_open, is_trusted

if TYPE_CHECKING:
    from pathlib import Path

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
    """Those that stay below the root: for what a project may arrange as it likes."""
    OWN = "own"
    """Those of this user or root that lead to a file of this user or root: for the user's own home."""
    ANY = "any"
    """All: where the user has allowed that edits leave the workspace."""


class UnsafeFileError(OSError):
    """A file is not opened, since it is not what a file in its place may be. `strerror` says why, without the path."""

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


class NotOwnError(UnsafeFileError):
    """The file is another user's, or open to others, where only this user's own counts."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that a file has to meet to be read.

    `links`: the links that the path may lead through. `most_bytes`: the most that is read. `is_granting`: what it says
    is trusted, so it must be this user's (or root's) and writable by nobody else. `is_secret`: nobody else may even
    read it.
    """

    links: Links
    most_bytes: int
    is_granting: bool = False
    is_secret: bool = False


def is_own(status: os.stat_result) -> bool:
    """Whether a file is this user's or root's, who has everything already, and nobody else may write to it."""
    return is_trusted(status.st_uid) and not is_open(status, 0o022)


def is_private(folder: os.stat_result) -> bool:
    """Whether a folder is this user's or root's, and nobody else may enter it."""
    return is_own(folder) and not is_open(folder, OTHERS)


def check_readable(status: os.stat_result, rules: Rules, path: Path) -> None:
    """Refuse to read what `rules` do not allow, by its status.

    Raises:
        UnsafeFileError: it is not what the rules want, but for its size.
    """
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(path, status.st_mode)
    if (rules.is_granting or rules.is_secret) and not is_own(status):
        raise NotOwnError(path, "it is another user's, or others may write to it")
    if rules.is_secret and is_open(status, OTHERS):
        raise NotOwnError(path, "others may read it: its mode has to be 0600")
    if rules.links is Links.OWN and not is_trusted(status.st_uid):
        raise NotOwnError(path, "it is another user's")


def check_writable(status: os.stat_result, path: Path) -> None:
    """Refuse to write to what is not this user's file alone.

    Raises:
        UnsafeFileError: it is a link, no regular file, another user's, or has another name too.
    """
    if stat.S_ISLNK(status.st_mode):
        raise LinkRefusedError(path, "it is a link, and none is followed here", errno.ELOOP)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(path, status.st_mode)
    if not is_mine(status.st_uid):
        raise NotOwnError(path, "it is another user's")
    if status.st_nlink > 1:
        raise NotOwnError(path, "it has another name too, by a hard link")
