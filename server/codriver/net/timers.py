"""Timeouts of waits that nearly always end before, with one timer of the event loop for all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True, eq=False)
class Timeout:
    """A moment, by `time.monotonic`, and the function that is called when it has come."""

    at: float
    expire: Callable[[], None]


class Timeouts:
    """Timeouts that nearly never expire, as most waits are over before, with one timer of the event loop for all.

    To set and to cancel a timer for each wait takes four times as long.
    """

    def __init__(self) -> None:
        self._set: set[Timeout] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def set(self, timeout: Timeout) -> None:
        """Let it expire at its moment, unless it is dropped before."""
        self._set.add(timeout)
        if self._timer is None or timeout.at < self._timer_at:
            self._look_at(timeout.at)

    def drop(self, timeout: Timeout) -> None:
        """Let it not expire any more. Harmless where it expired."""
        self._set.discard(timeout)

    def _look_at(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = moment
        self._timer = asyncio.get_running_loop().call_later(max(0.0, moment - monotonic()), self._look)

    def _look(self) -> None:
        self._timer, now = None, monotonic()
        try:
            for timeout in [timeout for timeout in self._set if timeout.at <= now]:
                self._set.discard(timeout)
                timeout.expire()
        finally:  # one that fails holds up no other
            if self._set:
                self._look_at(min([timeout.at for timeout in self._set]))
