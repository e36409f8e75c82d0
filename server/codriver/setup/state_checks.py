"""Checks of the state folder: whether the history, the memory and long texts of a workspace can be kept on disk."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from codriver.files.paths import workspace_state_folder
from codriver.setup.doctor_report import Check
from codriver.systems.advice import to_open

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOM_BYTES: Final = 64 * 2**20
"""With less free, long texts and the log of a busy day are not kept."""
SERVER_BYTES: Final = 64 * 2**10
"""With less free in the workspace, the files by which clients find a server may not fit."""
KEPT: Final = "what was evaluated and printed is kept in memory alone, and gone when the server ends"


def check_state(workspace: Path) -> Iterator[Check]:
    """The faults of the folder that holds the state of a workspace, or of the one in which it would be made."""
    folder = workspace_state_folder(workspace)
    there = next(one for one in (folder, *folder.parents) if os.path.exists(one))  # noqa: PTH110  # False too where one may not look
    elsewhere = "set XDG_STATE_HOME to a folder that can be"
    if not there.is_dir():
        yield Check("state", "wrong", f"{folder} cannot be made, as {there} is a file: {KEPT}", f"mv {there} …")
    elif not os.access(there, os.W_OK | os.X_OK):
        mend = f"{to_open(there)}, or {elsewhere} written"
        yield Check("state", "wrong", f"{there} cannot be written by this user: {KEPT}", mend)
    elif (free := shutil.disk_usage(there).free) < ROOM_BYTES:
        text = f"{free / 2**20:.0f} MiB are free on the disk of {there}: once it is full, {KEPT}"
        yield Check("state", "wrong", text, f"make room, or {elsewhere} filled")
    elif (free := shutil.disk_usage(workspace).free) < SERVER_BYTES:
        text = f"{free / 2**10:.0f} KiB are free on the disk of {workspace}, where a server has files: none starts"
        yield Check("workspace", "wrong", text, "make room there")
    else:
        yield Check("state", "ok", f"{folder} {'' if there == folder else 'will be made, and '}can be written")
