"""Read source files that a caller wants to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver import files
from codriver.editing.source_encoding import decode_source
from codriver.errors import RefusedError, refused
from codriver_lisp.errors import EditFailedError

if TYPE_CHECKING:
    from pathlib import Path

LOADED_FILE_RULES = files.FileRules(files.Links.ANY, max_bytes=16 * 2**20)
"""Limits for files to load. Links may lead anywhere, because callers could send the text instead."""


def _unreadable_file_error(path: str, why: str) -> RefusedError:
    """Create the error for a file that cannot be read."""
    return refused(
        "file-unreadable",
        f"cannot read {path}: {why}",
        hint="Pass the path of a text file, absolute or relative to the workspace. Its encoding must be UTF-8 or, in "
        "Python, the one that the file declares.",
    )


def read_source(path: Path) -> str:
    """Return the text of a source file without its byte order mark, which REPLs would read as code.

    Raises:
        RefusedError: the file cannot be read.
    """
    try:
        return decode_source(path, files.read(path, LOADED_FILE_RULES))
    except EditFailedError as error:
        raise _unreadable_file_error(str(path), str(error)) from error
    except (OSError, ValueError) as error:  # ValueError: the path contains a null byte
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise _unreadable_file_error(str(path), why or "the file cannot be opened") from error
