"""Long work on the event loop that pauses every half millisecond, so that other tasks run in between."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator


TURN_S: Final = 0.0005
"""The time for which work continues before others get their turn."""
TURNS_OF_OTHERS: Final = 12
"""As many turns as a call of another client needs; an unused turn costs some 20 µs."""

T = TypeVar("T")


class Turns:
    """The turns of one chunk of work, which begins with the first."""

    def __init__(self) -> None:
        self._ends = perf_counter() + TURN_S

    @property
    def is_over(self) -> bool:
        """Return true if it is the others' turn."""
        return perf_counter() >= self._ends

    async def leave_off(self) -> None:
        """Let others continue."""
        for _ in range(TURNS_OF_OTHERS):
            await asyncio.sleep(0)
        self._ends = perf_counter() + TURN_S


async def in_turns(work: Generator[None, None, T]) -> T:
    """Return the result of work that yields at each point where it can pause."""
    turns = Turns()
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        if turns.is_over:
            await turns.leave_off()
