"""Compute digests of source files, and recompute only those of files that have been written since."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Final

from codriver import files

SOURCE_RULES: Final = files.FileRules(files.Links.ANY, max_bytes=8 * 2**20)
"""Limits for a file whose digest is computed."""
MISSING_DIGEST: Final = "missing"
"""Digest of a file that cannot be read."""


def digest(content: bytes) -> str:
    """Return a digest of the content of a file."""
    return blake2b(content, digest_size=16).hexdigest()


class FileDigests:
    """A cache of file digests. A file is only read again after it has been written."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[files.Stamp, str]] = {}
        """Stamps and digests by path."""

    def digest_file(self, file: str) -> str:
        """Return the digest of a file, or `MISSING_DIGEST` if it cannot be read. Blocks."""
        path = Path(file)
        try:
            stamp = files.stamp_from_status(path.stat())
            known = self._known.get(file)
            if known is None or known[0] != stamp:
                known = self._known[file] = stamp, digest(files.read(path, SOURCE_RULES))
        except (OSError, ValueError):
            return MISSING_DIGEST
        return known[1]
