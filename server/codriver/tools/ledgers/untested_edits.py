"""Track the files that each caller has edited since their tests last ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent

if TYPE_CHECKING:
    from pathlib import Path


MAX_UNTESTED_FILES: Final = 200
"""Maximum number of remembered files across all callers."""


@dataclass(slots=True)
class UntestedEdits:
    """Files that each caller has edited and whose tests have not run since, for the lifetime of one server."""

    changed: Recent[tuple[str, Path], None] = field(default_factory=partial(Recent, MAX_UNTESTED_FILES))

    def add(self, who: str, path: Path) -> None:
        """Record an edit to a file. If there are too many files, the oldest one is discarded."""
        self.changed[who, path] = None

    def pop(self, who: str) -> tuple[Path, ...]:
        """Return and clear a caller's files, in the order of their edits."""
        files = tuple(path for owner, path in self.changed if owner == who)
        for path in files:
            del self.changed[who, path]
        return files
