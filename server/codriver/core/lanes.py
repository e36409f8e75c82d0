"""Lanes: the session that each client has of its own in a REPL, without asking for one.

A lane has its own namespace, `*1`, `*e` and queue; what is defined is shared. It is given where a REPL keeps sessions
apart and runs them side by side, made at the client's first evaluation there, and found again by whoever comes back
under the same names while it is there. It ends when its client is gone, the grace after that is over, and nothing runs
in it. A REPL has so many lanes at most; who comes later uses the session that all share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.core.dispatch import Outcome
from codriver.core.records import replace
from codriver.core.state import Session, free_name, with_evaluation, with_session
from codriver.core.values import MAIN_SESSION

if TYPE_CHECKING:
    from codriver.core.actions import LaneWanted
    from codriver.core.state import Repl, State
    from codriver.core.values import Lane

MOST: Final = 64
"""Lanes of one REPL: a session is a thread of the JVM once it evaluates."""


def are_given(repl: Repl) -> bool:
    """Whether a connected REPL gives lanes.

    A server that can interrupt one session listens while it runs, so that sessions do not wait for each other.
    """
    profile = repl.profile
    return (
        profile is not None
        and profile.isolation == "session"
        and not profile.is_serial
        and "interrupt" in profile.capabilities
    )


def find(state: State, repl: Repl, lane: Lane, client: str | None) -> Session | None:
    """The session of a lane, for the connection `client`: its own, else one whose client left; None where none is."""
    left = None
    for session in repl.sessions.values():
        if session.lane != lane:
            continue
        if session.client == client:
            return session
        if session.client not in state.clients and not _is_ending(state, repl, session):
            left = left or session
    return left


def wanted(state: State, repl: Repl, action: LaneWanted) -> Outcome:
    """The lane is the connection's: found, taken over with what runs in it, or made if there is room."""
    return Outcome(_with_lane(state, repl, action.lane, action.client)[0])


def place_waiting(state: State, repl_id: str) -> State:
    """The state in which what waited for a REPL, that is connected now, waits in the lanes of its callers."""
    if not are_given(state.repls[repl_id]):
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


def in_common(repl: Repl, session: Session) -> Session:
    """The session that keeps who evaluated last: lanes and the shared session keep it together."""
    return session if session.lane is None else repl.sessions.get(MAIN_SESSION, session)


def _with_lane(state: State, repl: Repl, lane: Lane, client: str | None) -> tuple[State, Session | None]:
    known = find(state, repl, lane, client)
    if known is not None and known.client == client:
        return state, known
    if known is None and sum(session.lane is not None for session in repl.sessions.values()) >= MOST:
        return state, None
    if known is None:
        session = Session(free_name(lane.who, repl.sessions), lane.who, client, lane=lane)
    else:
        session = replace(known, client=client, is_leaving=False)
        state = _taken_over(state, repl, known, client)
    return with_session(state, repl.id, session), session


def _taken_over(state: State, repl: Repl, session: Session, client: str | None) -> State:
    """The state in which what runs in a session of a client that left is that of its next one."""
    for one in state.unfinished_in(repl.id, session.name):
        if one.client == session.client:
            evaluation = replace(one, client=client, is_orphan=False)
            state = with_evaluation(state, evaluation)
    return state


def _is_ending(state: State, repl: Repl, session: Session) -> bool:
    """Whether a session is being closed in the REPL by now, and not only when what runs in it is over."""
    return session.is_leaving and not state.unfinished_in(repl.id, session.name)
