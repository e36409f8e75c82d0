"""Working trees of git: the main checkout of a linked one, and whether two folders are in two trees of one repository.

git itself is never run, and what a file `.git` says is a claim that both sides have to make: a checkout brings it from
a stranger. Such a file is opened in the one safe way, where it is regular and small, and reached through no link. What
it points at is read only where that lies in a repository that the other side is known to belong to as well.

Source: gitrepository-layout(5), "gitdir" and "commondir".
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links, Rules

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """The working tree that `folder` is in, where it is another one of the repository of `workspace`. Blocks.

    None where it is the same one, or of another repository, or where that cannot be told.
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
