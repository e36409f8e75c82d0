"""Files that commands write where their user says: reports, pictures."""

from __future__ import annotations

import os
from pathlib import Path

from codriver.files import Links, whole_files


def write_file(file: Path, content: bytes, workspace: Path) -> Path:
    """Write a file, which replaces what is there, and give its whole path. Folders that are missing are made.

    In the workspace no link is followed that leads out of it, as a checkout may have any.
    """
    path = Path(os.path.normpath(Path.cwd() / file))
    if path.is_relative_to(workspace):
        whole_files.replace(path, content, links=Links.WITHIN, root=workspace, mode=None, make_mode=0o777)
    else:
        whole_files.replace(path, content, links=Links.OWN, mode=None, make_mode=0o777)
    return path
