"""Callers' most recent edits to each file, for the lifetime of one server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codriver.core import caller_names

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.core.state import State

MAX_EDITED_FILES: Final = 100
"""Maximum number of files whose edits are remembered."""
MAX_FILE_EDITS: Final = 4
"""Maximum number of edits remembered for each file."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit to a file by a caller. The texts before and after it are None if they are unknown or too long."""

    who: str
    client: str | None
    at_ms: int
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file with its last edit and the edits before it, newest last."""

    path: Path
    display_path: str
    """Path as displayed to people."""
    edit: Edit
    earlier: tuple[Edit, ...] = ()


@dataclass(slots=True)
class FileEdits:
    """The most recent edits to each file, for the lifetime of one server."""

    by_file: dict[Path, tuple[Edit, ...]] = field(default_factory=dict)

    def add(self, path: Path, display_path: str, edit: Edit) -> EditedFile:
        """Record an edit, and return it with the earlier edits to the file.

        The oldest edits beyond the limits are discarded.
        """
        earlier = self.by_file.pop(path, ())
        self.by_file[path] = (*earlier, edit)[-MAX_FILE_EDITS:]
        while len(self.by_file) > MAX_EDITED_FILES or sum(map(len, self.by_file.values())) > MAX_EDITED_FILES:
            del self.by_file[next(iter(self.by_file))]
        return EditedFile(path, display_path, edit, earlier)


def is_made_by(state: State, edit: Edit, who: str, client: str | None) -> bool:
    """Return whether a caller made an edit, even if its client has reconnected since."""
    is_back = edit.who == who and edit.client not in state.clients
    return is_back or caller_names.is_by_caller(state, client, who, (edit.client, edit.who))
