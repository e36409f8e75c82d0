"""Whose a file is and who may do what with it, where the system tells: on Windows access lists do, and no mode."""

from __future__ import annotations

import contextlib
import os
import stat
import sys

from codriver_relay.own_files import is_mine, is_open, is_trusted

__all__ = ["give", "is_mine", "is_open", "is_own_group", "is_trusted", "mode_of", "set_mode"]


def mode_of(status: os.stat_result) -> int:
    """The rights that a mode gives, without the kind of file."""
    return stat.S_IMODE(status.st_mode)


if sys.platform == "win32":

    def is_own_group(_number: int) -> bool:
        """True: each status names the same group."""
        return True

    def set_mode(_file: int, _mode: int) -> None:
        """Nothing: a file has the access list of its folder."""

    def give(_file: int, _owner: tuple[int, int]) -> None:
        """Nothing: a file is its maker's."""

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
