"""The connected clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core import orphans, others, sessions
from codriver.core.actions import (
    ClientConnected,
    ClientGone,
    ClientIntroduced,
    ClientTold,
    GraceOver,
    McpAction,
    ResourcesChanged,
    ToolsChanged,
)
from codriver.core.dispatch import Context, Outcome
from codriver.core.effects import NotifyClients
from codriver.core.records import replace
from codriver.core.state import Client, with_item, without_item

if TYPE_CHECKING:
    from codriver.core.state import State


def handle(state: State, action: McpAction, context: Context) -> Outcome:
    """The state after an `mcp` action."""
    del context
    match action:
        case ClientConnected():
            client = Client(action.client, action.now)
            return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))
        case ClientIntroduced() if action.client in state.clients:
            client = replace(
                state.clients[action.client],
                name=action.name,
                version=action.version,
                protocol=action.protocol,
                initialized=True,
            )
            return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))
        case ClientTold() if action.client in state.clients:
            client = others.with_told(state, state.clients[action.client], action.who)
            return Outcome(replace(state, clients=with_item(state.clients, client.id, client)))
        case ClientGone():
            return sessions.leave(replace(state, clients=without_item(state.clients, action.client)), action.client)
        case GraceOver():
            return orphans.mark(state, action.client)
        case ResourcesChanged():
            return Outcome(state, effects=(NotifyClients(changed="resources"),))
        case ToolsChanged():
            return Outcome(state, effects=(NotifyClients(changed="tools"),))
    return Outcome(state)
