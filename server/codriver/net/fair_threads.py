"""Threads for blocking work, shared fairly between the clients, so that none of them starves another.

With one pool of threads for everything, sixty slow files delayed queries, new clients and the shutdown of the server.
So each kind of work has slots of its own, and the clients take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
import traceback
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.net.cooperative_turns import T


FILE_SLOTS = 4
TEXT_SLOTS = 2
QUERY_SLOTS = 2
"""Python runs one thread at a time: more threads slow down each other and the event loop."""


class NoTurnError(Exception):
    """A caller's waiting time ended before its turn. `ahead`: the number of callers still waiting before it."""

    def __init__(self, ahead: int) -> None:
        super().__init__(f"{ahead} were waiting for their turn")
        self.ahead = ahead


@dataclass(eq=False, slots=True)
class _Turn:
    """One caller that waits for a slot, or has one."""

    client: str
    decided: anyio.Event = field(default_factory=anyio.Event)
    is_granted: bool = False
    is_over: bool = False
    """Whether the work has finished."""
    has_left: bool = False
    """Whether the caller has the result, or no longer waits."""


@dataclass(eq=False, slots=True)
class _Share:
    """One client's use of the slots."""

    waiting: deque[_Turn] = field(default_factory=deque)
    running: int = 0
    """The number of turns whose work has not finished, or whose caller has not taken the result yet."""

    @property
    def is_idle(self) -> bool:
        """Return whether none of the client's work waits or runs."""
        return not self.waiting and not self.running


class Shares:
    """The slots for one kind of work, for the life of one server.

    A client has at most `slots_per_client` of the `slots`. The clients take turns, and the calls of one client run in
    their order. If the slots rest, each rests as long as it was used.
    """

    def __init__(self, slots: int, *, slots_per_client: int = 1, rests: bool = False) -> None:
        self._free = slots
        self._slots_per_client = slots_per_client
        self._rests = rests
        self._shares: dict[str, _Share] = {}
        """By client, in the order of their turns."""
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Return the number of callers that wait for a slot."""
        return sum(len(share.waiting) for share in self._shares.values())

    def is_busy(self, client: str) -> bool:
        """Return whether work of this client runs or waits, so that new work would come after it."""
        share = self._shares.get(client)
        return share is not None and not share.is_idle

    def close(self) -> None:
        """Give no more turns because the server stops: waiting and later callers get an error immediately."""
        self._is_closed = True
        for share in self._shares.values():
            for turn in share.waiting:
                turn.decided.set()

    async def run(self, client: str, work: Callable[[], T], *, until: float = math.inf) -> T:
        """Run `work` in a thread at this client's turn, and return its result.

        A cancelled caller leaves immediately; its slot is free when the work has finished. `until`: on the event loop's
        clock.

        Raises:
            NoTurnError: the client got no turn until then, or never will.
        """
        turn = _Turn(client)
        self._shares.setdefault(client, _Share()).waiting.append(turn)
        self._grant()
        try:
            if not turn.is_granted and not self._is_closed:
                with anyio.move_on_after(until - anyio.current_time()):
                    await turn.decided.wait()
        except BaseException:
            self._leave(turn)
            raise
        if not turn.is_granted:
            self._leave(turn)
            raise NoTurnError(self.waiting)
        return await self._run_now(turn, work)

    async def _run_now(self, turn: _Turn, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        # Taken by the first of two: the thread that begins the work, or the caller that leaves before that.
        start = deque([None])

        def timed() -> T:
            start.pop()
            started = time.monotonic()
            try:
                return work()
            except BaseException as error:
                # The error lives in a circle with its future, which must not keep the work's data alive, such as a
                # file's bytes.
                traceback.clear_frames(error.__traceback__)
                raise
            finally:
                with contextlib.suppress(RuntimeError):  # the event loop is closed, and no one waits any more
                    loop.call_soon_threadsafe(self._end_work, turn, time.monotonic() - started)

        try:
            # The slots are the limit here: a thread that no one waits for any more still has its slot.
            limiter = anyio.CapacityLimiter(1)
            return await anyio.to_thread.run_sync(timed, abandon_on_cancel=True, limiter=limiter)
        except BaseException:
            with contextlib.suppress(IndexError):
                start.pop()
                self._end_work(turn, 0.0)
            raise
        finally:
            self._release(turn)

    def _leave(self, turn: _Turn) -> None:
        """Remove a caller that no longer waits."""
        if turn.is_granted:
            self._end_work(turn, 0.0)
            self._release(turn)
            return
        self._shares[turn.client].waiting.remove(turn)
        self._forget_idle()

    def _release(self, turn: _Turn) -> None:
        """Release the caller: its client's next work may begin once this work is finished too."""
        turn.has_left = True
        if turn.is_over:
            self._shares[turn.client].running -= 1
            self._grant()

    def _end_work(self, turn: _Turn, elapsed_s: float) -> None:
        """Free the slot. The client's next work does not begin before the caller has this result."""
        share = self._shares[turn.client]
        turn.is_over = True
        share.running -= turn.has_left
        if self._rests:
            asyncio.get_running_loop().call_later(elapsed_s, self._free_one)
        else:
            self._free_one()

    def _free_one(self) -> None:
        self._free += 1
        self._grant()

    def _grant(self) -> None:
        """Give the free slots to the next callers. A client's next turn comes after those of all others."""
        while self._free and not self._is_closed:
            client = next((name for name, share in self._shares.items() if self._is_ready(share)), None)
            if client is None:
                break
            share = self._shares[client] = self._shares.pop(client)
            self._free -= 1
            share.running += 1
            turn = share.waiting.popleft()
            turn.is_granted = True
            turn.decided.set()
        self._forget_idle()

    def _is_ready(self, share: _Share) -> bool:
        return bool(share.waiting) and share.running < self._slots_per_client

    def _forget_idle(self) -> None:
        for client in [name for name, share in self._shares.items() if share.is_idle]:
            del self._shares[client]


@dataclass(frozen=True, slots=True)
class Work:
    """The slots for work that clients have done in threads, by kind of work."""

    messages: Shares = field(default_factory=lambda: Shares(1))
    """Reading long messages."""
    files: Shares = field(default_factory=lambda: Shares(FILE_SLOTS, slots_per_client=2))
    """Reading files named by a client, on whatever disk."""
    notebooks: Shares = field(default_factory=lambda: Shares(1))
    """Reading notebooks: one at a time, as each may take as much memory as a notebook may."""
    editing: Shares = field(default_factory=lambda: Shares(TEXT_SLOTS))
    """Reading, searching and comparing of long strings and code."""
    queries: Shares = field(default_factory=lambda: Shares(QUERY_SLOTS))
    """Queries whose caller waits for the answer."""
    standing: Shares = field(default_factory=lambda: Shares(1, rests=True))
    """Queries that are repeated while a client waits for another answer: together they take half a core at most."""
