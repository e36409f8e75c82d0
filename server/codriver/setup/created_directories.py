"""Record the directories that `codriver init` creates for clients' files, so that `--remove` can delete them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import FileRules, Links
from codriver.files.codriver_paths import state_directory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RECORD_NAME: Final = "made-folders.json"
RECORD_RULES: Final = FileRules(Links.OF_USER, files.MEBIBYTE, is_granting=True)
"""Rules for reading the record. Directories in it may be removed, so it must belong to the user."""


def missing_parents(file: Path) -> tuple[Path, ...]:
    """Return the parent directories of a file that do not exist, innermost first."""
    missing: list[Path] = []
    for directory in file.parents:
        if os.path.lexists(directory):
            break
        missing.append(directory)
    return tuple(missing)


def record_created_directories(directories: Iterable[Path]) -> None:
    """Record that `init` created these directories, so that they can be removed later. Errors are ignored."""
    names = {str(directory) for directory in directories if directory.is_dir()}
    recorded = _read_record()
    if not names <= recorded:
        _write_record(recorded | names)


def remove_empty_parents(file: Path) -> None:
    """Remove the parent directories of a removed file that `init` created and that are empty."""
    recorded = _read_record()
    removed: set[str] = set()
    for directory in file.parents:
        if str(directory) not in recorded or not _remove_if_empty(directory):
            break
        removed.add(str(directory))
    if removed:
        _write_record(recorded - removed)


def _remove_if_empty(directory: Path) -> bool:
    """Remove a directory if it is empty and not a link, and return whether it was removed."""
    try:
        with files.locate(directory, Links.OF_USER, is_last_followed=False) as entry:
            entry.remove_directory()
    except OSError:
        return False
    return True


def _read_record() -> set[str]:
    found = files.read_json(state_directory() / RECORD_NAME, RECORD_RULES)
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _write_record(directories: set[str]) -> None:
    text = json.dumps(sorted(directories))
    try:
        path = state_directory() / RECORD_NAME
        files.replace(path, text.encode("ascii"), links=Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE)
    except OSError:
        return  # then the directory will not be removed later
