"""Read source files to look up code. Only regular files up to a maximum size are read, and opening one never blocks."""

from __future__ import annotations

import collections
import io
import linecache
import os
import stat

from .systems import retry_while_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


MAX_FILE_BYTES = 2**24
"""Maximum size of a file in which a definition is looked up. Loading a file has the same limit."""


NONBLOCKING_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening files without blocking. Opening a pipe without them would wait for a writer."""


MAX_EVALUATED_SOURCES = 2000
"""Maximum number of evaluated sources to keep."""


class Sources:
    """The source texts that a worker has evaluated. At most `MAX_EVALUATED_SOURCES` are stored."""

    def __init__(self) -> None:
        self._files: collections.deque[str] = collections.deque()

    def newest_first(self) -> list[str]:
        """Return the file names of the evaluated sources, newest first."""
        return list(reversed(self._files))

    def store(self, file: str, text: str) -> None:
        """Store an evaluated source so that tracebacks can display its lines.

        A modification time of None prevents `linecache` from checking for a file.
        """
        if file.startswith("<") or not os.path.exists(file):
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            self._files.append(file)
            if len(self._files) > MAX_EVALUATED_SOURCES:
                linecache.cache.pop(self._files.popleft(), None)


def read_regular_file(file: str, most: int = MAX_FILE_BYTES) -> tuple[os.stat_result, bytes] | None:
    """Return the status and content of a file. Return None if it is not regular or has more than `most` bytes.

    Raises:
        OSError, ValueError: the file cannot be read.
    """
    number = retry_while_open(lambda: os.open(file, os.O_RDONLY | NONBLOCKING_FLAGS))
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        with open(number, "rb", closefd=False) as stream:
            return status, stream.read(status.st_size)
    finally:
        os.close(number)


def read_source(file: str, most: int = MAX_FILE_BYTES) -> str | None:
    """Return the text of a Python file. Return None if it is not a regular file or has more than `most` bytes.

    Raises:
        OSError: the file cannot be read.
        SyntaxError, ValueError: the encoding is unknown, or not the declared one.
    """
    found = read_regular_file(file, most)
    if found is None:
        return None
    data = found[1]
    import tokenize

    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return io.TextIOWrapper(io.BytesIO(data), encoding).read()


def source_lines(name: str) -> list[str]:
    """Return the lines of a Python file or an evaluated source, or [] if the file cannot be read.

    `linecache` is used only for evaluated sources, because it would open any kind of file.
    """
    stored_values: Any = linecache.cache.get(name)
    # An entry with a lazy loader is shorter.
    known: list[str] = stored_values[2] if stored_values is not None and len(stored_values) > 2 else []
    if known and stored_values[1] is None:
        return known
    try:
        text = read_source(name)
    except FileNotFoundError:
        return known
    except (OSError, SyntaxError, ValueError, LookupError):
        return []
    return [] if text is None else io.StringIO(text).readlines()
