"""Edits of files by callers, the newest of each file, for the life of one server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codriver.core import caller_names

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.core.state import State

MOST_FILES: Final = 100
MOST_EDITS: Final = 4
"""Maximum number of edits that are kept of one file."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of a file. `before` and `after` are its texts, if known and short enough to be kept."""

    who: str
    client: str | None
    at_ms: int
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class EditedFile:
    """An edit of the file at `path`, and the known edits before it, the newest last."""

    path: Path
    shown: str
    """The path as people name it."""
    edit: Edit
    earlier: tuple[Edit, ...] = ()


@dataclass(slots=True)
class FileEdits:
    """The newest edits of the files that callers edited, for the life of one server."""

    by_file: dict[Path, tuple[Edit, ...]] = field(default_factory=dict)

    def add(self, path: Path, shown: str, edit: Edit) -> EditedFile:
        """Store an edit, and return it with the edits before it. The oldest are forgotten beyond the limits."""
        earlier = self.by_file.pop(path, ())
        self.by_file[path] = (*earlier, edit)[-MOST_EDITS:]
        while len(self.by_file) > MOST_FILES or sum(map(len, self.by_file.values())) > MOST_FILES:
            del self.by_file[next(iter(self.by_file))]
        return EditedFile(path, shown, edit, earlier)


def is_by_editor(state: State, edit: Edit, who: str, client: str | None) -> bool:
    """Return whether an edit is by the caller `who` of this client, also if the client connected again since."""
    is_back = edit.who == who and edit.client not in state.clients
    return is_back or caller_names.is_by_caller(state, client, who, (edit.client, edit.who))
