"""What survives a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.actions import DbAction, HistoryRestored, LatchError, Say
from codriver.core.dispatch import Context, Outcome

if TYPE_CHECKING:
    from codriver.core.state import State


def handle(state: State, action: DbAction, context: Context) -> Outcome:
    """The state after a `db` action."""
    del context
    match action:
        case HistoryRestored(problem=str(problem)):
            return Outcome(state, follow_ups=(LatchError("history", problem), Say(problem, error=True)))
    return Outcome(state)
