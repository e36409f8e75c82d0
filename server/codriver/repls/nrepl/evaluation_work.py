"""Work on one evaluation of an nREPL server: the state of it, while it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.records import dataclass
from codriver.core.values import Form

if TYPE_CHECKING:
    from codriver.core.values import PrintLimits, Request
    from codriver.repls.contract.adapter_values import Ended
    from codriver.repls.nrepl.connection import Exchange, NreplConnection
    from codriver.repls.nrepl.responses import Reply
    from codriver.repls.nrepl.session_pool import NreplSession


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """A request that evaluates, and the reply to it as far as it came."""

    exchange: Exchange
    reply: Reply
    connection: NreplConnection


@dataclass(slots=True, eq=False)
class Work:
    """One evaluation under way."""

    request: Request
    session: NreplSession
    ended: Ended
    limits: PrintLimits
    first: Sent | None = None
    """Its first request, where that was sent at once, until the reply to it is taken."""
    has_turn: bool = False
    """Whether it has its session's turn."""
    told: int = 0
    """Values so far."""
    is_looked_after: bool = False
    """Whether an application is looked for when its first request is over."""

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms that are sent, one after the other."""
        return self.request.forms or (Form(self.request.code, 1, 1),)
