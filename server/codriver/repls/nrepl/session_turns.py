"""Let the evaluations in a session take turns, so that only one runs at a time."""

from __future__ import annotations

import asyncio
from collections import deque


class SessionTurn:
    """A lock that gives evaluations exclusive use of a session, in the order of their requests.

    Unlike an anyio lock, it has no owning task. An evaluation may acquire it outside of any task and release it in a
    task.
    """

    def __init__(self) -> None:
        self.is_acquired = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_acquire(self) -> bool:
        """Acquire the turn if it is free, and return whether that was the case."""
        was_free = not self.is_acquired
        self.is_acquired = True
        return was_free

    async def acquire(self) -> None:
        """Wait for the turn, and acquire it."""
        if self.try_acquire():
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # the turn was passed on at the same time
                self.release()
            raise

    def release(self) -> None:
        """Pass the turn to the evaluation that has been waiting longest, or free it if none is waiting."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.is_acquired = False

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *exc: object) -> None:
        self.release()
