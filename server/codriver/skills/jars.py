"""Read entries in jars within limits, because jars may be damaged or malicious."""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
import zlib
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import FileRules, Links

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


READ_ERRORS: Final = (OSError, EOFError, RuntimeError, ValueError, zlib.error, zipfile.BadZipFile)
"""Errors raised for jars that are damaged, truncated, encrypted or compressed in an unknown way."""
SUPPORTED_COMPRESSIONS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""The supported compression methods. `zipfile` decompresses others without a size limit, which may turn 1.3 KB into 3
GB.
"""
MAX_LISTING_BYTES: Final = 4 * files.MEBIBYTE
"""Maximum number of bytes read to list a jar's entries, enough for about 40,000. The JDK's own jars have fewer."""


def entry_sizes(jar: Path, workspace: Path) -> dict[str, int]:
    """Return the uncompressed sizes of a jar's entries by name, or {} if the jar cannot be read."""
    try:
        with _open(jar, workspace, MAX_LISTING_BYTES) as archive:
            return {entry.filename: entry.file_size for entry in archive.infolist()}
    except READ_ERRORS:
        return {}


def read_entry(jar: Path, workspace: Path, name: str, max_bytes: int) -> bytes | None:
    """Return an entry of a jar, or None if it does not exist, is larger than `max_bytes`, or cannot be read."""
    try:
        # Deflate may make an entry a few bytes larger.
        with _open(jar, workspace, MAX_LISTING_BYTES + 2 * max_bytes) as archive:
            entry = archive.getinfo(name)
            if entry.compress_type not in SUPPORTED_COMPRESSIONS or entry.file_size > max_bytes or entry.is_dir():
                return None
            with archive.open(entry) as file:
                data = file.read(max_bytes + 1)
            return data if len(data) <= max_bytes else None
    except (KeyError, *READ_ERRORS):
        return None


class _BoundedFile(io.FileIO):
    """A file from which only a limited number of bytes can be read in total."""

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        super().__init__(descriptor, "rb")
        self._left = max_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        """Read bytes as the base class does. Raises OSError beyond the limit."""
        requested = self._left + 1 if size is None or size < 0 else min(size, self._left + 1)
        data = super().read(requested) or b""
        self._left -= len(data)
        if self._left < 0:
            raise OSError("reading this jar would exceed the size limit for jars")
        return data


@contextlib.contextmanager
def _open(jar: Path, workspace: Path, max_bytes: int) -> Iterator[zipfile.ZipFile]:
    """Open a jar that is inside the workspace or belongs to the user, for example in `~/.m2`."""
    is_inside = _normal(jar).startswith(f"{_normal(workspace)}{os.sep}")
    rules = FileRules(Links.WITHIN if is_inside else Links.OF_USER, 0)
    with files.locate(jar, rules.links, root=workspace if is_inside else None) as place:
        descriptor = place.open(rules)
    with _BoundedFile(descriptor, max_bytes) as file, zipfile.ZipFile(file) as archive:
        yield archive


def _normal(path: Path) -> str:
    return os.path.normpath(path)
