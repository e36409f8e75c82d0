"""Remarks that are shown only once per workspace, such as hints about the setup."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from codriver import files
from codriver.files import FileRules, Links

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

FILE_RULES: Final = FileRules(Links.OF_USER, 64 * files.KIBIBYTE)
MAX_REMARKS: Final = 32
"""Maximum number of remarks that are remembered. The oldest are forgotten first."""

logger = logging.getLogger(__name__)


class Remarks:
    """Records which one-time remarks, such as hints about the setup, were already included in an answer.

    This is stored in a file for the workspace, so that later servers do not repeat them. The constructor reads the file
    and blocks. `spawn` starts the task that writes it.
    """

    def __init__(self, path: Path, spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], object]) -> None:
        self._path = path
        self._spawn = spawn
        found = files.read_json(path, FILE_RULES)
        self._earlier = [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
        self._now: dict[str, str] = {}
        """For each remark that this server reported, the evaluation whose answer includes it."""

    def should_report(self, evaluation: str, remark: str) -> bool:
        """Return whether the answer to `evaluation` should include the remark, and record it as reported."""
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
        except OSError as error:  # then the next server reports the remark again
            logger.info("the list of reported remarks, %s, cannot be written: %s", self._path, error)
