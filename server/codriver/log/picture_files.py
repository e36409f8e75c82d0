"""Files of pictures, for clients that hand no image content on to their model: its own tool can open a file.

The files lie in the state folder of the workspace, for this user alone, and go with their entries of the log.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from codriver.core.pictures import decoded, image
from codriver.files import Links, remove, whole_files
from codriver.files.own_folders import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from codriver.log.output_log import OutputLog

logger = logging.getLogger(__name__)
MOST_LOOKED_AT = 1000
"""The newest entries, among which the entry of a picture is looked for."""


class PictureFiles:
    """The pictures in the files of `folder`, for the life of one server, whose log is `log`."""

    def __init__(self, folder: Path, log: OutputLog) -> None:
        self._folder = folder
        self._log = log
        self._lines: dict[str, int] = {}
        """By name of a file: the newest line of the log that the picture stands in."""

    def keep(self, kind: str, data: str) -> str | None:
        """The path of the file of a picture, given as base64; None if it cannot be written. Blocks."""
        told = image(kind, data)
        name = f"{told.digest}{told.suffix}"
        path = self._folder / name
        if name not in self._lines:
            try:
                make_private_folder(self._folder)
                whole_files.replace(path, decoded(data), links=Links.NEVER, root=self._folder, is_durable=False)
            except OSError as error:
                logger.warning("a picture cannot be kept as %s: %s", path, error.strerror or error)
                return None
        newest = reversed(self._log.entries(limit=MOST_LOOKED_AT))
        self._lines[name] = next((one.line for one in newest if data in one.text), self._log.last_line or 0)
        return str(path)

    def drop(self, lines: Collection[int]) -> None:
        """Remove the files of pictures in these lines, which have left the log."""
        if self._lines and lines:
            gone = [name for name, line in self._lines.items() if line <= max(lines)]
            for name in gone:
                del self._lines[name]
                with suppress(OSError):
                    remove(self._folder / name)

    def clear(self) -> None:
        """Remove all pictures, also those that a killed server left behind."""
        self._lines.clear()
        with suppress(OSError):
            for file in self._folder.iterdir():
                remove(file)
