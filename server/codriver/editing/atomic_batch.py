"""Atomic batches: several files written, all or none, each whole at any moment and none changed meanwhile.

A path here has no links in it, as `editable_path` gives it. Links that come in its way later are not followed: each
folder is walked to by descriptor, held open, and all is done by that descriptor.

The intent of a batch is kept on disk while it is under way, by which the next server takes it back. Such a record is a
file of its own in the state folder of the workspace, made before the batch touches anything. It begins with a mark that
calls the batch under way, and that is written over at its end; then the file is closed, and removed. Its server holds a
lock on it, so a record with that mark and a free lock is that of a server that was killed; one without the mark is left
of a batch that is over, where the system would not remove it. A record names the temporary files and the folders that
the batch makes; for a batch of several files it holds their bytes before and the digests of those after too. One file
is replaced in one step, so that there is nothing to take back.
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

from codriver.editing.file_changes import (
    FilesChangedError,
    FilesUnwritableError,
    Left,
    Snapshot,
    UnreadableError,
    content_of,
    locate_file,
    show,
)
from codriver.errors import few
from codriver.files import MEBIBYTE, Links, UnsafeFileError, locate, put_on_disk, remove, temporary_name
from codriver.files.own_folders import make_private_folder, try_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codriver.editing.file_changes import Change
    from codriver.files import Place


MAX_HELD: Final = 32
"""Folders that a batch holds open at once; those of a larger batch are walked to again, and must be the same."""


def commit(changes: Sequence[Change], workspace: Path, records: BatchRecords | None = None) -> None:
    """Do all changes or none. Each file is either as it was or as it is to be, whatever happens.

    With `records`, the next server takes back what this one, when it is killed, leaves half done.

    Raises:
        FilesChangedError: a file is not as it was `before`.
        FilesUnwritableError: the system refused.
    """
    temporaries = {change.path: temporary_name(change.path) for change in changes}
    record = contextlib.nullcontext() if records is None else records.kept(changes, temporaries)
    with record, contextlib.closing(_Batch(changes, workspace, temporaries)) as batch:
        batch.run()


class _Batch:
    """One batch on its way to the disk: the folders it holds open, and what it has staged, made and done so far."""

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
                # Once more, just before it is replaced: two of the names may be one file to a file system.
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
        """Remove what is left of the way there, and let all folders go."""
        for path, temporary in self._staged.items():
            with contextlib.suppress(OSError, FilesChangedError):
                self._folders.place(path).discard(temporary)
        for folder in reversed(self._made):
            with contextlib.suppress(OSError, FilesChangedError):
                self._folders.place(folder).remove_folder()
        self._folders.close()

    def _stage(self, change: Change) -> None:
        """Write the new content beside the file, on the disk for good; its folders are made if they are missing."""
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
        """Make the folder, and before it those above it that are missing."""
        if folder == self._workspace:
            raise FileNotFoundError(errno.ENOENT, "the folder of the workspace is gone", str(folder))
        try:
            place = self._folders.place(folder)
        except FileNotFoundError:
            self._make_folder(folder.parent)
            place = self._folders.place(folder)
        with contextlib.suppress(FileExistsError):
            place.make_folder()
            self._made.append(folder)

    def _check_unchanged(self, changes: Sequence[Change]) -> None:
        changed = [self._show(change) for change in changes if not self._is_as_before(change)]
        if changed:
            raise FilesChangedError(changed)

    def _is_as_before(self, change: Change) -> bool:
        """Whether the file still is what the change was made up for, in the folder that has its path."""
        try:
            place = self._folders.place(change.path)
            with locate_file(change.path, self._workspace) as now:
                is_moved = not os.path.samestat(place.folder_status(), now.folder_status())
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
        """Put the entries of all folders that have changed on the disk for good."""
        changed = [*(change.path for change in self._changes), *self._made]
        for path in {path.parent: path for path in changed}.values():
            self._folders.place(path).sync()

    def _take_back(self) -> Left:
        """Undo the changes done so far; the files that are not as before then."""
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
    """Folders of one batch, each held open from its first use on as long as there is room, and the same throughout."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._places: OrderedDict[Path, Place] = OrderedDict()
        self._identities: dict[Path, tuple[int, int]] = {}

    def place(self, path: Path) -> Place:
        """The place of a file or folder; it may be closed once others were asked for.

        Raises:
            FileNotFoundError: the folder is missing.
            FilesChangedError: a link came in the way, or the folder is another one than before.
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

    def _open(self, path: Path) -> Place:
        try:
            place = locate_file(path, self._workspace)
        except (UnsafeFileError, NotADirectoryError) as error:  # it was none of these when it was planned
            raise FilesChangedError([show(self._workspace, path)]) from error
        status = place.folder_status()
        identity = (status.st_dev, status.st_ino)
        if self._identities.setdefault(path.parent, identity) != identity:
            place.close()
            raise FilesChangedError([show(self._workspace, path)])
        return place


logger = logging.getLogger(__name__)

MAX_HELD_BYTES: Final = 64 * MEBIBYTE
"""The former contents of a batch's files that are recorded; of a larger batch only the temporary files are removed."""
MAX_RECORD_BYTES: Final = 128 * MEBIBYTE
"""In base64, with paths."""
MAX_TOLD: Final = 10
"""Files that are named for each of the two ends of a batch."""
UNDER_WAY: Final = b"under way\n"
OVER: Final = b"over     \n"
"""The mark that a record begins with, and what is written over it, of the same length."""
_RECORD = re.compile(r"[0-9a-f]{12}\.json")
_TEMPORARY = re.compile(r"\.[^/\0]{1,100}\.[0-9a-f]{12}\.tmp")


def restore(place: Place, before: Snapshot, temporary: str, *, is_after: Callable[[bytes | None], bool]) -> bool:
    """Make a file as it was before a batch, if it still is what the batch wrote; whether it is as before.

    Raises:
        UnreadableError, OSError: it cannot be read or written.
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
        """Keep a record of a batch as long as the block lasts; without one where the disk does not take it."""
        file = self._folder / f"{os.urandom(6).hex()}.json"
        descriptor, is_durable = None, False
        try:
            data = _recorded(changes, temporaries, self._workspace)
            is_durable = b'"after"' in data  # else only temporary files would be left where the machine ends
            make_private_folder(self._folder)
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
        """Take back what killed servers left half done; what came of it, in words, one sentence a batch.

        A file is put back only if it is exactly what the batch wrote. Records of servers that live stay.
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
            except (ValueError, KeyError, TypeError) as error:  # cut off, so that its batch had touched nothing
                logger.debug("%s is no record: %s", file, error)
            finally:
                _end(descriptor, is_durable=True)
            with contextlib.suppress(OSError):
                place.remove()
            return [words] if words else []
        return []

    def _take_back(self, data: bytes) -> str:
        """Take back one batch by its record; what came of it, empty where nothing had been put in place, or it is over.

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
            except FileNotFoundError:  # its folder was not made yet
                continue
            except (OSError, UnreadableError):
                is_back = False
            (back if is_back else left).append(show(self._workspace, path))
        for folder in record["folders"]:
            with contextlib.suppress(OSError), locate_file(Path(folder), self._workspace) as place:
                place.remove_folder()
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
    """True where no server holds a record: the lock is ours then, else the record is closed."""
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
    """Say that a batch is over, and close its record, as some systems remove no file that is open."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        _write(descriptor, OVER, is_durable=is_durable)
    except OSError as error:
        logger.debug("a record is not marked: %s", error)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    """A record by the descriptor that locks it: some systems let no other read a byte that is locked."""
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
