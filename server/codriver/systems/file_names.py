"""Names of files as their folders have them: Windows and macOS find `Shapes.py` by `SHAPES.PY`, too."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

FINDS_OTHER_SPELLINGS: Final = sys.platform in ("win32", "darwin")
"""Whether file systems here find a name by letters of another case, or composed otherwise."""


def as_spelled(path: Path, *, finds_others: bool = FINDS_OTHER_SPELLINGS) -> Path:
    """The path with each of its names as the folder has it, as far as there is such a file. Asks the disk."""
    if not finds_others:
        return path
    found = Path(path.anchor)
    for name in path.relative_to(path.anchor).parts:
        found /= _as_listed(found, name)
    return found


def _as_listed(folder: Path, name: str) -> str:
    """The name in the folder's list that means the same file; the given one where none does."""
    with suppress(OSError):
        listed = os.listdir(folder)  # noqa: PTH208  # names, of which most are never looked at
        if name not in listed:
            wanted = (folder / name).lstat()
            for other in listed:
                if os.path.samestat((folder / other).lstat(), wanted):
                    return other
    return name
