"""Callers: who uses a connection, by the names that were given over it, and the REPLs that each has used.

A `who` that is given once is the caller's until another is given. What came over the same connection before any name
was given is that caller's own too, whatever it is called now; sub-agents that give names of their own stay apart.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from codriver.core.dispatch import Outcome
from codriver.core.records import replace
from codriver.core.state import with_item, with_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.actions import CallerNamed
    from codriver.core.state import State

V = TypeVar("V")

MOST: Final = 64
"""Callers, and conversations, of one connection that are remembered, the newest."""


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
