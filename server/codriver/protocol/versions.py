"""The versions of MCP, and the names with which requests and results say which, and whose, they are.

A test compares them with the SDK's, which is not imported for them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions in which a client begins with `initialize`, the oldest first."""
BATCHED = "2025-03-26"
"""The one version of the protocol with batches: it was the first that said so, and the next took them out again."""
OLDER, MODERN = "2025-11-25", "2026-07-28"
"""The two versions with tasks, each in its own way. The second has no handshake: requests tell of their client."""

INITIALIZE, DISCOVER, LISTEN = "initialize", "server/discover", "subscriptions/listen"
INITIALIZED, CANCELLED = "notifications/initialized", "notifications/cancelled"

PREFIX = "io.modelcontextprotocol/"
"""How the names begin that the protocol has for members of `_meta`."""
VERSION_KEY = f"{PREFIX}protocolVersion"
CLIENT_KEY = f"{PREFIX}clientInfo"
CAPABILITIES_KEY = f"{PREFIX}clientCapabilities"
LEVEL_KEY = f"{PREFIX}logLevel"
SERVER_KEY = f"{PREFIX}serverInfo"
SUBSCRIPTION_KEY = f"{PREFIX}subscriptionId"
TOKEN = "progressToken"  # noqa: S105  # the protocol's name for what ties progress to a request

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of log messages, the least severe first. Source: RFC 5424."""

TASKS = f"{PREFIX}tasks"
"""The extension by which a client of 2026-07-28 says that it knows tasks."""
TASKS_OFFERED: Mapping[str, Any] = MappingProxyType({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}})
"""The capability that a client of 2025-11-25 is told of, if it has one of that name itself."""


def meta_of(params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The `_meta` of a request; empty for a request without one, and for one of another shape."""
    meta = (params or {}).get("_meta")
    return meta if isinstance(meta, dict) else {}


def envelope(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a request's `_meta` that tell of its client: those that the protocol has named.

    Others, as Claude Code's `claudecode/toolUseId` and `traceparent`, differ from request to request.
    """
    return {key: value for key, value in meta.items() if key.startswith(PREFIX)}


def version_of(method: str, params: Mapping[str, Any]) -> str | None:
    """The protocol version that a request settles; None when it says nothing of it."""
    if method == INITIALIZE:
        # An unknown one is answered with the newest that has a handshake.
        wanted = params.get("protocolVersion")
        return wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    version = meta_of(params).get(VERSION_KEY)
    return version if isinstance(version, str) else None
