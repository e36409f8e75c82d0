"""The activity of others: evaluations of other callers that began or ended since a caller was last told."""

from __future__ import annotations

from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from codriver.core.state import Told, with_item
from codriver.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Reversible

    from codriver.core.state import Client, Seen, State
    from codriver.core.values import Evaluation

MAX_CALLERS = 64
"""Callers of one client that are remembered; each needs a name of its own, so more are hardly ever met."""
MAX_SESSIONS = 64
"""Sessions that a caller's answers were about and that are remembered."""
NOTHING = Told(0, frozenset())
_NUMBER = attrgetter("number")


def since_told(state: State, client: str, who: str) -> tuple[Evaluation, ...]:
    """The evaluations of others that began or ended since the caller was told, by number.

    None at the first call, as there is no time before it to tell about.
    """
    known = state.clients.get(client)
    told = known.told.get(who) if known else None
    if told is None:
        return ()
    changed = [e for e in _unknown(state, told) if e.over or e.number > told.number]
    return tuple([e for e in changed if (e.client, e.who) != (client, who)])


def with_told(state: State, client: Client, who: str) -> Client:
    """The client, of which the caller `who` now knows how every evaluation stands."""
    told = client.told.get(who, NOTHING)
    live = frozenset([e.id for e in _unknown(state, told) if not e.over])
    others = [(name, mark) for name, mark in client.told.items() if name != who][-(MAX_CALLERS - 1) :]
    known = Told(state.evaluated, live, told.seen)
    return replace(client, told=MappingProxyType(dict([*others, (who, known)])))


def seen(state: State, client: str, who: str, session: str) -> Seen | None:
    """The standing of the session with this key as the caller's last answer said it; None if there was none."""
    known = state.clients.get(client)
    told = known.told.get(who) if known else None
    return told.seen.get(session) if told else None


def with_seen(client: Client, who: str, session: str, stands: Seen) -> Client:
    """The client, of which the caller `who` was told how this session stands."""
    told = client.told.get(who, NOTHING)
    if told.seen.get(session) == stands:
        return client
    others = [(key, one) for key, one in told.seen.items() if key != session][-(MAX_SESSIONS - 1) :]
    known = replace(told, seen=MappingProxyType(dict([*others, (session, stands)])))
    return replace(client, told=with_item(client.told, who, known))


def _unknown(state: State, told: Told) -> list[Evaluation]:
    """The evaluations of which the end, or the beginning, was not told, by number."""
    found = [state.evaluations[name] for name in told.live if name in state.evaluations]
    # The newest come last, so only they are looked at, however many are kept.
    for evaluation in reversed(cast("Reversible[Evaluation]", state.evaluations.values())):
        if evaluation.number <= told.number:
            break
        found.append(evaluation)
    return sorted(found, key=_NUMBER) if len(found) > 1 else found
