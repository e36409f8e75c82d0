"""Folders for this user alone, made with all that is missing above them, and locks on files in them.

Folders that were open to others are closed. `Path.mkdir` with `parents` leaves those above to the umask, so that others
could list what lies in them. One process holds a lock at a time, and the system frees it when that process ends,
however.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from codriver.files.paths import state_folder
from codriver.files.place import OTHERS, PRIVATE_FOLDER
from codriver.systems.open_folders import remove
from codriver.systems.owners import is_mine, is_open

if TYPE_CHECKING:
    from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Make a folder, and what is missing above it, so that nobody else may enter any of them. Again is harmless.

    Within the folder of the user's state others lose what they may do with one that is there already; a link is left.

    Raises:
        OSError: it cannot be made.
    """
    above = folder
    missing: list[Path] = []
    while not os.path.lexists(above):
        missing.append(above)
        above = above.parent
    for one in reversed(missing):
        one.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(20, "it is no folder", str(folder))
    state = state_folder()
    if folder.is_relative_to(state):
        for one in (folder, *folder.parents):
            _close(one)
            if one == state:
                break


def _close(folder: Path) -> None:
    """Let nobody else into a folder of this user's. What cannot be closed, as on a file system without modes, stays."""
    with suppress(OSError):
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and is_mine(status.st_uid) and is_open(status, OTHERS):
            folder.chmod(PRIVATE_FOLDER)


if sys.platform == "win32":
    from codriver_relay.windows import try_lock as _try
else:
    from codriver_relay.peer import try_flock as _try


def try_lock(descriptor: int) -> bool:
    """Whether the lock on this open file is held now. It is freed when the file is closed.

    Raises:
        OSError: its file system knows no locks.
    """
    try:
        return _try(descriptor)
    except PermissionError:
        return False


def remove_locked(file: Path, descriptor: int) -> None:
    """Remove a file whose lock is held by this descriptor, and close that: whoever takes the lock then sees it gone.

    Raises:
        OSError: it cannot be removed; it is closed all the same. On Windows, which removes nothing that is open,
            somebody else may have it by now.
    """
    if sys.platform == "win32":
        os.close(descriptor)
        remove(file)
    else:
        try:
            remove(file)
        finally:
            os.close(descriptor)
