"""Acts, transactions of edits: files written, their changes loaded, tests run, as one: kept, or all put back.

An act is one plan of steps: write, load, test, then keep or restore. Whatever ends a step before its time, a refusal, a
failure, a client that leaves, ends the act there, and what the steps before it did is put back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codriver.editing.editor import Outcome


@dataclass(frozen=True, slots=True)
class PutBack:
    """The outcome of putting back: the files and definitions that stay, as they are newer or could not be changed.

    `why`: why the definitions were not put back, in words; empty if they were.
    """

    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    why: str = ""


class LiveSide(Protocol):
    """The steps of an act in a REPL. Each gives whether it did well; the failure is its own to keep."""

    async def load(self, outcome: Outcome) -> bool:
        """Load what changed."""
        ...

    async def test(self, outcome: Outcome) -> bool:
        """Run the tests."""
        ...

    async def keep(self) -> None:
        """Let go of what the definitions were."""
        ...

    async def put_back(self) -> tuple[Sequence[str], str]:
        """Put back the definitions; the names that stay, and why it could not be done. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an act: what was written, and where a step failed and all is to be as before, what came of that."""

    outcome: Outcome
    put_back: PutBack | None = None


class Act:
    """One act in a workspace. `restores`: what was done is put back when a step fails.

    `put_files` makes files as they were before, and gives those that stay, as somebody else wrote them meanwhile.
    """

    def __init__(
        self, put_files: Callable[[Outcome], Awaitable[Sequence[str]]], side: LiveSide, *, restores: bool
    ) -> None:
        self._put_files = put_files
        self._side = side
        self._restores = restores

    async def run(self, write: Callable[[], Awaitable[Outcome]]) -> Ended:
        """Do the steps. What `write` raises was not done, and is raised; what cancels it, after all is put back."""
        outcome = await write()
        is_well, put_back = False, None
        try:
            is_well = await self._side.load(outcome) and await self._side.test(outcome)
        finally:
            with anyio.CancelScope(shield=True):  # whoever cancels it must not be left with half of it
                put_back = await self._end(outcome, is_well=is_well)
        return Ended(outcome, put_back)

    async def _end(self, outcome: Outcome, *, is_well: bool) -> PutBack | None:
        if is_well or not self._restores:
            await self._side.keep()
            return None
        try:
            files = await self._put_files(outcome)
        finally:
            names, why = await self._side.put_back()
        return PutBack(tuple(files), tuple(names), why)
