"""Working trees of git, whose main checkout and kinship are told without git; and the walk through their folders.

git itself is never run, and what a file `.git` says is a claim that both sides have to make: a checkout brings it from
a stranger. Such a file is opened in the one safe way, where it is regular and small, and reached through no link. What
it points at is read only where that lies in a repository that the other side is known to belong to as well. The walk
goes past hidden folders, and past those that hold nothing of the user's own.

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
"""Such a file leads to a program that is run: it is the user's own."""
MOST_LEVELS: Final = 64


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """A working tree: its folder, its repository, and, of a linked one, its own folder in that repository."""

    folder: Path
    repository: Path
    own: Path | None = None


def main_checkout(workspace: Path) -> Path | None:
    """The checkout whose linked working tree `workspace` is; None when it is none. Its files are this user's."""
    try:
        pointer = _line_of(workspace / GIT, workspace, LINK_RULES)
        if not pointer.startswith(POINTER):
            return None
        own = Path(os.path.normpath(workspace / pointer.removeprefix(POINTER)))
        back = Path(os.path.normpath(own / _line_of(own / "gitdir", own, LINK_RULES)))
        common = Path(os.path.normpath(own / _line_of(own / "commondir", own, LINK_RULES)))
        if os.path.realpath(back) != os.path.realpath(workspace / GIT) or common.name != GIT:
            return None
    except (OSError, ValueError):
        return None
    return common.parent


def is_linked_tree(folder: Path) -> bool:
    """True of a folder that is a linked working tree, as its `.git` claims: nothing above it is its own."""
    try:
        tree = _tree_at(folder)
    except (OSError, ValueError):
        return False
    return tree is not None and tree.own is not None


def other_tree(workspace: Path, folder: Path) -> Path | None:
    """The working tree that `folder` is in, if it is another one of the repository of `workspace`. Blocks.

    None for the same tree, one of another repository, and where nobody can tell.
    """
    try:
        here, there = _tree_of(workspace), _tree_of(folder)
        if here is None or there is None or here.repository != there.repository or here.folder == there.folder:
            return None
        return there.folder if _is_known(here) and _is_known(there) else None
    except (OSError, ValueError):
        return None


def _tree_of(folder: Path) -> WorkingTree | None:
    """The nearest working tree from a folder upward, as its `.git` claims; nothing beyond that is looked at."""
    place = next((place for place in _upward(folder) if os.path.lexists(place / GIT)), None)
    return None if place is None else _tree_at(place)


def _tree_at(place: Path) -> WorkingTree | None:
    """The working tree that a folder is, as its `.git` claims; None of a submodule, or of what is none.

    Raises:
        OSError, ValueError: it has no `.git`, or one that is no plain small text.
    """
    status = os.lstat(place / GIT)
    if stat.S_ISDIR(status.st_mode):
        return WorkingTree(place, place / GIT)
    pointer = _line_of(place / GIT, place, CLAIM)
    if not pointer.startswith(POINTER):
        return None
    own = Path(os.path.normpath(place / pointer.removeprefix(POINTER)))
    return WorkingTree(place, own.parents[1], own) if own.parent.name == LINKED else None


def _upward(folder: Path) -> Iterator[Path]:
    resolved = Path(os.path.realpath(folder))
    yield from (resolved, *resolved.parents)[:MOST_LEVELS]


def _is_known(tree: WorkingTree) -> bool:
    """Whether its repository says that it is a working tree of it: the main one by its place, others by a file."""
    if tree.own is None:
        return True
    back = os.path.normpath(tree.own / _line_of(tree.own / "gitdir", tree.own, CLAIM))
    return os.path.realpath(back) == os.path.realpath(tree.folder / GIT)


def _line_of(path: Path, root: Path, rules: Rules) -> str:
    return files.read_text(path, rules, root=root).strip()


SKIPPED: Final = frozenset({
    "node_modules", "target", "build", "dist", "out", "venv", "__pycache__", "site-packages", "vendor",
})  # fmt: skip
"""Folders of dependencies and of what is built; hidden ones are skipped too."""


def walk(
    workspace: Path, *, max_depth: int = sys.maxsize, max_entries: int = sys.maxsize
) -> Iterator[tuple[str, int, list[os.DirEntry[str]]]]:
    """Each folder, its depth below the workspace, and what lies in it and is no folder; those near the top first.

    Links to folders are not followed. No further folder is opened when `max_entries` have been seen. A folder that
    may not be read, or is gone by now, has nothing in it.
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
        shown = [entry for entry in entries if not entry.name.startswith(".")]
        others = [entry for entry in shown if not _is_folder(entry)]
        yield path, depth, others
        if depth < max_depth and len(others) < len(shown):
            folders = (entry for entry in shown if entry.name not in SKIPPED and _is_folder(entry))
            waiting.extend((folder, depth + 1) for folder in sorted(entry.path for entry in folders))


def files_of(
    folder: Path, suffixes: tuple[str, ...], *, max_entries: int = sys.maxsize, max_depth: int = sys.maxsize
) -> Iterator[Path]:
    """The files of the walk whose names end so, those of one folder by name; a link may be among them."""
    for _path, _depth, entries in walk(folder, max_entries=max_entries, max_depth=max_depth):
        yield from (Path(path) for path in sorted(entry.path for entry in entries if entry.name.endswith(suffixes)))


def kinds_held(
    workspace: Path, suffixes: Mapping[str, tuple[str, ...]], *, max_entries: int = sys.maxsize
) -> frozenset[str]:
    """The kinds of files, by how their names end, of which one is among the first `max_entries` of the walk."""
    missing = dict(suffixes)
    for _path, _depth, entries in walk(workspace, max_entries=max_entries):
        names = [entry.name for entry in entries]
        missing = {kind: ends for kind, ends in missing.items() if not any(name.endswith(ends) for name in names)}
        if not missing:
            break
    return frozenset(suffixes.keys() - missing.keys())


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # it was there a moment ago
        return False
