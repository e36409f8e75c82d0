"""The offer of tasks: to which clients, of which tools, and which requests about them there are.

In 2025-11-25 a client declares that it knows tasks in the handshake, and asks for one with a call; since 2026-07-28
they are an extension, which each request declares. Who declares nothing is offered nothing.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY

from codriver.protocol.error_messages import CAPABILITIES_KEY, MODERN, OLDER, TASKS, TOKEN, meta_of
from codriver.protocol.first_answers import WITH_TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext

    from codriver.net.client_sessions import ClientSession

    Context = ServerRequestContext[ClientSession]

ABLE = WITH_TASKS | {"codriver"}
"""The tools whose calls may become tasks."""
BOTH = frozenset({OLDER, MODERN})
ERAS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "tasks/get": BOTH,
        "tasks/cancel": BOTH,
        "tasks/result": frozenset({OLDER}),
        "tasks/list": frozenset({OLDER}),
        "tasks/update": frozenset({MODERN}),
    }
)
"""The requests about tasks, by method, with the versions that have it."""


def offered(ctx: Context) -> bool:
    """Whether there are tasks for the client of this request."""
    if ctx.protocol_version == MODERN:
        extensions = capabilities_of(ctx).get("extensions")
        return isinstance(extensions, dict) and isinstance(extensions.get(TASKS), dict)
    return ctx.lifespan_context.takes_tasks


def check_offered(ctx: Context) -> None:
    """Let pass what a client asks about tasks.

    Raises:
        MCPError: there are none for it, or none that are asked for in this way.
    """
    if ctx.protocol_version not in ERAS.get(ctx.method, BOTH):
        raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
    if offered(ctx):
        return
    if ctx.protocol_version == MODERN:
        missing: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        words = f"declare the extension {TASKS} in the request's client capabilities"
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, words, missing)
    raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)


def token_of(ctx: Context) -> object:
    """The token that ties progress to the request, if it asks for any."""
    return meta_of(ctx.params).get(TOKEN)


def capabilities_of(ctx: Context) -> Mapping[str, Any]:
    """The capabilities that a request of 2026-07-28 declares."""
    found = meta_of(ctx.params).get(CAPABILITIES_KEY)
    return found if isinstance(found, dict) else {}
