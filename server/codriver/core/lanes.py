"""Lanes: the session that each client gets in a REPL without requesting one.

A lane has its own namespace, `*1`, `*e` and queue, while definitions are shared. Lanes exist in REPLs that isolate
sessions and run them concurrently. A lane is created at the client's first evaluation in that REPL, and a client that
returns under the same names gets its lane back. A lane closes when its client is gone, the grace period has passed, and
nothing runs in it. The number of lanes per REPL is limited. Later clients use the shared session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.core.dispatch import (
    Outcome,
)
from codriver.core.records import replace
from codriver.core.state import (
    Repl,
    Session,
    State,
    free_name,
    with_evaluation,
    with_session,
)

if TYPE_CHECKING:
    from codriver.core.actions import (
        LaneRequested,
    )
    from codriver.core.values import Lane


MAX_LANES: Final = 64
"""Maximum number of lanes of one REPL. Each lane is a thread of the REPL."""


def find_lane(state: State, repl: Repl, lane: Lane, client: str | None) -> Session | None:
    """Return the session of a lane for the connection `client`: its own, else an abandoned one, else None."""
    left = None
    for session in repl.sessions.values():
        if session.lane != lane:
            continue
        if session.client == client:
            return session
        if session.client not in state.clients and not _is_ending(state, repl, session):
            left = left or session
    return left


def claim_lane(state: State, repl: Repl, action: LaneRequested) -> Outcome:
    """Give the connection its lane: an existing one, with its evaluations, or a new one if the limit allows."""
    return Outcome(_with_lane(state, repl, action.lane, action.client)[0])


def move_waiting_to_lanes(state: State, repl_id: str) -> State:
    """Move the evaluations that waited for a REPL, which is now connected, to the lanes of their callers."""
    if not state.repls[repl_id].gives_lanes:
        return state
    for one in state.unfinished():
        if one.repl != repl_id or one.lane is None or one.request is None or one.client not in state.clients:
            continue
        state, session = _with_lane(state, state.repls[repl_id], one.lane, one.client)
        if session is not None:
            request = replace(one.request, session=session.name)
            placed = replace(one, session=session.name, request=request, lane=None)
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
    """Hand the evaluations in a session that one client left to the next client."""
    for one in state.unfinished_in(repl.id, session.name):
        if one.client == session.client:
            evaluation = replace(one, client=client, is_orphan=False)
            state = with_evaluation(state, evaluation)
    return state


def _is_ending(state: State, repl: Repl, session: Session) -> bool:
    """Return whether a session is being closed in the REPL now, and not only after its last evaluation."""
    return session.is_leaving and not state.unfinished_in(repl.id, session.name)
