"""The remarks on a workspace that were reported already: each is reported once, whichever server or caller."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from codriver import files
from codriver.files import Links, Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

RULES: Final = Rules(Links.OF_USER, 64 * files.KIBIBYTE)
MAX_REMARKS: Final = 32
"""Maximum number of remarks that are remembered; the oldest are forgotten first."""

logger = logging.getLogger(__name__)


class Remarks:
    """The reported remarks of one workspace, for the lifetime of a server. Reading the file blocks.

    `spawn` starts a task, in which the file is written.
    """

    def __init__(self, path: Path, spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], object]) -> None:
        self._path = path
        self._spawn = spawn
        found = files.read_json(path, RULES)
        self._earlier = [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
        self._now: dict[str, str] = {}
        """For each remark that this server reported, the evaluation whose answer has it."""

    def is_for(self, evaluation: str, remark: str) -> bool:
        """Return whether the answer of this evaluation reports the remark, which then counts as reported."""
        if remark in self._earlier:
            return False
        if remark not in self._now:
            self._now[remark] = evaluation
            self._spawn(self._write)
        return self._now[remark] == evaluation

    async def _write(self) -> None:
        remembered = [*self._earlier, *self._now][-MAX_REMARKS:]
        await anyio.to_thread.run_sync(self._replace, json.dumps(remembered).encode())

    def _replace(self, data: bytes) -> None:
        try:
            files.replace(self._path, data, links=Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE)
        except OSError as error:  # the remark is then reported again by the next server
            logger.info("%s cannot be written: %s", self._path, error)
