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
HOLD: Final = f"{WORKER_OPS}hold"
"""The field of a loading request with the id under which the worker keeps changed definitions."""


class DefinitionHolds:
    """The holds of one REPL. Lives as long as its adapter."""

    def __init__(self, sessions: SessionPool, probed: ProbeResult) -> None:
        self._sessions = sessions
        self._ops = probed.ops
        self._dialect = probed.dialect
        self._is_prepared = False
        """Whether the REPL has our own code for it."""

    def fields(self, hold: str) -> dict[str, Value]:
        """Return the fields by which a loading request names its hold."""
        return {HOLD: hold} if hold and RESTORE in self._ops else {}

    async def note(self, hold: str, step: str) -> None:
        """Have a REPL without holds of its own note its definitions `before` or `after` a load."""
        if hold and "restore" in self._dialect.ask:
            await self._ask(hold, step)

    async def put_back(self, hold: str, *, keep: bool) -> object:
        """Put back the definitions that loads changed, or keep them, by our own code; the names that stay."""
        return await self._ask(hold, "keep" if keep else "restore")

    async def _ask(self, hold: str, step: str) -> object:
        if not self._is_prepared:
            await self._evaluate(self._dialect.expression("hold"))
            self._is_prepared = True
        return await self._evaluate(self._dialect.expression("restore", hold=hold, step=step))

    async def _evaluate(self, code: str) -> object:
        return read_data("the restoration", await self._sessions.ask(TOOL_SESSION, code), self._dialect)
