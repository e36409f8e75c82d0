"""Atomic batches: several files written, all or none, each whole at any moment and none changed meanwhile.

A path here has no links in it, as `editable_path` gives it. Links that come in its way later are not followed: each
folder is walked to by descriptor, held open, and all is done by that descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import os
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.editing.batch_records import restore
from codriver.editing.file_changes import (
    FilesChangedError,
    FilesUnwritableError,
    Left,
    UnreadableError,
    content_of,
    locate_file,
    show,
)
from codriver.files import UnsafeFileError, temporary_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.editing.batch_records import BatchRecords
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
