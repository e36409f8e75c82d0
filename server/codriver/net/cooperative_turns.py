"""Run long computations on the event loop in short turns, so that other tasks can run in between."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator


MAX_TURN_S: Final = 0.0005
"""Time, in seconds, after which a computation lets other tasks run."""
YIELDED_ITERATIONS: Final = 12
"""Number of event loop iterations during which other tasks run, enough for another client's call.

An iteration without work takes 20 µs.
"""

T = TypeVar("T")


class TurnTimer:
    """Determines when a long computation should let other tasks run. Creating a timer starts the first turn."""

    def __init__(self) -> None:
        self._ends = perf_counter() + MAX_TURN_S

    @property
    def is_turn_over(self) -> bool:
        """Return whether the computation should let other tasks run now."""
        return perf_counter() >= self._ends

    async def yield_to_others(self) -> None:
        """Let other tasks run, and start the next turn."""
        for _ in range(YIELDED_ITERATIONS):
            await asyncio.sleep(0)
        self._ends = perf_counter() + MAX_TURN_S


async def run_in_turns(work: Generator[None, None, T]) -> T:
    """Run a generator on the event loop and return its result. Other tasks can run where it yields."""
    turns = TurnTimer()
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        if turns.is_turn_over:
            await turns.yield_to_others()
