"""Threads for blocking work, shared fairly between clients so that none starves another.

With a single pool, sixty slow files delayed queries, new clients and the shutdown of the server. So each kind of work
has its own slots, and clients take turns.
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
"""Maximum number of files that are read concurrently."""
TEXT_SLOTS = 2
"""Maximum number of threads that process long strings."""
QUERY_SLOTS = 2
"""Number of concurrent queries.

Python runs one thread at a time, so more threads would only slow down each other and the event loop.
"""


class NoTurnError(Exception):
    """Raised when a caller got no slot in time. `ahead` is the number of callers that are still waiting."""

    def __init__(self, ahead: int) -> None:
        super().__init__(f"{ahead} were waiting for their turn")
        self.ahead = ahead


@dataclass(eq=False, slots=True)
class _WaitingCaller:
    """A caller that waits for a slot or has one."""

    client: str
    decided: anyio.Event = field(default_factory=anyio.Event)
    is_granted: bool = False
    is_over: bool = False
    """Whether the work has finished."""
    elapsed_s: float = 0.0
    """The time that the work took, in seconds."""
    has_left: bool = False
    """Whether the caller has received the result or stopped waiting."""


@dataclass(eq=False, slots=True)
class _ClientShare:
    """A client's share of the slots."""

    waiting: deque[_WaitingCaller] = field(default_factory=deque)
    running: int = 0
    """Number of turns whose work is unfinished or whose caller has not received the result."""

    @property
    def is_idle(self) -> bool:
        """Return whether none of the client's work is waiting or running."""
        return not self.waiting and not self.running


class FairThreads:
    """The slots for one kind of work, for the lifetime of a server.

    A client gets at most `slots_per_client` of the `slots`. Clients take turns, and the calls of one client run in
    order. If `rests`, each slot pauses for as long as it was used.
    """

    def __init__(self, slots: int, *, slots_per_client: int = 1, rests: bool = False) -> None:
        self._free = slots
        self._slots_per_client = slots_per_client
        self._rests = rests
        self._shares: dict[str, _ClientShare] = {}
        """The share of each client, in the order of their turns."""
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Return the number of callers that are waiting for a slot."""
        return sum(len(share.waiting) for share in self._shares.values())

    def is_busy(self, client: str) -> bool:
        """Return whether work of this client is running or waiting, so that new work would come after it."""
        share = self._shares.get(client)
        return share is not None and not share.is_idle

    def close(self) -> None:
        """Stop assigning slots because the server stops. Waiting and later callers get an error immediately."""
        self._is_closed = True
        for share in self._shares.values():
            for turn in share.waiting:
                turn.decided.set()

    async def run(self, client: str, work: Callable[[], T], *, until: float = math.inf) -> T:
        """Run `work` in a thread when it is this client's turn, and return its result.

        A cancelled caller returns immediately, but its slot stays occupied until the work has finished. `until` is a
        time of the event loop's clock.

        Raises:
            NoTurnError: the client got no turn until then, or the server is stopping.
        """
        turn = _WaitingCaller(client)
        self._shares.setdefault(client, _ClientShare()).waiting.append(turn)
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

    async def _run_now(self, turn: _WaitingCaller, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        # Popped by whichever comes first: the thread that starts the work, or the caller when it gives up.
        start = deque([None])

        def timed() -> T:
            start.pop()
            started = time.monotonic()
            try:
                return work()
            except BaseException as error:
                # The error and its future form a reference cycle, which must not keep the work's data alive, such as a
                # file's bytes.
                traceback.clear_frames(error.__traceback__)
                raise
            finally:
                with contextlib.suppress(RuntimeError):  # the event loop is closed, so nobody waits
                    loop.call_soon_threadsafe(self._end_work, turn, time.monotonic() - started)

        try:
            # The slots limit the number of threads. An abandoned thread still occupies its slot.
            limiter = anyio.CapacityLimiter(1)
            return await anyio.to_thread.run_sync(timed, abandon_on_cancel=True, limiter=limiter)
        except BaseException:
            with contextlib.suppress(IndexError):
                start.pop()
                self._end_work(turn, 0.0)
            raise
        finally:
            self._release(turn)

    def _leave(self, turn: _WaitingCaller) -> None:
        """Remove a caller that stopped waiting."""
        if turn.is_granted:
            self._end_work(turn, 0.0)
            self._release(turn)
            return
        self._shares[turn.client].waiting.remove(turn)
        self._forget_idle()

    def _release(self, turn: _WaitingCaller) -> None:
        """Record that the caller has received the result or stopped waiting."""
        turn.has_left = True
        self._end_turn_if_done(turn)

    def _end_work(self, turn: _WaitingCaller, elapsed_s: float) -> None:
        """Record that the work has finished after `elapsed_s` seconds in its thread."""
        turn.elapsed_s = elapsed_s
        turn.is_over = True
        self._end_turn_if_done(turn)

    def _end_turn_if_done(self, turn: _WaitingCaller) -> None:
        """Free the slot when the work has finished and its caller has left, and put the client last in the order.

        If the slot were free as soon as the work had finished, the next turn would be decided while this client still
        counts as busy, and another client could get two turns in a row.
        """
        if not (turn.is_over and turn.has_left):
            return
        share = self._shares[turn.client] = self._shares.pop(turn.client)
        share.running -= 1
        if self._rests:
            asyncio.get_running_loop().call_later(turn.elapsed_s, self._free_one)
        else:
            self._free_one()

    def _free_one(self) -> None:
        self._free += 1
        self._grant()

    def _grant(self) -> None:
        """Assign free slots to the next callers, rotating the order of clients."""
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

    def _is_ready(self, share: _ClientShare) -> bool:
        return bool(share.waiting) and share.running < self._slots_per_client

    def _forget_idle(self) -> None:
        for client in [name for name, share in self._shares.items() if share.is_idle]:
            del self._shares[client]


@dataclass(frozen=True, slots=True)
class WorkThreads:
    """The slots for each kind of work that is done in threads for clients."""

    messages: FairThreads = field(default_factory=lambda: FairThreads(1))
    """Parsing of long messages."""
    files: FairThreads = field(default_factory=lambda: FairThreads(FILE_SLOTS, slots_per_client=2))
    """Reading files that a client names, on whatever disk."""
    notebooks: FairThreads = field(default_factory=lambda: FairThreads(1))
    """Reading notebooks, one at a time because each may need a lot of memory."""
    editing: FairThreads = field(default_factory=lambda: FairThreads(TEXT_SLOTS))
    """Processing of long strings and code."""
    queries: FairThreads = field(default_factory=lambda: FairThreads(QUERY_SLOTS))
    """Queries whose caller waits for the answer."""
    standing: FairThreads = field(default_factory=lambda: FairThreads(1, rests=True))
    """Queries that are repeated while a client waits for a change. Together they use at most half a core."""
