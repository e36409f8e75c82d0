"""Run blocking writes in the background, one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codriver.net.task_set import TaskSet

if TYPE_CHECKING:
    from collections.abc import Callable


class BackgroundWrites:
    """Runs blocking writes in threads, one after the other, without making callers wait."""

    def __init__(self) -> None:
        self._tasks = TaskSet()
        self._lock = anyio.Lock()

    def schedule(self, write: Callable[[], None]) -> None:
        """Run a blocking function in a thread, after those scheduled before."""
        self._tasks.start(self._run(write))

    async def _run(self, write: Callable[[], None]) -> None:
        async with self._lock:
            await anyio.to_thread.run_sync(write)

    async def wait_until_written(self) -> None:
        """Wait until all scheduled writes have finished."""
        await self._tasks.join()
