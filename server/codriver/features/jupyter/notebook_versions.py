"""Remember which version of a notebook each caller has read in order to refuse edits of outdated versions.

Callers name cells by their index or id in the version that they read. In a different version, outputs or code would be
written to the wrong cell. Outputs that Codriver writes do not count as changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent

if TYPE_CHECKING:
    from pathlib import Path


MAX_REMEMBERED_READS: Final = 500
"""Maximum number of (caller, notebook) pairs to remember."""


@dataclass(slots=True)
class NotebookVersions:
    """Remembers which version of each notebook a caller has read, by digest. One instance exists per server."""

    known: Recent[tuple[str, Path], bytes] = field(default_factory=partial(Recent, MAX_REMEMBERED_READS))

    def record_read(self, who: str, path: Path, digest: bytes) -> None:
        """Record that a caller has read the version with this digest."""
        self.known[who, path] = digest

    def forget(self, who: str, path: Path) -> None:
        """Forget the version that a caller has read, because the caller has changed the notebook."""
        self.known.pop((who, path), None)

    def is_stale(self, who: str, path: Path, digest: bytes) -> bool:
        """Return whether the caller has read a different version. Return False if the caller has not read any."""
        return self.known.get((who, path), digest) != digest

    def replace(self, path: Path, old: bytes, new: bytes) -> None:
        """Treat callers that have read the old version as if they had read the new one.

        Used when the two versions differ only in outputs that Codriver wrote.
        """
        for (who, notebook), digest in list(self.known.items()):
            if notebook == path and digest == old:
                self.known[who, notebook] = new
