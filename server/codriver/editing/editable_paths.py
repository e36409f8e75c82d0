"""Paths of files that an edit may change: source files in the workspace, outside of version control's own."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from codriver.systems.file_system import as_spelled

if TYPE_CHECKING:
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
    """Return the names of a path; of a path in the workspace only the names below it."""
    return path.relative_to(workspace).parts if path.is_relative_to(workspace) else path.parts


def plain_name(name: str) -> str:
    """Return the name, in small letters, that a file system may take `name` for.

    File systems of macOS and Windows see no difference of case. Those of macOS ignore invisible characters; those of
    Windows ignore dots and spaces at the end, and all that follows a colon.
    """
    visible = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return visible.casefold().partition(":")[0].rstrip(" .")


def is_version_control(name: str) -> bool:
    """Return whether a file system may take `name` for a version control system's directory or file."""
    plain = plain_name(name)
    return plain in VERSION_CONTROL or _SHORT_NAME.fullmatch(plain) is not None


def show(workspace: Path, path: Path) -> str:
    """Return the path as answers show it: relative for a path in the workspace."""
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
