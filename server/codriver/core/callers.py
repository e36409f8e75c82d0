"""Callers: who uses a connection, by the names given over it, which REPLs and lanes each has, and what it was told.

A `who` that is given once is the caller's until another is given. What came over the same connection before any name
was given is that caller's own too, whatever it is called now; sub-agents that give names of their own stay apart. A
caller is told of each evaluation of others that began or ended since its last answer.

A lane is the session that each client has of its own in a REPL, without asking for one: with its own namespace, `*1`,
`*e` and queue, while what is defined is shared. It is given where a REPL keeps sessions apart and runs them side by
side, made at the client's first evaluation there, and found again by whoever comes back under the same names. It ends
when its client is gone, the grace after that is over, and nothing runs in it. A REPL has so many lanes at most; who
comes later uses the session that all share.
"""

from __future__ import annotations

from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from codriver.core.dispatch import Outcome
from codriver.core.records import replace
from codriver.core.state import Session, Told, free_name, with_evaluation, with_item, with_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.actions import CallerNamed, LaneWanted
    from codriver.core.state import Client, Repl, Seen, State
    from codriver.core.values import Evaluation, Lane


V = TypeVar("V")

MOST: Final = 64
"""Callers, and conversations, of one connection that are remembered, the newest; lanes of one REPL, a thread each."""


def named(state: State, action: CallerNamed) -> Outcome:
    """The caller has this name from now on; what it did under none stays its own: its lane, what it was told."""
    client = state.clients.get(action.client)
    if client is None:
        return Outcome(state)
    was_unnamed = action.conversation not in client.names and action.formerly != action.who
    names = _with_newest(client.names, action.conversation, action.who)
    told, used = client.told, client.used
    if was_unnamed and action.formerly in told and action.who not in told:
        told = with_item(told, action.who, told[action.formerly])
    if was_unnamed and action.formerly in used and action.who not in used:
        used = with_item(used, action.who, used[action.formerly])
    client = replace(
        client, names=names, unnamed=action.formerly if was_unnamed else client.unnamed, told=told, used=used
    )
    state = replace(state, clients=with_item(state.clients, client.id, client))
    return Outcome(_with_lanes_renamed(state, action) if was_unnamed else state)


def _with_lanes_renamed(state: State, action: CallerNamed) -> State:
    """The state in which the lanes that the caller had under no name are those of its name, where that has none."""
    for repl in state.repls.values():
        own = [one for one in repl.sessions.values() if one.lane is not None and one.client == action.client]
        mine = [one for one in own if one.lane and one.lane.conversation == action.conversation]
        if any(one.lane and one.lane.who == action.who for one in mine):
            continue
        for one in mine:
            if one.lane and one.lane.who == action.formerly:
                lane = replace(one.lane, who=action.who)
                state = with_session(state, repl.id, replace(one, who=action.who, lane=lane))
    return state


def name_of(state: State, client: str, conversation: str) -> str | None:
    """The name that was given last over a connection, in this conversation; None where none was."""
    known = state.clients.get(client)
    return known.names.get(conversation) if known is not None else None


def is_own(state: State, client: str | None, who: str, by: tuple[str | None, str]) -> bool:
    """True where what was done `by` a client and a who is the own of the caller `who` of `client`."""
    other, name = by
    if other != client:
        return False
    known = state.clients.get(client or "")
    return name == who or (known is not None and name == known.unnamed)


def with_used(state: State, client: str | None, who: str, repl: str) -> State:
    """The state in which a caller has used a REPL."""
    known = state.clients.get(client or "")
    if known is None or repl in known.used.get(who, ()):
        return state
    used = _with_newest(known.used, who, (*known.used.get(who, ()), repl))
    return replace(state, clients=with_item(state.clients, known.id, replace(known, used=used)))


def used_by(state: State, client: str, who: str) -> tuple[str, ...]:
    """The ids of the REPLs that a caller has evaluated in."""
    known = state.clients.get(client)
    return known.used.get(who, ()) if known is not None else ()


def _with_newest(mapping: Mapping[str, V], key: str, value: V) -> Mapping[str, V]:
    others = [(name, one) for name, one in mapping.items() if name != key][-(MOST - 1) :]
    return MappingProxyType(dict([*others, (key, value)]))


MAX_CALLERS = 64
"""Callers of one client that are remembered; each needs a name of its own, so more are hardly ever met."""
MAX_SESSIONS = 64
"""Sessions that a caller's answers were about and that are remembered."""
MOST_OWN = 16
"""Evaluations of a caller itself that it may be behind: to pass over them costs less than to note each as told."""
NOTHING = Told(0, frozenset())
_NUMBER = attrgetter("number")


def told_to(state: State, client: str, who: str) -> Told | None:
    """The knowledge of a caller; None before its first answer."""
    known = state.clients.get(client)
    return known.told.get(who) if known else None


def since_told(state: State, told: Told, client: str, who: str) -> list[Evaluation]:
    """The evaluations of others that began or ended since this was told to the caller, by number."""
    unknown = _unknown(state, told, client, who)
    return [e for e in unknown if e.over or e.number > told.number] if unknown else unknown


def is_current(state: State, told: Told, session: str | None, stands: Seen | None) -> bool:
    """Whether a caller to whom nothing can be told knows all that is to be noted, and how this session stands.

    Its own evaluations are no news to it, whether they are noted or not.
    """
    is_near = not told.live and state.evaluated - told.number < MOST_OWN
    return is_near and (session is None or told.seen.get(session) == stands)


def with_told(state: State, client: Client, who: str) -> Client:
    """The client, of which the caller `who` now knows how every evaluation stands."""
    told = client.told.get(who, NOTHING)
    live = frozenset([e.id for e in _unknown(state, told, client.id, who) if not e.over])
    others = [(name, mark) for name, mark in client.told.items() if name != who][-(MAX_CALLERS - 1) :]
    known = Told(state.evaluated, live, told.seen)
    return replace(client, told=MappingProxyType(dict([*others, (who, known)])))


def with_seen(client: Client, who: str, session: str, stands: Seen) -> Client:
    """The client, of which the caller `who` was told how this session stands."""
    told = client.told.get(who, NOTHING)
    if told.seen.get(session) == stands:
        return client
    others = [(key, one) for key, one in told.seen.items() if key != session][-(MAX_SESSIONS - 1) :]
    known = replace(told, seen=MappingProxyType(dict([*others, (session, stands)])))
    return replace(client, told=with_item(client.told, who, known))


def _unknown(state: State, told: Told, client: str, who: str) -> list[Evaluation]:
    """The evaluations of others than this caller of which the end, or the beginning, was not told, by number."""
    known = state.evaluations
    found = [known[name] for name in told.live if name in known] if told.live else []
    # The newest come last, so only they are looked at, however many are kept.
    for name in reversed(known):
        evaluation = known[name]
        if evaluation.number <= told.number:
            break
        of = (evaluation.client, evaluation.who)
        if of != (client, who) and not is_own(state, client, who, of):
            found.append(evaluation)
    theirs = [one for one in found if not is_own(state, client, who, (one.client, one.who))] if told.live else found
    return sorted(theirs, key=_NUMBER) if theirs else theirs


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
