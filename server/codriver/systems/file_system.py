"""The file system: owners of files, rights, spellings of names, and folders that are held open.

On Windows rights stand in access lists, not in modes. Windows and macOS find `Shapes.py` by `SHAPES.PY`, too. A folder
is held by a descriptor, so that no link leads elsewhere, or by a path on systems without descriptors of folders.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from codriver.systems.machine import put_on_disk
from codriver_relay import own_files
from codriver_relay.own_files import is_mine, is_open, is_trusted

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "CLOEXEC",
    "FINDS_OTHER_SPELLINGS",
    "HAS_DESCRIPTORS",
    "HAS_MODES",
    "NOFOLLOW",
    "OpenDirectory",
    "as_spelled",
    "give",
    "is_current_group",
    "is_mine",
    "is_open",
    "is_trusted",
    "mode_of",
    "remove",
    "remove_tree",
    "rename",
    "set_mode",
]

T = TypeVar("T")

HAS_MODES: Final = sys.platform != "win32"
"""Whether modes tell the rights to a file."""
CLOEXEC: Final = own_files.CLOEXEC | getattr(os, "O_BINARY", 0)
NOFOLLOW: Final = own_files.NOFOLLOW
"""Flags of `os.open`, 0 where the system lacks them."""
HAS_DESCRIPTORS: Final = sys.platform != "win32"
"""Whether folders are opened by descriptors here."""
PRIVATE: Final = 0o700

_OPEN_DIRECTORY: Final = os.O_RDONLY | CLOEXEC | getattr(os, "O_DIRECTORY", 0)
# Walking through a folder takes no right to list it, where the system knows the difference.
_STEP: Final = getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY)) | CLOEXEC | getattr(os, "O_DIRECTORY", 0)


def mode_of(status: os.stat_result) -> int:
    """Return the rights that a mode gives, without the kind of file."""
    return stat.S_IMODE(status.st_mode)


if sys.platform == "win32":
    import ctypes

    from codriver_relay.windows import patiently

    def is_current_group(_number: int) -> bool:
        """True: each status names the same group."""
        return True

    def set_mode(_file: int, _mode: int) -> None:
        """Nothing: a file has the access list of its directory."""

    def give(_file: int, _owner: tuple[int, int]) -> None:
        """Nothing: a file belongs to its maker."""

    OWNER_ALONE: Final = "D:P(A;OICI;FA;;;OW)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
    """An access list, inherited from nowhere: all rights for the owner, the system and its administrators.

    Source: Microsoft, Security Descriptor String Format.
    """
    DACL: Final = 0x80000004
    """The access list of a security descriptor, protected. Source: SECURITY_INFORMATION."""

    def close_directory(path: str) -> None:
        """Let no one but this user and administrators into a directory.

        Raises:
            OSError: its file system has no access lists.
        """
        rights, kernel = ctypes.WinDLL("advapi32", use_last_error=True), ctypes.WinDLL("kernel32")
        described = ctypes.c_void_p()
        is_read = rights.ConvertStringSecurityDescriptorToSecurityDescriptorW(
            ctypes.c_wchar_p(OWNER_ALONE), 1, ctypes.byref(described), None
        )
        try:
            if not (is_read and rights.SetFileSecurityW(ctypes.c_wchar_p(path), ctypes.c_ulong(DACL), described)):
                raise ctypes.WinError(ctypes.get_last_error())
        finally:
            kernel.LocalFree(described)

else:

    def is_current_group(number: int) -> bool:
        """Return true for the group of this process. Many systems give each user one alone."""
        return number == os.getgid()

    def set_mode(file: int, mode: int) -> None:
        """Give an open file this mode."""
        os.fchmod(file, mode)

    def give(file: int, owner: tuple[int, int]) -> None:
        """Give an open file to a user and a group, where this user may."""
        if owner != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.fchown(file, *owner)

    def patiently(act: Callable[[], T]) -> T:
        """Do it at once: this system opens, renames and removes a file that another process has open."""
        return act()


FINDS_OTHER_SPELLINGS: Final = sys.platform in ("win32", "darwin")
"""Whether file systems here find a name by letters of another case, or composed otherwise."""


def as_spelled(path: Path, *, finds_others: bool = FINDS_OTHER_SPELLINGS) -> Path:
    """Return the path with each of its names as the directory has it, as far as there is such a file. Asks the disk."""
    if not finds_others:
        return path
    found = Path(path.anchor)
    for name in path.relative_to(path.anchor).parts:
        found /= _as_listed(found, name)
    return found


def _as_listed(directory: Path, name: str) -> str:
    """Return the name in the directory's list that means the same file; the given name without one."""
    with suppress(OSError):
        listed = os.listdir(directory)  # noqa: PTH208  # names, of which most are never looked at
        if name not in listed:
            expected = (directory / name).lstat()
            for other in listed:
                if os.path.samestat((directory / other).lstat(), expected):
                    return other
    return name


class OpenDirectory:
    """A folder and the names in it, until it is closed. An entry that is a link is the link, not its target.

    With a descriptor, everything is done in that very folder, whatever happens to its path. Without one, the path is
    believed for as long as the folder is held.
    """

    def __init__(self, path: Path | None, descriptor: int | None = None) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the directory at a path, whose links are followed, by a descriptor to walk on from."""
        return cls(None, os.open(path, _STEP))

    @classmethod
    def believed(cls, path: Path) -> Self:
        """Return the directory at a path, held by that path. Raises FileNotFoundError."""
        path.stat()
        return cls(path)

    def below(self, name: str) -> Self:
        """Return a directory in it, by a descriptor. Raises OSError for a link."""
        return type(self)(None, os.open(name, _STEP | NOFOLLOW, dir_fd=self._descriptor))

    def close(self) -> None:
        """Let the directory go. Again is harmless."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def target_of(self, name: str) -> str | None:
        """Return the target of a link; None for any other entry, or a missing one."""
        try:
            return os.readlink(self._where(name), dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def status(self) -> os.stat_result:
        """Return the directory's own status."""
        return Path(self._where(".")).stat() if self._descriptor is None else os.fstat(self._descriptor)

    def status_of(self, name: str) -> os.stat_result:
        """Return the status of an entry. Raises FileNotFoundError."""
        return os.stat(self._where(name), dir_fd=self._descriptor, follow_symlinks=False)

    def open(self, name: str, flags: int, mode: int) -> int:
        """Return a descriptor of a file, made with this mode where `flags` say so."""
        return patiently(lambda: os.open(self._where(name), flags, mode, dir_fd=self._descriptor))

    def is_writable(self, name: str) -> bool:
        """Return true if mode and file system let this user write to an entry."""
        return os.access(self._where(name), os.W_OK, dir_fd=self._descriptor)

    def replace(self, name: str, by: str) -> None:
        """Give the entry `by` this name, in place of the previous entry."""
        source = self._descriptor
        patiently(lambda: os.replace(self._where(by), self._where(name), src_dir_fd=source, dst_dir_fd=source))

    def link(self, name: str, to: str) -> None:
        """Give the entry `to` this name as well.

        Raises:
            FileExistsError: something has this name.
            OSError, NotImplementedError: there are no hard links.
        """
        descriptor = self._descriptor
        target, new = self._where(to), self._where(name)
        patiently(lambda: os.link(target, new, src_dir_fd=descriptor, dst_dir_fd=descriptor, follow_symlinks=False))

    def remove(self, name: str) -> None:
        """Remove an entry that is no directory. Raises FileNotFoundError."""
        patiently(lambda: os.unlink(self._where(name), dir_fd=self._descriptor))

    def make_directory(self, name: str, mode: int = 0o777) -> None:
        """Make a directory with this mode, less the user's umask. Raises FileExistsError."""
        os.mkdir(self._where(name), mode, dir_fd=self._descriptor)

    def remove_directory(self, name: str) -> None:
        """Remove an empty directory."""
        patiently(lambda: os.rmdir(self._where(name), dir_fd=self._descriptor))

    def close_to_others(self) -> None:
        """Let no one but this user and administrators into the directory."""
        if sys.platform == "win32":
            close_directory(self._where("."))
        else:
            os.chmod(self._where("."), PRIVATE, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Put the entries on the disk permanently, where the file system can do that with directories."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._where("."), _OPEN_DIRECTORY, dir_fd=self._descriptor)
            try:
                put_on_disk(descriptor)
            finally:
                os.close(descriptor)

    def _where(self, name: str) -> str:
        return name if self._path is None else str(self._path / name)


def remove(path: Path) -> None:
    """Remove a file, or a link itself, by its path.

    Raises:
        FileNotFoundError: the file is missing.
    """
    patiently(path.unlink)


def rename(path: Path, to: Path) -> None:
    """Give a file another path that nothing has yet."""
    patiently(lambda: path.rename(to))


def remove_tree(directory: Path) -> None:
    """Remove a directory with all entries that can be removed."""
    from shutil import rmtree  # noqa: PLC0415  # reading files alone needs none of it

    try:
        patiently(lambda: rmtree(directory))
    except OSError:
        rmtree(directory, ignore_errors=True)
