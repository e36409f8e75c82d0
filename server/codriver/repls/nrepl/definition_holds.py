"""Definition holds: what a load changed in a REPL, kept there as it was, so that it can be put back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.core.values import MAIN_SESSION
from codriver.repls.dialects import WORKER_OPS
from codriver.repls.nrepl.introspection import check, read_data, require
from codriver.repls.nrepl.session_pool import TOOL_SESSION
from codriver.wire.untrusted import as_list, as_text

if TYPE_CHECKING:
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import SessionPool
    from codriver.wire.bencode import Value

RESTORE: Final = f"{WORKER_OPS}restore"
"""The op by which codriver's worker puts back what it kept by itself."""
HOLD: Final = f"{WORKER_OPS}hold"
"""The field of a request that loads, by which the worker knows under which id it is to keep what it changes."""


class DefinitionHolds:
    """The holds of one REPL. Lives as long as its adapter."""

    def __init__(self, sessions: SessionPool, probed: ProbeResult, *, op_timeout_s: float) -> None:
        self._sessions = sessions
        self._profile = probed.profile
        self._ops = probed.ops
        self._dialect = probed.dialect
        self._op_timeout_s = op_timeout_s
        self._is_prepared = False
        """Whether the REPL has our own code for it."""

    def fields(self, hold: str) -> dict[str, Value]:
        """The fields by which a request that loads names the hold that it belongs to."""
        return {HOLD: hold} if hold and RESTORE in self._ops else {}

    async def note(self, hold: str, step: str) -> None:
        """Have a REPL that does not do so by itself note its definitions `before` or `after` a load."""
        if hold and "restore" in self._dialect.ask:
            await self._ask(hold, step)

    async def restore(self, hold: str, *, keep: bool = False) -> tuple[str, ...]:
        """Put back what loads changed. See `Adapter.restore`."""
        support = require(self._profile, "restore")
        left: object
        if support.adapted:
            left = await self._ask(hold, "keep" if keep else "restore")
        else:
            target = self._sessions.get(MAIN_SESSION)
            answer = await target.connection.ask(
                support.op, timeout_s=self._op_timeout_s, **target.address(), hold=hold, keep=int(keep)
            )
            check("the restoration", answer, self._dialect)
            left = answer[0].fields.get("left")
        return tuple(name for one in as_list(left) if (name := as_text(one)))

    async def _ask(self, hold: str, step: str) -> object:
        if not self._is_prepared:
            await self._evaluate(self._dialect.expression("hold"))
            self._is_prepared = True
        return await self._evaluate(self._dialect.expression("restore", hold=hold, step=step))

    async def _evaluate(self, code: str) -> object:
        return read_data("the restoration", await self._sessions.ask(TOOL_SESSION, code), self._dialect)
