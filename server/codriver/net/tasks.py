"""Tasks begun often, one for each call or evaluation; writes in the background; tasks that a context owns; turns.

A task group of anyio takes some 25 µs to begin a task, asyncio itself takes 5, and an evaluation needs two of them. The
other services of a task group are given here only as far as these tasks need them: none is lost, none outlives its
owner, and a fault in one ends nothing else. Long work on the event loop leaves off every half millisecond, and others
have their turn.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator

    from anyio.abc import TaskGroup


logger = logging.getLogger(__name__)


class TaskSet:
    """The tasks of one owner, who waits for their end, or brings it about, before its own."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Begin `work` in the next turn of the event loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    async def join(self) -> None:
        """Wait until all are over."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def end(self) -> None:
        """Cancel all, and wait until they are over."""
        await asyncio.sleep(0)  # one that has not begun yet would be dropped without its `finally`
        for task in self._tasks:
            task.cancel()
        await self.join()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log_fault(task.get_coro(), fault)


def _log_fault(work: object, fault: BaseException) -> None:
    """Log a failure by the name of the coroutine: clients are told these words alone, and the log has the rest."""
    logger.error("%s failed", getattr(work, "__qualname__", work), exc_info=fault)


class BackgroundWrites:
    """Blocking work, such as writing files, done in threads one piece after the other; nobody waits for it."""

    def __init__(self) -> None:
        self._tasks = TaskSet()
        self._lock = anyio.Lock()

    def start(self, write: Callable[[], None]) -> None:
        """Add a step, which is done when all that was begun before is done."""
        self._tasks.start(self._run(write))

    async def _run(self, write: Callable[[], None]) -> None:
        async with self._lock:
            await anyio.to_thread.run_sync(write)

    async def end(self) -> None:
        """Wait until all is written."""
        await self._tasks.join()


@asynccontextmanager
async def own_tasks() -> AsyncIterator[TaskGroup]:
    """A task group whose tasks are cancelled when the context is left.

    What is raised in the context leaves it as it is: a plain task group would wrap it in a group of exceptions, and
    whoever looks for it would not find it.
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
"""How long work goes on before others get their turn."""
TURNS_OF_OTHERS: Final = 12
"""As many as a call of another client goes through; when nobody wants them they cost some 20 µs each."""

T = TypeVar("T")


class Turns:
    """The turns of one piece of work, which begins with the first."""

    def __init__(self) -> None:
        self._ends = perf_counter() + TURN_S

    @property
    def is_over(self) -> bool:
        """True where others are to have a turn."""
        return perf_counter() >= self._ends

    async def leave_off(self) -> None:
        """Let others go on."""
        for _ in range(TURNS_OF_OTHERS):
            await asyncio.sleep(0)
        self._ends = perf_counter() + TURN_S


async def in_turns(work: Generator[None, None, T]) -> T:
    """The result of work that yields wherever it can leave off."""
    turns = Turns()
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        if turns.is_over:
            await turns.leave_off()
