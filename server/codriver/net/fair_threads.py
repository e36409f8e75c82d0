"""Threads for blocking work that are shared fairly between clients.

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
"""Maximum number of files that are read at the same time."""
TEXT_SLOTS = 2
"""Maximum number of threads that process long strings."""
QUERY_SLOTS = 2
"""Maximum number of queries that run at the same time.

Python runs one thread at a time, so more threads would only slow each other and the event loop down.
"""


class NoTurnError(Exception):
    """Raised when work did not get a thread in time. `ahead` is the number of callers that are still waiting."""

    def __init__(self, ahead: int) -> None:
        super().__init__(f"no thread became free in time, because {ahead} other callers were waiting for their turn")
        self.ahead = ahead


@dataclass(eq=False, slots=True)
class _WaitingCaller:
    """A caller of `FairThreads.run` that is waiting for a slot or is using a slot."""

    client: str
    decided: anyio.Event = field(default_factory=anyio.Event)
    is_granted: bool = False
    is_over: bool = False
    """Whether the work is done."""
    elapsed_s: float = 0.0
    """The time that the work took, in seconds."""
    has_left: bool = False
    """Whether the caller has received the result or stopped waiting."""


@dataclass(eq=False, slots=True)
class _ClientShare:
    """The waiting and running work of one client."""

    waiting: deque[_WaitingCaller] = field(default_factory=deque)
    running: int = 0
    """Number of turns whose work is unfinished or whose caller has not received the result."""

    @property
    def is_idle(self) -> bool:
        """Return whether the client has no waiting or running work."""
        return not self.waiting and not self.running


class FairThreads:
    """Runs one kind of work in a limited number of threads, shared fairly between clients.

    A client gets at most `slots_per_client` of the `slots`. Clients take turns, and the calls of one client run in
    order. If `rests`, a slot pauses after each use for as long as it was used.
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
        """Return whether this client has running or waiting work that new work would have to wait for."""
        share = self._shares.get(client)
        return share is not None and not share.is_idle

    def close(self) -> None:
        """Stop starting work, because the server is stopping. Waiting and later calls of `run` raise an error."""
        self._is_closed = True
        for share in self._shares.values():
            for turn in share.waiting:
                turn.decided.set()

    async def run(self, client: str, work: Callable[[], T], *, until: float = math.inf) -> T:
        """Run `work` in a thread when it is this client's turn, and return its result.

        `until` is the time of the event loop at which to give up waiting. If the caller is cancelled, it returns
        immediately, but the slot stays occupied until `work` has finished.

        Raises:
            NoTurnError: the client did not get a turn in time, or the server is stopping.
        """
        turn = _WaitingCaller(client)
        self._shares.setdefault(client, _ClientShare()).waiting.append(turn)
        self._assign_slots()
        try:
            if not turn.is_granted and not self._is_closed:
                with anyio.move_on_after(until - anyio.current_time()):
                    await turn.decided.wait()
        except BaseException:
            self._abandon(turn)
            raise
        if not turn.is_granted:
            self._abandon(turn)
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
                    loop.call_soon_threadsafe(self._record_finished, turn, time.monotonic() - started)

        try:
            # The slots limit the number of threads. An abandoned thread still occupies its slot.
            limiter = anyio.CapacityLimiter(1)
            return await anyio.to_thread.run_sync(timed, abandon_on_cancel=True, limiter=limiter)
        except BaseException:
            with contextlib.suppress(IndexError):
                start.pop()
                self._record_finished(turn, 0.0)
            raise
        finally:
            self._record_departure(turn)

    def _abandon(self, turn: _WaitingCaller) -> None:
        """Stop waiting for a slot, or free the slot if one was just assigned."""
        if turn.is_granted:
            self._record_finished(turn, 0.0)
            self._record_departure(turn)
            return
        self._shares[turn.client].waiting.remove(turn)
        self._forget_idle()

    def _record_departure(self, turn: _WaitingCaller) -> None:
        """Record that the caller no longer waits for the result."""
        turn.has_left = True
        self._free_slot_if_done(turn)

    def _record_finished(self, turn: _WaitingCaller, elapsed_s: float) -> None:
        """Record that the work has finished after running for `elapsed_s`."""
        turn.elapsed_s = elapsed_s
        turn.is_over = True
        self._free_slot_if_done(turn)

    def _free_slot_if_done(self, turn: _WaitingCaller) -> None:
        """Free the slot if the work has finished and the caller has left. The client's next turn comes last.

        If the slot were free as soon as the work has finished, the next turn would be decided while this client still
        counts as busy, and another client could get two turns in a row.
        """
        if not (turn.is_over and turn.has_left):
            return
        share = self._shares[turn.client] = self._shares.pop(turn.client)
        share.running -= 1
        if self._rests:
            asyncio.get_running_loop().call_later(turn.elapsed_s, self._free_slot)
        else:
            self._free_slot()

    def _free_slot(self) -> None:
        self._free += 1
        self._assign_slots()

    def _assign_slots(self) -> None:
        """Assign free slots to waiting callers, giving each client its turn."""
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
    """The threads for each kind of blocking work that is done for clients."""

    messages: FairThreads = field(default_factory=lambda: FairThreads(1))
    """Parsing of long messages."""
    files: FairThreads = field(default_factory=lambda: FairThreads(FILE_SLOTS, slots_per_client=2))
    """Reading files that a client names, which may be on a slow disk."""
    editing: FairThreads = field(default_factory=lambda: FairThreads(TEXT_SLOTS))
    """Processing of long strings and code."""
    queries: FairThreads = field(default_factory=lambda: FairThreads(QUERY_SLOTS))
    """Queries whose caller is waiting for the answer."""
    standing: FairThreads = field(default_factory=lambda: FairThreads(1, rests=True))
    """Queries that are repeated while a client is waiting for a change. Together they use at most half a core."""
