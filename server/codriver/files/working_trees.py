"""Working trees of git: their main checkouts and kinship, found without git, and the walk through their folders.

git itself is never run. The content of a file `.git` is a claim that both sides have to make, since a stranger's
checkout brings it. Such a file is opened in the one safe way, if it is regular and small and no link leads to it. Its
target is read only if both sides are known to belong to the same repository. The walk skips hidden folders and folders
that hold nothing of the user's own.

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
POINTER: Final = "gitdir: "
LINKED: Final = "worktrees"
"""The folder of a repository in which each linked working tree has its own."""
MOST_BYTES: Final = 4 * files.KIBIBYTE
CLAIM: Final = Rules(Links.NEVER, MOST_BYTES)
LINK_RULES: Final = Rules(Links.NEVER, MOST_BYTES, is_granting=True)
"""The file leads to a program that is run, so it has to be the user's own."""
MOST_LEVELS: Final = 64


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """A working tree: its folder, its repository, and, of a linked one, its own folder in that repository."""

    root: Path
    repository: Path
    git_dir: Path | None = None


def main_checkout(workspace: Path) -> Path | None:
    """The checkout to which `workspace` is a linked tree, with files of this user; None for any other folder."""
    try:
        pointer = _line_of(workspace / GIT, workspace, LINK_RULES)
        if not pointer.startswith(POINTER):
            return None
        git_dir = Path(os.path.normpath(workspace / pointer.removeprefix(POINTER)))
        back = Path(os.path.normpath(git_dir / _line_of(git_dir / "gitdir", git_dir, LINK_RULES)))
        common = Path(os.path.normpath(git_dir / _line_of(git_dir / "commondir", git_dir, LINK_RULES)))
        if os.path.realpath(back) != os.path.realpath(workspace / GIT) or common.name != GIT:
            return None
    except (OSError, ValueError):
        return None
    return common.parent


def git_directory(directory: Path) -> Path:
    """Return the git directory of a working tree: `.git` itself, or the directory that the file `.git` names.

    Raises:
        OSError, ValueError: there is no `.git`, or it is no plain small text.
    """
    if stat.S_ISDIR((directory / GIT).lstat().st_mode):
        return directory / GIT
    pointer = _line_of(directory / GIT, directory, CLAIM)
    if not pointer.startswith(POINTER):
        raise ValueError(f"{directory / GIT} names no git directory")
    return Path(os.path.normpath(directory / pointer.removeprefix(POINTER)))


def is_linked_tree(directory: Path) -> bool:
    """True if a folder is a linked working tree, as its `.git` claims: nothing above it is its own."""
    try:
        tree = _tree_at(directory)
    except (OSError, ValueError):
        return False
    return tree is not None and tree.git_dir is not None


def other_tree(workspace: Path, directory: Path) -> Path | None:
    """The working tree around `directory`, if it is another tree of the repository of `workspace`. Blocks.

    None for the same tree, a tree of another repository, and an unknown one.
    """
    try:
        current, other = _tree_of(workspace), _tree_of(directory)
        if current is None or other is None or current.repository != other.repository or current.root == other.root:
            return None
        return other.root if _is_known(current) and _is_known(other) else None
    except (OSError, ValueError):
        return None


def _tree_of(directory: Path) -> WorkingTree | None:
    """The nearest working tree from a folder upward, as its `.git` claims; folders above it are not looked at."""
    top = next((path for path in _upward(directory) if os.path.lexists(path / GIT)), None)
    return None if top is None else _tree_at(top)


def _tree_at(directory: Path) -> WorkingTree | None:
    """The working tree at a folder, as its `.git` claims; None for a submodule, and for any other folder.

    Raises:
        OSError, ValueError: the folder has no `.git`, or its `.git` is no plain small text.
    """
    status = os.lstat(directory / GIT)
    if stat.S_ISDIR(status.st_mode):
        return WorkingTree(directory, directory / GIT)
    pointer = _line_of(directory / GIT, directory, CLAIM)
    if not pointer.startswith(POINTER):
        return None
    git_dir = Path(os.path.normpath(directory / pointer.removeprefix(POINTER)))
    return WorkingTree(directory, git_dir.parents[1], git_dir) if git_dir.parent.name == LINKED else None


def _upward(directory: Path) -> Iterator[Path]:
    resolved = Path(os.path.realpath(directory))
    yield from (resolved, *resolved.parents)[:MOST_LEVELS]


def _is_known(tree: WorkingTree) -> bool:
    """Whether the repository claims the working tree as its own: the main tree by its place, others by a file."""
    if tree.git_dir is None:
        return True
    back = os.path.normpath(tree.git_dir / _line_of(tree.git_dir / "gitdir", tree.git_dir, CLAIM))
    return os.path.realpath(back) == os.path.realpath(tree.root / GIT)


def _line_of(path: Path, root: Path, rules: Rules) -> str:
    return files.read_text(path, rules, root=root).strip()


SKIPPED: Final = frozenset({
    "node_modules", "target", "build", "dist", "out", "venv", "__pycache__", "site-packages", "vendor",
})  # fmt: skip
"""Folders of dependencies and of build results; hidden ones are skipped too."""


def walk(
    workspace: Path, *, max_depth: int = sys.maxsize, max_entries: int = sys.maxsize
) -> Iterator[tuple[str, int, list[os.DirEntry[str]]]]:
    """Each folder, its depth below the workspace, and its entries that are no folders; folders near the top first.

    Links to folders are not followed. No further folder is opened when `max_entries` have been seen. A folder that is
    unreadable or gone counts as empty.
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
    """The files of the walk whose names have one of these endings, in one folder by name; a link may be among them."""
    for _path, _depth, entries in walk(directory, max_entries=max_entries, max_depth=max_depth):
        yield from (Path(path) for path in sorted(entry.path for entry in entries if entry.name.endswith(suffixes)))


def markers_in(
    workspace: Path, suffixes: Mapping[str, tuple[str, ...]], *, max_entries: int = sys.maxsize
) -> frozenset[str]:
    """The kinds of files, by the endings of their names, that occur among the first `max_entries` of the walk."""
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
    except OSError:  # the file was there a moment ago
        return False
