"""Fair scheduling of work in threads, between the clients that ask for it, so that none of them starves another.

Threads of one pool for everything let sixty slow files hold up the queries, the newcomers and the end of the server. So
each kind of work has slots of its own, and whoever used them least is next.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
import traceback
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

FILE_SLOTS = 4
TEXT_SLOTS = 2
QUERY_SLOTS = 2
"""Python runs one thread at a time: more of them make each slower, and the event loop with them."""
STANDING_REST = 0.5
"""Standing queries rest half as long as they work: all of them together take two thirds of one core at most."""
CLIENT_REST = 8.0
"""Those of one client rest so many times as long, so that another's are asked in between."""
MAX_REST_S = 5.0
HALF_LIFE_S = 10.0
"""The time after which the use of a client counts half."""
FORGOTTEN_S = 0.001
"""A client that used less is like one that comes anew."""


class NoTurnError(Exception):
    """The time that a caller would wait was over before it was its turn. `ahead`: how many still waited then."""

    def __init__(self, ahead: int) -> None:
        super().__init__(f"{ahead} were waiting for their turn")
        self.ahead = ahead


@dataclass(eq=False, slots=True)
class _Turn:
    """One caller that waits for a slot, or has it."""

    client: str
    decided: anyio.Event = field(default_factory=anyio.Event)
    is_granted: bool = False
    is_over: bool = False
    """Whether its work is."""
    has_left: bool = False
    """Whether its caller has what came of it, or waits no more."""


@dataclass(eq=False, slots=True)
class _Share:
    """The share of one client in the slots, now and of late."""

    used_s: float = 0.0
    used_at: float = 0.0
    waiting: deque[_Turn] = field(default_factory=deque)
    running: int = 0
    """Whose work is not over, or whose caller does not have what came of it yet."""
    rests_until: float = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it waits or runs."""
        return not self.waiting and not self.running

    def had_s(self, now: float) -> float:
        """The time that its work took of late, in seconds: what is long ago counts little."""
        return self.used_s * math.exp2((self.used_at - now) / HALF_LIFE_S)

    def use(self, took_s: float, now: float) -> None:
        """Its work took so long."""
        self.used_s, self.used_at = self.had_s(now) + took_s, now


class Shares:
    """The slots for one kind of work, for the life of one server.

    A client has at most `slots_per_client` of the `slots`. Of the clients that wait, the one whose work took the least
    time of late is next, and of those alike the one that asks for least; the calls of one client come in their order.
    A slot rests `rest` times as long as it was used, and a client `client_rest` times, at most `MAX_REST_S`.
    """

    def __init__(self, slots: int, *, slots_per_client: int = 1, rest: float = 0.0, client_rest: float = 0.0) -> None:
        self._free = slots
        self._slots_per_client = slots_per_client
        self._rest = rest
        self._client_rest = client_rest
        self._shares: dict[str, _Share] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """The number of those that wait for a slot."""
        return sum(len(share.waiting) for share in self._shares.values())

    def is_busy(self, client: str) -> bool:
        """Whether anything of this client runs or waits: what it asks for now comes after that."""
        share = self._shares.get(client)
        return share is not None and not share.is_idle

    def close(self) -> None:
        """Give nobody a turn any more, as the server stops: who waits, or comes later, is told so at once."""
        self._is_closed = True
        for share in self._shares.values():
            for turn in share.waiting:
                turn.decided.set()

    async def run(self, client: str, work: Callable[[], T], *, until: float = math.inf) -> T:
        """The result of `work`, which runs in a thread once it is this client's turn.

        Who is cancelled leaves at once; its slot is free when the work is over. `until`: on the event loop's clock.

        Raises:
            NoTurnError: it was not its turn until then, or never will be.
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
        # Taken by whoever is first: the thread that begins the work, or the caller that leaves before that.
        start = deque([None])

        def timed() -> T:
            start.pop()
            began = time.monotonic()
            try:
                return work()
            except BaseException as error:
                # The error lives in a circle with its future: what the work held, as a file's bytes, must not.
                traceback.clear_frames(error.__traceback__)
                raise
            finally:
                with contextlib.suppress(RuntimeError):  # the event loop is closed, and nobody waits any more
                    loop.call_soon_threadsafe(self._end_work, turn, time.monotonic() - began)

        try:
            # The slots are the limit here: a thread that nobody waits for any more still has its slot.
            limiter = anyio.CapacityLimiter(1)
            return await anyio.to_thread.run_sync(timed, abandon_on_cancel=True, limiter=limiter)
        except BaseException:
            with contextlib.suppress(IndexError):
                start.pop()
                self._end_work(turn, 0.0)
            raise
        finally:
            self._let_go(turn)

    def _leave(self, turn: _Turn) -> None:
        """A caller waits no more, or never takes the slot that it was just given."""
        if turn.is_granted:
            self._end_work(turn, 0.0)
            self._let_go(turn)
            return
        self._shares[turn.client].waiting.remove(turn)
        self._forget_idle()

    def _let_go(self, turn: _Turn) -> None:
        """The caller goes on: what its client asked for next may begin, once the work is over too."""
        turn.has_left = True
        if turn.is_over:
            self._shares[turn.client].running -= 1
            self._grant()

    def _end_work(self, turn: _Turn, took_s: float) -> None:
        """The slot is free. The client's next work does not begin before the caller has what came of this one."""
        share = self._shares[turn.client]
        turn.is_over = True
        share.running -= turn.has_left
        now = self._now()
        share.use(took_s, now)
        share.rests_until = now + min(self._client_rest * took_s, MAX_REST_S)
        rest_s = min(self._rest * took_s, MAX_REST_S)
        if rest_s:
            asyncio.get_running_loop().call_later(rest_s, self._free_one)
        else:
            self._free_one()

    def _free_one(self) -> None:
        self._free += 1
        self._grant()

    def _grant(self) -> None:
        """Give the free slots to those whose turn it is, and look again when somebody has rested."""
        now = self._now()
        while (
            self._free
            and not self._is_closed
            and (ready := [share for share in self._shares.values() if self._is_ready(share, now)])
        ):
            share = min(ready, key=lambda each: (each.had_s(now), len(each.waiting)))
            self._free -= 1
            share.running += 1
            turn = share.waiting.popleft()
            turn.is_granted = True
            turn.decided.set()
        self._forget_idle()
        resting = [share.rests_until for share in self._shares.values() if share.waiting and share.rests_until > now]
        if self._alarm is not None:
            self._alarm.cancel()
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_at(min(resting), self._grant) if resting else None

    def _is_ready(self, share: _Share, now: float) -> bool:
        return bool(share.waiting) and share.running < self._slots_per_client and share.rests_until <= now

    def _forget_idle(self) -> None:
        now = self._now()
        for client, share in tuple(self._shares.items()):
            if share.is_idle and share.rests_until <= now and share.had_s(now) < FORGOTTEN_S:
                del self._shares[client]

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class Work:
    """The work that clients have done in threads, each kind with its own slots, for the life of one server."""

    messages: Shares = field(default_factory=lambda: Shares(1))
    """Reading long messages."""
    files: Shares = field(default_factory=lambda: Shares(FILE_SLOTS, slots_per_client=2))
    """Reading what a client names, on whatever disk."""
    notebooks: Shares = field(default_factory=lambda: Shares(1))
    """Reading notebooks: one at a time, as each may take as much memory as a notebook may."""
    texts: Shares = field(default_factory=lambda: Shares(TEXT_SLOTS))
    """Reading, searching and comparing of long texts and code."""
    queries: Shares = field(default_factory=lambda: Shares(QUERY_SLOTS))
    """Queries whose caller waits for the answer."""
    standing: Shares = field(default_factory=lambda: Shares(1, rest=STANDING_REST, client_rest=CLIENT_REST))
    """Queries that are asked again and again while a client waits for the answer to change."""
