"""Changes of files: the content of a file before and after an edit, and what went wrong in writing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.errors import RefusedError
from codriver.files import MEBIBYTE, Links, Rules, locate
from codriver.systems.file_system import mode_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.files import DirectoryEntry

MAX_FILE_BYTES: Final = 8 * MEBIBYTE
"""No source file is as large, and reading such a file takes a second."""
MAX_LINES: Final = 400_000
"""Nor has any so many lines, each of which is an object of its own: two million hold up all other work for seconds."""
MAX_NOTEBOOK_BYTES: Final = 64 * MEBIBYTE
"""A notebook holds its pictures. So much of it is looked at and gets outputs; its text is edited as any other."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file at one moment: its bytes, None for a missing file, its permissions and its owner."""

    data: bytes | None
    mode: int | None = None
    owner: tuple[int, int] | None = None


MISSING = Snapshot(None)


@dataclass(frozen=True, slots=True)
class Change:
    """A file's content before and after a change; None as `after` takes the file away."""

    path: Path
    before: Snapshot
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Left:
    """Files of a failed batch that are not as before it: saved by somebody else meanwhile, or impossible to restore."""

    saved: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()

    def told(self) -> str:
        """Return the words of a message about these files; empty when every file is as before."""
        words = ""
        if self.saved:
            verb = "was saved by somebody else meanwhile and stays as it is"
            if len(self.saved) > 1:
                verb = "were saved by somebody else meanwhile and stay as they are"
            words += f"; {', '.join(self.saved)} {verb}"
        if self.stuck:
            words += f"; in {', '.join(self.stuck)} the edits are done and could not be taken back"
        return words


class FilesChangedError(RefusedError):
    """A file changed after the edit was planned; nothing was written, or all but `left` was taken back."""

    reason = "file-changed"

    def __init__(
        self, paths: Sequence[str], hint: str = "read it again, and make the edits anew", left: Left | None = None
    ) -> None:
        self.paths = tuple(paths)
        more = left.told() if left is not None else ""
        done = f"so the edits were taken back{more}" if more else "so nothing was written"
        super().__init__(f"{', '.join(paths)} changed meanwhile, {done}", hint=hint, details={"filePaths": list(paths)})


class FilesUnwritableError(RefusedError):
    """The system refused to write; every file is as it was, unless `left` names some."""

    reason = "file-unwritable"

    def __init__(self, path: str, why: str, left: Left | None = None) -> None:
        hint = "see that the folder can be written and the disk is not full, and try again"
        more = left.told() if left is not None else ""
        if more:
            hint = "look at the files that are not as before, and see that their folders can be written"
        super().__init__(f"cannot write {path}: {why}{more}", hint=hint)


class UnreadableError(Exception):
    """A file cannot be edited, for the reason said."""


def read(path: Path, workspace: Path, *, most_bytes: int | None = None) -> Snapshot:
    """The file at `path` as it is now; `MISSING` when there is none. `most_bytes` None: as many as its kind may have.

    Raises:
        UnreadableError: the file is no regular file, too large, reached by a link, or not readable or writable by us.
    """
    try:
        with locate_file(path, workspace) as place:
            return snapshot_of(place, most_bytes=most_bytes)
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error


def locate_file(path: Path, workspace: Path) -> DirectoryEntry:
    """The place of a path without links; for a path in the workspace, the walk opens nothing outside of that."""
    return locate(path, Links.NEVER, root=workspace if path.is_relative_to(workspace) else None)


def snapshot_of(place: DirectoryEntry, *, most_bytes: int | None = None) -> Snapshot:
    """The file at the place; raises FileNotFoundError without one, OSError, and the errors of `read`."""
    if most_bytes is None:
        most_bytes = MAX_NOTEBOOK_BYTES if place.path.suffix == ".ipynb" else MAX_FILE_BYTES
    data, status = place.read_with_status(Rules(Links.NEVER, most_bytes))
    if not mode_of(status) & 0o222 or not place.is_writable():
        raise UnreadableError("it is read-only")
    if place.path.suffix != ".ipynb" and (fault := fault_of_lines(data)):
        raise UnreadableError(fault)
    return Snapshot(data, mode_of(status), (status.st_uid, status.st_gid))


def fault_of_lines(data: bytes) -> str:
    """Return why a text with this content has too many lines to be edited; empty if it has not."""
    lines = max(data.count(b"\n"), data.count(b"\r"))
    if lines <= MAX_LINES:
        return ""
    return f"it has {lines:,} lines, and at most {MAX_LINES:,} can be edited: change it by a program in a shell"


def content_of(place: DirectoryEntry) -> bytes | None:
    """Return the bytes of the file at the place, None without one. Raises like `snapshot_of`."""
    try:
        return snapshot_of(place).data
    except FileNotFoundError:
        return None
