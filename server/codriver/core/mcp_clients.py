"""The connected MCP clients: who comes and goes, the changes they are notified of, and what is left of one that went.

An evaluation whose client is gone, and a grace after that is over, is an *orphan*. In a session that is shared, and in
a lane, it runs on as long as it holds nobody up, and anyone can fetch its result. It is ended when it waits for input,
which nobody will think of giving, when it runs in the background, and when a caller who is still there waits for its
session.

A session that the client asked for ends with it, after the evaluations that still run there. Its lane stays for the
grace, to be found by a client that comes back, and then until nothing runs in it. A stream of an application's events
is renewed for as long as its client and its REPL's connection are there; the application ends by itself what nobody
renews (see the lease in `codriver_seam.streams`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.core import callers
from codriver.core.actions import AppStreamRenewed, CancelQueued, GraceOver, RestartRepl, Say
from codriver.core.dispatch import Outcome
from codriver.core.effects import (
    AwaitGrace,
    CloseSession,
    EndAppStream,
    NotifyClients,
    RenewAppStream,
    StopEvaluation,
    TellAppStreamOver,
)
from codriver.core.records import dataclass, replace
from codriver.core.state import Client, queue_of, with_evaluation, with_item, with_repl, with_session, without_item
from codriver.core.values import HELD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.core.actions import (
        Action,
        AppStreamBegan,
        AppStreamEnded,
        ClientConnected,
        ClientGone,
        ClientTold,
        ReplLost,
        ResourcesChanged,
        ToolsChanged,
    )
    from codriver.core.effects import Effect
    from codriver.core.state import AppStream, Repl, Session, State
    from codriver.core.values import Evaluation


def connected(state: State, action: ClientConnected) -> Outcome:
    """One client more."""
    client = Client(action.client, since=state.evaluated)
    return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))


def told(state: State, action: ClientTold) -> Outcome:
    """A caller knows now how every evaluation stands."""
    if action.client not in state.clients:
        return Outcome(state)
    client = callers.with_told(state, state.clients[action.client], action.who)
    if action.session is not None and action.seen is not None:
        client = callers.with_seen(client, action.who, action.session, action.seen)
    return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))


def gone(state: State, action: ClientGone) -> Outcome:
    """One client less; what was its own ends with it."""
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
    """The effect that begins the grace of a client that has just gone; none when it left nothing behind."""
    if not any(one.client == client for one in state.unfinished()) and not _lanes(state, client):
        return ()
    return (AwaitGrace(then=(GraceOver(client),)),)


def end_grace(state: State, client: str) -> Outcome:
    """The state after the grace of a client: what it left is orphaned, and ended where nobody wants it."""
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
    """The state in which an end is asked for of every orphan that somebody waits for, or that waits for input."""
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
    """End the sessions of a client's own: nothing new runs in them, queued code is dropped, running code is stopped.

    In shared sessions its code goes on, as an orphan.
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
    """The effects on a session that is leaving: it is closed once nothing is unfinished in it."""
    return () if state.unfinished_in(repl, name) else (CloseSession(id=repl, name=name),)


def forget_session(state: State, repl: str, name: str) -> State:
    """The state without a session that was left and is closed now."""
    known = state.repls.get(repl)
    if known is None or name not in known.sessions or not known.sessions[name].is_leaving:
        return state
    return with_repl(state, replace(known, sessions=without_item(known.sessions, name)))


def _lanes(state: State, client: str) -> list[tuple[str, Session]]:
    """The lanes of a client, each with the id of its REPL."""
    held = [(repl.id, session) for repl in state.repls.values() for session in repl.sessions.values()]
    return [(repl, session) for repl, session in held if session.client == client and session.lane is not None]


CALLS: Final = "calls"
"""The topic of a capture, which ends when it has told enough."""
OPS: Final[Mapping[str, str]] = MappingProxyType({CALLS: "call"})
"""By topic the op-type of its events, if that is another word."""


def began(state: State, action: AppStreamBegan) -> Outcome:
    """Keep a stream, and renew it from now on; one whose client has left meanwhile is ended."""
    stream = action.stream
    if stream.client not in state.clients:
        return Outcome(state, (EndAppStream(stream=stream),))
    return Outcome(replace(state, app_streams=(*state.app_streams, stream)), (_renewal(stream),))


def renewed(state: State, action: AppStreamRenewed) -> Outcome:
    """Renew a stream again later, or forget it where the application has."""
    stream = action.stream
    if stream not in state.app_streams:
        return Outcome(state)
    if action.is_there:
        return Outcome(state, (_renewal(stream),))
    # A capture ends by itself.
    why = "it has told enough, or the application ended it" if stream.topic == CALLS else "the application ended it"
    return _over(state, [stream], why)


def over_with(handle: Callable[[State, Repl, Any], Outcome]) -> Callable[[State, Repl, Any], Outcome]:
    """The handler of the end of a REPL's connection, with which its streams are over."""

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
    """The end of streams that nobody asked for, which whoever waits for their events is told."""
    return Outcome(_without(state, streams), tuple(TellAppStreamOver(stream=stream, why=why) for stream in streams))


def _without(state: State, streams: list[AppStream]) -> State:
    return replace(state, app_streams=tuple(one for one in state.app_streams if one not in streams))


def _renewal(stream: AppStream) -> RenewAppStream:
    return RenewAppStream(stream=stream, then=(AppStreamRenewed(stream),))
