"""Shut down a server by undoing its start in reverse order, even if some steps fail."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

STEP_S: Final = 30.0
"""Maximum duration of one step of the shutdown, in seconds. It is only reached if a step hangs."""


class Shutdown:
    """The steps of a server's shutdown, which are added while the server starts."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, Callable[[], object]]] = []
        """The remaining steps with their names, in the order of the start. A step may return an awaitable."""
        self._running = anyio.Lock()

    def add(self, name: str, step: Callable[[], object]) -> None:
        """Add a step. It runs before all steps that were added earlier."""
        self.steps.append((name, step))

    async def run(self) -> None:
        """Run all steps, starting with the one added last. Further calls wait for the first call."""
        async with self._running:
            while self.steps:
                await run_step(*self.steps.pop())


async def run_step(name: str, step: Callable[[], object]) -> None:
    """Run a step. Log an error if it fails or takes longer than `STEP_S`."""
    try:
        with anyio.fail_after(STEP_S):
            given = step()
            if inspect.isawaitable(given):
                await given
    except Exception:
        logger.exception("shutdown: could not %s; continuing with the other steps", name)
