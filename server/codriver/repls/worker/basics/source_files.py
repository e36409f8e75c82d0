"""Source files, read for look-ups: regular ones alone, opened without waiting, and up to a bound."""

from __future__ import annotations

import io
import linecache
import os
import stat

from .systems import patiently

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_BYTES = 2**24
"""Of a file in which one definition is looked for: as much as of one that is loaded."""
WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
"""To open a pipe would wait until somebody writes into it."""


def bytes_of(file: str, most: int = MOST_BYTES) -> tuple[os.stat_result, bytes] | None:
    """The status of a file and what it holds; None if it is no regular file, or longer than `most` bytes.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    number = patiently(lambda: os.open(file, os.O_RDONLY | WITHOUT_WAITING))
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        with open(number, "rb", closefd=False) as stream:
            return status, stream.read(status.st_size)
    finally:
        os.close(number)


def read_source(file: str, most: int = MOST_BYTES) -> str | None:
    """The text of a Python file; None if it is no regular file, or longer than `most` bytes.

    Raises:
        OSError: it cannot be read.
        SyntaxError, ValueError: it is in no encoding that is known, or not in the one that it names.
    """
    found = bytes_of(file, most)
    if found is None:
        return None
    data = found[1]
    import tokenize

    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return io.TextIOWrapper(io.BytesIO(data), encoding).read()


def lines_of(name: str) -> list[str]:
    """The lines of a Python file, or of an evaluated text; none if it cannot be read.

    Texts are known to `linecache`, which is not asked for files: it opens whatever is there.
    """
    kept: Any = linecache.cache.get(name)
    # A loader's promise of lines is shorter.
    known: list[str] = kept[2] if kept is not None and len(kept) > 2 else []
    if known and kept[1] is None:
        return known
    try:
        text = read_source(name)
    except FileNotFoundError:
        return known
    except (OSError, SyntaxError, ValueError, LookupError):
        return []
    return [] if text is None else io.StringIO(text).readlines()
