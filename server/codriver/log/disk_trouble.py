"""Disk trouble: whether the files of a store can be written, told when that changes and not at each try."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

logger = logging.getLogger(__name__)

FULL = frozenset((errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)))


class DiskTrouble:
    """Trouble in writing the files of one store, for the store's life.

    `name`: the store's, in words. `place`: where its files are. `meanwhile`: where its content is while they cannot be
    written, and what becomes of it.
    """

    def __init__(self, name: str, place: Path | None, meanwhile: str) -> None:
        self.why: str | None = None
        """Why nothing can be written at the moment; None while writing works."""
        self.tell: Callable[[str | None], None] | None = None
        """Told of a trouble that begins, in words, and by None that it is over; in the thread that met it."""
        self._name = name
        self._place = place
        self._meanwhile = meanwhile

    def met(self, error: OSError) -> None:
        """Writing failed."""
        is_news, self.why = self.why is None, error.strerror or str(error)
        if is_news:
            mend = "make room on its disk" if error.errno in FULL else "make that a place that you can write"
            self._say(
                f"{self._name} cannot be written to {self._place} ({self.why}); {self._meanwhile}: {mend}, or set "
                "XDG_STATE_HOME and start the server anew"
            )

    def over(self) -> None:
        """Writing worked."""
        if self.why is not None:
            self.why = None
            self._say(None)

    def _say(self, words: str | None) -> None:
        logger.warning("%s", words or f"{self._name} can be written to {self._place} again")
        if self.tell is not None:
            self.tell(words)
