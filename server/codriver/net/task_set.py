"""A set of short-lived tasks with a common owner.

anyio's task groups take about 25 µs to start a task and asyncio takes 5, and every evaluation needs two. The set
provides only the guarantees that these tasks need: no task is lost or outlives its owner, and an error in one does not
affect the others.
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
    """Tasks with a common owner, which must join or end them before it finishes itself."""

    def __init__(self) -> None:
        self._tasks: dict[Coroutine[object, object, None], asyncio.Task[None]] = {}

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Start a task. It begins to run in the next iteration of the event loop."""
        self._tasks[work] = asyncio.get_running_loop().create_task(self._run(work))

    async def join(self) -> None:
        """Wait until all tasks have finished."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def end(self) -> None:
        """Cancel all tasks and wait until they have finished."""
        await asyncio.sleep(0)  # a task that has not started yet would be cancelled without running its `finally`
        for task in self._tasks.values():
            task.cancel()
        await self.join()

    async def _run(self, work: Coroutine[object, object, None]) -> None:
        # Using a callback of the task instead would take another iteration of the event loop.
        try:
            await work
        except Exception as failure:  # noqa: BLE001 - it is logged, and must not affect other tasks
            _log_failure(work, failure)
        finally:
            del self._tasks[work]


def _log_failure(work: object, failure: BaseException) -> None:
    """Log the exception of a task with the name of its coroutine."""
    logger.error("%s failed", getattr(work, "__qualname__", work), exc_info=failure)


@asynccontextmanager
async def task_group_cancelled_on_exit() -> AsyncIterator[TaskGroup]:
    """Open a task group whose tasks are cancelled when the context exits.

    Exceptions are not wrapped in an exception group, so that `except` clauses match them.
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
