"""Image files for clients that do not pass image content to their model: the client's own tool can open a file.

The files are in the state directory of the workspace, for this user alone, and are removed with their log entries.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from codriver.core.pictures import decoded, image
from codriver.files import Links, remove, whole_files
from codriver.files.own_folders import make_private_directory

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from codriver.log.output_log import OutputLog

logger = logging.getLogger(__name__)
MAX_INSPECTED = 1000
"""The newest entries, among which the entry of an image is searched for."""


class ImageFiles:
    """The images in the files of `directory`, for the lifetime of one server, whose log is `log`."""

    def __init__(self, directory: Path, log: OutputLog) -> None:
        self._directory = directory
        self._log = log
        self._lines: dict[str, int] = {}
        """By name of a file: the newest line of the log that the image is in."""

    def save(self, kind: str, data: str) -> str | None:
        """Return the path of the file of an image, given as base64; None if it cannot be written. Blocks."""
        facts = image(kind, data)
        name = f"{facts.digest}{facts.suffix}"
        path = self._directory / name
        if name not in self._lines:
            try:
                make_private_directory(self._directory)
                whole_files.replace(path, decoded(data), links=Links.NEVER, root=self._directory, is_durable=False)
            except OSError as error:
                logger.warning("a picture cannot be kept as %s: %s", path, error.strerror or error)
                return None
        newest = reversed(self._log.entries(limit=MAX_INSPECTED))
        self._lines[name] = next((one.line for one in newest if data in one.text), self._log.last_line or 0)
        return str(path)

    def drop(self, lines: Collection[int]) -> None:
        """Remove the files of images in these lines, which have left the log."""
        if self._lines and lines:
            gone = [name for name, line in self._lines.items() if line <= max(lines)]
            for name in gone:
                del self._lines[name]
                with suppress(OSError):
                    remove(self._directory / name)

    def clear(self) -> None:
        """Remove all images, also those that a killed server left."""
        self._lines.clear()
        with suppress(OSError):
            for file in self._directory.iterdir():
                remove(file)
