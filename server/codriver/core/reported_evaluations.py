"""Track which evaluations of other callers have been reported to each caller.

Every answer informs its caller of other callers' evaluations that started or finished since its previous answer.
"""

from __future__ import annotations

from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from codriver.core.caller_names import is_by_caller
from codriver.core.dispatch import Outcome
from codriver.core.records import replace
from codriver.core.state import CallerKnowledge, Client, ReportedStatus, State, with_item

if TYPE_CHECKING:
    from codriver.core.actions import EvaluationsReported
    from codriver.core.evaluations import Evaluation


MAX_CALLERS = 64
"""Maximum number of callers remembered per client. It is rare to have more, because each needs its own `who`."""
MAX_SESSIONS = 64
"""Maximum number of sessions whose reported status is remembered per caller."""
MAX_UNRECORDED_EVALUATIONS = 16
"""Number of evaluations since a caller's last recorded report after which the next report is recorded."""
NO_KNOWLEDGE = CallerKnowledge(0, frozenset())
"""The knowledge of a caller that has not received an answer yet."""
_EVALUATION_NUMBER = attrgetter("number")


def caller_knowledge(state: State, client: str, who: str) -> CallerKnowledge | None:
    """Return what was reported to a caller, or None if it has not received an answer yet."""
    known = state.clients.get(client)
    return known.knowledge.get(who) if known else None


def unreported_evaluations(state: State, reported: CallerKnowledge, client: str, who: str) -> list[Evaluation]:
    """Return other callers' evaluations that started or finished since the caller's last report, ordered by number."""
    unknown = _unknown_evaluations(state, reported, client, who)
    return [e for e in unknown if e.is_finished or e.number > reported.number] if unknown else unknown


def is_up_to_date(state: State, reported: CallerKnowledge, session: str | None, current: ReportedStatus | None) -> bool:
    """Return whether a new report to a caller would add so little that it does not have to be recorded.

    This requires that no other caller's evaluation was unfinished at the last report, that few have been accepted
    since, and that the caller knows the current status of the session.
    """
    is_near = not reported.live and state.evaluated - reported.number < MAX_UNRECORDED_EVALUATIONS
    return is_near and (session is None or reported.seen.get(session) == current)


def with_all_reported(state: State, client: Client, who: str) -> Client:
    """Record that all evaluations were reported to the client's caller `who`, and return the new client."""
    reported = client.knowledge.get(who, NO_KNOWLEDGE)
    live = frozenset([e.id for e in _unknown_evaluations(state, reported, client.id, who) if not e.is_finished])
    others = [(name, mark) for name, mark in client.knowledge.items() if name != who][-(MAX_CALLERS - 1) :]
    known = CallerKnowledge(state.evaluated, live, reported.seen)
    return replace(client, knowledge=MappingProxyType(dict([*others, (who, known)])))


def with_session_reported(client: Client, who: str, session: str, current: ReportedStatus) -> Client:
    """Record that the status of a session was reported to the client's caller `who`, and return the new client."""
    reported = client.knowledge.get(who, NO_KNOWLEDGE)
    if reported.seen.get(session) == current:
        return client
    others = [(key, evaluation) for key, evaluation in reported.seen.items() if key != session][-(MAX_SESSIONS - 1) :]
    known = replace(reported, seen=MappingProxyType(dict([*others, (session, current)])))
    return replace(client, knowledge=with_item(client.knowledge, who, known))


def _unknown_evaluations(state: State, reported: CallerKnowledge, client: str, who: str) -> list[Evaluation]:
    """Return other callers' evaluations whose start or end was not reported to the caller, ordered by number."""
    known = state.evaluations
    found = [known[name] for name in reported.live if name in known] if reported.live else []
    # Evaluations are ordered by number, so iterating from the end stops at the first known one.
    for name in reversed(known):
        evaluation = known[name]
        if evaluation.number <= reported.number:
            break
        of = (evaluation.client, evaluation.who)
        if of != (client, who) and not is_by_caller(state, client, who, of):
            found.append(evaluation)
    theirs = (
        [other for other in found if not is_by_caller(state, client, who, (other.client, other.who))]
        if reported.live
        else found
    )
    return sorted(theirs, key=_EVALUATION_NUMBER) if theirs else theirs


def record_all_reported(state: State, action: EvaluationsReported) -> Outcome:
    """Record that all evaluations, and possibly the status of a session, were reported to a caller."""
    if action.client not in state.clients:
        return Outcome(state)
    client = with_all_reported(state, state.clients[action.client], action.who)
    if action.session is not None and action.seen is not None:
        client = with_session_reported(client, action.who, action.session, action.seen)
    return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))
