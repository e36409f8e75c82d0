"""Orphaned evaluations: their client is gone, and a grace after that is over.

An orphan in a shared session runs on as long as it holds nobody up, and anyone can fetch its result. It is ended when
it waits for input, which nobody will think of giving, and when a caller who is still there waits for its session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver.core import lanes
from codriver.core.actions import CancelQueued, GraceOver, Say
from codriver.core.dispatch import Outcome
from codriver.core.effects import AwaitGrace, StopEvaluation
from codriver.core.records import replace
from codriver.core.state import with_item
from codriver.core.values import HELD

if TYPE_CHECKING:
    from codriver.core.actions import Action
    from codriver.core.effects import Effect
    from codriver.core.state import State
    from codriver.core.values import Evaluation

UNANSWERABLE = "it waits for input, and the client that asked for it left"


@dataclass(frozen=True, slots=True)
class _Unwanted:
    evaluation: Evaluation
    why: str


def await_grace(state: State, client: str) -> tuple[Effect, ...]:
    """The effect that begins the grace of a client that has just gone; none when it left nothing behind."""
    if not any(one.client == client for one in state.unfinished()):
        return ()
    return (AwaitGrace(then=(GraceOver(client),)),)


def mark(state: State, client: str) -> Outcome:
    """The state after the grace of a client: what it left is orphaned, and ended where nobody wants it."""
    for one in state.unfinished():
        if one.client == client:
            orphan = replace(one, is_orphan=True)
            state = replace(state, evaluations=with_item(state.evaluations, one.id, orphan))
    return end_unwanted(state)


def end_unwanted(state: State) -> Outcome:
    """The state in which an end is asked for of every orphan that somebody waits for, or that waits for input."""
    effects: list[Effect] = []
    follow_ups: list[Action] = []
    for unwanted in _unwanted(state):
        one, why = unwanted.evaluation, unwanted.why
        if one.status not in HELD:
            follow_ups.append(CancelQueued(one.id, f"never sent: {why}"))
        elif one.stop_asked != why:
            asked = replace(one, stop_asked=why)
            state = replace(state, evaluations=with_item(state.evaluations, one.id, asked))
            effects.append(StopEvaluation(evaluation=one.id, why=why))
            follow_ups.append(Say(f"evaluation {one.id} of {one.who} is ended: {why}"))
    return Outcome(state, tuple(effects), tuple(follow_ups))


def _unwanted(state: State) -> list[_Unwanted]:
    unfinished = state.unfinished()
    orphans = [one for one in unfinished if one.is_orphan]
    if not orphans:
        return []
    waiting = {
        lanes.lane(state, one): one
        for one in reversed(unfinished)
        if one.status == "queued" and (not one.client or one.client in state.clients)
    }
    found = []
    for one in orphans:
        waiter = waiting.get(lanes.lane(state, one))
        if one.status == "needs-input":
            found.append(_Unwanted(one, UNANSWERABLE))
        elif waiter is not None:
            found.append(_Unwanted(one, f"its client left, and {waiter.who} waits for its session"))
    return found
