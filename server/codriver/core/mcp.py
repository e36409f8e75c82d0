"""The connected clients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codriver.core import others
from codriver.core.actions import (
    ClientConnected,
    ClientGone,
    ClientIntroduced,
    ClientTold,
    McpAction,
    ResourcesChanged,
    ToolsChanged,
)
from codriver.core.dispatch import Context, Effect, Outcome
from codriver.core.effects import CloseSession, NotifyClients
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
            return _gone(state, action.client)
        case ResourcesChanged():
            return Outcome(state, effects=(NotifyClients(changed="resources"),))
        case ToolsChanged():
            return Outcome(state, effects=(NotifyClients(changed="tools"),))
    return Outcome(state)


def _gone(state: State, client: str) -> Outcome:
    """Without the client, and without the REPL sessions that were its own."""
    effects: list[Effect] = []
    repls = state.repls
    for repl in state.repls.values():
        ended = [session.name for session in repl.sessions.values() if session.client == client]
        if ended:
            kept = {name: session for name, session in repl.sessions.items() if name not in ended}
            repls = with_item(repls, repl.id, replace(repl, sessions=kept))
            effects += [CloseSession(id=repl.id, name=name) for name in ended]
    return Outcome(replace(state, clients=without_item(state.clients, client), repls=repls), tuple(effects))
