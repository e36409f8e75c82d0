"""Messages of the server about itself: lines in the output log, and errors that are latched until it stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.actions import HistoryRestored, LatchError, Say
from codriver.core.dispatch import Outcome
from codriver.core.effects import Append
from codriver.core.records import replace
from codriver.core.state import Latch, with_item

if TYPE_CHECKING:
    from codriver.core.state import State


def say(state: State, action: Say) -> Outcome:
    """Append a line to the output log."""
    said = Append(
        category="otherErrorOutput" if action.error else "otherOutput",
        text=action.text,
        session_key=action.repl,
    )
    return Outcome(state, effects=(said,))


def latch_error(state: State, action: LatchError) -> Outcome:
    """Remember an error; one that is known already is counted, under its newest text."""
    known = state.latches.get(action.code)
    latch = Latch(action.code, action.text, action.now)
    if known is not None:
        latch = replace(known, text=action.text, count=known.count + 1)
    return Outcome(replace(state, latches=with_item(state.latches, action.code, latch)))


def history_restored(state: State, action: HistoryRestored) -> Outcome:
    """Tell of a history that could not be read whole."""
    if action.problem is None:
        return Outcome(state)
    return Outcome(state, follow_ups=(LatchError("history", action.problem), Say(action.problem, error=True)))
