"""Folders that are held open: by a descriptor, so that no link leads elsewhere, or by a path where there are none."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from codriver.systems.machine import put_on_disk
from codriver_relay import own_files

T = TypeVar("T")

if sys.platform == "win32":
    from codriver.systems.owners import close_folder
    from codriver_relay.windows import patiently
else:

    def patiently(act: Callable[[], T]) -> T:
        """Do it: a file that somebody else has open is opened, renamed and removed here as any other."""
        return act()


if TYPE_CHECKING:
    from collections.abc import Callable

CLOEXEC: Final = own_files.CLOEXEC | getattr(os, "O_BINARY", 0)
NOFOLLOW: Final = own_files.NOFOLLOW
"""Flags of `os.open`, 0 where the system lacks them."""
HAS_DESCRIPTORS: Final = sys.platform != "win32"
"""Whether folders are opened by descriptors here."""
PRIVATE: Final = 0o700

_FOLDER: Final = os.O_RDONLY | CLOEXEC | getattr(os, "O_DIRECTORY", 0)
# To walk through a folder takes no right to list it, where the system knows the difference.
_STEP: Final = getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY)) | CLOEXEC | getattr(os, "O_DIRECTORY", 0)


class OpenFolder:
    """A folder and the names in it, until it is closed. An entry that is a link is the link, not its target.

    Held by a descriptor, everything is done in that very folder, whatever happens to its path; by its path, that is
    believed for as long as it is held.
    """

    def __init__(self, path: Path | None, descriptor: int | None = None) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def at(cls, path: Path) -> Self:
        """The folder at a path, whose links are followed, by a descriptor to walk on from."""
        return cls(None, os.open(path, _STEP))

    @classmethod
    def believed(cls, path: Path) -> Self:
        """The folder at a path, by that. Raises FileNotFoundError."""
        path.stat()
        return cls(path)

    def below(self, name: str) -> Self:
        """A folder in it, by a descriptor. Raises OSError for a link."""
        return type(self)(None, os.open(name, _STEP | NOFOLLOW, dir_fd=self._descriptor))

    def close(self) -> None:
        """Let the folder go. Again is harmless."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def target_of(self, name: str) -> str | None:
        """The target of a link; None where the entry is none, or nothing."""
        try:
            return os.readlink(self._where(name), dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def status(self) -> os.stat_result:
        """The folder's own status."""
        return Path(self._where(".")).stat() if self._descriptor is None else os.fstat(self._descriptor)

    def status_of(self, name: str) -> os.stat_result:
        """The status of an entry. Raises FileNotFoundError."""
        return os.stat(self._where(name), dir_fd=self._descriptor, follow_symlinks=False)

    def open(self, name: str, flags: int, mode: int) -> int:
        """A descriptor of a file, made with this mode where `flags` say so."""
        return patiently(lambda: os.open(self._where(name), flags, mode, dir_fd=self._descriptor))

    def is_writable(self, name: str) -> bool:
        """True for an entry that mode and file system let this user write to."""
        return os.access(self._where(name), os.W_OK, dir_fd=self._descriptor)

    def replace(self, name: str, by: str) -> None:
        """Give the entry `by` this name, in place of what has it."""
        here = self._descriptor
        patiently(lambda: os.replace(self._where(by), self._where(name), src_dir_fd=here, dst_dir_fd=here))

    def link(self, name: str, to: str) -> None:
        """Give the entry `to` this name as well.

        Raises:
            FileExistsError: something has it.
            OSError, NotImplementedError: there are no hard links.
        """
        here = self._descriptor
        there, new = self._where(to), self._where(name)
        patiently(lambda: os.link(there, new, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False))

    def remove(self, name: str) -> None:
        """Remove an entry that is no folder. Raises FileNotFoundError."""
        patiently(lambda: os.unlink(self._where(name), dir_fd=self._descriptor))

    def make_folder(self, name: str, mode: int = 0o777) -> None:
        """Make a folder, with what the user's umask leaves of the mode. Raises FileExistsError."""
        os.mkdir(self._where(name), mode, dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        patiently(lambda: os.rmdir(self._where(name), dir_fd=self._descriptor))

    def close_to_others(self) -> None:
        """Let nobody but this user, and who administers the machine, into the folder."""
        if sys.platform == "win32":
            close_folder(self._where("."))
        else:
            os.chmod(self._where("."), PRIVATE, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Put the entries on the disk for good, where the file system can do that with folders."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._where("."), _FOLDER, dir_fd=self._descriptor)
            try:
                put_on_disk(descriptor)
            finally:
                os.close(descriptor)

    def _where(self, name: str) -> str:
        return name if self._path is None else str(self._path / name)


def remove(path: Path) -> None:
    """Remove a file, or a link itself, by its path.

    Raises:
        FileNotFoundError: there is none.
    """
    patiently(path.unlink)


def rename(path: Path, to: Path) -> None:
    """Give a file another path, which nothing has."""
    patiently(lambda: path.rename(to))


def remove_tree(folder: Path) -> None:
    """Remove a folder with all in it that can be removed."""
    from shutil import rmtree  # noqa: PLC0415  # who only reads files starts without it

    try:
        patiently(lambda: rmtree(folder))
    except OSError:
        rmtree(folder, ignore_errors=True)
