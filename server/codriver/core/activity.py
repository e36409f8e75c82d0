"""The activity of others: evaluations of other callers that began or ended since a caller was last told."""

from __future__ import annotations

from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from codriver.core.callers import is_own
from codriver.core.records import replace
from codriver.core.state import Told, with_item

if TYPE_CHECKING:
    from codriver.core.state import Client, Seen, State
    from codriver.core.values import Evaluation

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
    for evaluation in known.newest_first():
        if evaluation.number <= told.number:
            break
        if not is_own(state, client, who, (evaluation.client, evaluation.who)):
            found.append(evaluation)
    theirs = [one for one in found if not is_own(state, client, who, (one.client, one.who))] if told.live else found
    return sorted(theirs, key=_NUMBER) if theirs else theirs
