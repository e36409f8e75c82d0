"""The files that each caller edited and whose tests have not run since."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent

if TYPE_CHECKING:
    from pathlib import Path


MOST_EDITS_NOTED: Final = 200


@dataclass(slots=True)
class EditsNoted:
    """The files that each caller edited and whose tests have not run since, for the life of one server."""

    changed: Recent[tuple[str, Path], None] = field(default_factory=partial(Recent, MOST_EDITS_NOTED))

    def add(self, who: str, path: Path) -> None:
        """Note an edit; of very many files the oldest are forgotten."""
        self.changed[who, path] = None

    def take(self, who: str) -> tuple[Path, ...]:
        """Return the files of one caller, in the order of their edits; they are forgotten."""
        taken = tuple(path for owner, path in self.changed if owner == who)
        for path in taken:
            del self.changed[who, path]
        return taken
