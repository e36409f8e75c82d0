"""Remember recent changes to files by `edit_files` and `undo_edit`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codriver.editing.file_changes import Change

MAX_REMEMBERED_EDITS: Final = 20
"""Maximum number of edits that are remembered."""
MAX_EDIT_BYTES: Final = 2**20
"""Maximum size of the contents of a remembered edit."""


@dataclass(slots=True)
class RecentEdits:
    """Recent changes to files by `edit_files` and `undo_edit`, for the lifetime of one server."""

    done: deque[tuple[int, tuple[Change, ...]]] = field(default_factory=partial(deque, maxlen=MAX_REMEMBERED_EDITS))

    def add(self, started_ms: int, changes: Iterable[Change]) -> None:
        """Record the changes of an edit that started at `started_ms`, unless they are too large."""
        recorded = tuple(changes)
        if sum(len(change.before.data or b"") + len(change.after or b"") for change in recorded) <= MAX_EDIT_BYTES:
            self.done.append((started_ms, recorded))

    def changes_since(self, when_ms: int) -> dict[Path, tuple[bytes | None, bytes | None]]:
        """Return the files changed by edits that started at `when_ms` or later.

        The values are the content before the first and after the last edit. None means that the file did not exist.
        """
        found: dict[Path, tuple[bytes | None, bytes | None]] = {}
        for started_ms, changes in self.done:
            for change in changes if started_ms >= when_ms else ():
                found[change.path] = found.get(change.path, (change.before.data, None))[0], change.after
        return found
