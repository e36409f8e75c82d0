"""Find out whether git tracks a path, by reading the repository's index instead of running git.

A repository's configuration can name programs for git to run, so git is never run in a checkout. The index is found
through the nearest `.git` at or above the path. Names are compared without regard to case, as some file systems do.

Source: gitformat-index(5), versions 2 to 4, split and sparse indexes, with SHA-1 and SHA-256.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import FileRules, Links
from codriver.files.working_trees import git_directory

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

MAX_INDEX_BYTES: Final = 512 * files.MEBIBYTE
"""Maximum size of an index to read. The index of a repository with a million files takes about 100 MB."""
INDEX_RULES: Final = FileRules(Links.ANY, MAX_INDEX_BYTES)
CONFIG_RULES: Final = FileRules(Links.ANY, files.MEBIBYTE)

PREFIX_COMPRESSED_VERSION: Final = 4
"""The version of the format in which each name reuses a prefix of the previous one."""

_HEADER: Final = struct.Struct(">4sII")
"""The header of an index: its signature, its version and its number of entries."""
_STAT_BYTES: Final = 40
"""Length of the `stat` data at the start of each entry."""
_EXTENDED_FLAG: Final = 0x4000
"""The flag that is set if an entry has 16 more bits of flags."""
_SHA256_OBJECT_FORMAT: Final = re.compile(rb"objectformat\s*=\s*\"?sha256", re.IGNORECASE)
"""Matches the line in a repository's configuration that selects SHA-256."""


class IndexFormatError(ValueError):
    """Raised when a git index is truncated or has an unknown format."""


def is_tracked(path: Path) -> bool:
    """Return whether git tracks this path or anything below it. Blocks on disk I/O.

    Returns False outside a repository, and True if the index cannot be read.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100  # git tracks links themselves
    # The directory that contains the path may itself be reached through a link.
    real = Path(os.path.realpath(path.parent)) / path.name
    top = next((directory for directory in real.parents if os.path.lexists(directory / ".git")), None)
    if top is None:
        return False
    name = os.fsencode(real.relative_to(top).as_posix()).lower()
    try:
        git = git_directory(top)
        return any(found == name or found.startswith(name + b"/") for found in _read_tracked_names(git))
    except FileNotFoundError:
        return False  # a repository without an index tracks nothing yet
    except (OSError, ValueError):
        return True


def _read_tracked_names(git: Path) -> Iterator[bytes]:
    """Yield the lower-case names in the index of a git directory and in the shared index that it extends."""
    hash_bytes = 32 if _is_sha256(git) else 20
    data = files.read(git / "index", INDEX_RULES)
    end = yield from _entry_names(data, hash_bytes)
    base = _find_shared_index(data[end:-hash_bytes], hash_bytes)
    if base:
        yield from _entry_names(files.read(git / f"sharedindex.{base}", INDEX_RULES), hash_bytes)


def _is_sha256(git: Path) -> bool:
    for directory in (git, *git.parents[1:2]):  # a linked working tree uses the configuration of its repository
        try:
            return _SHA256_OBJECT_FORMAT.search(files.read(directory / "config", CONFIG_RULES)) is not None
        except FileNotFoundError:
            continue
    return False


def _entry_names(data: bytes, hash_bytes: int) -> Generator[bytes, None, int]:
    """Yield the names of all entries in an index, and return the offset after the last entry.

    Raises:
        IndexFormatError: the index is truncated or has an unknown version.
    """
    try:
        signature, version, count = _HEADER.unpack_from(data)
        if signature != b"DIRC" or version not in {2, 3, PREFIX_COMPRESSED_VERSION}:
            raise IndexFormatError(f"version {version}")
        at, previous = _HEADER.size, b""
        for _ in range(count):
            start = at
            (flags,) = struct.unpack_from(">H", data, at + _STAT_BYTES + hash_bytes)
            at += _STAT_BYTES + hash_bytes + (4 if flags & _EXTENDED_FLAG else 2)
            previous_name = b""
            if version == PREFIX_COMPRESSED_VERSION:
                dropped, at = _decode_number(data, at)
                previous_name = previous[: len(previous) - dropped]
            end = data.index(b"\0", at)
            previous = previous_name + data[at:end]
            yield previous.lower()
            at = end + 1 if version == PREFIX_COMPRESSED_VERSION else start + (end - start + 8) // 8 * 8
    except (struct.error, IndexError, ValueError) as error:
        raise IndexFormatError(str(error)) from error
    return at


def _decode_number(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number in git's offset encoding, and return the number and the offset after it."""
    byte = data[at]
    number = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        number = ((number + 1) << 7) | (byte & 0x7F)
    return number, at + 1


def _find_shared_index(extensions: bytes, hash_bytes: int) -> str:
    """Return the hexadecimal hash of the shared index that an index extends, or "" if there is none."""
    at = 0
    while at + 8 <= len(extensions):
        (size,) = struct.unpack_from(">I", extensions, at + 4)
        if extensions[at : at + 4] == b"link":
            base = extensions[at + 8 : at + 8 + hash_bytes]
            return base.hex() if any(base) else ""
        at += 8 + size
    return ""
