"""Files that each caller has edited and whose tests have not run since."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent

if TYPE_CHECKING:
    from pathlib import Path


MAX_EDITS_NOTED: Final = 200


@dataclass(slots=True)
class EditsNoted:
    """Files that each caller has edited and whose tests have not run since, for the life of one server."""

    changed: Recent[tuple[str, Path], None] = field(default_factory=partial(Recent, MAX_EDITS_NOTED))

    def add(self, who: str, path: Path) -> None:
        """Record an edit. Beyond the limit, the oldest file is forgotten."""
        self.changed[who, path] = None

    def pop(self, who: str) -> tuple[Path, ...]:
        """Return and clear the files of one caller, in the order of their edits."""
        files = tuple(path for owner, path in self.changed if owner == who)
        for path in files:
            del self.changed[who, path]
        return files
