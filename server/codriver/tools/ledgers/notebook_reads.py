"""The notebooks that each caller has read: nothing is written into one that has changed since then.

A notebook's cells are named by index or by an id of the version that the caller read, and outputs or code would go into
another version. Writes of Codriver's own outputs change nothing that a caller has to see again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent

if TYPE_CHECKING:
    from pathlib import Path


MOST_READS: Final = 500
"""Maximum number of remembered pairs of a caller and a notebook."""


@dataclass(slots=True)
class NotebookReads:
    """The version of each notebook that each caller knows, as a digest, for the life of one server."""

    known: Recent[tuple[str, Path], bytes] = field(default_factory=partial(Recent, MOST_READS))

    def note(self, who: str, path: Path, digest: bytes) -> None:
        """Note that a caller knows this version."""
        self.known[who, path] = digest

    def forget(self, who: str, path: Path) -> None:
        """Forget which version a caller knows, after a change of the caller's own."""
        self.known.pop((who, path), None)

    def is_stale(self, who: str, path: Path, digest: bytes) -> bool:
        """Return whether a caller knows a version other than this one. A caller that has read none knows none."""
        return self.known.get((who, path), digest) != digest

    def follow(self, path: Path, before: bytes, after: bytes) -> None:
        """Let all callers who knew a version know its successor, which differs by outputs that Codriver wrote."""
        for (who, read), digest in list(self.known.items()):
            if read == path and digest == before:
                self.known[who, read] = after
