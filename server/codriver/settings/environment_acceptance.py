"""Find a workspace's Python environment, and detect changes that revoke the user's acceptance of it.

Users rebuild their environments all the time, which is harmless. The acceptance lapses when the directory becomes a
link that leaves the workspace, when it belongs to another user, or when git tracks it, because then somebody else
controls its content.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codriver.files import git_index
from codriver.repls.launch.projects import ENVIRONMENT_DIRECTORIES, find_python, is_inside
from codriver.systems.file_system import is_mine

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class EnvironmentState:
    """The state of an environment directory when the user accepted it, or its current state."""

    path: str
    target: str | None = None
    """The real path of the directory if it is outside the workspace."""
    owner: int | None = None
    """The user id of the owner; None if the directory does not exist."""
    is_tracked: bool = False

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> EnvironmentState | None:
        """Parse a state that `to_json` returned. Return None for any other value."""
        match found:
            case {
                "path": str(path),
                "target": str() | None as target,
                "owner": int() | None as owner,
                "tracked": bool(is_tracked),
            }:
                return cls(path, target, owner, is_tracked)
        return None

    def to_json(self) -> dict[str, object]:
        """Return the state as a JSON object."""
        return {"path": self.path, "target": self.target, "owner": self.owner, "tracked": self.is_tracked}


def inspect_directory(workspace: Path, path: str) -> EnvironmentState:
    """Return the current state of a directory in the workspace. Blocks on disk I/O."""
    directory = workspace / path
    real = os.path.realpath(directory)
    target = None if is_inside(real, workspace, workspace) else real
    try:
        owner = directory.stat().st_uid
    except OSError:
        owner = None
    is_tracked = git_index.is_tracked(directory) or (target is None and git_index.is_tracked(Path(real)))
    return EnvironmentState(path, target, owner, is_tracked)


def describe_revoking_change(accepted: EnvironmentState, now: EnvironmentState) -> str | None:
    """Describe the change that revokes the acceptance of a directory, or return None if there is none."""
    if now.target is not None and now.target != accepted.target:
        return f"{now.path} is now a link out of the workspace, to {now.target}"
    if now.owner is not None and now.owner != accepted.owner and not is_mine(now.owner):
        return f"{now.path} now belongs to another user"
    if now.is_tracked and not accepted.is_tracked:
        return f"git now tracks {now.path}"
    return None


def environment_directory(program: str, workspace: Path) -> str | None:
    """Return the environment directory of an interpreter, relative to the workspace, or None if it is outside."""
    if not is_inside(program, workspace, workspace):
        return None
    for path in (Path(os.path.abspath(workspace / program)), Path(os.path.realpath(workspace / program))):  # noqa: PTH100  # without following links
        for root in (Path(os.path.abspath(workspace)), Path(os.path.realpath(workspace))):  # noqa: PTH100  # as above
            # Programs are in `bin` or `Scripts`, except in conda environments on Windows, where they are at the top.
            for directory in (path.parent.parent, path.parent, path):
                if root in directory.parents:
                    return directory.relative_to(root).as_posix()
    return None


def directories_to_accept(workspace: Path, environ: Mapping[str, str], chosen: str) -> tuple[str, ...]:
    """Return the directory of the environment in use, or those in which one could be created.

    `chosen` is the value of the `python` setting.
    """
    used = environment_directory(find_python(workspace, environ, chosen).path, workspace)
    return ENVIRONMENT_DIRECTORIES if used is None else (used,)
