"""Orphans: evaluations whose client has disconnected and whose grace period has passed.

In a shared session or a lane, an orphan keeps running as long as it blocks nobody, and anyone can fetch its result. It
is stopped if it waits for input, which nobody will send, if it runs in the background, or if a connected caller is
waiting for its session.

A session that a client opened explicitly ends with that client: queued code is dropped and running code is stopped.
"""

from __future__ import annotations

from codriver.core.actions import Action, AddServerLine, CancelQueued, GracePeriodExpired
from codriver.core.dispatch import Outcome
from codriver.core.effects import CloseSession, Effect, StartGracePeriod, StopEvaluation
from codriver.core.evaluations import OCCUPYING_STATUSES, Evaluation
from codriver.core.records import dataclass, replace
from codriver.core.state import Session, State, evaluation_queue, with_evaluation, with_repl, with_session, without_item

CLIENT_SESSION_REASON = "its client disconnected, and the session belonged to that client"
"""Reason for ending an evaluation in a session that its client had opened only for itself."""
BACKGROUND_REASON = "its client disconnected, and the code ran in the background"
"""Reason for ending an evaluation that ran in the background."""
UNANSWERABLE_REASON = "the code is waiting for input, but its client has disconnected"
"""Reason for ending an evaluation that is waiting for input."""


@dataclass(frozen=True)
class _Unwanted:
    """An evaluation that must be stopped because its client has disconnected."""

    evaluation: Evaluation
    why: str


def start_grace_period(state: State, client: str) -> tuple[Effect, ...]:
    """Return the effect that starts the grace period of a disconnected client.

    There is no effect if the client has no unfinished evaluations and no lanes.
    """
    if not any(evaluation.client == client for evaluation in state.unfinished()) and not _client_lanes(state, client):
        return ()
    return (StartGracePeriod(then=(GracePeriodExpired(client),)),)


def end_grace_period(state: State, client: str) -> Outcome:
    """Turn the evaluations of a disconnected client into orphans.

    Orphans are stopped if they wait for input, run in the background, or block a connected caller. Idle lanes of the
    client are closed.
    """
    for evaluation in state.unfinished():
        if evaluation.client == client:
            orphan = replace(evaluation, is_orphan=True)
            state = with_evaluation(state, orphan)
    closed: list[Effect] = []
    for repl, session in _client_lanes(state, client):
        state = with_session(state, repl, replace(session, is_leaving=True))
        closed += close_if_unused(state, repl, session.name)
    finished = stop_unwanted_orphans(state)
    return replace(finished, effects=(*closed, *finished.effects))


def stop_unwanted_orphans(state: State) -> Outcome:
    """Stop evaluations of disconnected clients that nobody needs any more.

    These wait for input, run in the background, or block a connected caller.
    """
    effects: list[Effect] = []
    follow_ups: list[Action] = []
    for unwanted in _unwanted_orphans(state):
        evaluation, why = unwanted.evaluation, unwanted.why
        if evaluation.status not in OCCUPYING_STATUSES:
            follow_ups.append(CancelQueued(evaluation.id, f"the code was never sent: {why}"))
        elif evaluation.stop_requested != why:
            stopping = replace(evaluation, stop_requested=why)
            state = with_evaluation(state, stopping)
            effects.append(StopEvaluation(evaluation=evaluation.id, why=why))
            follow_ups.append(AddServerLine(f"stopping evaluation {evaluation.id} of {evaluation.who}: {why}"))
    return Outcome(state, tuple(effects), tuple(follow_ups))


def _unwanted_orphans(state: State) -> list[_Unwanted]:
    unfinished = state.unfinished()
    orphans = [evaluation for evaluation in unfinished if evaluation.is_orphan]
    if not orphans:
        return []
    waiting = {
        evaluation_queue(state, evaluation): evaluation
        for evaluation in reversed(unfinished)
        if evaluation.status == "queued" and (not evaluation.client or evaluation.client in state.clients)
    }
    found = []
    for orphan in orphans:
        waiter = waiting.get(evaluation_queue(state, orphan))
        if orphan.is_background:
            found.append(_Unwanted(orphan, BACKGROUND_REASON))
        elif orphan.status == "needs-input":
            found.append(_Unwanted(orphan, UNANSWERABLE_REASON))
        elif waiter is not None:
            found.append(_Unwanted(orphan, f"its client disconnected, and {waiter.who} is waiting for the session"))
    return found


def end_client_sessions(state: State, client: str) -> Outcome:
    """Close the sessions that a client opened explicitly. Their queued code is dropped, and their running code stopped.

    The client's code in shared sessions continues until the grace period is over.
    """
    effects: list[Effect] = []
    follow_ups: list[Action] = []
    for repl in state.repls.values():
        for session in repl.sessions.values():
            if session.client != client or session.lane is not None:
                continue
            leaving = replace(session, client=None, is_leaving=True)
            state = with_session(state, repl.id, leaving)
            left = state.unfinished_in_session(repl.id, session.name)
            follow_ups += [
                CancelQueued(evaluation.id, f"the code was never sent: {CLIENT_SESSION_REASON}")
                for evaluation in left
                if evaluation.status == "queued"
            ]
            effects += [
                StopEvaluation(evaluation=evaluation.id, why=CLIENT_SESSION_REASON)
                for evaluation in left
                if evaluation.status != "queued"
            ]
            if not left:
                effects.append(CloseSession(id=repl.id, name=session.name))
    return Outcome(state, (*effects, *start_grace_period(state, client)), tuple(follow_ups))


def close_if_unused(state: State, repl: str, name: str) -> tuple[Effect, ...]:
    """Return the effect that closes a session, or no effect while it has unfinished evaluations."""
    return () if state.unfinished_in_session(repl, name) else (CloseSession(id=repl, name=name),)


def remove_closed_session(state: State, repl: str, name: str) -> State:
    """Remove a session of a disconnected client that the REPL has closed."""
    known = state.repls.get(repl)
    if known is None or name not in known.sessions or not known.sessions[name].is_leaving:
        return state
    return with_repl(state, replace(known, sessions=without_item(known.sessions, name)))


def _client_lanes(state: State, client: str) -> list[tuple[str, Session]]:
    """Return the lanes of a client as pairs of a REPL's id and a session."""
    found = [(repl.id, session) for repl in state.repls.values() for session in repl.sessions.values()]
    return [(repl, session) for repl, session in found if session.client == client and session.lane is not None]
