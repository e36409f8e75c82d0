"""Tasks and threads of one server: tasks begun often, writes in the background, long work in turns, and fair threads.

A task group of anyio takes some 25 µs to begin a task, asyncio itself takes 5, and an evaluation needs two of them. The
other services of a task group are given here only as far as these tasks need them: none is lost, none outlives its
owner, and a fault in one ends nothing else. Long work on the event loop leaves off every half millisecond, and others
have their turn.

Threads are scheduled fairly between the clients that ask for them, so that none of them starves another. With one pool
of threads for everything, sixty slow files held up the queries, the newcomers and the end of the server. So each kind
of work has slots of its own, and the client that used them least is next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import traceback
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator

    from anyio.abc import TaskGroup


logger = logging.getLogger(__name__)


class TaskSet:
    """The tasks of one owner, which waits for their end, or ends them, before its own end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Begin `work` in the next turn of the event loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    async def join(self) -> None:
        """Wait until all tasks are over."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def end(self) -> None:
        """Cancel all tasks, and wait until they are over."""
        await asyncio.sleep(0)  # a task that has not begun yet would be dropped without its `finally`
        for task in self._tasks:
            task.cancel()
        await self.join()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log_fault(task.get_coro(), fault)


def _log_fault(work: object, fault: BaseException) -> None:
    """Log a failure by the name of the coroutine: clients are told only these words, the log has the details."""
    logger.error("%s failed", getattr(work, "__qualname__", work), exc_info=fault)


class BackgroundWrites:
    """Blocking work, such as writing files, done in threads one piece after the other; nobody waits for it."""

    def __init__(self) -> None:
        self._tasks = TaskSet()
        self._lock = anyio.Lock()

    def start(self, write: Callable[[], None]) -> None:
        """Add a step, which is done after all earlier steps."""
        self._tasks.start(self._run(write))

    async def _run(self, write: Callable[[], None]) -> None:
        async with self._lock:
            await anyio.to_thread.run_sync(write)

    async def end(self) -> None:
        """Wait until all steps are done."""
        await self._tasks.join()


@asynccontextmanager
async def own_tasks() -> AsyncIterator[TaskGroup]:
    """A task group whose tasks are cancelled when the context is left.

    An exception leaves the context unwrapped: a plain task group would wrap it in a group of exceptions, and `except`
    clauses would not find it.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001 - raised again below
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


TURN_S: Final = 0.0005
"""The time for which work goes on before others get their turn."""
TURNS_OF_OTHERS: Final = 12
"""As many turns as a call of another client needs; an unused turn costs some 20 µs."""

T = TypeVar("T")


class Turns:
    """The turns of one piece of work, which begins with the first."""

    def __init__(self) -> None:
        self._ends = perf_counter() + TURN_S

    @property
    def is_over(self) -> bool:
        """True if it is the others' turn."""
        return perf_counter() >= self._ends

    async def leave_off(self) -> None:
        """Let others go on."""
        for _ in range(TURNS_OF_OTHERS):
            await asyncio.sleep(0)
        self._ends = perf_counter() + TURN_S


async def in_turns(work: Generator[None, None, T]) -> T:
    """The result of work that yields at each point where it can pause."""
    turns = Turns()
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        if turns.is_over:
            await turns.leave_off()


FILE_SLOTS = 4
TEXT_SLOTS = 2
QUERY_SLOTS = 2
"""Python runs one thread at a time: more threads slow down each other and the event loop."""
STANDING_REST = 0.5
"""Standing queries rest half as long as they work: together they take two thirds of one core at most."""
CLIENT_REST = 8.0
"""Standing queries of one client rest so many times as long, so that another client's are asked in between."""
MAX_REST_S = 5.0
HALF_LIFE_S = 10.0
"""The time after which the use of a client counts half."""
FORGOTTEN_S = 0.001
"""A client without use for so long counts as new."""


class NoTurnError(Exception):
    """A caller's waiting time was over before its turn. `ahead`: the number of callers still waiting before it."""

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
    """Whether the work is over."""
    has_left: bool = False
    """Whether the caller has the result, or waits no more."""


@dataclass(eq=False, slots=True)
class _Share:
    """One client's use of the slots, now and recently."""

    used_s: float = 0.0
    used_at: float = 0.0
    waiting: deque[_Turn] = field(default_factory=deque)
    running: int = 0
    """The number of turns whose work is not over, or whose caller has not taken the result yet."""
    rests_until: float = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether none of the client's work waits or runs."""
        return not self.waiting and not self.running

    def had_s(self, now: float) -> float:
        """The recent time of the client's work in seconds: long past work counts little."""
        return self.used_s * math.exp2((self.used_at - now) / HALF_LIFE_S)

    def use(self, took_s: float, now: float) -> None:
        """Count so much time of work."""
        self.used_s, self.used_at = self.had_s(now) + took_s, now


class Shares:
    """The slots for one kind of work, for the life of one server.

    A client has at most `slots_per_client` of the `slots`. Of the waiting clients, the one with the least recent time
    of work is next, and of equal ones the one with the fewest calls; the calls of one client come in their order. A
    slot rests `rest` times as long as it was used, and a client `client_rest` times, at most `MAX_REST_S`.
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
        """The number of callers that wait for a slot."""
        return sum(len(share.waiting) for share in self._shares.values())

    def is_busy(self, client: str) -> bool:
        """Whether work of this client runs or waits, so that new work would come after it."""
        share = self._shares.get(client)
        return share is not None and not share.is_idle

    def close(self) -> None:
        """Give nobody a turn any more, as the server stops: waiting and later callers get an error at once."""
        self._is_closed = True
        for share in self._shares.values():
            for turn in share.waiting:
                turn.decided.set()

    async def run(self, client: str, work: Callable[[], T], *, until: float = math.inf) -> T:
        """The result of `work`, which runs in a thread at this client's turn.

        A cancelled caller leaves at once; its slot is free when the work is over. `until`: on the event loop's clock.

        Raises:
            NoTurnError: the client's turn did not come until then, or never will.
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
            began = time.monotonic()
            try:
                return work()
            except BaseException as error:
                # The error lives in a circle with its future, which must not keep the work's data alive, such as a
                # file's bytes.
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
        """A caller waits no more, or never takes its slot."""
        if turn.is_granted:
            self._end_work(turn, 0.0)
            self._let_go(turn)
            return
        self._shares[turn.client].waiting.remove(turn)
        self._forget_idle()

    def _let_go(self, turn: _Turn) -> None:
        """The caller goes on: its client's next work may begin, once this work is over too."""
        turn.has_left = True
        if turn.is_over:
            self._shares[turn.client].running -= 1
            self._grant()

    def _end_work(self, turn: _Turn, took_s: float) -> None:
        """The slot is free. The client's next work does not begin before the caller has this result."""
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
        """Give the free slots to the next callers, and look again when a rest is over."""
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
    """Reading files named by a client, on whatever disk."""
    notebooks: Shares = field(default_factory=lambda: Shares(1))
    """Reading notebooks: one at a time, as each may take as much memory as a notebook may."""
    texts: Shares = field(default_factory=lambda: Shares(TEXT_SLOTS))
    """Reading, searching and comparing of long texts and code."""
    queries: Shares = field(default_factory=lambda: Shares(QUERY_SLOTS))
    """Queries whose caller waits for the answer."""
    standing: Shares = field(default_factory=lambda: Shares(1, rest=STANDING_REST, client_rest=CLIENT_REST))
    """Queries that are asked again and again while a client waits for the answer to change."""
