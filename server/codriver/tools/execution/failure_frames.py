"""Describe the frames of a failed test, and determine which of them belong to the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codriver.testing.runs import FailureFrame


def is_in_project(frame: FailureFrame, workspace: Path) -> bool:
    """Return whether a frame belongs to a file in the workspace, but not to an installed package."""
    return is_project_file(frame.file, workspace)


def is_project_file(file: str, workspace: Path) -> bool:
    """Return whether a file is in the workspace, but does not belong to an installed package."""
    installed = ("site-packages", "dist-packages", f"{os.sep}lib{os.sep}python")
    return file.startswith(f"{workspace}{os.sep}") and not any(part in file for part in installed)


def frame_location(frame: FailureFrame, workspace: Path) -> str:
    """Format the location of a frame as `FILE:LINE in FUNCTION`."""
    return f"{display_path(frame.file, workspace)}:{frame.line} in {frame.function}"


def display_path(file: str, workspace: Path) -> str:
    """Return the path of a file relative to the workspace, or unchanged if it is outside the workspace."""
    path = Path(file)
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else file
