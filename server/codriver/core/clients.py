"""Handle client connections, and changes to the lists that clients cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.dispatch import Outcome
from codriver.core.effects import NotifyClients
from codriver.core.orphans import end_client_sessions, end_grace_period
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
        ClientDisconnected,
        GracePeriodExpired,
        ResourcesChanged,
        ToolsChanged,
    )


def add_client(state: State, action: ClientConnected) -> Outcome:
    """Add a client. Evaluations older than its connection are not reported to it."""
    client = Client(action.client, since=state.evaluated)
    return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))


def remove_client(state: State, action: ClientDisconnected) -> Outcome:
    """Remove a client and end its sessions."""
    return end_client_sessions(replace(state, clients=without_item(state.clients, action.client)), action.client)


def end_client_grace(state: State, action: GracePeriodExpired) -> Outcome:
    """Turn the evaluations of a disconnected client into orphans, which must not block other callers."""
    return end_grace_period(state, action.client)


def notify_resources_changed(state: State, _action: ResourcesChanged) -> Outcome:
    """Notify clients that the list of resources has changed."""
    return Outcome(state, effects=(NotifyClients(changed="resources"),))


def notify_tools_changed(state: State, _action: ToolsChanged) -> Outcome:
    """Notify clients that the list of tools has changed."""
    return Outcome(state, effects=(NotifyClients(changed="tools"),))
