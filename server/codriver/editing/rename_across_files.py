"""Renaming across files: the places where other files of a workspace name what an edit renames, within bounds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codriver.editing.file_changes import MAX_FILE_BYTES, SUFFIXES, show
from codriver.files import MEBIBYTE, Links, Rules, read
from codriver.files.working_trees import files_of
from codriver.lisp.rename import Renamed, find_names, find_references, namespace_of
from codriver.lisp.source_text import Document, Problem, ProblemError

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.lisp.edit import Rename

LOOKED_AT: Final = tuple(suffix for suffix in SUFFIXES if suffix not in (".edn", ".hy", ".hl"))
"""Endings of files whose code names what others define. Data does not, and Hy names modules by their paths."""
MAX_FILES: Final = 20_000
MAX_BYTES: Final = 256 * MEBIBYTE
MAX_SECONDS: Final = 10.0
"""What is read for one renaming: a workspace that holds more is not a project of one reader."""
MAX_PLACES: Final = 20
"""Places in other files that an answer names."""
_RULES = Rules(Links.NEVER, MAX_FILE_BYTES)


@dataclass(slots=True)
class Elsewhere:
    """The places in other files that name what is renamed, as `file:line`; the files; and what could not be read."""

    name: Renamed | None
    places: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unread: list[tuple[str, Problem]] = field(default_factory=list)
    """By file, as answers show it: it may name it too."""

    def told(self) -> dict[str, object]:
        """The places under the keys of an answer, the first of them and how many more; and a file that is not read."""
        fields: dict[str, object] = {"elsewhere": self.places[:MAX_PLACES]} if self.places else {}
        if len(self.places) > MAX_PLACES:
            fields["elsewhereMore"] = len(self.places) - MAX_PLACES
        if self.unread:
            fields["elsewhereUnread"] = [f"{file}: {problem.message}" for file, problem in self.unread[:MAX_PLACES]]
        return fields


def renamed_by(path: Path, workspace: Path, edit: Rename) -> Renamed | None:
    """The name known to other files that a renaming in all of the file at `path` changes; None for a local one.

    Raises:
        OSError, ValueError, ProblemError: the renaming itself cannot be done, as its plan says.
    """
    if edit.target is not None or path.suffix not in LOOKED_AT:
        return None
    document = Document(_data(path, workspace).decode("utf-8-sig"))
    found = find_names(document, edit.old, edit.new)
    if edit.old.startswith(":"):
        return None if edit.old.startswith("::") else Renamed(None, edit.old, edit.new)
    namespace = namespace_of(document)
    if namespace is None:
        return None
    old, new = (name.removeprefix(f"{namespace}/") for name in (edit.old, edit.new))
    return None if "/" in old else Renamed(namespace, old, new, found.kind)


def find_elsewhere(workspace: Path, own: Path, name: Renamed) -> Elsewhere:
    """The places of other files that name it. No link is followed; what is not read is told."""
    found = Elsewhere(name)
    ends_at, size, seen = time.monotonic() + MAX_SECONDS, 0, 0
    for path in files_of(workspace, LOOKED_AT):
        if path == own:
            continue
        seen += 1
        if seen > MAX_FILES or size > MAX_BYTES or time.monotonic() > ends_at:
            words = f"more than {MAX_FILES:,} files, {MAX_BYTES:,} bytes or {MAX_SECONDS:g} s are not looked at"
            found.unread.append((show(workspace, path), Problem(f"it and those behind it were not read: {words}")))
            break
        try:
            size += _look(found, name, path, workspace)
        except (OSError, ValueError, RuntimeError) as error:
            why = "it is not UTF-8" if isinstance(error, ValueError) else getattr(error, "strerror", None)
            found.unread.append((show(workspace, path), Problem(why or str(error))))
    return found


def _look(found: Elsewhere, name: Renamed, path: Path, workspace: Path) -> int:
    """Take note of the places in one file; its size."""
    if path.is_symlink() and (real := path.resolve()).is_relative_to(workspace) and not real.is_symlink():
        return 0  # what it leads to is looked at by its own name; from Python 3.13 on a link to itself leads to one
    data = _data(path, workspace)
    if not name.may_stand_in(data.decode(errors="replace")):
        return len(data)
    text = data.decode("utf-8-sig")
    document = Document(text)
    shown = show(workspace, path)
    if document.complaint is not None:
        found.unread.append((shown, Problem(f"its brackets do not balance: {document.complaint}")))
        return len(text)
    try:
        places = find_references(document, name, checks=False).places
    except ProblemError as error:
        found.unread.append((shown, error.problem))
        return len(text)
    if places:
        found.files.append(path)
        lines = sorted({document.places.line(start) for start, *_ in places})
        found.places += [f"{shown}:{line}" for line in lines]
    return len(text)


def _data(path: Path, workspace: Path) -> bytes:
    """The bytes of a file that is reached by no link."""
    return read(path, _RULES, root=workspace if path.is_relative_to(workspace) else None)
