"""Find git working trees and the repositories that they share, without running git.

The content of a `.git` file may come with a stranger's checkout, so it only counts if the repository confirms it. Such
a file is only read if it is regular and small and no link leads to it.

Source: gitrepository-layout(5), "gitdir" and "commondir".
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import FileRules, Links

if TYPE_CHECKING:
    from collections.abc import Iterator


DOT_GIT: Final = ".git"
GITDIR_PREFIX: Final = "gitdir: "
"""The prefix of the path in a `.git` file. Source: gitrepository-layout(5)."""
LINKED_TREES_DIRECTORY: Final = "worktrees"
"""The directory of a repository that contains a subdirectory for each linked working tree."""
MAX_LINK_FILE_BYTES: Final = 4 * files.KIBIBYTE
"""Maximum size of a file that refers to another git directory."""
LINK_FILE_RULES: Final = FileRules(Links.NEVER, MAX_LINK_FILE_BYTES)
GRANTING_LINK_RULES: Final = FileRules(Links.NEVER, MAX_LINK_FILE_BYTES, is_granting=True)
"""Rules for reading a file that refers to another git directory, if it decides which program is run.

The file must then belong to the user.
"""
MAX_SEARCHED_PARENTS: Final = 64
"""Maximum number of directories that are searched for a `.git`, from the given one upwards."""


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """A git working tree: its directory, its repository, and for a linked one, its subdirectory in the repository."""

    root: Path
    repository: Path
    git_dir: Path | None = None


def main_checkout(workspace: Path) -> Path | None:
    """Return the main working tree if `workspace` is a linked working tree of this user, or else None."""
    try:
        pointer = _read_line(workspace / DOT_GIT, workspace, GRANTING_LINK_RULES)
        if not pointer.startswith(GITDIR_PREFIX):
            return None
        git_dir = Path(os.path.normpath(workspace / pointer.removeprefix(GITDIR_PREFIX)))
        back = Path(os.path.normpath(git_dir / _read_line(git_dir / "gitdir", git_dir, GRANTING_LINK_RULES)))
        common = Path(os.path.normpath(git_dir / _read_line(git_dir / "commondir", git_dir, GRANTING_LINK_RULES)))
        if os.path.realpath(back) != os.path.realpath(workspace / DOT_GIT) or common.name != DOT_GIT:
            return None
    except (OSError, ValueError):
        return None
    return common.parent


def git_directory(directory: Path) -> Path:
    """Return the git directory of a working tree. It is `.git`, or the directory that a `.git` file refers to.

    Raises:
        OSError, ValueError: there is no `.git`, or it is not a small text file.
    """
    if stat.S_ISDIR((directory / DOT_GIT).lstat().st_mode):
        return directory / DOT_GIT
    pointer = _read_line(directory / DOT_GIT, directory, LINK_FILE_RULES)
    if not pointer.startswith(GITDIR_PREFIX):
        raise ValueError(f"{directory / DOT_GIT} does not name a git directory")
    return Path(os.path.normpath(directory / pointer.removeprefix(GITDIR_PREFIX)))


def is_linked_tree(directory: Path) -> bool:
    """Return whether a directory is a linked working tree, judging by its `.git` file."""
    try:
        tree = _read_tree(directory)
    except (OSError, ValueError):
        return False
    return tree is not None and tree.git_dir is not None


def other_working_tree(workspace: Path, directory: Path) -> Path | None:
    """Return the working tree that contains `directory`, if it is another tree of the workspace's repository.

    Returns None for the workspace's own tree, for other repositories, and for a tree that the repository does not know.
    Blocks on disk I/O.
    """
    try:
        current, other = _find_tree(workspace), _find_tree(directory)
        if current is None or other is None or current.repository != other.repository or current.root == other.root:
            return None
        return other.root if _is_known(current) and _is_known(other) else None
    except (OSError, ValueError):
        return None


def _find_tree(directory: Path) -> WorkingTree | None:
    """Return the working tree that contains a directory, or None if no parent directory has a `.git`."""
    top = next((path for path in _with_ancestors(directory) if os.path.lexists(path / DOT_GIT)), None)
    return None if top is None else _read_tree(top)


def _read_tree(directory: Path) -> WorkingTree | None:
    """Return the working tree at a directory, judging by its `.git`, or None for a submodule.

    Raises:
        OSError, ValueError: there is no `.git`, or it is not a small text file.
    """
    status = os.lstat(directory / DOT_GIT)
    if stat.S_ISDIR(status.st_mode):
        return WorkingTree(directory, directory / DOT_GIT)
    pointer = _read_line(directory / DOT_GIT, directory, LINK_FILE_RULES)
    if not pointer.startswith(GITDIR_PREFIX):
        return None
    git_dir = Path(os.path.normpath(directory / pointer.removeprefix(GITDIR_PREFIX)))
    return (
        WorkingTree(directory, git_dir.parents[1], git_dir) if git_dir.parent.name == LINKED_TREES_DIRECTORY else None
    )


def _with_ancestors(directory: Path) -> Iterator[Path]:
    resolved = Path(os.path.realpath(directory))
    yield from (resolved, *resolved.parents)[:MAX_SEARCHED_PARENTS]


def _is_known(tree: WorkingTree) -> bool:
    """Return whether the repository refers back to a linked working tree. This is always true for a main one."""
    if tree.git_dir is None:
        return True
    back = os.path.normpath(tree.git_dir / _read_line(tree.git_dir / "gitdir", tree.git_dir, LINK_FILE_RULES))
    return os.path.realpath(back) == os.path.realpath(tree.root / DOT_GIT)


def _read_line(path: Path, root: Path, rules: FileRules) -> str:
    return files.read_text(path, rules, root=root).strip()
