"""The connected MCP clients: who comes and goes, and the changes they are notified of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core import activity, app_streams, client_departure
from codriver.core.dispatch import Outcome
from codriver.core.effects import NotifyClients
from codriver.core.records import replace
from codriver.core.state import Client, with_item, without_item

if TYPE_CHECKING:
    from codriver.core.actions import ClientConnected, ClientGone, ClientTold, GraceOver, ResourcesChanged, ToolsChanged
    from codriver.core.state import State


def connected(state: State, action: ClientConnected) -> Outcome:
    """One client more."""
    client = Client(action.client, since=state.evaluated)
    return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))


def told(state: State, action: ClientTold) -> Outcome:
    """A caller knows now how every evaluation stands."""
    if action.client not in state.clients:
        return Outcome(state)
    client = activity.with_told(state, state.clients[action.client], action.who)
    if action.session is not None and action.seen is not None:
        client = activity.with_seen(client, action.who, action.session, action.seen)
    return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))


def gone(state: State, action: ClientGone) -> Outcome:
    """One client less; what was its own ends with it."""
    without = replace(state, clients=without_item(state.clients, action.client))
    left = app_streams.leave(without, action.client)
    outcome = client_departure.leave(left.state, action.client)
    return replace(outcome, effects=(*left.effects, *outcome.effects))


def grace_over(state: State, action: GraceOver) -> Outcome:
    """The grace of a client that left is over: its evaluations may hold up nobody any more."""
    return client_departure.end_grace(state, action.client)


def resources_changed(state: State, _action: ResourcesChanged) -> Outcome:
    """Notify the clients that the list of resources changed."""
    return Outcome(state, effects=(NotifyClients(changed="resources"),))


def tools_changed(state: State, _action: ToolsChanged) -> Outcome:
    """Notify the clients that the list of tools changed."""
    return Outcome(state, effects=(NotifyClients(changed="tools"),))
