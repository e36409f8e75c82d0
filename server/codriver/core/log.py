"""What the server says of itself: lines in the output log, and errors worth remembering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.actions import LatchError, LogAction, Say
from codriver.core.dispatch import Context, Outcome
from codriver.core.effects import Append
from codriver.core.records import replace
from codriver.core.state import Latch, with_item

if TYPE_CHECKING:
    from codriver.core.state import State


def handle(state: State, action: LogAction, context: Context) -> Outcome:
    """The state after a `log` action."""
    del context
    match action:
        case Say():
            said = Append(
                category="otherErrorOutput" if action.error else "otherOutput",
                text=action.text,
                session_key=action.repl,
            )
            return Outcome(state, effects=(said,))
        case LatchError():
            known = state.latches.get(action.code)
            latch = (
                replace(known, text=action.text, count=known.count + 1)
                if known
                else Latch(action.code, action.text, action.now)
            )
            return Outcome(replace(state, latches=with_item(state.latches, action.code, latch)))
    return Outcome(state)
