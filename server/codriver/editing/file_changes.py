"""File changes: the content of a file before and after an edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.files import MEBIBYTE, FileRules, Links, locate
from codriver.systems.file_system import permission_bits

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.files import DirectoryEntry

MAX_FILE_BYTES: Final = 8 * MEBIBYTE
"""Maximum size of a file. Source files are smaller, and reading a file of this size takes a second."""
MAX_LINES: Final = 400_000
"""Maximum number of lines, each of which becomes an object. Two million would block all other work for seconds."""
MAX_SNAPSHOT_BYTES: Final = 64 * MEBIBYTE
"""Maximum size of a file that a feature may change in its own way, and of a file that is restored."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file at one moment: its bytes, or None if it does not exist, its permissions and its owner."""

    data: bytes | None
    mode: int | None = None
    owner: tuple[int, int] | None = None


MISSING = Snapshot(None)
"""The snapshot of a file that does not exist."""


@dataclass(frozen=True, slots=True)
class Change:
    """The content of a file before and after a change. If `after` is None, the file is removed."""

    path: Path
    before: Snapshot
    after: bytes | None


class UnreadableError(Exception):
    """Raised when a file cannot be edited. The message is the reason."""


def read_snapshot(path: Path, workspace: Path, *, max_bytes: int = MAX_SNAPSHOT_BYTES) -> Snapshot:
    """Return the current file at `path`, or `MISSING`.

    Raises:
        UnreadableError: the file is not a regular file, too large, reached through a link, or not readable or writable.
    """
    try:
        with locate_file(path, workspace) as location:
            return snapshot_at(location, max_bytes=max_bytes)
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error


def read_text_snapshot(path: Path, workspace: Path) -> Snapshot:
    """Return the current file at `path`, or `MISSING`, if it can be edited as text.

    Raises:
        UnreadableError: see `read_snapshot`, or the file is too large or has too many lines.
    """
    snapshot = read_snapshot(path, workspace, max_bytes=MAX_FILE_BYTES)
    if reason := too_many_lines_reason(snapshot.data or b""):
        raise UnreadableError(reason)
    return snapshot


def locate_file(path: Path, workspace: Path) -> DirectoryEntry:
    """Return the directory entry of a path, without following links.

    If the path is in the workspace, nothing outside the workspace is opened.
    """
    return locate(path, Links.NEVER, root=workspace if path.is_relative_to(workspace) else None)


def snapshot_at(location: DirectoryEntry, *, max_bytes: int = MAX_SNAPSHOT_BYTES) -> Snapshot:
    """Return the current file of a directory entry.

    Raises:
        FileNotFoundError: the file does not exist.
        OSError: the file cannot be opened.
        UnreadableError: the file cannot be edited, as in `read_snapshot`.
    """
    data, status = location.read_with_status(FileRules(Links.NEVER, max_bytes))
    if not permission_bits(status) & 0o222 or not location.is_writable():
        raise UnreadableError("the file is read-only")
    return Snapshot(data, permission_bits(status), (status.st_uid, status.st_gid))


def too_many_lines_reason(data: bytes) -> str:
    """Return the reason why a string has too many lines to be edited, or "" if it does not."""
    lines = max(data.count(b"\n"), data.count(b"\r"))
    if lines <= MAX_LINES:
        return ""
    return (
        f"the file has {lines:,} lines, but at most {MAX_LINES:,} can be edited. Change the file with a program in a "
        "shell"
    )


def read_content(location: DirectoryEntry) -> bytes | None:
    """Return the content of a directory entry's file, or None if it does not exist.

    Raises the same errors as `snapshot_at`.
    """
    try:
        return snapshot_at(location).data
    except FileNotFoundError:
        return None
