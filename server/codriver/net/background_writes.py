"""Blocking work in the background, one job after the other, such as writing files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codriver.net.task_set import TaskSet

if TYPE_CHECKING:
    from collections.abc import Callable


class BackgroundWrites:
    """Blocking work, such as writing files, done in threads one after the other; no one waits for it."""

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
