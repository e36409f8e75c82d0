"""The turn at a session: one evaluation at a time has it, in the order of requests."""

from __future__ import annotations

import asyncio
from collections import deque


class Turn:
    """The right to use a session: one evaluation at a time has it, in the order of requests.

    Unlike a lock of anyio, a turn has no owning task: an evaluation takes it outside of any task, and may give it back
    in one.
    """

    def __init__(self) -> None:
        self.is_acquired = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def acquire_at_once(self) -> bool:
        """Take the session if free; whether it was."""
        was_free = not self.is_acquired
        self.is_acquired = True
        return was_free

    async def acquire(self) -> None:
        """Wait for the turn, and take it."""
        if self.acquire_at_once():
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # the turn was handed over in the same moment
                self.give_back()
            raise

    def give_back(self) -> None:
        """Hand the turn over to the longest waiting caller, or free it."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.is_acquired = False

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *exc: object) -> None:
        self.give_back()
