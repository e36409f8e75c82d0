"""Walk through the files in a workspace, skipping hidden directories, dependencies and build results."""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


SKIPPED_DIRECTORIES: Final = frozenset({
    "node_modules", "target", "build", "dist", "out", "venv", "__pycache__", "site-packages", "vendor",
})  # fmt: skip
"""Names of directories with dependencies or build results, which the walk skips."""


def walk(
    workspace: Path, *, max_depth: int = sys.maxsize, max_entries: int = sys.maxsize
) -> Iterator[tuple[str, int, list[os.DirEntry[str]]]]:
    """Yield each directory as its path, its depth below the workspace, and its entries that are not directories.

    Directories are in order of their depth. Links to directories are not followed. After `max_entries` entries, no
    further directory is opened. Directories that cannot be read are skipped.
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
            directories = (entry for entry in visible if entry.name not in SKIPPED_DIRECTORIES and _is_directory(entry))
            waiting.extend((directory, depth + 1) for directory in sorted(entry.path for entry in directories))


def walk_files(
    directory: Path, suffixes: tuple[str, ...], *, max_entries: int = sys.maxsize, max_depth: int = sys.maxsize
) -> Iterator[Path]:
    """Yield the files below a directory whose names have one of these suffixes, sorted within each directory.

    Links to files are included.
    """
    for _path, _depth, entries in walk(directory, max_entries=max_entries, max_depth=max_depth):
        yield from (Path(path) for path in sorted(entry.path for entry in entries if entry.name.endswith(suffixes)))


def find_file_kinds(
    workspace: Path, suffixes: Mapping[str, tuple[str, ...]], *, max_entries: int = sys.maxsize
) -> frozenset[str]:
    """Return the kinds of files that occur in a workspace. Only the first `max_entries` entries are considered.

    `suffixes` maps each kind to the suffixes of its files.
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
