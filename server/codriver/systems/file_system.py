"""File access on all operating systems: owners, permissions, spellings of names, and open directories.

On Windows, permissions are defined by access lists instead of modes. Windows and macOS also find `Shapes.py` under the
name `SHAPES.PY`. An open directory is represented by a descriptor, so that links cannot redirect it, or by its path on
systems without directory descriptors.
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

from codriver.systems.machine import sync_to_disk
from codriver_relay import safe_files
from codriver_relay.safe_files import is_mine, is_open, is_trusted

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "CLOEXEC",
    "FINDS_OTHER_SPELLINGS",
    "HAS_DESCRIPTORS",
    "HAS_MODES",
    "NOFOLLOW",
    "OpenDirectory",
    "change_owner",
    "is_current_group",
    "is_mine",
    "is_open",
    "is_trusted",
    "permission_bits",
    "remove",
    "remove_tree",
    "rename",
    "set_mode",
    "with_spelling_on_disk",
]

T = TypeVar("T")

HAS_MODES: Final = sys.platform != "win32"
"""Whether file modes determine the permissions."""
CLOEXEC: Final = safe_files.CLOEXEC | getattr(os, "O_BINARY", 0)
NOFOLLOW: Final = safe_files.NOFOLLOW
"""The flag of `os.open` that refuses links, or 0 where the system lacks it."""
HAS_DESCRIPTORS: Final = sys.platform != "win32"
"""Whether directories can be opened as descriptors."""
PRIVATE_DIRECTORY_MODE: Final = 0o700

_OPEN_DIRECTORY: Final = os.O_RDONLY | CLOEXEC | getattr(os, "O_DIRECTORY", 0)
# Where the system distinguishes the two, passing through a directory needs no permission to list it.
_TRAVERSE_FLAGS: Final = (
    getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY)) | CLOEXEC | getattr(os, "O_DIRECTORY", 0)
)
"""Flags for opening a directory only in order to reach its entries."""


def last_write_ns(status: os.stat_result) -> int:
    """Return when a file was last written, renamed or restored, in nanoseconds, from its `stat` result.

    The modification time is set by whoever writes or restores a file, perhaps to the past or the future. The time of
    the last status change is not, but Windows does not report it.
    """
    return status.st_mtime_ns if sys.platform == "win32" else status.st_ctime_ns


def permission_bits(status: os.stat_result) -> int:
    """Return the permission bits of a file's mode, without the file type."""
    return stat.S_IMODE(status.st_mode)


if sys.platform == "win32":
    import ctypes

    from codriver_relay.windows import patiently as retry_while_open

    def is_current_group(_number: int) -> bool:
        """Return True, because on Windows every status has the same group."""
        return True

    def set_mode(_file: int, _mode: int) -> None:
        """Do nothing, because on Windows a file inherits the access list of its directory."""

    def change_owner(_file: int, _owner: tuple[int, int]) -> None:
        """Do nothing, because on Windows a file belongs to the user who created it."""

    OWNER_ALONE: Final = "D:P(A;OICI;FA;;;OW)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
    """An access list that inherits nothing and grants all rights to the owner, the system and its administrators.

    Source: Microsoft, Security Descriptor String Format.
    """
    DACL: Final = 0x80000004
    """Selects the protected access list of a security descriptor. Source: Microsoft, SECURITY_INFORMATION."""

    def restrict_directory(path: str) -> None:
        """Restrict access to a directory to this user, the system and its administrators.

        Raises:
            OSError: the file system has no access lists.
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
        """Return whether this is the group of the current process.

        Many systems create a separate group for each user.
        """
        return number == os.getgid()

    def set_mode(file: int, mode: int) -> None:
        """Change the mode of an open file."""
        os.fchmod(file, mode)

    def change_owner(file: int, owner: tuple[int, int]) -> None:
        """Change the owner of an open file to this user and group, if permitted."""
        if owner != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.fchown(file, *owner)

    def retry_while_open(act: Callable[[], T]) -> T:
        """Call `act` once. Unlike Windows, this system allows it while another process has the file open."""
        return act()


FINDS_OTHER_SPELLINGS: Final = sys.platform in ("win32", "darwin")
"""Whether file systems usually ignore the case or the Unicode normalization of names."""


def with_spelling_on_disk(path: Path, *, finds_others: bool = FINDS_OTHER_SPELLINGS) -> Path:
    """Return the path with each name spelled as on disk. Names that do not exist are unchanged. Blocks on disk I/O."""
    if not finds_others:
        return path
    found = Path(path.anchor)
    for name in path.relative_to(path.anchor).parts:
        found /= _listed_name(found, name)
    return found


def _listed_name(directory: Path, name: str) -> str:
    """Return the name as it is spelled in the directory's listing, or unchanged if there is no such entry."""
    with suppress(OSError):
        listed = os.listdir(directory)  # noqa: PTH208  # plain names are enough, as most are never used
        if name not in listed:
            expected = (directory / name).lstat()
            for other in listed:
                if os.path.samestat((directory / other).lstat(), expected):
                    return other
    return name


class OpenDirectory:
    """An open directory, through which its entries are accessed. Links among the entries are not followed.

    With a descriptor, all operations apply to the directory that was opened, even if its path is changed. Without a
    descriptor, they use the path that the directory had when it was opened.
    """

    def __init__(self, path: Path | None, descriptor: int | None = None) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def open_path(cls, path: Path) -> Self:
        """Open a directory by its path, following links. The descriptor may only give access to entries."""
        return cls(None, os.open(path, _TRAVERSE_FLAGS))

    @classmethod
    def from_path(cls, path: Path) -> Self:
        """Create an instance that uses the path of an existing directory, on systems without directory descriptors.

        Raises:
            FileNotFoundError: the path does not exist.
        """
        path.stat()
        return cls(path)

    def open_subdirectory(self, name: str) -> Self:
        """Open a subdirectory by its name.

        Raises:
            OSError: the entry is a link or not a directory.
        """
        return type(self)(None, os.open(name, _TRAVERSE_FLAGS | NOFOLLOW, dir_fd=self._descriptor))

    def close(self) -> None:
        """Close the directory. May be called repeatedly."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def link_target(self, name: str) -> str | None:
        """Return the target of a link, or None if the entry does not exist or is not a link."""
        try:
            return os.readlink(self._entry_path(name), dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def status(self) -> os.stat_result:
        """Return the `stat` result of the directory itself."""
        return Path(self._entry_path(".")).stat() if self._descriptor is None else os.fstat(self._descriptor)

    def entry_status(self, name: str) -> os.stat_result:
        """Return the `stat` result of an entry, without following links.

        Raises:
            FileNotFoundError: the entry does not exist.
        """
        return os.stat(self._entry_path(name), dir_fd=self._descriptor, follow_symlinks=False)

    def open(self, name: str, flags: int, mode: int) -> int:
        """Open an entry like `os.open`, and return its descriptor. `mode` applies if the file is created."""
        return retry_while_open(lambda: os.open(self._entry_path(name), flags, mode, dir_fd=self._descriptor))

    def is_writable(self, name: str) -> bool:
        """Return whether this user may write to an entry."""
        return os.access(self._entry_path(name), os.W_OK, dir_fd=self._descriptor)

    def set_modification_time(self, name: str, time_ns: int) -> None:
        """Set the time of the last change of an entry's content, in nanoseconds, and that of its last access."""
        os.utime(self._entry_path(name), ns=(time_ns, time_ns), dir_fd=self._descriptor)

    def replace(self, name: str, by: str) -> None:
        """Rename the entry `by` to `name`, replacing any entry of that name."""
        source = self._descriptor
        retry_while_open(
            lambda: os.replace(self._entry_path(by), self._entry_path(name), src_dir_fd=source, dst_dir_fd=source)
        )

    def create_link(self, name: str, to: str) -> None:
        """Create a hard link `name` to the entry `to`.

        Raises:
            FileExistsError: the name is in use.
            OSError, NotImplementedError: hard links are not supported.
        """
        descriptor = self._descriptor
        target, new = self._entry_path(to), self._entry_path(name)
        retry_while_open(
            lambda: os.link(target, new, src_dir_fd=descriptor, dst_dir_fd=descriptor, follow_symlinks=False)
        )

    def remove(self, name: str) -> None:
        """Remove an entry that is not a directory.

        Raises:
            FileNotFoundError: the entry does not exist.
        """
        retry_while_open(lambda: os.unlink(self._entry_path(name), dir_fd=self._descriptor))

    def make_directory(self, name: str, mode: int = 0o777) -> None:
        """Create a subdirectory. The umask applies to `mode`.

        Raises:
            FileExistsError: the name is in use.
        """
        os.mkdir(self._entry_path(name), mode, dir_fd=self._descriptor)

    def remove_directory(self, name: str) -> None:
        """Remove an empty subdirectory.

        Raises:
            OSError: the entry does not exist, is not empty, or is not a directory.
        """
        retry_while_open(lambda: os.rmdir(self._entry_path(name), dir_fd=self._descriptor))

    def restrict_to_owner(self) -> None:
        """Restrict access to the directory to this user and administrators."""
        if sys.platform == "win32":
            restrict_directory(self._entry_path("."))
        else:
            os.chmod(self._entry_path("."), PRIVATE_DIRECTORY_MODE, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Sync the directory's entries to disk, if the file system supports that."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._entry_path("."), _OPEN_DIRECTORY, dir_fd=self._descriptor)
            try:
                sync_to_disk(descriptor)
            finally:
                os.close(descriptor)

    def _entry_path(self, name: str) -> str:
        return name if self._path is None else str(self._path / name)


def remove(path: Path) -> None:
    """Remove a file. A link itself is removed, not its target.

    Raises:
        FileNotFoundError: the path does not exist.
    """
    retry_while_open(path.unlink)


def rename(path: Path, to: Path) -> None:
    """Move a file to an unused path."""
    retry_while_open(lambda: path.rename(to))


def remove_tree(directory: Path) -> None:
    """Remove a directory and its contents. Anything that cannot be removed is left."""
    from shutil import rmtree  # noqa: PLC0415  # not needed for reading files

    try:
        retry_while_open(lambda: rmtree(directory))
    except OSError:
        rmtree(directory, ignore_errors=True)
