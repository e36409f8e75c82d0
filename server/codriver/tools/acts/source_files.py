"""Source files that a caller names to be loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver import files
from codriver.errors import RefusedError, refused

if TYPE_CHECKING:
    from pathlib import Path

FILE = files.Rules(files.Links.ANY, most_bytes=16 * 2**20)
"""The rules for a file to load: any place that its caller names, as the caller could as well send the text."""


def _file_unreadable(path: str, why: str) -> RefusedError:
    """Return the file to load cannot be read."""
    return refused(
        "file-unreadable",
        f"cannot read {path}: {why}",
        hint="give a path that is absolute or relative to the workspace, to a UTF-8 text file",
    )


def read_source(path: Path) -> str:
    """Return the text of a file that is to be loaded.

    Raises:
        RefusedError: the file cannot be read.
    """
    try:
        return files.read_text(path, FILE)  # REPLs take a byte order mark for code, so the mark is left out
    except UnicodeDecodeError as error:
        raise _file_unreadable(str(path), "it is not UTF-8") from error
    except (OSError, ValueError) as error:  # a path with a null byte is no path
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise _file_unreadable(str(path), why or "it cannot be opened") from error
