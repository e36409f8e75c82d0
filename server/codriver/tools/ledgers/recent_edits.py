"""The newest changes of files by `edit_files` and `undo_edit`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codriver.editing.file_changes import Change

MOST_ACTS: Final = 20
MOST_ACT_BYTES: Final = 2**20


@dataclass(slots=True)
class Acts:
    """The newest changes of files by `edit_files` and `undo_edit`, for the life of one server."""

    done: deque[tuple[int, tuple[Change, ...]]] = field(default_factory=partial(deque, maxlen=MOST_ACTS))

    def add(self, began_ms: int, changes: Iterable[Change]) -> None:
        """Note an act that started then; a very large one is not kept."""
        kept = tuple(changes)
        if sum(len(one.before.data or b"") + len(one.after or b"") for one in kept) <= MOST_ACT_BYTES:
            self.done.append((began_ms, kept))

    def since(self, when_ms: int) -> dict[Path, tuple[bytes | None, bytes | None]]:
        """Return the files that changed since, each in its states before and after all; None for no file."""
        found: dict[Path, tuple[bytes | None, bytes | None]] = {}
        for began_ms, changes in self.done:
            for one in changes if began_ms >= when_ms else ():
                found[one.path] = found.get(one.path, (one.before.data, None))[0], one.after
        return found
