"""File changes: several files written, all or none, each whole at any moment and none changed meanwhile.

A path here has no links in it, as `places.locate` gives it. Links that come in its way later are not followed: each
folder is walked to by descriptor, held open, and all is done by that descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import unicodedata
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.errors import RefusedError
from codriver.files import (
    MEBIBYTE,
    Links,
    Place,
    Rules,
    UnsafeFileError,
    locate,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SUFFIXES = (
    ".clj", ".cljs", ".cljc", ".cljd", ".cljr", ".cljx", ".bb", ".edn", ".lpy", ".hy", ".hl", ".boot", ".joke",
)  # fmt: skip
"""The endings of Lisp files' names."""
PYTHON_SUFFIXES = (".py", ".pyi")

VERSION_CONTROL = frozenset(
    {".git", ".hg", ".svn", ".jj", ".sl", ".bzr", "_darcs", ".pijul", ".fossil", ".fslckout", "_fossil_"}
)
"""Folders and files in which a version control system keeps a project's history and the commands that it runs."""

_SHORT_NAME = re.compile(r"git~\d+")
"""A name that Windows gives to `.git` beside it."""

_SCRIPT = re.compile(r"#![^\r\n]*\b(?:bb|nbb|clj|clojure|basilisp|hy|joker|boot|lumo|planck|plk)\b")
"""The first line of a script without an ending to its name."""

MAX_FILE_BYTES: Final = 8 * MEBIBYTE
"""No source file is as large, and reading one takes a second."""
MAX_HELD: Final = 32
"""Folders that a batch holds open at once; those of a larger batch are walked to again, and must be the same."""
MAX_NOTEBOOK_BYTES: Final = 64 * MEBIBYTE
"""A notebook holds its pictures."""


class NotEditableError(Exception):
    """The file cannot be edited here, for the reason said."""


def editable_path(workspace: Path, given: str, *, allow_outside: bool) -> Path:
    """The file that `given` means, absolute or relative to the resolved `workspace`, with all links resolved.

    Raises:
        NotEditableError: it is no path, it lies outside the workspace and that is not allowed, or it belongs to a
            version control system.
    """
    if not given.strip():
        raise NotEditableError("filePath is blank")
    try:
        path = (workspace / given).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise NotEditableError(f"{given!r} is no path that can be followed: {error}") from error
    if not allow_outside and not path.is_relative_to(workspace):
        words = f"{given} lies outside the workspace {workspace}"
        if path != workspace / given:
            words += f", at {path}"
        raise NotEditableError(f"{words}; only the setting allowEditsOutsideWorkspace lets edits go there")
    for part in (*_parts(workspace, path), *_parts(workspace, workspace / given)):
        if is_version_control(part):
            raise NotEditableError(
                f"{given} belongs to version control ({part}), which alone may write there: its files name commands "
                "that are run; edit a file of the project, or use the version control system's own command"
            )
    return path


def _parts(workspace: Path, path: Path) -> tuple[str, ...]:
    """The names of a path; only those below the workspace where it lies in it."""
    return path.relative_to(workspace).parts if path.is_relative_to(workspace) else path.parts


def is_version_control(name: str) -> bool:
    """Whether a file system may take `name` for that of a version control system's folder or file.

    Those of macOS and Windows see no difference of case; the first passes over invisible characters, the second over
    dots and spaces at the end and whatever follows a colon.
    """
    visible = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    plain = visible.casefold().partition(":")[0].rstrip(" .")
    return plain in VERSION_CONTROL or _SHORT_NAME.fullmatch(plain) is not None


def show(workspace: Path, path: Path) -> str:
    """The path as answers show it: relative to the workspace where it lies in it."""
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else str(path)


def check_is_source(path: Path, data: bytes | None, *contents: str) -> None:
    """See that the file holds Lisp or Python, or is to have these contents that are, going by its name.

    A name without an ending says nothing; then the first line must name an interpreter of Lisp.

    Raises:
        NotEditableError: it does not.
    """
    known = path.suffix.lower() in (*SUFFIXES, *PYTHON_SUFFIXES)
    if not path.suffix:
        texts = contents if data is None else (data[:200].decode(errors="replace"), *contents)
        known = bool(texts) and all(_SCRIPT.match(text) for text in texts)
    if not known:
        kinds = ", ".join(SUFFIXES)
        raise NotEditableError(
            f"{path.name} is no Python or Lisp file (.py, {kinds}): change it as text, "
            "with your client's own editing tool"
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file as it was: its bytes, None when it was not there, its permissions and its owner."""

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


def read(path: Path, workspace: Path) -> Snapshot:
    """The file at `path` as it is now; `MISSING` when there is none.

    Raises:
        UnreadableError: it is no regular file, too large, reached by a link, or cannot be read or written by us.
    """
    try:
        with _locate(path, workspace) as place:
            return _snapshot(place)
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error


def commit(changes: Sequence[Change], workspace: Path) -> None:
    """Do all changes or none. Each file is either as it was or as it is to be, whatever happens.

    Raises:
        FilesChangedError: a file is not as it was `before`.
        FilesUnwritableError: the system refused.
    """
    with contextlib.closing(_Batch(changes, workspace)) as batch:
        batch.run()


class _Batch:
    """One batch on its way to the disk: the folders it holds open, and what it has staged, made and done so far."""

    def __init__(self, changes: Sequence[Change], workspace: Path) -> None:
        self._changes = changes
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
            damaged = self._take_back()
            if isinstance(error, OSError) and current is not None:
                raise FilesUnwritableError(self._show(current), error.strerror or str(error), damaged) from error
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
        self._staged[change.path] = place.stage(change.after, mode=change.before.mode, owner=change.before.owner)

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
            with _locate(change.path, self._workspace) as now:
                is_moved = not os.path.samestat(place.folder_status(), now.folder_status())
            return not is_moved and _content(place) == change.before.data
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

    def _take_back(self) -> list[str]:
        """Undo the changes done so far; the files for which that failed."""
        damaged = []
        for change in reversed(self._done):
            try:
                place = self._folders.place(change.path)
                if change.before.data is None:
                    place.remove()
                else:
                    before = change.before
                    self._staged[change.path] = place.stage(change.before.data, mode=before.mode, owner=before.owner)
                    place.put(self._staged[change.path])
            except (OSError, FilesChangedError):
                damaged.append(self._show(change))
        return damaged

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
            place = _locate(path, self._workspace)
        except (UnsafeFileError, NotADirectoryError) as error:  # it was none of these when it was planned
            raise FilesChangedError([show(self._workspace, path)]) from error
        status = place.folder_status()
        identity = (status.st_dev, status.st_ino)
        if self._identities.setdefault(path.parent, identity) != identity:
            place.close()
            raise FilesChangedError([show(self._workspace, path)])
        return place


def _locate(path: Path, workspace: Path) -> Place:
    """The place of a path without links; in the workspace, nothing outside of it is even opened on the way."""
    return locate(path, Links.NEVER, root=workspace if path.is_relative_to(workspace) else None)


def _snapshot(place: Place) -> Snapshot:
    most_bytes = MAX_NOTEBOOK_BYTES if place.path.suffix == ".ipynb" else MAX_FILE_BYTES
    data, status = place.read_with_status(Rules(Links.NEVER, most_bytes))
    if not status.st_mode & 0o222 or not place.is_writable():
        raise UnreadableError("it is read-only")
    return Snapshot(data, status.st_mode & 0o7777, (status.st_uid, status.st_gid))


def _content(place: Place) -> bytes | None:
    try:
        return _snapshot(place).data
    except FileNotFoundError:
        return None
