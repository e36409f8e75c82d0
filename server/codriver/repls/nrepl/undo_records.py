"""Undo records, in which a REPL stores the definitions that a load replaces, so that they can be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.repls.dialects import WORKER_OP_PREFIX
from codriver.repls.nrepl.connection_routes import TOOL_SESSION
from codriver.repls.nrepl.replies import parse_program_data

if TYPE_CHECKING:
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import SessionPool
    from codriver.wire.bencode import Value


RESTORE_OP: Final = f"{WORKER_OP_PREFIX}restore"
"""The worker's op that restores the definitions in an undo record."""
UNDO_FIELD: Final = f"{WORKER_OP_PREFIX}hold"
"""The field of a load request that contains the id of its undo record."""


class UndoRecords:
    """Stores the state of definitions before loads in one REPL so that it can be restored later."""

    def __init__(self, sessions: SessionPool, probed: ProbeResult) -> None:
        self._sessions = sessions
        self._ops = probed.ops
        self._dialect = probed.dialect
        self._is_prepared = False
        """Whether the program that keeps the records has been loaded into the REPL."""

    def load_fields(self, undo_id: str) -> dict[str, Value]:
        """Return the request fields that make the worker record a load, or none if the REPL does not support that."""
        return {UNDO_FIELD: undo_id} if undo_id and RESTORE_OP in self._ops else {}

    async def record_definitions(self, undo_id: str, step: str) -> None:
        """Record the definitions before or after a load, in a REPL whose server does not do so itself.

        `step` is `before` or `after`.
        """
        if undo_id and "restore" in self._dialect.expressions:
            await self._restore(undo_id, step)

    async def restore(self, undo_id: str, *, is_final: bool) -> object:
        """Restore the definitions in an undo record, or discard the record if `is_final` is set.

        Return the names that could not be restored.
        """
        return await self._restore(undo_id, "keep" if is_final else "restore")

    async def _restore(self, undo_id: str, step: str) -> object:
        if not self._is_prepared:
            await self._evaluate(self._dialect.program_code("hold"))
            self._is_prepared = True
        return await self._evaluate(self._dialect.program_code("restore", hold=undo_id, step=step))

    async def _evaluate(self, code: str) -> object:
        return parse_program_data("the restoration", await self._sessions.evaluate(TOOL_SESSION, code), self._dialect)
