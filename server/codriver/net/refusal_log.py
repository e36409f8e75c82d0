"""Log lines about refused peers, at a limited rate, because the refused peer decides how often that happens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

INTERVAL_S: Final = 60.0
"""Between two lines about refusals for the same reason."""


class RefusalLog:
    """The refusals of one listener. The reasons are fixed messages, so there are few of them."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._logged_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def note(self, reason: str) -> None:
        """Log a refusal immediately if there was none for this reason in the last minute; count it otherwise."""
        now = self._clock()
        if now - self._logged_at.get(reason, -INTERVAL_S) < INTERVAL_S:
            self._unlogged[reason] = self._unlogged.get(reason, 0) + 1
            return
        self._logged_at[reason] = now
        count = self._unlogged.pop(reason, 0)
        self._logger.warning("%s%s", reason, f" (and {count} more since the last such line)" if count else "")
