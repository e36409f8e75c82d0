"""Entries of jars that a stranger may have made: listed and read up to a bound, whatever they claim to hold."""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
import zlib
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links, Rules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BROKEN: Final = (OSError, EOFError, RuntimeError, ValueError, zlib.error, zipfile.BadZipFile)
"""What reading a jar can raise: damaged, cut short, encrypted, or packed in a way that is not known."""

PACKED: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""The ways that are unpacked: the library unpacks the others whole, and of 1.3 KB makes 3 GB."""

MAX_LISTED_BYTES: Final = 4 * files.MEBIBYTE
"""Bytes read of a jar to list its entries, about 40,000: a JDK's own has fewer."""


class _BoundedFile(io.FileIO):
    """A file of which only so many bytes are read, all reads together."""

    def __init__(self, descriptor: int, most_bytes: int) -> None:
        super().__init__(descriptor, "rb")
        self._left = most_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        """See the base class. Raises OSError beyond the bound."""
        wanted = self._left + 1 if size is None or size < 0 else min(size, self._left + 1)
        data = super().read(wanted) or b""
        self._left -= len(data)
        if self._left < 0:
            raise OSError("more has to be read of this jar than is read of any")
        return data


def entry_names(jar: Path, workspace: Path) -> list[str]:
    """The names of a jar's entries; none when it cannot be read."""
    try:
        with _opened(jar, workspace, MAX_LISTED_BYTES) as archive:
            return archive.namelist()
    except BROKEN:
        return []


def read_entry(jar: Path, workspace: Path, name: str, most_bytes: int) -> bytes | None:
    """One entry of a jar; None when there is none, it is larger than `most_bytes`, or it cannot be read."""
    try:
        # Deflate may make an entry larger than it was, by some bytes.
        with _opened(jar, workspace, MAX_LISTED_BYTES + 2 * most_bytes) as archive:
            entry = archive.getinfo(name)
            if entry.compress_type not in PACKED or entry.file_size > most_bytes or entry.is_dir():
                return None
            with archive.open(entry) as file:
                data = file.read(most_bytes + 1)
            return data if len(data) <= most_bytes else None
    except (KeyError, *BROKEN):
        return None


@contextlib.contextmanager
def _opened(jar: Path, workspace: Path, most_bytes: int) -> Iterator[zipfile.ZipFile]:
    """A jar of the workspace, or one that lies elsewhere and is the user's, such as in `~/.m2`."""
    is_inside = _normal(jar).startswith(f"{_normal(workspace)}{os.sep}")
    rules = Rules(Links.WITHIN if is_inside else Links.OWN, 0)
    with files.locate(jar, rules.links, root=workspace if is_inside else None) as place:
        descriptor = place.open(rules)
    with _BoundedFile(descriptor, most_bytes) as file, zipfile.ZipFile(file) as archive:
        yield archive


def _normal(path: Path) -> str:
    return os.path.normpath(path)
