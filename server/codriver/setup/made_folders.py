"""The folders that `codriver init` made for clients' files: a removal takes them out again where they are empty."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links, Rules
from codriver.files.paths import state_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RECORD: Final = "made-folders.json"
RECORD_RULES: Final = Rules(Links.OWN, files.MEBIBYTE, is_granting=True)
"""What stands in it is removed, if it is empty: it is the user's own."""


def missing_above(file: Path) -> tuple[Path, ...]:
    """The folders above `file` that are not there, the innermost first: to make the file is to make them."""
    missing: list[Path] = []
    for folder in file.parents:
        if os.path.lexists(folder):
            break
        missing.append(folder)
    return tuple(missing)


def record(folders: Iterable[Path]) -> None:
    """Remember that these folders were made. Where that cannot be written down, they stay for good."""
    made = {str(folder) for folder in folders if folder.is_dir()}
    known = _recorded()
    if not made <= known:
        _write(known | made)


def take_out(file: Path) -> None:
    """Remove the folders above a file that is gone, innermost first, as long as they were made for it and are empty."""
    known = _recorded()
    gone: set[str] = set()
    for folder in file.parents:
        if str(folder) not in known or not _is_removed(folder):
            break
        gone.add(str(folder))
    if gone:
        _write(known - gone)


def _is_removed(folder: Path) -> bool:
    """Whether the folder could be removed: not where anything is in it, or a link has its name."""
    try:
        with files.locate(folder, Links.OWN, is_last_followed=False) as place:
            place.remove_folder()
    except OSError:
        return False
    return True


def _recorded() -> set[str]:
    found = files.read_json(state_folder() / RECORD, RECORD_RULES)
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _write(folders: set[str]) -> None:
    text = json.dumps(sorted(folders))
    try:
        path = state_folder() / RECORD
        files.replace(path, text.encode("ascii"), links=Links.OWN, make_mode=files.PRIVATE_FOLDER)
    except OSError:
        return  # then nothing is removed that could have been
