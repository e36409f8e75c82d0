"""Polling of the disk, where nobody tells what changes: port files, settings, source files, skills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Poller(Generic[T]):
    """Looks at something again and again, in a thread. Lives as long as whoever polls, one at a time.

    A look is followed by a rest of `interval_s`, or of `rest_times` as long as the look took, if that is longer. The
    first begins at once, unless it `rests_first`.
    """

    def __init__(
        self, look: Callable[[], T], *, interval_s: float, rest_times: float = 0.0, rests_first: bool = False
    ) -> None:
        self._look = look
        self._interval_s = interval_s
        self._rest_times = rest_times
        self._rest_s = interval_s if rests_first else 0.0

    async def next(self) -> T:
        """The next look's finding, after the rest that is due."""
        await anyio.sleep(self._rest_s)
        began = anyio.current_time()
        found = await anyio.to_thread.run_sync(self._look)
        self._rest_s = max(self._interval_s, self._rest_times * (anyio.current_time() - began))
        return found
