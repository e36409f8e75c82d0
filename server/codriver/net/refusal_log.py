"""Log refused connections with a rate limit, so that peers cannot flood the log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

MIN_MESSAGE_INTERVAL_S: Final = 60.0
"""Minimum time between two messages with the same reason, in seconds."""


class RefusalLog:
    """Logs refused connections, at most once per minute for each reason."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._logged_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def log_refusal(self, reason: str) -> None:
        """Log a refused connection, or only count it if the same reason was logged within the last minute."""
        now = self._clock()
        if now - self._logged_at.get(reason, -MIN_MESSAGE_INTERVAL_S) < MIN_MESSAGE_INTERVAL_S:
            self._unlogged[reason] = self._unlogged.get(reason, 0) + 1
            return
        self._logged_at[reason] = now
        count = self._unlogged.pop(reason, 0)
        self._logger.warning("%s%s", reason, f" (and {count} more since the last such message)" if count else "")
