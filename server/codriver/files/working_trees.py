"""Git working trees, related without running git, and a walk through the files of a workspace.

The content of a `.git` file may come with a stranger's checkout, so it only counts if the repository confirms it. Such
a file is only read if it is regular and small and no link leads to it. The walk skips hidden directories and those of
dependencies and build results.

Source: gitrepository-layout(5), "gitdir" and "commondir".
"""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links, Rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


GIT: Final = ".git"
GITDIR_PREFIX: Final = "gitdir: "
"""The prefix of the path in a `.git` file. Source: gitrepository-layout(5)."""
LINKED_TREES_DIRECTORY: Final = "worktrees"
"""The directory of a repository that has a subdirectory for each linked working tree."""
MAX_BYTES: Final = 4 * files.KIBIBYTE
"""Maximum size of a file that refers to another git directory."""
CLAIM: Final = Rules(Links.NEVER, MAX_BYTES)
GRANTING_LINK_RULES: Final = Rules(Links.NEVER, MAX_BYTES, is_granting=True)
"""Rules for reading such a file if it leads to a program that is run, so it must belong to the user."""
MAX_LEVELS: Final = 64
"""Maximum number of parent directories that are searched for a `.git`."""


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """A working tree: its directory, its repository and, for a linked one, its subdirectory in that repository."""

    root: Path
    repository: Path
    git_dir: Path | None = None


def main_checkout(workspace: Path) -> Path | None:
    """Return the main checkout if `workspace` is a linked working tree of this user, otherwise None."""
    try:
        pointer = _line_of(workspace / GIT, workspace, GRANTING_LINK_RULES)
        if not pointer.startswith(GITDIR_PREFIX):
            return None
        git_dir = Path(os.path.normpath(workspace / pointer.removeprefix(GITDIR_PREFIX)))
        back = Path(os.path.normpath(git_dir / _line_of(git_dir / "gitdir", git_dir, GRANTING_LINK_RULES)))
        common = Path(os.path.normpath(git_dir / _line_of(git_dir / "commondir", git_dir, GRANTING_LINK_RULES)))
        if os.path.realpath(back) != os.path.realpath(workspace / GIT) or common.name != GIT:
            return None
    except (OSError, ValueError):
        return None
    return common.parent


def git_directory(directory: Path) -> Path:
    """Return the git directory of a working tree: `.git` itself, or the directory that a `.git` file names.

    Raises:
        OSError, ValueError: there is no `.git`, or it is not a small text file.
    """
    if stat.S_ISDIR((directory / GIT).lstat().st_mode):
        return directory / GIT
    pointer = _line_of(directory / GIT, directory, CLAIM)
    if not pointer.startswith(GITDIR_PREFIX):
        raise ValueError(f"{directory / GIT} does not name a git directory")
    return Path(os.path.normpath(directory / pointer.removeprefix(GITDIR_PREFIX)))


def is_linked_tree(directory: Path) -> bool:
    """Return whether a directory is a linked working tree according to its `.git` file."""
    try:
        tree = _tree_at(directory)
    except (OSError, ValueError):
        return False
    return tree is not None and tree.git_dir is not None


def other_tree(workspace: Path, directory: Path) -> Path | None:
    """Return the working tree that contains `directory`, if it is another one of the workspace's repository.

    Returns None for the same tree, one of another repository, or an unconfirmed one. Blocks on the disk.
    """
    try:
        current, other = _tree_of(workspace), _tree_of(directory)
        if current is None or other is None or current.repository != other.repository or current.root == other.root:
            return None
        return other.root if _is_known(current) and _is_known(other) else None
    except (OSError, ValueError):
        return None


def _tree_of(directory: Path) -> WorkingTree | None:
    """Return the nearest working tree at or above a directory, according to its `.git`."""
    top = next((path for path in _with_ancestors(directory) if os.path.lexists(path / GIT)), None)
    return None if top is None else _tree_at(top)


def _tree_at(directory: Path) -> WorkingTree | None:
    """Return the working tree at a directory according to its `.git`, or None for a submodule.

    Raises:
        OSError, ValueError: there is no `.git`, or it is not a small text file.
    """
    status = os.lstat(directory / GIT)
    if stat.S_ISDIR(status.st_mode):
        return WorkingTree(directory, directory / GIT)
    pointer = _line_of(directory / GIT, directory, CLAIM)
    if not pointer.startswith(GITDIR_PREFIX):
        return None
    git_dir = Path(os.path.normpath(directory / pointer.removeprefix(GITDIR_PREFIX)))
    return (
        WorkingTree(directory, git_dir.parents[1], git_dir) if git_dir.parent.name == LINKED_TREES_DIRECTORY else None
    )


def _with_ancestors(directory: Path) -> Iterator[Path]:
    resolved = Path(os.path.realpath(directory))
    yield from (resolved, *resolved.parents)[:MAX_LEVELS]


def _is_known(tree: WorkingTree) -> bool:
    """Return whether the repository refers back to the working tree. A main working tree needs no such confirmation."""
    if tree.git_dir is None:
        return True
    back = os.path.normpath(tree.git_dir / _line_of(tree.git_dir / "gitdir", tree.git_dir, CLAIM))
    return os.path.realpath(back) == os.path.realpath(tree.root / GIT)


def _line_of(path: Path, root: Path, rules: Rules) -> str:
    return files.read_text(path, rules, root=root).strip()


SKIPPED: Final = frozenset({
    "node_modules", "target", "build", "dist", "out", "venv", "__pycache__", "site-packages", "vendor",
})  # fmt: skip
"""Names of directories with dependencies or build results, which the walk skips."""


def walk(
    workspace: Path, *, max_depth: int = sys.maxsize, max_entries: int = sys.maxsize
) -> Iterator[tuple[str, int, list[os.DirEntry[str]]]]:
    """Yield each directory as its path, its depth below the workspace, and its entries that are not directories.

    Directories near the top come first. Links to directories are not followed. After `max_entries` entries, no further
    directory is opened. Unreadable directories count as empty.
    """
    waiting, seen = deque([(os.fspath(workspace), 0)]), 0
    while waiting and seen < max_entries:
        path, depth = waiting.popleft()
        try:
            with os.scandir(path) as found:
                entries = list(found)
        except OSError:
            entries = []
        seen += len(entries)
        visible = [entry for entry in entries if not entry.name.startswith(".")]
        others = [entry for entry in visible if not _is_directory(entry)]
        yield path, depth, others
        if depth < max_depth and len(others) < len(visible):
            directories = (entry for entry in visible if entry.name not in SKIPPED and _is_directory(entry))
            waiting.extend((directory, depth + 1) for directory in sorted(entry.path for entry in directories))


def files_of(
    directory: Path, suffixes: tuple[str, ...], *, max_entries: int = sys.maxsize, max_depth: int = sys.maxsize
) -> Iterator[Path]:
    """Yield the files of the walk whose names have one of these suffixes, sorted within each directory.

    The files may include links.
    """
    for _path, _depth, entries in walk(directory, max_entries=max_entries, max_depth=max_depth):
        yield from (Path(path) for path in sorted(entry.path for entry in entries if entry.name.endswith(suffixes)))


def file_kinds_in(
    workspace: Path, suffixes: Mapping[str, tuple[str, ...]], *, max_entries: int = sys.maxsize
) -> frozenset[str]:
    """Return the kinds of files that occur among the first `max_entries` entries of the walk.

    `suffixes` defines each kind by the suffixes of its files.
    """
    missing = dict(suffixes)
    for _path, _depth, entries in walk(workspace, max_entries=max_entries):
        names = [entry.name for entry in entries]
        missing = {kind: ends for kind, ends in missing.items() if not any(name.endswith(ends) for name in names)}
        if not missing:
            break
    return frozenset(suffixes.keys() - missing.keys())


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # the entry has just been removed
        return False
