"""A batch of edits applied in several steps: write the files, load them, run tests, and then commit or restore.

If a step fails or is refused, or the client disconnects, the remaining steps are skipped and the earlier ones are
reverted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codriver.editing.editor import Outcome


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The files and names that were not restored after a failed step, because they are newer or cannot be changed.

    `why` is the reason why definitions were not restored, or "".
    """

    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    why: str = ""


class ReplSteps(Protocol):
    """The steps of an edit that run in a REPL. A step records its own failure, and returns whether it succeeded."""

    async def load(self, outcome: Outcome) -> bool:
        """Load the changed files."""
        ...

    async def test(self, outcome: Outcome) -> bool:
        """Run the tests that were requested with the edit, and return false if it broke one."""
        ...

    async def commit(self) -> None:
        """Release the previous definitions, because all steps succeeded."""
        ...

    async def put_back(self) -> tuple[Sequence[str], str]:
        """Restore the previous definitions, because a step failed.

        Return the names that were not restored, and the reason, or "" if everything was restored. Never raises.
        """
        ...


@dataclass(frozen=True, slots=True)
class EditTransactionResult:
    """The result of applying a batch: the files written, and what was not restored if a step failed."""

    outcome: Outcome
    put_back: RestoreResult | None = None


class EditTransaction:
    """Writes edited files and then runs steps in a REPL. With `restores`, a failed step reverts all changes.

    `put_files` restores the files, and returns those that were not restored because they have changed since.
    """

    def __init__(
        self, put_files: Callable[[Outcome], Awaitable[Sequence[str]]], side: ReplSteps, *, restores: bool
    ) -> None:
        self._put_files = put_files
        self._side = side
        self._restores = restores

    async def run(self, write: Callable[[], Awaitable[Outcome]]) -> EditTransactionResult:
        """Write the files with `write`, and run the steps. If `write` raises, nothing was changed.

        If the caller is cancelled, the changes are reverted first, unless `restores` is false.
        """
        outcome = await write()
        is_well, put_back = False, None
        try:
            is_well = await self._side.load(outcome) and await self._side.test(outcome)
        finally:
            with anyio.CancelScope(shield=True):  # a cancelled transaction must not remain unfinished
                put_back = await self._finish(outcome, is_well=is_well)
        return EditTransactionResult(outcome, put_back)

    async def _finish(self, outcome: Outcome, *, is_well: bool) -> RestoreResult | None:
        if is_well or not self._restores:
            await self._side.commit()
            return None
        try:
            files = await self._put_files(outcome)
        finally:
            names, why = await self._side.put_back()
        return RestoreResult(tuple(files), tuple(names), why)
