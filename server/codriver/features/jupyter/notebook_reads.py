"""Versions of notebooks that each caller has read, so that nothing is written to one that has changed since.

Cells are named by an index or id of the version that the caller read, and outputs or code would go to the wrong cell of
another version. Outputs that Codriver writes do not count as changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent

if TYPE_CHECKING:
    from pathlib import Path


MAX_READS: Final = 500
"""Maximum number of remembered pairs of a caller and a notebook."""


@dataclass(slots=True)
class NotebookReads:
    """Digest of the notebook version that each caller knows, for the life of one server."""

    known: Recent[tuple[str, Path], bytes] = field(default_factory=partial(Recent, MAX_READS))

    def note(self, who: str, path: Path, digest: bytes) -> None:
        """Record that a caller knows this version."""
        self.known[who, path] = digest

    def forget(self, who: str, path: Path) -> None:
        """Forget which version a caller knows, because it changed the notebook."""
        self.known.pop((who, path), None)

    def is_stale(self, who: str, path: Path, digest: bytes) -> bool:
        """Return whether a caller knows another version. A caller that has read none knows none."""
        return self.known.get((who, path), digest) != digest

    def follow(self, path: Path, before: bytes, after: bytes) -> None:
        """Replace a known version by its successor, which differs only in outputs that Codriver wrote."""
        for (who, read), digest in list(self.known.items()):
            if read == path and digest == before:
                self.known[who, read] = after
