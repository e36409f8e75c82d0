"""Find the uses of a renamed definition in the other files of a workspace, within limits."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codriver.editing.editable_paths import SUFFIXES, path_for_display
from codriver.editing.file_changes import MAX_FILE_BYTES
from codriver.files import MEBIBYTE, FileRules, Links, read
from codriver.files.tree_walk import files_of
from codriver_lisp.binding_forms import namespace_of
from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.source_text import Document
from codriver_lisp.symbol_rename import DefinitionRenaming, find_names
from codriver_lisp.symbol_rename import find_references as lisp_references

if TYPE_CHECKING:
    from pathlib import Path

    from codriver_lisp.edit import Rename


SEARCHED_SUFFIXES: Final = tuple(suffix for suffix in SUFFIXES if suffix not in (".edn", ".hy", ".hl"))
"""Suffixes of files whose code refers to definitions in other files, which data files and Hy do not."""


MAX_RENAME_FILES: Final = 20_000
"""Maximum number of files for one renaming."""


MAX_RENAME_BYTES: Final = 256 * MEBIBYTE
"""Maximum number of bytes of all files for one renaming."""


MAX_RENAME_S: Final = 10.0
"""Maximum number of seconds for one renaming."""


MAX_RENAME_LOCATIONS: Final = 20
"""Maximum number of locations in other files that an answer names."""


RENAME_RULES = FileRules(Links.NEVER, MAX_FILE_BYTES)
"""Rules for reading files for a renaming. Links are not followed."""


@dataclass(slots=True)
class OtherUses:
    """The uses of a renamed name in other files as `file:line`, these files, and unreadable files."""

    name: DefinitionRenaming | None
    uses: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unread: list[tuple[str, EditError]] = field(default_factory=list)
    """Errors of unreadable files, which may also use the name, by display path."""

    def to_fields(self) -> dict[str, object]:
        """Return answer fields: the first locations, the number of further ones, and unread files."""
        fields: dict[str, object] = {"elsewhere": self.uses[:MAX_RENAME_LOCATIONS]} if self.uses else {}
        if len(self.uses) > MAX_RENAME_LOCATIONS:
            fields["elsewhereMore"] = len(self.uses) - MAX_RENAME_LOCATIONS
        if self.unread:
            fields["elsewhereUnread"] = [
                f"{file}: {error.message}" for file, error in self.unread[:MAX_RENAME_LOCATIONS]
            ]
        return fields


def external_renaming(path: Path, workspace: Path, edit: Rename) -> DefinitionRenaming | None:
    """Return the name known to other files that a renaming in the file at `path` changes, or None if it is local.

    Raises:
        OSError, ValueError, EditFailedError: the renaming cannot be applied.
    """
    if edit.target is not None or path.suffix not in SEARCHED_SUFFIXES:
        return None
    document = Document(_data(path, workspace).decode("utf-8-sig"))
    found = find_names(document, edit.old, edit.new)
    if edit.old.startswith(":"):
        return None if edit.old.startswith("::") else DefinitionRenaming(None, edit.old, edit.new)
    namespace = namespace_of(document)
    if namespace is None:
        return None
    old, new = (name.removeprefix(f"{namespace}/") for name in (edit.old, edit.new))
    return None if "/" in old else DefinitionRenaming(namespace, old, new, found.kind)


def find_other_uses(workspace: Path, defining_file: Path, name: DefinitionRenaming) -> OtherUses:
    """Return the uses of a name in other files. Links are not followed. Unread files are reported."""
    found = OtherUses(name)
    ends_at, size, seen = time.monotonic() + MAX_RENAME_S, 0, 0
    for path in files_of(workspace, SEARCHED_SUFFIXES):
        if path == defining_file:
            continue
        seen += 1
        if seen > MAX_RENAME_FILES or size > MAX_RENAME_BYTES or time.monotonic() > ends_at:
            limits = f"{MAX_RENAME_FILES:,} files, {MAX_RENAME_BYTES:,} bytes or {MAX_RENAME_S:g} s"
            words = f"more than {limits} are not searched"
            found.unread.append(
                (path_for_display(workspace, path), EditError(f"it and later files were not searched: {words}"))
            )
            break
        try:
            size += _search_file(found, name, path, workspace)
        except (OSError, ValueError, RuntimeError) as error:
            why = "it is not UTF-8" if isinstance(error, ValueError) else getattr(error, "strerror", None)
            found.unread.append((path_for_display(workspace, path), EditError(why or str(error))))
    return found


def _search_file(found: OtherUses, name: DefinitionRenaming, path: Path, workspace: Path) -> int:
    """Record the uses in one file, and return its size."""
    if path.is_symlink() and (real := path.resolve()).is_relative_to(workspace) and not real.is_symlink():
        return 0  # the target is searched by its own name; from Python 3.13 on a link to itself is its own target
    data = _data(path, workspace)
    if not name.may_occur_in(data.decode(errors="replace")):
        return len(data)
    text = data.decode("utf-8-sig")
    document = Document(text)
    display_path = path_for_display(workspace, path)
    if document.bracket_error is not None:
        found.unread.append((display_path, EditError(f"its brackets do not balance: {document.bracket_error}")))
        return len(text)
    try:
        uses = lisp_references(document, name, checks=False).positions
    except EditFailedError as error:
        found.unread.append((display_path, error.error))
        return len(text)
    if uses:
        found.files.append(path)
        lines = sorted({document.positions.line(start) for start, *_ in uses})
        found.uses += [f"{display_path}:{line}" for line in lines]
    return len(text)


def _data(path: Path, workspace: Path) -> bytes:
    """Return the bytes of a file that is not reached by a link."""
    return read(path, RENAME_RULES, root=workspace if path.is_relative_to(workspace) else None)
