"""Check whether a file may be edited: it must be in the workspace, and not belong to version control."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from codriver.systems.file_system import with_spelling_on_disk

if TYPE_CHECKING:
    from pathlib import Path


LISP_SUFFIXES = (
    ".clj", ".cljs", ".cljc", ".cljd", ".cljr", ".cljx", ".bb", ".edn", ".lpy", ".hy", ".hl", ".boot", ".joke",
)  # fmt: skip
"""Suffixes of Lisp files."""
PYTHON_SUFFIXES = (".py", ".pyi")

VERSION_CONTROL_NAMES = frozenset(
    {".git", ".hg", ".svn", ".jj", ".sl", ".bzr", "_darcs", ".pijul", ".fossil", ".fslckout", "_fossil_"}
)
"""Directories and files in which version control systems store a project's history and the commands that they run."""

_SHORT_NAME_PATTERN = re.compile(r"git~\d+")
"""Matches the alternative name that Windows gives to `.git`."""

_SCRIPT_LINE_PATTERN = re.compile(r"#![^\r\n]*\b(?:bb|nbb|clj|clojure|basilisp|hy|joker|boot|lumo|planck|plk)\b")
"""Matches the first line of a Lisp script, which identifies the language of a file without a suffix."""


class NotEditableError(Exception):
    """Raised when a file must not be edited. The message is the reason."""


def editable_path(workspace: Path, given: str, *, allow_outside: bool) -> Path:
    """Return the path of a file to edit, with all links resolved. `given` is absolute or relative to the workspace.

    Raises:
        NotEditableError: `given` is not a path, is outside the workspace where that is not allowed, or belongs to
            version control.
    """
    if not given.strip():
        raise NotEditableError("filePath is blank. Pass the path of the file to edit")
    try:
        path = with_spelling_on_disk((workspace / given).resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise NotEditableError(f"{given!r} is not a usable path: {error}") from error
    if not allow_outside and not path.is_relative_to(workspace):
        words = f"{given} is outside the workspace {workspace}"
        if path != workspace / given:
            words += f", at {path}"
        raise NotEditableError(f"{words}. Only the setting allowEditsOutsideWorkspace permits such edits")
    for part in (*_parts(workspace, path), *_parts(workspace, workspace / given)):
        if is_version_control(part):
            raise NotEditableError(
                f"{given} belongs to version control ({part}), whose files can contain commands that are run. Edit a "
                "file of the project itself, or use a version control command"
            )
    return path


def _parts(workspace: Path, path: Path) -> tuple[str, ...]:
    """Return the components of a path. For a path in the workspace, only those below the workspace."""
    return path.relative_to(workspace).parts if path.is_relative_to(workspace) else path.parts


def normalize_file_name(name: str) -> str:
    """Return a lower-case name that is equal for names that a file system may treat as the same.

    File systems on macOS and Windows ignore case. Those on macOS ignore invisible characters. Those on Windows ignore
    dots and spaces at the end, and everything after a colon.
    """
    visible = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return visible.casefold().partition(":")[0].rstrip(" .")


def is_version_control(name: str) -> bool:
    """Return whether a file system may treat `name` as the name of a version control file or directory."""
    plain = normalize_file_name(name)
    return plain in VERSION_CONTROL_NAMES or _SHORT_NAME_PATTERN.fullmatch(plain) is not None


def path_for_display(workspace: Path, path: Path) -> str:
    """Return a path as text for the user, relative if it is in the workspace."""
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else str(path)


def require_source_file(path: Path, data: bytes | None, *contents: str) -> None:
    """Check that a file is Lisp or Python, by its suffix or the interpreter in its first line.

    Raises:
        NotEditableError: the file is neither Lisp nor Python.
    """
    known = path.suffix.lower() in (*LISP_SUFFIXES, *PYTHON_SUFFIXES)
    if not path.suffix:
        samples = contents if data is None else (data[:200].decode(errors="replace"), *contents)
        known = bool(samples) and all(_SCRIPT_LINE_PATTERN.match(text) for text in samples)
    if not known:
        kinds = ", ".join(LISP_SUFFIXES)
        raise NotEditableError(
            f"{path.name} is not a Python or Lisp file (.py, {kinds}). Edit it as text with your client's own "
            "editing tool"
        )
