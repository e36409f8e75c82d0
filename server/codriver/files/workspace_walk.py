"""The walk through a workspace's folders, past hidden ones and those that hold nothing of the user's own."""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
