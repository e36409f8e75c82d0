"""Shutdown: the steps that undo a server's start, in the reverse order, each guarded so that none fails the rest."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

STEP_S: Final = 30.0
"""The longest time of one step: far more than each step allows itself, and an end for one that hangs."""


class Shutdown:
    """The steps of one server's shutdown, added as the server starts. Lives as long as the server."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, Callable[[], object]]] = []
        """The steps by name, in the order of the start; steps that have begun are gone. A step may give an awaitable.
        """
        self._running = anyio.Lock()

    def add(self, name: str, step: Callable[[], object]) -> None:
        """Add the step that undoes a start; it runs before the steps that were added earlier."""
        self.steps.append((name, step))

    async def run(self) -> None:
        """Run all steps, the last added first. A second call is harmless: it waits for the first."""
        async with self._running:
            while self.steps:
                await guarded(*self.steps.pop())


async def guarded(name: str, step: Callable[[], object]) -> None:
    """Run one step; its failure, or a duration above `STEP_S`, is logged by its name and goes no further."""
    try:
        with anyio.fail_after(STEP_S):
            given = step()
            if inspect.isawaitable(given):
                await given
    except Exception:
        logger.exception("shutdown: could not %s; the rest goes on", name)
