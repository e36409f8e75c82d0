"""Whose a file is and who may do what with it, where the system tells; and how its folder spells its name.

On Windows access lists tell, and no mode. Windows and macOS find `Shapes.py` by `SHAPES.PY`, too.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from codriver_relay.own_files import is_mine, is_open, is_trusted

__all__ = ["TELLS_MODES", "give", "is_mine", "is_open", "is_own_group", "is_trusted", "mode_of", "set_mode"]


TELLS_MODES: Final = sys.platform != "win32"
"""Whether modes say who may do what."""


def mode_of(status: os.stat_result) -> int:
    """The rights that a mode gives, without the kind of file."""
    return stat.S_IMODE(status.st_mode)


if sys.platform == "win32":
    import ctypes

    def is_own_group(_number: int) -> bool:
        """True: each status names the same group."""
        return True

    def set_mode(_file: int, _mode: int) -> None:
        """Nothing: a file has the access list of its folder."""

    def give(_file: int, _owner: tuple[int, int]) -> None:
        """Nothing: a file is its maker's."""

    OWNER_ALONE: Final = "D:P(A;OICI;FA;;;OW)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
    """An access list, inherited from nowhere: all rights for the owner, the system and those who administer it.

    Source: Microsoft, Security Descriptor String Format.
    """
    DACL: Final = 0x80000004
    """The part of a security descriptor that says who may do what, protected. Source: SECURITY_INFORMATION."""

    def close_folder(path: str) -> None:
        """Let nobody but this user, and who administers the machine, into a folder.

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

    def is_own_group(number: int) -> bool:
        """True for the group of this process. Many systems give each user one alone."""
        return number == os.getgid()

    def set_mode(file: int, mode: int) -> None:
        """Give an open file this mode."""
        os.fchmod(file, mode)

    def give(file: int, owner: tuple[int, int]) -> None:
        """Give an open file to a user and a group, where this user may."""
        if owner != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.fchown(file, *owner)


FINDS_OTHER_SPELLINGS: Final = sys.platform in ("win32", "darwin")
"""Whether file systems here find a name by letters of another case, or composed otherwise."""


def as_spelled(path: Path, *, finds_others: bool = FINDS_OTHER_SPELLINGS) -> Path:
    """The path with each of its names as the folder has it, as far as there is such a file. Asks the disk."""
    if not finds_others:
        return path
    found = Path(path.anchor)
    for name in path.relative_to(path.anchor).parts:
        found /= _as_listed(found, name)
    return found


def _as_listed(folder: Path, name: str) -> str:
    """The name in the folder's list that means the same file; the given one where none does."""
    with suppress(OSError):
        listed = os.listdir(folder)  # noqa: PTH208  # names, of which most are never looked at
        if name not in listed:
            wanted = (folder / name).lstat()
            for other in listed:
                if os.path.samestat((folder / other).lstat(), wanted):
                    return other
    return name
