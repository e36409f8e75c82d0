"""Directories that only this user can access.

Existing state directories that are open to others are made private. `Path.mkdir` with `parents` is not used because it
applies the umask to the parents, and others could then list them.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from codriver.files.codriver_paths import state_directory
from codriver.files.directory_entry import PRIVATE_DIRECTORY_MODE
from codriver.files.file_rules import OTHERS_PERMISSIONS
from codriver.systems.file_system import is_mine, is_open

if TYPE_CHECKING:
    from pathlib import Path


def make_private_directory(directory: Path) -> None:
    """Create a directory and its missing parents so that only this user can access them. May be called repeatedly.

    Below the user's state directory, existing directories are made private too, unless they are links.

    Raises:
        OSError: the directory cannot be created.
    """
    above = directory
    missing: list[Path] = []
    while not os.path.lexists(above):
        missing.append(above)
        above = above.parent
    for level in reversed(missing):
        level.mkdir(mode=PRIVATE_DIRECTORY_MODE, exist_ok=True)
    if not directory.is_dir():
        raise NotADirectoryError(20, "the path is not a directory", str(directory))
    state = state_directory()
    if directory.is_relative_to(state):
        for level in (directory, *directory.parents):
            _make_private(level)
            if level == state:
                break


def _make_private(directory: Path) -> None:
    """Make one of this user's directories private, if the file system supports modes."""
    with suppress(OSError):
        status = directory.lstat()
        if stat.S_ISDIR(status.st_mode) and is_mine(status.st_uid) and is_open(status, OTHERS_PERMISSIONS):
            directory.chmod(PRIVATE_DIRECTORY_MODE)
