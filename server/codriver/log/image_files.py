"""Write images to files, for clients that do not pass images to their model.

The files are in the state directory of the workspace, private to the user, and are deleted with their log entries.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from codriver.core.images import decode_base64, parse_image
from codriver.files import Links, remove, whole_files
from codriver.files.private_directories import make_private_directory

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from codriver.log.output_log import OutputLog

logger = logging.getLogger(__name__)
MAX_SEARCHED_ENTRIES = 1000
"""Maximum number of entries that are searched for an image, starting with the newest."""


class ImageFiles:
    """Saves images from the log as files in a directory, for the lifetime of one server."""

    def __init__(self, directory: Path, log: OutputLog) -> None:
        self._directory = directory
        self._log = log
        self._lines: dict[str, int] = {}
        """The newest log line that contains each image, by file name."""

    def save(self, kind: str, data: str) -> str | None:
        """Save a base64-encoded image, and return the path of its file, or None if writing fails.

        Blocks on disk I/O.
        """
        facts = parse_image(kind, data)
        name = f"{facts.digest}{facts.suffix}"
        path = self._directory / name
        if name not in self._lines:
            try:
                make_private_directory(self._directory)
                whole_files.replace(
                    path, decode_base64(data), links=Links.NEVER, root=self._directory, is_durable=False
                )
            except OSError as error:
                logger.warning("cannot save an image as %s: %s", path, error.strerror or error)
                return None
        newest = reversed(self._log.entries(limit=MAX_SEARCHED_ENTRIES))
        self._lines[name] = next((entry.line for entry in newest if data in entry.text), self._log.last_line or 0)
        return str(path)

    def delete_evicted(self, lines: Collection[int]) -> None:
        """Delete the images whose entries have been evicted from the log. `lines` are the evicted line numbers."""
        if self._lines and lines:
            gone = [name for name, line in self._lines.items() if line <= max(lines)]
            for name in gone:
                del self._lines[name]
                with suppress(OSError):
                    remove(self._directory / name)

    def clear(self) -> None:
        """Delete all images, including those left by earlier servers."""
        self._lines.clear()
        with suppress(OSError):
            for file in self._directory.iterdir():
                remove(file)
