"""Files as they are, and writing several of them so that each is whole at any moment and none has changed meanwhile."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MAX_FILE_BYTES = 8 * 2**20
"""No source file is as large, and reading one takes a second."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file as it was: its bytes, None when it was not there, its permissions and its owner."""

    data: bytes | None
    mode: int | None = None
    owner: tuple[int, int] | None = None


MISSING = Snapshot(None)


@dataclass(frozen=True, slots=True)
class Change:
    """What a file was and what it is to be; None as `after` takes the file away."""

    path: Path
    before: Snapshot
    after: bytes | None


class FilesChangedError(RefusedError):
    """A file is not as it was when the change was made up; nothing was written."""

    reason = "file-changed"

    def __init__(self, paths: Sequence[str], hint: str = "read it again, and make the edits anew") -> None:
        names = ", ".join(paths)
        super().__init__(
            f"{names} changed meanwhile, so nothing was written", hint=hint, details={"filePaths": list(paths)}
        )


class FilesUnwritableError(RefusedError):
    """The system refused to write; every file is as it was, unless `damaged` names some."""

    reason = "file-unwritable"

    def __init__(self, path: str, why: str, damaged: Sequence[str] = ()) -> None:
        hint = "see that the folder can be written and the disk is not full, and try again"
        if damaged:
            hint = f"look at {', '.join(damaged)}: the edit is done there and could not be taken back"
        super().__init__(f"cannot write {path}: {why}", hint=hint)


class UnreadableError(Exception):
    """A file cannot be edited, for the reason said."""


def read(path: Path) -> Snapshot:
    """The file at the resolved `path` as it is now; `MISSING` when there is none.

    Raises:
        UnreadableError: it is no regular file, too large, or cannot be read or written by us.
    """
    try:
        # Not to wait for a writer where the path is a pipe, nor to go where a link leads that was none when the path
        # was resolved.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError("it is no regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise UnreadableError(f"it has {status.st_size} bytes, and {MAX_FILE_BYTES} is the most that is edited")
        if not status.st_mode & 0o222 or not os.access(path, os.W_OK):
            raise UnreadableError("it is read-only")
        with os.fdopen(number, "rb", closefd=False) as file:
            return Snapshot(file.read(), stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid))
    finally:
        os.close(number)


def commit(changes: Sequence[Change]) -> None:
    """Do all changes or none. Each file is either as it was or as it is to be, whatever happens.

    Raises:
        FilesChangedError: a file is not as it was `before`.
        FilesUnwritableError: the system refused.
    """
    staged: dict[Path, Path] = {}
    made: list[Path] = []
    done: list[Change] = []
    current = changes[0].path if changes else None
    try:
        for change in changes:
            current = change.path
            if change.after is not None:
                made += _make_folders(change.path.parent)
                staged[change.path] = _stage(change.path, change.after, change.before)
        _check_unchanged(changes)
        for change in changes:
            current = change.path
            _put(change, staged)
            done.append(change)
        for folder in {change.path.parent for change in changes}:
            _sync_folder(folder)
        made.clear()
    except BaseException as error:
        damaged = _take_back(done)
        if isinstance(error, OSError):
            raise FilesUnwritableError(str(current), error.strerror or str(error), damaged) from error
        raise
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _make_folders(folder: Path) -> list[Path]:
    """Make the folder and those above it that are missing; the ones made, outermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
    return missing[::-1]


def _stage(path: Path, data: bytes, like: Snapshot) -> Path:
    """Write `data` to a temporary file beside `path`, on the disk for good, with the mode and owner of `like`."""
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    # A new file gets the permissions that the user's umask leaves; a file's own are set when it is written.
    number = os.open(temporary, flags, 0o666 if like.mode is None else 0o600)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            if like.owner is not None and like.owner != (os.getuid(), os.getgid()):
                with contextlib.suppress(PermissionError):
                    os.fchown(number, *like.owner)
            if like.mode is not None:
                os.fchmod(number, like.mode)
            os.fsync(number)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _check_unchanged(changes: Sequence[Change]) -> None:
    changed = [str(change.path) for change in changes if not _is_as_before(change)]
    if changed:
        raise FilesChangedError(changed)


def _is_as_before(change: Change) -> bool:
    """Whether the file still is what the change was made up for, and still is where its links led then."""
    try:
        return change.path.resolve() == change.path and read(change.path).data == change.before.data
    except (UnreadableError, OSError, RuntimeError):
        return False


def _put(change: Change, staged: dict[Path, Path]) -> None:
    if change.after is None:
        change.path.unlink()
        return
    temporary = staged[change.path]
    if change.before.data is None:
        _put_new(temporary, change.path)
    else:
        temporary.replace(change.path)


def _put_new(temporary: Path, path: Path) -> None:
    """Give the file its name; a link, unlike a rename, does not replace a file that somebody made since we looked."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise FilesChangedError([str(path)]) from None
    except OSError:
        # Not every file system has links.
        temporary.replace(path)


def _take_back(done: Iterable[Change]) -> list[str]:
    """Undo the changes done so far; the files for which that failed."""
    damaged = []
    for change in done:
        try:
            if change.before.data is None:
                change.path.unlink()
            else:
                _stage(change.path, change.before.data, change.before).replace(change.path)
        except OSError:
            damaged.append(str(change.path))
    return damaged


def _sync_folder(folder: Path) -> None:
    """Put the folder's entries on the disk for good, where the file system can do that with folders."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)
