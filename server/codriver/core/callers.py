"""Callers: the connected MCP clients and the names given over them, their lanes, the news told to each, and their end.

A given `who` is the caller's until another is given. The evaluations that came over the same connection before any name
are that caller's own too, whatever its name is now; sub-agents that give names of their own stay apart. A caller is
told of each evaluation of others that began or ended since its last answer.

A lane is the session that each client has in a REPL without asking for one: with its own namespace, `*1`, `*e` and
queue, while definitions are shared. Lanes exist in a REPL that keeps sessions apart and runs them side by side. A lane
is made at the client's first evaluation there, and found again by a client that returns under the same names. It ends
when its client is gone, the grace after that is over, and nothing runs in it. The number of lanes of a REPL is bounded;
later clients use the session that all share.

An evaluation whose client is gone, and whose grace after that is over, is an *orphan*. In a shared session, and in a
lane, an orphan runs on as long as it holds nobody up, and anyone can fetch its result. It is ended when it waits for
input, which nobody will think of giving, when it runs in the background, and when a present caller waits for its
session.

A session that the client asked for ends with the client, after the evaluations that still run there. Its lane stays for
the grace, for a client that comes back, and then until nothing runs in it. A stream of an application's events is
renewed for as long as its client and its REPL's connection are there; the application itself ends a stream that nobody
renews (see the lease in `codriver_seam.streams`).
"""

from __future__ import annotations

from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from codriver.core.actions import (
    Action,
    AppStreamBegan,
    AppStreamEnded,
    AppStreamRenewed,
    CallerNamed,
    CancelQueued,
    ClientConnected,
    ClientGone,
    ClientTold,
    GraceOver,
    LaneWanted,
    ReplLost,
    ResourcesChanged,
    RestartRepl,
    Say,
    ToolsChanged,
)
from codriver.core.dispatch import (
    AwaitGrace,
    CloseSession,
    Effect,
    EndAppStream,
    NotifyClients,
    Outcome,
    RenewAppStream,
    StopEvaluation,
    TellAppStreamOver,
)
from codriver.core.records import dataclass, replace
from codriver.core.state import (
    AppStream,
    Client,
    Repl,
    Seen,
    Session,
    State,
    Told,
    free_name,
    queue_of,
    with_evaluation,
    with_item,
    with_repl,
    with_session,
    without_item,
)
from codriver.core.values import HELD, Evaluation, Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


V = TypeVar("V")

MOST: Final = 64
"""The bound of the callers, and conversations, remembered of one connection, the newest; of the lanes of one REPL, each
a thread."""


def named(state: State, action: CallerNamed) -> Outcome:
    """Give a caller its name; the lane and the answers that the caller had without a name stay its own."""
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
    if action.client_name and action.conversation:
        key = _key_of(action.client_name, action.conversation)
        state = replace(state, conversations=_with_newest(state.conversations, key, action.who))
    return Outcome(_with_lanes_renamed(state, action) if was_unnamed else state)


def _with_lanes_renamed(state: State, action: CallerNamed) -> State:
    """The state in which a caller's name, unless it has lanes already, has those that the caller had without a name."""
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


def name_of(state: State, client: str, conversation: str, client_name: str = "") -> str | None:
    """The name that was given last in this conversation; None for none.

    With `client_name`, a name that such a client gave in it over another connection counts, too.
    """
    known = state.clients.get(client)
    name = known.names.get(conversation) if known is not None else None
    if name is None and client_name and conversation:
        return state.conversations.get(_key_of(client_name, conversation))
    return name


def _key_of(client_name: str, conversation: str) -> str:
    return f"{client_name}\n{conversation}"


def is_own(state: State, client: str | None, who: str, by: tuple[str | None, str]) -> bool:
    """True for an act `by` a client and a who, if it is the own of the caller `who` of `client`."""
    other, name = by
    if other != client:
        return False
    known = state.clients.get(client or "")
    return name == who or (known is not None and name == known.unnamed)


def is_first(state: State, evaluation: Evaluation) -> bool:
    """Whether this is its caller's first evaluation in the REPL since the REPL was connected."""
    return not any(
        (other.repl, other.generation) == (evaluation.repl, evaluation.generation)
        and is_own(state, evaluation.client, evaluation.who, (other.client, other.who))
        for other in state.evaluations.values()
        if other.number < evaluation.number
    )


def with_used(state: State, client: str | None, who: str, repl: str) -> State:
    """Return the state in which a caller has used a REPL last."""
    known = state.clients.get(client or "")
    before = known.used.get(who, ()) if known is not None else ()
    if known is None or before[-1:] == (repl,):
        return state
    used = _with_newest(known.used, who, (*[one for one in before if one != repl], repl))
    return replace(state, clients=with_item(state.clients, known.id, replace(known, used=used)))


def used_by(state: State, client: str, who: str) -> tuple[str, ...]:
    """Return the ids of the REPLs that a caller has evaluated in, the last used one last."""
    known = state.clients.get(client)
    return known.used.get(who, ()) if known is not None else ()


def _with_newest(mapping: Mapping[str, V], key: str, value: V) -> Mapping[str, V]:
    others = [(name, one) for name, one in mapping.items() if name != key][-(MOST - 1) :]
    return MappingProxyType(dict([*others, (key, value)]))


MAX_CALLERS = 64
"""Callers of one client that are remembered; each needs a name of its own, so more are hardly ever seen."""
MAX_SESSIONS = 64
"""The bound of the sessions remembered from a caller's answers."""
MOST_OWN = 16
"""The bound of a caller's own evaluations since it was told: to pass over them costs less than to note each as told."""
NOTHING = Told(0, frozenset())
_NUMBER = attrgetter("number")


def told_to(state: State, client: str, who: str) -> Told | None:
    """The knowledge of a caller; None before its first answer."""
    known = state.clients.get(client)
    return known.told.get(who) if known else None


def since_told(state: State, told: Told, client: str, who: str) -> list[Evaluation]:
    """The evaluations of others that began or ended since the caller was last told, by number."""
    unknown = _unknown(state, told, client, who)
    return [e for e in unknown if e.over or e.number > told.number] if unknown else unknown


def is_current(state: State, told: Told, session: str | None, stands: Seen | None) -> bool:
    """Whether a caller, given no news, knows the standing of all evaluations and of this session.

    The caller's own evaluations are no news, whether noted or not.
    """
    is_near = not told.live and state.evaluated - told.number < MOST_OWN
    return is_near and (session is None or told.seen.get(session) == stands)


def with_told(state: State, client: Client, who: str) -> Client:
    """The client after its caller `who` was told the standing of every evaluation."""
    told = client.told.get(who, NOTHING)
    live = frozenset([e.id for e in _unknown(state, told, client.id, who) if not e.over])
    others = [(name, mark) for name, mark in client.told.items() if name != who][-(MAX_CALLERS - 1) :]
    known = Told(state.evaluated, live, told.seen)
    return replace(client, told=MappingProxyType(dict([*others, (who, known)])))


def with_seen(client: Client, who: str, session: str, stands: Seen) -> Client:
    """The client after its caller `who` was told the standing of this session."""
    told = client.told.get(who, NOTHING)
    if told.seen.get(session) == stands:
        return client
    others = [(key, one) for key, one in told.seen.items() if key != session][-(MAX_SESSIONS - 1) :]
    known = replace(told, seen=MappingProxyType(dict([*others, (session, stands)])))
    return replace(client, told=with_item(client.told, who, known))


def _unknown(state: State, told: Told, client: str, who: str) -> list[Evaluation]:
    """The evaluations of other callers of whose beginning or end this caller was not told, by number."""
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
    """The session of a lane for the connection `client`: the client's own, else a left one, else None."""
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
    """The lane is the connection's: found, taken over with its evaluations, or made if there is room."""
    return Outcome(_with_lane(state, repl, action.lane, action.client)[0])


def place_waiting(state: State, repl_id: str) -> State:
    """The state in which evaluations that waited for a REPL, now connected, wait in the lanes of their callers."""
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
    """The state in which the evaluations in a session left by one client belong to the next client."""
    for one in state.unfinished_in(repl.id, session.name):
        if one.client == session.client:
            evaluation = replace(one, client=client, is_orphan=False)
            state = with_evaluation(state, evaluation)
    return state


def _is_ending(state: State, repl: Repl, session: Session) -> bool:
    """Whether a session is being closed in the REPL now, and not only after its last evaluation."""
    return session.is_leaving and not state.unfinished_in(repl.id, session.name)


def connected(state: State, action: ClientConnected) -> Outcome:
    """Add a client."""
    client = Client(action.client, since=state.evaluated)
    return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))


def told(state: State, action: ClientTold) -> Outcome:
    """Note that a caller knows the standing of all evaluations."""
    if action.client not in state.clients:
        return Outcome(state)
    client = with_told(state, state.clients[action.client], action.who)
    if action.session is not None and action.seen is not None:
        client = with_seen(client, action.who, action.session, action.seen)
    return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))


def gone(state: State, action: ClientGone) -> Outcome:
    """Remove a client; its own sessions and streams end with it."""
    without = replace(state, clients=without_item(state.clients, action.client))
    left = end_streams_of(without, action.client)
    outcome = leave(left.state, action.client)
    return replace(outcome, effects=(*left.effects, *outcome.effects))


def grace_over(state: State, action: GraceOver) -> Outcome:
    """The grace of a client that left is over: its evaluations may hold up nobody any more."""
    return end_grace(state, action.client)


def resources_changed(state: State, _action: ResourcesChanged) -> Outcome:
    """Notify the clients that the list of resources changed."""
    return Outcome(state, effects=(NotifyClients(changed="resources"),))


def tools_changed(state: State, _action: ToolsChanged) -> Outcome:
    """Notify the clients that the list of tools changed."""
    return Outcome(state, effects=(NotifyClients(changed="tools"),))


OWN_SESSION = "its client left, and the session was its own"
LEFT_BACKGROUND = "its client left, and it ran in the background"
UNANSWERABLE = "it waits for input, and the client that asked for it left"


@dataclass(frozen=True)
class _Unwanted:
    evaluation: Evaluation
    why: str


def await_grace(state: State, client: str) -> tuple[Effect, ...]:
    """The effect that begins the grace of a client that has just gone; none for a client that left nothing behind."""
    if not any(one.client == client for one in state.unfinished()) and not _lanes(state, client):
        return ()
    return (AwaitGrace(then=(GraceOver(client),)),)


def end_grace(state: State, client: str) -> Outcome:
    """The state after the grace of a client: its evaluations are orphans, and unwanted ones end."""
    for one in state.unfinished():
        if one.client == client:
            orphan = replace(one, is_orphan=True)
            state = with_evaluation(state, orphan)
    closed: list[Effect] = []
    for repl, session in _lanes(state, client):
        state = with_session(state, repl, replace(session, is_leaving=True))
        closed += close_after_last(state, repl, session.name)
    ended = end_unwanted(state)
    return replace(ended, effects=(*closed, *ended.effects))


def end_unwanted(state: State) -> Outcome:
    """The state in which the end is asked for of every orphan that waits for input, or that somebody waits for."""
    effects: list[Effect] = []
    follow_ups: list[Action] = []
    for unwanted in _unwanted(state):
        one, why = unwanted.evaluation, unwanted.why
        if one.status not in HELD:
            follow_ups.append(CancelQueued(one.id, f"never sent: {why}"))
        elif one.stop_asked != why:
            asked = replace(one, stop_asked=why)
            state = with_evaluation(state, asked)
            effects.append(StopEvaluation(evaluation=one.id, why=why))
            follow_ups.append(Say(f"evaluation {one.id} of {one.who} is ended: {why}"))
    return Outcome(state, tuple(effects), tuple(follow_ups))


def _unwanted(state: State) -> list[_Unwanted]:
    unfinished = state.unfinished()
    orphans = [one for one in unfinished if one.is_orphan]
    if not orphans:
        return []
    waiting = {
        queue_of(state, one): one
        for one in reversed(unfinished)
        if one.status == "queued" and (not one.client or one.client in state.clients)
    }
    found = []
    for one in orphans:
        waiter = waiting.get(queue_of(state, one))
        if one.is_background:
            found.append(_Unwanted(one, LEFT_BACKGROUND))
        elif one.status == "needs-input":
            found.append(_Unwanted(one, UNANSWERABLE))
        elif waiter is not None:
            found.append(_Unwanted(one, f"its client left, and {waiter.who} waits for its session"))
    return found


def leave(state: State, client: str) -> Outcome:
    """End the sessions of a client's own: they take nothing new, queued code is dropped, running code is stopped.

    In shared sessions the client's code goes on, as an orphan.
    """
    effects: list[Effect] = []
    follow_ups: list[Action] = []
    for repl in state.repls.values():
        for session in repl.sessions.values():
            if session.client != client or session.lane is not None:
                continue
            leaving = replace(session, client=None, is_leaving=True)
            state = with_session(state, repl.id, leaving)
            left = state.unfinished_in(repl.id, session.name)
            follow_ups += [CancelQueued(one.id, f"never sent: {OWN_SESSION}") for one in left if one.status == "queued"]
            effects += [StopEvaluation(evaluation=one.id, why=OWN_SESSION) for one in left if one.status != "queued"]
            if not left:
                effects.append(CloseSession(id=repl.id, name=session.name))
    return Outcome(state, (*effects, *await_grace(state, client)), tuple(follow_ups))


def close_after_last(state: State, repl: str, name: str) -> tuple[Effect, ...]:
    """The effects on a session that is leaving: the session is closed once nothing is unfinished in it."""
    return () if state.unfinished_in(repl, name) else (CloseSession(id=repl, name=name),)


def forget_session(state: State, repl: str, name: str) -> State:
    """The state without a session that a client left and that is closed now."""
    known = state.repls.get(repl)
    if known is None or name not in known.sessions or not known.sessions[name].is_leaving:
        return state
    return with_repl(state, replace(known, sessions=without_item(known.sessions, name)))


def _lanes(state: State, client: str) -> list[tuple[str, Session]]:
    """The lanes of a client, each with the id of its REPL."""
    held = [(repl.id, session) for repl in state.repls.values() for session in repl.sessions.values()]
    return [(repl, session) for repl, session in held if session.client == client and session.lane is not None]


CALLS: Final = "calls"
"""The topic of a capture, which ends by itself after so many events."""
OPS: Final[Mapping[str, str]] = MappingProxyType({CALLS: "call"})
"""By topic: the op-type of its events, if that differs from the topic."""


def began(state: State, action: AppStreamBegan) -> Outcome:
    """Keep a stream, and renew it from now on; a stream whose client has left meanwhile is ended."""
    stream = action.stream
    if stream.client not in state.clients:
        return Outcome(state, (EndAppStream(stream=stream),))
    return Outcome(replace(state, app_streams=(*state.app_streams, stream)), (_renewal(stream),))


def renewed(state: State, action: AppStreamRenewed) -> Outcome:
    """Renew a stream again later, or forget it if the application has forgotten it."""
    stream = action.stream
    if stream not in state.app_streams:
        return Outcome(state)
    if action.is_there:
        return Outcome(state, (_renewal(stream),))
    # A capture ends by itself.
    why = "it has told enough, or the application ended it" if stream.topic == CALLS else "the application ended it"
    return _over(state, [stream], why)


def over_with(handle: Callable[[State, Repl, Any], Outcome]) -> Callable[[State, Repl, Any], Outcome]:
    """The handler of the end of a REPL's connection, which ends the REPL's streams."""

    def handled(state: State, repl: Repl, action: ReplLost | RestartRepl) -> Outcome:
        outcome = handle(state, repl, action)
        left = [stream for stream in state.app_streams if stream.repl == repl.id]
        if not left or outcome.state.repls[repl.id].phase == "connected":
            return outcome
        why = f"the REPL {repl.key} " + ("restarts" if isinstance(action, RestartRepl) else f"is lost ({action.cause})")
        told = _over(outcome.state, left, why)
        return replace(outcome, state=told.state, effects=(*outcome.effects, *told.effects))

    return handled


def ended(state: State, action: AppStreamEnded) -> Outcome:
    """Forget a stream."""
    return Outcome(_without(state, [action.stream]))


def end_streams_of(state: State, client: str) -> Outcome:
    """End the streams of a client that is gone."""
    left = [stream for stream in state.app_streams if stream.client == client]
    return Outcome(_without(state, left), tuple(EndAppStream(stream=stream) for stream in left))


def live(state: State) -> list[AppStream]:
    """The streams whose connection stands."""
    standing = {(repl.id, repl.generation) for repl in state.repls.values() if repl.phase == "connected"}
    return [stream for stream in state.app_streams if (stream.repl, stream.generation) in standing]


def _over(state: State, streams: list[AppStream], why: str) -> Outcome:
    """The end of streams that nobody asked for; the callers that wait for their events are told."""
    return Outcome(_without(state, streams), tuple(TellAppStreamOver(stream=stream, why=why) for stream in streams))


def _without(state: State, streams: list[AppStream]) -> State:
    return replace(state, app_streams=tuple(one for one in state.app_streams if one not in streams))


def _renewal(stream: AppStream) -> RenewAppStream:
    return RenewAppStream(stream=stream, then=(AppStreamRenewed(stream),))
