"""Connected MCP clients: connecting, disconnecting, and notifications of changed lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.app_streams import end_streams_of
from codriver.core.dispatch import (
    NotifyClients,
    Outcome,
)
from codriver.core.orphans import end_client_sessions, end_grace
from codriver.core.records import replace
from codriver.core.state import (
    Client,
    State,
    with_item,
    without_item,
)

if TYPE_CHECKING:
    from codriver.core.actions import (
        ClientConnected,
        ClientGone,
        GraceOver,
        ResourcesChanged,
        ToolsChanged,
    )


def add_client(state: State, action: ClientConnected) -> Outcome:
    """Add a client."""
    client = Client(action.client, since=state.evaluated)
    return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))


def remove_client(state: State, action: ClientGone) -> Outcome:
    """Remove a client; its own sessions and streams end with it."""
    without = replace(state, clients=without_item(state.clients, action.client))
    left = end_streams_of(without, action.client)
    outcome = end_client_sessions(left.state, action.client)
    return replace(outcome, effects=(*left.effects, *outcome.effects))


def end_client_grace(state: State, action: GraceOver) -> Outcome:
    """End the grace period of a client that left: its evaluations may no longer block others."""
    return end_grace(state, action.client)


def notify_resources_changed(state: State, _action: ResourcesChanged) -> Outcome:
    """Notify the clients that the list of resources changed."""
    return Outcome(state, effects=(NotifyClients(changed="resources"),))


def notify_tools_changed(state: State, _action: ToolsChanged) -> Outcome:
    """Notify the clients that the list of tools changed."""
    return Outcome(state, effects=(NotifyClients(changed="tools"),))
