"""Atomic batches: several files written, all or none, each whole at any moment and none changed meanwhile.

A path here has no links in it, as `editable_path` gives it. Links that appear on the path later are not followed: each
folder is walked to by descriptor, held open, and all is done by that descriptor.

The intent of a batch is kept on disk while the batch is under way, so that the next server can take the batch back.
Such a record is a file of its own in the state folder of the workspace, made before the batch touches anything. The
record begins with a mark for a batch under way. At the batch's end the mark is written over, and the file is closed and
removed. The server holds a lock on the record, so a record with the mark and a free lock comes from a killed server. A
record without the mark belongs to a finished batch; the system did not remove the file. A record names the temporary
files and the folders that the batch makes; for a batch of several files the record also holds their bytes before the
batch and the digests of the bytes after it. A single file is replaced in one step, so that there is nothing to take
back.
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

from codriver.editing.editable_paths import show
from codriver.editing.file_changes import (
    FilesChangedError,
    FilesUnwritableError,
    Left,
    Snapshot,
    UnreadableError,
    content_of,
    locate_file,
)
from codriver.errors import few
from codriver.files import MEBIBYTE, Links, UnsafeFileError, locate, put_on_disk, remove, temporary_name
from codriver.files.own_folders import make_private_directory, try_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codriver.editing.file_changes import Change
    from codriver.files import DirectoryEntry


MAX_HELD: Final = 32
"""Folders that a batch holds open at once. The others of a larger batch are walked to again, and must be the same."""


def commit(changes: Sequence[Change], workspace: Path, records: BatchRecords | None = None) -> None:
    """Do all changes or none. Each file is either as it was or as it is to be, whatever happens.

    With `records`, the next server takes back the half-done batches of this one, if it is killed.

    Raises:
        FilesChangedError: a file is not as it was `before`.
        FilesUnwritableError: the system refused.
    """
    temporaries = {change.path: temporary_name(change.path) for change in changes}
    record = contextlib.nullcontext() if records is None else records.kept(changes, temporaries)
    with record, contextlib.closing(_Batch(changes, workspace, temporaries)) as batch:
        batch.run()


class _Batch:
    """One batch on its way to the disk: its open folders, its staged files, and the changes made so far."""

    def __init__(self, changes: Sequence[Change], workspace: Path, temporaries: Mapping[Path, str]) -> None:
        self._changes = changes
        self._temporaries = temporaries
        self._workspace = workspace
        self._folders = _HeldFolders(workspace)
        self._staged: dict[Path, str] = {}
        self._made: list[Path] = []
        self._done: list[Change] = []

    def run(self) -> None:
        """Do all changes, or none and raise."""
        current = None
        try:
            for current in self._changes:
                self._stage(current)
            self._check_unchanged(self._changes)
            for current in self._changes:
                # Checked again just before the replacement: two of the names may be one file to a file system.
                self._check_unchanged([current])
                self._put(current)
                self._done.append(current)
            self._sync()
        except BaseException as error:
            left = self._take_back()
            if isinstance(error, FilesChangedError):
                raise FilesChangedError(error.paths, left=left) from error
            if isinstance(error, OSError) and current is not None:
                raise FilesUnwritableError(self._show(current), error.strerror or str(error), left) from error
            raise
        self._made.clear()

    def close(self) -> None:
        """Remove the leftovers of the batch, and let all directories go."""
        for path, temporary in self._staged.items():
            with contextlib.suppress(OSError, FilesChangedError):
                self._folders.place(path).discard(temporary)
        for folder in reversed(self._made):
            with contextlib.suppress(OSError, FilesChangedError):
                self._folders.place(folder).remove_directory()
        self._folders.close()

    def _stage(self, change: Change) -> None:
        """Write the new content next to the file, on the disk permanently; missing directories are made."""
        if change.after is None:
            return
        try:
            place = self._folders.place(change.path)
        except FileNotFoundError:
            self._make_folder(change.path.parent)
            place = self._folders.place(change.path)
        before, temporary = change.before, self._temporaries[change.path]
        self._staged[change.path] = place.stage(change.after, mode=before.mode, owner=before.owner, temporary=temporary)

    def _make_folder(self, folder: Path) -> None:
        """Make the directory, and its missing parents before it."""
        if folder == self._workspace:
            raise FileNotFoundError(errno.ENOENT, "the folder of the workspace is gone", str(folder))
        try:
            place = self._folders.place(folder)
        except FileNotFoundError:
            self._make_folder(folder.parent)
            place = self._folders.place(folder)
        with contextlib.suppress(FileExistsError):
            place.make_directory()
            self._made.append(folder)

    def _check_unchanged(self, changes: Sequence[Change]) -> None:
        changed = [self._show(change) for change in changes if not self._is_as_before(change)]
        if changed:
            raise FilesChangedError(changed)

    def _is_as_before(self, change: Change) -> bool:
        """Whether the file is still as it was when the change was planned, in the folder at its path."""
        try:
            place = self._folders.place(change.path)
            with locate_file(change.path, self._workspace) as now:
                is_moved = not os.path.samestat(place.directory_status(), now.directory_status())
            return not is_moved and content_of(place) == change.before.data
        except (UnreadableError, FilesChangedError, OSError):
            return False

    def _put(self, change: Change) -> None:
        place = self._folders.place(change.path)
        if change.after is None:
            place.remove()
        elif change.before.data is not None:
            place.put(self._staged[change.path])
        else:
            # A link, unlike a rename, does not replace a file that somebody made since we looked.
            try:
                place.put_new(self._staged[change.path])
            except FileExistsError:
                raise FilesChangedError([self._show(change)]) from None

    def _sync(self) -> None:
        """Put the entries of all directories that have changed on the disk permanently."""
        changed = [*(change.path for change in self._changes), *self._made]
        for path in {path.parent: path for path in changed}.values():
            self._folders.place(path).sync()

    def _take_back(self) -> Left:
        """Undo the changes done so far; the files that could not be restored."""
        saved, stuck = [], []
        for change in reversed(self._done):
            try:
                place = self._folders.place(change.path)
                is_after = partial(operator.eq, change.after)
                if not restore(place, change.before, self._temporaries[change.path], is_after=is_after):
                    saved.append(self._show(change))
            except (UnsafeFileError, IsADirectoryError):  # the batch left a regular file there
                saved.append(self._show(change))
            except (OSError, FilesChangedError, UnreadableError):
                stuck.append(self._show(change))
        return Left(tuple(saved), tuple(stuck))

    def _show(self, change: Change) -> str:
        return show(self._workspace, change.path)


class _HeldFolders:
    """Folders of one batch, each held open from its first use on while there is room, and checked to stay the same."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._places: OrderedDict[Path, DirectoryEntry] = OrderedDict()
        self._identities: dict[Path, tuple[int, int]] = {}

    def place(self, path: Path) -> DirectoryEntry:
        """Return the place of a file or directory; the place may be closed once others were requested.

        Raises:
            FileNotFoundError: the directory is missing.
            FilesChangedError: a link came in the way, or the directory is another one than before.
        """
        if path not in self._places:
            self._places[path] = self._open(path)
            if len(self._places) > MAX_HELD:
                self._places.popitem(last=False)[1].close()
        self._places.move_to_end(path)
        return self._places[path]

    def close(self) -> None:
        """Let all go."""
        while self._places:
            self._places.popitem()[1].close()

    def _open(self, path: Path) -> DirectoryEntry:
        try:
            place = locate_file(path, self._workspace)
        except (UnsafeFileError, NotADirectoryError) as error:  # the plan found none of these here
            raise FilesChangedError([show(self._workspace, path)]) from error
        status = place.directory_status()
        identity = (status.st_dev, status.st_ino)
        if self._identities.setdefault(path.parent, identity) != identity:
            place.close()
            raise FilesChangedError([show(self._workspace, path)])
        return place


logger = logging.getLogger(__name__)

MAX_HELD_BYTES: Final = 64 * MEBIBYTE
"""The most former contents of a batch that are recorded; after a larger batch only its temporary files are removed."""
MAX_RECORD_BYTES: Final = 128 * MEBIBYTE
"""In base64, with paths."""
MAX_TOLD: Final = 10
"""Files that are named for each of the two ends of a batch."""
UNDER_WAY: Final = b"under way\n"
OVER: Final = b"over     \n"
"""The mark at a record's beginning, and the mark that is written over it, of the same length."""
_RECORD = re.compile(r"[0-9a-f]{12}\.json")
_TEMPORARY = re.compile(r"\.[^/\0]{1,100}\.[0-9a-f]{12}\.tmp")


def restore(
    place: DirectoryEntry, before: Snapshot, temporary: str, *, is_after: Callable[[bytes | None], bool]
) -> bool:
    """Restore a file from before a batch, if the file still is what the batch wrote; whether the file is as before.

    Raises:
        UnreadableError, OSError: the file cannot be read or written.
    """
    if before.data is not None:  # on the disk before anything is compared: a put follows at once
        place.stage(before.data, mode=before.mode, owner=before.owner, temporary=temporary)
    try:
        now = content_of(place)
        if now == before.data or not is_after(now):
            return now == before.data
        if before.data is None:
            place.remove()
        elif now is not None:
            place.put(temporary)
        else:
            with contextlib.suppress(FileExistsError):
                place.put_new(temporary)
                return True
            return False
        return True
    finally:
        place.discard(temporary)


class BatchRecords:
    """The records of all batches of one workspace, in `folder`, which is made with the first."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._folder = folder
        self._workspace = workspace

    @contextlib.contextmanager
    def kept(self, changes: Sequence[Change], temporaries: Mapping[Path, str]) -> Iterator[None]:
        """Keep a record of a batch while the block lasts; nothing if the disk does not take the record."""
        file = self._folder / f"{os.urandom(6).hex()}.json"
        descriptor, is_durable = None, False
        try:
            data = _recorded(changes, temporaries, self._workspace)
            is_durable = b'"after"' in data  # else only temporary files would be left where the machine ends
            make_private_directory(self._folder)
            with locate(file, Links.NEVER, root=self._folder) as place:
                descriptor = place.open_private(os.O_RDWR | os.O_CREAT)
                if try_lock(descriptor):
                    _write(descriptor, UNDER_WAY + data, is_durable=is_durable)
                    if is_durable:
                        place.sync()
        except OSError as error:
            logger.debug("%s is not kept: %s", file, error)
        try:
            yield
        finally:
            if descriptor is not None:
                _end(descriptor, is_durable=is_durable)
                with contextlib.suppress(OSError):
                    remove(file)

    def recover(self) -> list[str]:
        """Take back the half-done batches of killed servers; the results in words, one sentence a batch.

        A file is put back only if it is exactly what the batch wrote. Records of living servers stay.
        """
        told = []
        with contextlib.suppress(OSError):
            for file in sorted(self._folder.iterdir()):
                if _RECORD.fullmatch(file.name):
                    told += self._recover(file)
        return told

    def _recover(self, file: Path) -> list[str]:
        with contextlib.suppress(OSError), locate(file, Links.NEVER, root=self._folder) as place:
            descriptor = place.open_private(os.O_RDWR)
            if not _is_free(descriptor):
                return []
            words = ""
            try:
                words = self._take_back(_read(descriptor))
            except (ValueError, KeyError, TypeError) as error:  # a record cut off: its batch had touched nothing
                logger.debug("%s is no record: %s", file, error)
            finally:
                _end(descriptor, is_durable=True)
            with contextlib.suppress(OSError):
                place.remove()
            return [words] if words else []
        return []

    def _take_back(self, data: bytes) -> str:
        """Take back one batch by its record; the result in words, empty if the batch changed nothing or is over.

        Raises:
            ValueError, KeyError, TypeError: this is no record, or was cut off.
        """
        if not data.startswith(UNDER_WAY):
            return ""
        record = json.loads(data.removeprefix(UNDER_WAY))
        back: list[str] = []
        left: list[str] = []
        for one in record["files"]:
            path = Path(one["path"])
            try:
                with locate_file(path, self._workspace) as place:
                    if _TEMPORARY.fullmatch(one["temporary"]):
                        place.discard(one["temporary"])
                    if "after" not in one or content_of(place) == _before(one).data:
                        continue
                    is_back = restore(place, _before(one), one["temporary"], is_after=_has(one["after"]))
                    place.sync()
            except FileNotFoundError:  # the file's folder was not made yet
                continue
            except (OSError, UnreadableError):
                is_back = False
            (back if is_back else left).append(show(self._workspace, path))
        for folder in record["folders"]:
            with contextlib.suppress(OSError), locate_file(Path(folder), self._workspace) as place:
                place.remove_directory()
        return _told(back, left)


def _recorded(changes: Sequence[Change], temporaries: Mapping[Path, str], workspace: Path) -> bytes:
    held = sum(len(change.before.data or b"") for change in changes)
    is_whole = len(changes) > 1 and held <= MAX_HELD_BYTES
    rows: list[dict[str, object]] = []
    folders: set[Path] = set()
    for change in changes:
        row: dict[str, object] = {"path": str(change.path), "temporary": temporaries[change.path]}
        if is_whole:
            before = change.before
            row["before"] = None if before.data is None else base64.b64encode(before.data).decode()
            row |= {"mode": before.mode, "owner": before.owner}
            row["after"] = _digest(change.after)
        rows.append(row)
        for folder in change.path.parents:
            if folder == workspace or folder in folders or folder.exists():
                break
            folders.add(folder)
    deepest_first = sorted(folders, key=lambda folder: -len(folder.parts))
    return json.dumps({"files": rows, "folders": [str(folder) for folder in deepest_first]}).encode()


def _is_free(descriptor: int) -> bool:
    """Return true if no server holds a record: the lock is ours then; otherwise the record is closed."""
    is_free = False
    try:
        is_free = try_lock(descriptor)
    finally:
        if not is_free:
            os.close(descriptor)
    return is_free


def _write(descriptor: int, data: bytes, *, is_durable: bool) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    if is_durable:
        put_on_disk(descriptor)


def _end(descriptor: int, *, is_durable: bool) -> None:
    """Mark a batch as over, and close its record, as some systems remove no open file."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        _write(descriptor, OVER, is_durable=is_durable)
    except OSError as error:
        logger.debug("a record is not marked: %s", error)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    """A record, read by the descriptor that locks it: some systems let no other descriptor read locked bytes."""
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(MAX_RECORD_BYTES)


def _before(row: Mapping[str, Any]) -> Snapshot:
    data = None if row["before"] is None else base64.b64decode(row["before"])
    return Snapshot(data, row["mode"], None if row["owner"] is None else tuple(row["owner"]))


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _has(digest: str | None) -> Callable[[bytes | None], bool]:
    return lambda data: _digest(data) == digest


def _told(back: Sequence[str], left: Sequence[str]) -> str:
    if not back and not left:
        return ""
    words = "a batch of edits was cut off as its server was killed"
    if back:
        words += f"; as before it again: {few(back, MAX_TOLD)}"
    if left:
        words += f"; left as somebody else changed it since, or as it cannot be written: {few(left, MAX_TOLD)}"
    return words
