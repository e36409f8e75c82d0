"""The departure of a client: REPL sessions of its own end with it, after the evaluations that still run in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core import orphans
from codriver.core.actions import CancelQueued
from codriver.core.dispatch import Outcome
from codriver.core.effects import CloseSession, StopEvaluation
from codriver.core.records import replace
from codriver.core.state import with_item, without_item

if TYPE_CHECKING:
    from codriver.core.actions import Action
    from codriver.core.effects import Effect
    from codriver.core.state import Session, State
    from codriver.core.values import Evaluation

WHY = "its client left, and the session was its own"


def leave(state: State, client: str) -> Outcome:
    """The client's own sessions begin to end: nothing new runs in them, what waits is dropped, what runs is stopped.

    In shared sessions its code goes on: see `core.orphans`.
    """
    effects: list[Effect] = []
    follow_ups: list[Action] = []
    for repl in state.repls.values():
        for session in repl.sessions.values():
            if session.client != client:
                continue
            leaving = replace(session, client=None, is_leaving=True)
            state = put(state, repl.id, leaving)
            left = _unfinished(state, repl.id, session.name)
            follow_ups += [CancelQueued(one.id, f"never sent: {WHY}") for one in left if one.status == "queued"]
            effects += [StopEvaluation(evaluation=one.id, why=WHY) for one in left if one.status != "queued"]
            if not left:
                effects.append(CloseSession(id=repl.id, name=session.name))
    return Outcome(state, (*effects, *orphans.await_grace(state, client)), tuple(follow_ups))


def settle(state: State, repl: str, name: str) -> tuple[Effect, ...]:
    """The effects of an evaluation's end on its session: one that is leaving is closed after its last."""
    session = state.repls[repl].sessions.get(name) if repl in state.repls else None
    if session is None or not session.is_leaving or _unfinished(state, repl, name):
        return ()
    return (CloseSession(id=repl, name=name),)


def forget(state: State, repl: str, name: str) -> State:
    """The state without a session that was left and is closed now."""
    known = state.repls.get(repl)
    if known is None or name not in known.sessions or not known.sessions[name].is_leaving:
        return state
    sessions = without_item(known.sessions, name)
    return replace(state, repls=with_item(state.repls, repl, replace(known, sessions=sessions)))


def put(state: State, repl: str, session: Session) -> State:
    """The state with the session as it is given."""
    known = state.repls[repl]
    known = replace(known, sessions=with_item(known.sessions, session.name, session))
    return replace(state, repls=with_item(state.repls, repl, known))


def _unfinished(state: State, repl: str, name: str) -> list[Evaluation]:
    return [one for one in state.unfinished() if (one.repl, one.session) == (repl, name)]
