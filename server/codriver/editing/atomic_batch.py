"""Change several files atomically, and detect concurrent changes.

The paths come from `editable_path` and contain no links. Links that are created on the path later are not followed:
each directory is opened relative to its parent and kept open, and all operations use its descriptor.

A record of each running batch is stored on disk, so that the next server can revert the batch. It is a file in the
workspace's state directory, written before the batch touches anything, and starts with a marker for a running batch. At
the end the marker is overwritten, and the file is closed and removed. The server locks the record, so a record with the
marker but without a lock comes from a killed server. A record without the marker belongs to a finished batch, whose
file could not be removed. A record lists the batch's temporary files and directories. For a batch of several files it
also contains their previous bytes and the digests of the new ones. A single file is replaced in one step, so there is
nothing to revert.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import json
import logging
import operator
import os
import re
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codriver.editing.editable_paths import path_for_display
from codriver.editing.file_changes import (
    Snapshot,
    UnreadableError,
    locate_file,
    read_content,
)
from codriver.editing.write_errors import FilesChangedError, FilesUnwritableError, UnrestoredFiles
from codriver.errors import join_first
from codriver.files import MEBIBYTE, Links, UnsafeFileError, locate, remove, sync_to_disk, temporary_name
from codriver.files.file_locks import try_lock
from codriver.files.private_directories import make_private_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codriver.editing.file_changes import Change
    from codriver.files import DirectoryEntry


MAX_OPEN_DIRECTORIES: Final = 32
"""Maximum number of directories that a batch keeps open.

Other directories are reopened when needed, after checking that they have not been replaced.
"""


def commit_changes(changes: Sequence[Change], workspace: Path, records: BatchRecords | None = None) -> None:
    """Apply all changes or none. Even after a crash, each file has either its old or its new content.

    With `records`, the next server reverts the batch if this one is killed before it is complete.

    Raises:
        FilesChangedError: a file differs from the `before` of its change.
        FilesUnwritableError: the system refused to write.
    """
    temporaries = {change.path: temporary_name(change.path) for change in changes}
    record = contextlib.nullcontext() if records is None else records.record(changes, temporaries)
    with record, contextlib.closing(_Batch(changes, workspace, temporaries)) as batch:
        batch.run()


class _Batch:
    """Writes one batch. Holds its open directories, its staged files and the changes applied so far."""

    def __init__(self, changes: Sequence[Change], workspace: Path, temporaries: Mapping[Path, str]) -> None:
        self._changes = changes
        self._temporaries = temporaries
        self._workspace = workspace
        self._directories = _OpenDirectories(workspace)
        self._staged: dict[Path, str] = {}
        self._made: list[Path] = []
        self._done: list[Change] = []

    def run(self) -> None:
        """Apply all changes. If one fails, revert the others and raise an exception."""
        current = None
        try:
            for current in self._changes:
                self._stage(current)
            self._check_unchanged(self._changes)
            for current in self._changes:
                # Checked again just before the replacement, because two names may be the same file to a file system.
                self._check_unchanged([current])
                self._apply(current)
                self._done.append(current)
            self._sync()
        except BaseException as error:
            left = self._revert()
            if isinstance(error, FilesChangedError):
                raise FilesChangedError(error.paths, left=left) from error
            if isinstance(error, OSError) and current is not None:
                raise FilesUnwritableError(self._display_path(current), error.strerror or str(error), left) from error
            raise
        self._made.clear()

    def close(self) -> None:
        """Remove the temporary files, and close all directories."""
        for path, temporary in self._staged.items():
            with contextlib.suppress(OSError, FilesChangedError):
                self._directories.locate(path).discard(temporary)
        for directory in reversed(self._made):
            with contextlib.suppress(OSError, FilesChangedError):
                self._directories.locate(directory).remove_directory()
        self._directories.close()

    def _stage(self, change: Change) -> None:
        """Write the new content of a file to a temporary file next to it, creating missing directories."""
        if change.after is None:
            return
        try:
            location = self._directories.locate(change.path)
        except FileNotFoundError:
            self._make_directory(change.path.parent)
            location = self._directories.locate(change.path)
        before, temporary = change.before, self._temporaries[change.path]
        self._staged[change.path] = location.stage(
            change.after, mode=before.mode, owner=before.owner, temporary=temporary
        )

    def _make_directory(self, directory: Path) -> None:
        """Create a directory and its missing parents."""
        if directory == self._workspace:
            raise FileNotFoundError(errno.ENOENT, "the workspace folder no longer exists", str(directory))
        try:
            location = self._directories.locate(directory)
        except FileNotFoundError:
            self._make_directory(directory.parent)
            location = self._directories.locate(directory)
        with contextlib.suppress(FileExistsError):
            location.make_directory()
            self._made.append(directory)

    def _check_unchanged(self, changes: Sequence[Change]) -> None:
        changed = [self._display_path(change) for change in changes if not self._is_as_before(change)]
        if changed:
            raise FilesChangedError(changed)

    def _is_as_before(self, change: Change) -> bool:
        """Return whether the file is unchanged since the batch was planned."""
        try:
            location = self._directories.locate(change.path)
            with locate_file(change.path, self._workspace) as now:
                is_moved = not os.path.samestat(location.directory_status(), now.directory_status())
            return not is_moved and read_content(location) == change.before.data
        except (UnreadableError, FilesChangedError, OSError):
            return False

    def _apply(self, change: Change) -> None:
        """Apply a change to its file: replace, create or remove it."""
        location = self._directories.locate(change.path)
        if change.after is None:
            location.remove()
        elif change.before.data is not None:
            location.publish(self._staged[change.path])
        else:
            # A link, unlike a rename, does not replace a file that was created in the meantime.
            try:
                location.publish_new(self._staged[change.path])
            except FileExistsError:
                raise FilesChangedError([self._display_path(change)]) from None

    def _sync(self) -> None:
        """Sync all changed directories to disk."""
        changed = [*(change.path for change in self._changes), *self._made]
        for path in {path.parent: path for path in changed}.values():
            self._directories.locate(path).sync()

    def _revert(self) -> UnrestoredFiles:
        """Revert the changes applied so far, and return the files that could not be restored."""
        saved, stuck = [], []
        for change in reversed(self._done):
            try:
                location = self._directories.locate(change.path)
                is_after = partial(operator.eq, change.after)
                if not restore_file(location, change.before, self._temporaries[change.path], is_after=is_after):
                    saved.append(self._display_path(change))
            except (UnsafeFileError, IsADirectoryError):  # the batch left a regular file there
                saved.append(self._display_path(change))
            except (OSError, FilesChangedError, UnreadableError):
                stuck.append(self._display_path(change))
        return UnrestoredFiles(tuple(saved), tuple(stuck))

    def _display_path(self, change: Change) -> str:
        return path_for_display(self._workspace, change.path)


class _OpenDirectories:
    """The directories of one batch. Each directory is opened only once, so that its replacement can be detected.

    If there are too many, the directories opened first are closed.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._locations: OrderedDict[Path, DirectoryEntry] = OrderedDict()
        self._identities: dict[Path, tuple[int, int]] = {}

    def locate(self, path: Path) -> DirectoryEntry:
        """Return the directory entry for a path. It may be closed when further paths are requested.

        Raises:
            FileNotFoundError: the directory does not exist.
            FilesChangedError: a link was created on the path, or the directory was replaced.
        """
        if path not in self._locations:
            self._locations[path] = self._open(path)
            if len(self._locations) > MAX_OPEN_DIRECTORIES:
                self._locations.popitem(last=False)[1].close()
        self._locations.move_to_end(path)
        return self._locations[path]

    def close(self) -> None:
        """Close all directories."""
        while self._locations:
            self._locations.popitem()[1].close()

    def _open(self, path: Path) -> DirectoryEntry:
        try:
            location = locate_file(path, self._workspace)
        except (UnsafeFileError, NotADirectoryError) as error:  # the plan found no link or file on this path
            raise FilesChangedError([path_for_display(self._workspace, path)]) from error
        status = location.directory_status()
        identity = (status.st_dev, status.st_ino)
        if self._identities.setdefault(path.parent, identity) != identity:
            location.close()
            raise FilesChangedError([path_for_display(self._workspace, path)])
        return location


logger = logging.getLogger(__name__)

MAX_OLD_CONTENT_BYTES: Final = 64 * MEBIBYTE
"""Maximum number of bytes of old content to record.

If a larger batch is interrupted, its temporary files are removed, but the old content cannot be restored.
"""
MAX_RECORD_BYTES: Final = 128 * MEBIBYTE
"""Maximum size of a record, which contains base64 content and paths."""
MAX_NAMED_FILES: Final = 10
"""Maximum number of files that a message lists as restored, or as not restored."""
UNFINISHED_MARK: Final = b"under way\n"
"""The marker at the beginning of an unfinished batch's record. It has the same length as `FINISHED_MARK`."""
FINISHED_MARK: Final = b"over     \n"
"""The marker that overwrites `UNFINISHED_MARK` when a batch has finished."""
_RECORD_NAME_PATTERN = re.compile(r"[0-9a-f]{12}\.json")
"""Matches the name of an interrupted batch's record."""
_TEMPORARY_NAME_PATTERN = re.compile(r"\.[^/\0]{1,100}\.[0-9a-f]{12}\.tmp")
"""Matches the name of a temporary file that a batch writes next to an edited file."""


def restore_file(
    location: DirectoryEntry, before: Snapshot, temporary: str, *, is_after: Callable[[bytes | None], bool]
) -> bool:
    """Restore a file to its state before a batch, if its content is still what the batch wrote.

    Return whether the file is now in its state before the batch.

    Raises:
        UnreadableError, OSError: the file cannot be read or written.
    """
    if before.data is not None:  # written before comparing, so that the replacement follows at once
        location.stage(before.data, mode=before.mode, owner=before.owner, temporary=temporary)
    try:
        now = read_content(location)
        if now == before.data or not is_after(now):
            return now == before.data
        if before.data is None:
            location.remove()
        elif now is not None:
            location.publish(temporary)
        else:
            with contextlib.suppress(FileExistsError):
                location.publish_new(temporary)
                return True
            return False
        return True
    finally:
        location.discard(temporary)


class BatchRecords:
    """Records of the batches that are being written in a workspace, with which a later server can revert them.

    They are in `directory`, which is created with the first record.
    """

    def __init__(self, directory: Path, workspace: Path) -> None:
        self._directory = directory
        self._workspace = workspace

    @contextlib.contextmanager
    def record(self, changes: Sequence[Change], temporaries: Mapping[Path, str]) -> Iterator[None]:
        """Store a record of a batch while the context is active. If that fails, the batch continues without one."""
        file = self._directory / f"{os.urandom(6).hex()}.json"
        descriptor, is_durable = None, False
        try:
            data = _encode_record(changes, temporaries, self._workspace)
            is_durable = b'"after"' in data  # without it, a crash of the machine leaves only temporary files
            make_private_directory(self._directory)
            with locate(file, Links.NEVER, root=self._directory) as location:
                descriptor = location.open_private(os.O_RDWR | os.O_CREAT)
                if try_lock(descriptor):
                    _write_record(descriptor, UNFINISHED_MARK + data, is_durable=is_durable)
                    if is_durable:
                        location.sync()
        except OSError as error:
            logger.debug("the record %s of a batch of edits cannot be written: %s", file, error)
        try:
            yield
        finally:
            if descriptor is not None:
                _finish_record(descriptor, is_durable=is_durable)
                with contextlib.suppress(OSError):
                    remove(file)

    def recover(self) -> list[str]:
        """Revert the unfinished batches of servers that were killed, and return a message about each.

        A file is only restored if its content is what the batch wrote. Records of running servers are left alone.
        """
        descriptions = []
        with contextlib.suppress(OSError):
            for file in sorted(self._directory.iterdir()):
                if _RECORD_NAME_PATTERN.fullmatch(file.name):
                    descriptions += self._recover(file)
        return descriptions

    def _recover(self, file: Path) -> list[str]:
        with contextlib.suppress(OSError), locate(file, Links.NEVER, root=self._directory) as location:
            descriptor = location.open_private(os.O_RDWR)
            if not _try_lock_record(descriptor):
                return []
            words = ""
            try:
                words = self._revert(_read_record(descriptor))
            except (
                ValueError,
                KeyError,
                TypeError,
            ) as error:  # an incomplete record: its batch had not touched anything
                logger.debug("the record %s is incomplete, so its batch had not changed anything: %s", file, error)
            finally:
                _finish_record(descriptor, is_durable=True)
            with contextlib.suppress(OSError):
                location.remove()
            return [words] if words else []
        return []

    def _revert(self, data: bytes) -> str:
        """Revert the batch that a record describes, and return a message, or "" if nothing had been changed.

        Raises:
            ValueError, KeyError, TypeError: the record is incomplete.
        """
        if not data.startswith(UNFINISHED_MARK):
            return ""
        record = json.loads(data.removeprefix(UNFINISHED_MARK))
        back: list[str] = []
        left: list[str] = []
        for entry in record["files"]:
            path = Path(entry["path"])
            try:
                with locate_file(path, self._workspace) as location:
                    if _TEMPORARY_NAME_PATTERN.fullmatch(entry["temporary"]):
                        location.discard(entry["temporary"])
                    if "after" not in entry or read_content(location) == _decode_snapshot(entry).data:
                        continue
                    is_back = restore_file(
                        location, _decode_snapshot(entry), entry["temporary"], is_after=_digest_matcher(entry["after"])
                    )
                    location.sync()
            except FileNotFoundError:  # the file's directory was not created yet
                continue
            except (OSError, UnreadableError):
                is_back = False
            (back if is_back else left).append(path_for_display(self._workspace, path))
        for directory in record["folders"]:
            with contextlib.suppress(OSError), locate_file(Path(directory), self._workspace) as location:
                location.remove_directory()
        return _describe(back, left)


def _encode_record(changes: Sequence[Change], temporaries: Mapping[Path, str], workspace: Path) -> bytes:
    old_bytes = sum(len(change.before.data or b"") for change in changes)
    is_whole = len(changes) > 1 and old_bytes <= MAX_OLD_CONTENT_BYTES
    rows: list[dict[str, object]] = []
    directories: set[Path] = set()
    for change in changes:
        row: dict[str, object] = {"path": str(change.path), "temporary": temporaries[change.path]}
        if is_whole:
            before = change.before
            row["before"] = None if before.data is None else base64.b64encode(before.data).decode()
            row |= {"mode": before.mode, "owner": before.owner}
            row["after"] = _digest(change.after)
        rows.append(row)
        for directory in change.path.parents:
            if directory == workspace or directory in directories or directory.exists():
                break
            directories.add(directory)
    deepest_first = sorted(directories, key=lambda directory: -len(directory.parts))
    return json.dumps({"files": rows, "folders": [str(directory) for directory in deepest_first]}).encode()


def _try_lock_record(descriptor: int) -> bool:
    """Lock a record and return True. If a running server has locked it, close the descriptor and return False."""
    is_free = False
    try:
        is_free = try_lock(descriptor)
    finally:
        if not is_free:
            os.close(descriptor)
    return is_free


def _write_record(descriptor: int, data: bytes, *, is_durable: bool) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    if is_durable:
        sync_to_disk(descriptor)


def _finish_record(descriptor: int, *, is_durable: bool) -> None:
    """Mark a batch as finished, and close its record, because some systems cannot remove open files."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        _write_record(descriptor, FINISHED_MARK, is_durable=is_durable)
    except OSError as error:
        logger.debug("cannot mark the record of a finished batch of edits: %s", error)
    finally:
        os.close(descriptor)


def _read_record(descriptor: int) -> bytes:
    """Read a record through the descriptor that locked it. On some systems, no other descriptor can read it."""
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(MAX_RECORD_BYTES)


def _decode_snapshot(row: Mapping[str, Any]) -> Snapshot:
    data = None if row["before"] is None else base64.b64decode(row["before"])
    return Snapshot(data, row["mode"], None if row["owner"] is None else tuple(row["owner"]))


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _digest_matcher(digest: str | None) -> Callable[[bytes | None], bool]:
    """Return a function that checks whether content has this digest. The digest of a missing file is None."""
    return lambda data: _digest(data) == digest


def _describe(back: Sequence[str], left: Sequence[str]) -> str:
    if not back and not left:
        return ""
    words = "a batch of edits was interrupted because the server was killed"
    if back:
        words += f"; restored: {join_first(back, MAX_NAMED_FILES)}"
    if left:
        words += (
            "; not restored, because they have changed since then or cannot be written: "
            f"{join_first(left, MAX_NAMED_FILES)}"
        )
    return words
