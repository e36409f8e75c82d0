"""Polling of the disk, where nobody tells what changes: port files, settings, source files, skills."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class PollingOverError(Exception):
    """Whoever waited for a finding has left: nobody sees this."""


class Poller(Generic[T]):
    """Looks at something again and again, in a thread. Lives as long as whoever polls, one at a time.

    A look is followed by a rest of `interval_s`, or of `rest_times` as long as the look took, if that is longer. The
    first begins at once, unless it `rests_first`. Looks that find nothing new, and the rests between them, pass within
    one thread: an idle server would else wake its event loop many times a second, which costs more than the looks.
    """

    def __init__(
        self, look: Callable[[], T], *, interval_s: float, rest_times: float = 0.0, rests_first: bool = False
    ) -> None:
        self._look = look
        self._interval_s = interval_s
        self._rest_times = rest_times
        self._rest_s = interval_s if rests_first else 0.0

    async def next(self, is_news: Callable[[T], bool] | None = None) -> T:
        """The next look's finding, after the rest that is due; with `is_news`, called in the thread, the next news."""
        # Who waits for an event makes a lock at each rest, and takes two: to wake up for that costs as much as a look.
        is_over = threading.Lock()
        is_over.acquire()
        # The limit is the poller's own: who polls for hours must not take the threads that calls wait for.
        in_thread = anyio.CapacityLimiter(1)
        try:
            return await anyio.to_thread.run_sync(
                self._look_until, is_news, is_over, abandon_on_cancel=True, limiter=in_thread
            )
        finally:
            is_over.release()

    def _look_until(self, is_news: Callable[[T], bool] | None, is_over: threading.Lock) -> T:
        while not is_over.acquire(timeout=self._rest_s):
            began_s, self._rest_s = time.monotonic(), self._interval_s
            found = self._look()
            self._rest_s = max(self._interval_s, self._rest_times * (time.monotonic() - began_s))
            if is_news is None or is_news(found):
                return found
        raise PollingOverError
