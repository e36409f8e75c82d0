"""The version of each notebook that a caller has read, so that nothing is written to a notebook that has changed since.

Callers name cells by their index or id in the version that they read. In another version, outputs or code would be
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
"""Maximum number of pairs of a caller and a notebook that are remembered."""


@dataclass(slots=True)
class NotebookVersions:
    """Digests of the notebook versions that callers have read. Lives as long as the server."""

    known: Recent[tuple[str, Path], bytes] = field(default_factory=partial(Recent, MAX_REMEMBERED_READS))

    def note(self, who: str, path: Path, digest: bytes) -> None:
        """Record that a caller has read this version."""
        self.known[who, path] = digest

    def forget(self, who: str, path: Path) -> None:
        """Forget which version a caller has read, because the caller changed the notebook."""
        self.known.pop((who, path), None)

    def is_stale(self, who: str, path: Path, digest: bytes) -> bool:
        """Return whether a caller has read another version. False if it has not read the notebook."""
        return self.known.get((who, path), digest) != digest

    def replace(self, path: Path, old: bytes, new: bytes) -> None:
        """Replace a version by one that only differs in outputs that Codriver wrote, for all callers."""
        for (who, notebook), digest in list(self.known.items()):
            if notebook == path and digest == old:
                self.known[who, notebook] = new
