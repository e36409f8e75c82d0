"""Check an existing history file, cut off its incomplete last line, and read its newest entries."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from codriver import files
from codriver.files import UnsafeFileError
from codriver.log import durable_files
from codriver.log.newest_entries import NewestEntries
from codriver.log.transit_format import (
    MAX_LINE_BYTES,
    EntryDecoder,
    UnreadableError,
    check_version,
    highest_line,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path


MAX_READ_BYTES = 256 * 2**20
"""Maximum size of a file to read, unless the history's limit requires more. Reading so much takes about 5 s."""


HEADER_READ_BYTES = 4096
"""Number of bytes read to check the header."""


TAIL_SEARCH_BYTES = 2**20
"""Number of bytes at the end that are first searched for the last line. If the line is longer, more bytes are read."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The newest entries of a history file, its number of broken lines, and whether its last line is incomplete."""

    newest: NewestEntries
    broken: int
    is_torn: bool


def check_existing(path: Path, max_bytes: int) -> tuple[int, int]:
    """Check the header of a history file, remove an incomplete last line, and return the size and highest line number.

    Both are 0 if the file is missing or empty. Only the end of the file is searched for line numbers.

    Raises:
        UnreadableError: the file is not a history.
        NewerFormatError: the file was written by a newer version. It is left unchanged.
        OSError: the file cannot be read or truncated.
    """
    whole, torn, size = b"", b"", 0
    for most in (TAIL_SEARCH_BYTES, 3 * TAIL_SEARCH_BYTES, TAIL_SEARCH_BYTES + MAX_LINE_BYTES):
        try:
            found = durable_files.read_ends(path, max_read_bytes(max_bytes), HEADER_READ_BYTES, most)
        except UnsafeFileError as error:
            raise UnreadableError(error.strerror) from None
        if found is None:
            return 0, 0
        head, tail, size = found
        check_version(head)
        whole, newline, torn = tail.rpartition(b"\n")
        if highest_line(whole) or len(tail) == size:
            break
    if torn and (newline or len(torn) == size):
        size -= len(torn)
        descriptor = files.open_for_writing(path, links=files.Links.NEVER, root=path.parent)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)
    return size, highest_line(whole)


def read_newest(path: Path, max_entities: int, max_bytes: int, most: int | None = None) -> ReadResult:
    """Return the newest entries of a history file that fit the limits.

    If `most` is given, only the first `most` bytes of the file are read.

    Raises:
        UnreadableError: the file is not a history, or does not exist.
        NewerFormatError: the file was written by a newer version.
        OSError: the file cannot be read.
    """
    newest = NewestEntries(max_entities, max_bytes)
    with closing(_read_chunks(path, max_bytes)) as read:  # some systems cannot rename an open file
        chunks = iter(read if most is None else _first_bytes(most, read))
        head = next(chunks, b"")
        check_version(head)
        lines = EntryDecoder(chain([head], chunks))
        for entity in lines.decode_entries():
            newest.add(entity)
    return ReadResult(newest, lines.broken, lines.is_torn)


def max_read_bytes(max_bytes: int) -> int:
    """Return the maximum size of a history file that is read if the entries are limited to `max_bytes`."""
    return max(MAX_READ_BYTES, 4 * max_bytes)


def _first_bytes(most: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk[:most]
        most -= len(chunk)
        if most <= 0:
            return


def _read_chunks(path: Path, max_bytes: int) -> Generator[bytes, None, None]:
    """Yield the content of a file in chunks. Yields nothing if the file does not exist.

    Raises:
        UnreadableError: the path is not a regular file of this user, or the file is too large.
    """
    try:
        yield from durable_files.read(path, max_read_bytes(max_bytes))
    except UnsafeFileError as error:
        raise UnreadableError(error.strerror) from None
