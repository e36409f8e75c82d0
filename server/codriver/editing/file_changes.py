"""Source files that an edit may change: the suffixes, the present text of a file, and its text after the edit."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.errors import RefusedError
from codriver.files import (
    MEBIBYTE,
    Links,
    Rules,
    locate,
)
from codriver.systems.file_system import as_spelled, mode_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.files import Place

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
"""No source file is as large, and reading such a file takes a second."""
MAX_LINES: Final = 400_000
"""Nor has any so many lines, each of which is an object of its own: two million hold up all other work for seconds."""
MAX_NOTEBOOK_BYTES: Final = 64 * MEBIBYTE
"""A notebook holds its pictures. So much of it is looked at and gets outputs; its text is edited as any other."""


class NotEditableError(Exception):
    """The file cannot be edited here, for the reason said."""


def editable_path(workspace: Path, given: str, *, allow_outside: bool) -> Path:
    """The file that `given` means, absolute or relative to the resolved `workspace`, with all links resolved.

    Raises:
        NotEditableError: `given` is no path, lies outside the workspace where that is not allowed, or belongs to a
            version control system.
    """
    if not given.strip():
        raise NotEditableError("filePath is blank")
    try:
        path = as_spelled((workspace / given).resolve())
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
    """The names of a path; of a path in the workspace only the names below it."""
    return path.relative_to(workspace).parts if path.is_relative_to(workspace) else path.parts


def plain_name(name: str) -> str:
    """The name, in small letters, that a file system may take `name` for.

    File systems of macOS and Windows see no difference of case. Those of macOS ignore invisible characters; those of
    Windows ignore dots and spaces at the end, and all that follows a colon.
    """
    visible = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return visible.casefold().partition(":")[0].rstrip(" .")


def is_version_control(name: str) -> bool:
    """Whether a file system may take `name` for a version control system's folder or file."""
    plain = plain_name(name)
    return plain in VERSION_CONTROL or _SHORT_NAME.fullmatch(plain) is not None


def show(workspace: Path, path: Path) -> str:
    """The path as answers show it: relative for a path in the workspace."""
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else str(path)


def check_is_source(path: Path, data: bytes | None, *contents: str) -> None:
    """Check by its name, or by these contents, that the file holds Lisp or Python.

    A name without an ending says nothing; then the first line must name an interpreter of Lisp.

    Raises:
        NotEditableError: the file holds neither.
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
        """The words of a message about these files; empty when every file is as before."""
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


def locate_file(path: Path, workspace: Path) -> Place:
    """The place of a path without links; for a path in the workspace, the walk opens nothing outside of that."""
    return locate(path, Links.NEVER, root=workspace if path.is_relative_to(workspace) else None)


def snapshot_of(place: Place, *, most_bytes: int | None = None) -> Snapshot:
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


def content_of(place: Place) -> bytes | None:
    """The bytes of the file at the place, None without one. Raises like `snapshot_of`."""
    try:
        return snapshot_of(place).data
    except FileNotFoundError:
        return None
