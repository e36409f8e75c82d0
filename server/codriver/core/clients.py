"""Connected MCP clients: they come and go, and are notified of changed lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.app_streams import end_streams_of
from codriver.core.dispatch import (
    NotifyClients,
    Outcome,
)
from codriver.core.orphans import end_grace, leave
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


def connected(state: State, action: ClientConnected) -> Outcome:
    """Add a client."""
    client = Client(action.client, since=state.evaluated)
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
