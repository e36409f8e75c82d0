"""Find source files in a workspace that have changed since a test run started."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codriver.files import last_write_ns
from codriver.files.tree_walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEST_INPUT_SUFFIXES: Final = (".py", ".pyi", ".toml", ".cfg", ".ini")
"""Suffixes of files that affect the outcomes of tests but are rarely written by tests."""
MAX_SCANNED_ENTRIES: Final = 20_000
"""Maximum number of directory entries that are scanned for changes."""


def changed_files(workspace: Path, since_ms: int, suffixes: tuple[str, ...] = TEST_INPUT_SUFFIXES) -> tuple[str, ...]:
    """Return the files that were written, replaced or renamed since a time in epoch milliseconds. Blocks.

    Only files with one of the suffixes are considered.
    """
    found = [path for path, changed_ms in _source_changes(workspace, suffixes) if changed_ms >= since_ms]
    return tuple(sorted(path.removeprefix(f"{workspace}{os.sep}") for path in found))


def newest_change_ms(workspace: Path, suffixes: tuple[str, ...] = TEST_INPUT_SUFFIXES) -> int:
    """Return the time of the latest change to a file in epoch milliseconds, or 0 if there are no files. Blocks.

    Only files with one of the suffixes are considered.
    """
    return max((changed_ms for _, changed_ms in _source_changes(workspace, suffixes)), default=0)


def _source_changes(workspace: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield the path of each source file and the time of its last change in epoch milliseconds."""
    for _, _, entries in walk(workspace, max_entries=MAX_SCANNED_ENTRIES):
        for entry in entries:
            if entry.name.endswith(suffixes):
                with suppress(OSError):
                    status = entry.stat()
                    yield entry.path, last_write_ns(status) // 10**6
