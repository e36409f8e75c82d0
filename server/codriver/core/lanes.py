"""Lanes: separate sessions in a REPL, created automatically for each client.

A lane has its own namespace, `*1`, `*e` and queue, while definitions are shared. Only REPLs that isolate sessions and
run them concurrently have lanes. A lane is created on the client's first evaluation in the REPL. A client that
reconnects under the same client and caller names gets its lane back. A lane is closed when its client has disconnected,
the grace period has passed and nothing is running in it. If a REPL has its maximum number of lanes, further clients use
the shared session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.core.dispatch import Outcome
from codriver.core.records import replace
from codriver.core.state import Repl, Session, State, free_name, with_evaluation, with_session

if TYPE_CHECKING:
    from codriver.core.actions import RequestLane
    from codriver.core.evaluations import Lane


MAX_LANES: Final = 64
"""Maximum number of lanes per REPL. Each lane costs a thread in the REPL."""


def find_lane(state: State, repl: Repl, lane: Lane, client: str | None) -> Session | None:
    """Return the session that is a caller's lane, or None.

    A session that belongs to the connection `client` is preferred to one whose client has disconnected.
    """
    left = None
    for session in repl.sessions.values():
        if session.lane != lane:
            continue
        if session.client == client:
            return session
        if session.client not in state.clients and not _is_ending(state, repl, session):
            left = left or session
    return left


def claim_lane(state: State, repl: Repl, action: RequestLane) -> Outcome:
    """Assign a lane to a client.

    If the same caller has a lane whose client has disconnected, that lane is taken over with its evaluations.
    Otherwise, a new lane is created if the limit allows it.
    """
    return Outcome(_with_lane(state, repl, action.lane, action.client)[0])


def move_waiting_to_lanes(state: State, repl_id: str) -> State:
    """Move the evaluations that were queued before a REPL was connected to the lanes of their callers."""
    if not state.repls[repl_id].supports_lanes:
        return state
    for evaluation in state.unfinished():
        if (
            evaluation.repl != repl_id
            or evaluation.lane is None
            or evaluation.request is None
            or evaluation.client not in state.clients
        ):
            continue
        state, session = _with_lane(state, state.repls[repl_id], evaluation.lane, evaluation.client)
        if session is not None:
            request = replace(evaluation.request, session=session.name)
            placed = replace(evaluation, session=session.name, request=request, lane=None)
            state = with_evaluation(state, placed)
    return state


def _with_lane(state: State, repl: Repl, lane: Lane, client: str | None) -> tuple[State, Session | None]:
    known = find_lane(state, repl, lane, client)
    if known is not None and known.client == client:
        return state, known
    if known is None and sum(session.lane is not None for session in repl.sessions.values()) >= MAX_LANES:
        return state, None
    if known is None:
        session = Session(free_name(lane.who, repl.sessions), lane.who, client, lane=lane)
    else:
        session = replace(known, client=client, is_leaving=False)
        state = _with_lane_transferred(state, repl, known, client)
    return with_session(state, repl.id, session), session


def _with_lane_transferred(state: State, repl: Repl, session: Session, client: str | None) -> State:
    """Transfer the evaluations in a lane to the client that is taking over the lane."""
    for unfinished in state.unfinished_in_session(repl.id, session.name):
        if unfinished.client == session.client:
            evaluation = replace(unfinished, client=client, is_orphan=False)
            state = with_evaluation(state, evaluation)
    return state


def _is_ending(state: State, repl: Repl, session: Session) -> bool:
    """Return whether the REPL is currently closing the session."""
    return session.is_leaving and not state.unfinished_in_session(repl.id, session.name)
