"""The state of definitions before a load, held in the REPL so that it can be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.repls.dialects import WORKER_OPS
from codriver.repls.nrepl.responses import read_data
from codriver.repls.nrepl.session_routes import TOOL_SESSION

if TYPE_CHECKING:
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import SessionPool
    from codriver.wire.bencode import Value

    """A way to put a question, in a session and with the namespace in which its names are read."""

RESTORE: Final = f"{WORKER_OPS}restore"
"""The op by which codriver's worker puts back the definitions that it kept."""
UNDO_FIELD: Final = f"{WORKER_OPS}hold"
"""The field of a loading request with the id under which the worker keeps changed definitions."""


class UndoRecords:
    """The holds of one REPL. Lives as long as its adapter."""

    def __init__(self, sessions: SessionPool, probed: ProbeResult) -> None:
        self._sessions = sessions
        self._ops = probed.ops
        self._dialect = probed.dialect
        self._is_prepared = False
        """Whether the REPL has our own code for it."""

    def fields(self, undo_id: str) -> dict[str, Value]:
        """Return the fields by which a loading request names its hold."""
        return {UNDO_FIELD: undo_id} if undo_id and RESTORE in self._ops else {}

    async def note(self, undo_id: str, step: str) -> None:
        """Have a REPL without holds of its own note its definitions `before` or `after` a load."""
        if undo_id and "restore" in self._dialect.expressions:
            await self._restore(undo_id, step)

    async def put_back(self, undo_id: str, *, is_final: bool) -> object:
        """Put back the definitions that loads changed, or keep them, by our own code; the names that stay."""
        return await self._restore(undo_id, "keep" if is_final else "restore")

    async def _restore(self, undo_id: str, step: str) -> object:
        if not self._is_prepared:
            await self._evaluate(self._dialect.expression("hold"))
            self._is_prepared = True
        return await self._evaluate(self._dialect.expression("restore", hold=undo_id, step=step))

    async def _evaluate(self, code: str) -> object:
        return read_data("the restoration", await self._sessions.evaluate(TOOL_SESSION, code), self._dialect)
