"""The evaluations of others that each caller knows about.

A caller is informed of each evaluation of others that started or finished since its last answer.
"""

from __future__ import annotations

from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from codriver.core.caller_names import is_own
from codriver.core.dispatch import (
    Outcome,
)
from codriver.core.records import replace
from codriver.core.state import (
    Client,
    Seen,
    State,
    Told,
    with_item,
)

if TYPE_CHECKING:
    from codriver.core.actions import (
        ClientTold,
    )
    from codriver.core.values import Evaluation


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


def told(state: State, action: ClientTold) -> Outcome:
    """Note that a caller knows the standing of all evaluations."""
    if action.client not in state.clients:
        return Outcome(state)
    client = with_told(state, state.clients[action.client], action.who)
    if action.session is not None and action.seen is not None:
        client = with_seen(client, action.who, action.session, action.seen)
    return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))
