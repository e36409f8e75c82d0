"""Tasks that are started often, in a set that owns them.

A task group of anyio takes some 25 µs to start a task, asyncio itself takes 5, and an evaluation needs two of them. The
other services of a task group are given only as far as these tasks need them: no task is lost, none outlives its owner,
and an error in one ends nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)


class TaskSet:
    """The tasks of one owner, which waits for them, or cancels them, before it ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Begin `work` in the next turn of the event loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    async def join(self) -> None:
        """Wait until all tasks have finished."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def end(self) -> None:
        """Cancel all tasks, and wait until they have finished."""
        await asyncio.sleep(0)  # a task that has not started yet would be dropped without its `finally`
        for task in self._tasks:
            task.cancel()
        await self.join()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            _log_failure(task.get_coro(), failure)


def _log_failure(work: object, failure: BaseException) -> None:
    """Log a failure by the name of the coroutine: clients see only this message, the log has the details."""
    logger.error("%s failed", getattr(work, "__qualname__", work), exc_info=failure)


@asynccontextmanager
async def cancelled_on_exit() -> AsyncIterator[TaskGroup]:
    """Open a task group whose tasks are cancelled when the context is left.

    An exception leaves the context unwrapped: a plain task group would wrap it in a group of exceptions, and `except`
    clauses would not match it.
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
