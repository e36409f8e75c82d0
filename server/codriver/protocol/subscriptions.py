"""Subscriptions of clients without a handshake: `subscriptions/listen` streams.

A stream begins with an acknowledgement of the requested kinds. Then every change of these kinds is sent, tagged with
the id of the request, until the client cancels the request or leaves. Source: MCP 2026-07-28, subscriptions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from codriver.protocol.error_messages import INVALID_REQUEST, SUBSCRIPTION_KEY, TOO_MANY, RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.net.client_sessions import ClientSession

MAX_STREAMS = 64
"""The streams of one client; one stream can carry all changes."""

CHANGES = {
    "tools": ("toolsListChanged", "notifications/tools/list_changed"),
    "prompts": ("promptsListChanged", "notifications/prompts/list_changed"),
    "resources": ("resourcesListChanged", "notifications/resources/list_changed"),
}
"""The lists that may change: the name by which a stream asks for one, and the notification."""
UPDATED = "notifications/resources/updated"


class Subscription:
    """One subscription: a change that was asked for is offered to the client's outbox at once."""

    def __init__(
        self,
        honored: Mapping[str, Any],
        identity: str | int,
        offer: Callable[[bytes], None],
        tasks: frozenset[str] = frozenset(),
    ) -> None:
        self._honored = honored
        self.tasks = tasks
        self.uris = frozenset(honored.get("resourceSubscriptions", ()))
        self.meta: dict[str, object] = {SUBSCRIPTION_KEY: identity}
        self._offer = offer

    def list_changed(self, changed: str) -> None:
        """Tell the client that a list changed, if it requested that."""
        asked, method = CHANGES[changed]
        if asked in self._honored:
            self.send({"method": method, "params": {"_meta": self.meta}})

    def updated(self, uri: str) -> None:
        """Tell the client that a resource changed, if it requested that."""
        if uri in self.uris:
            self.send({"method": UPDATED, "params": {"uri": uri, "_meta": self.meta}})

    def send(self, notification: Mapping[str, object]) -> None:
        """Send the client a message that it requested."""
        self._offer(json.dumps({"jsonrpc": "2.0", **notification}).encode() + b"\n")

    def acknowledge(self) -> None:
        """Tell the client first of all that its request was heard."""
        told = {"notifications": self._honored, "_meta": self.meta}
        self.send({"method": "notifications/subscriptions/acknowledged", "params": told})


class Subscriptions:
    """The subscriptions of all clients, each an open stream."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str | int, Subscription]] = {}
        """By client, and by the id of the request."""

    def uris(self) -> frozenset[str]:
        """Return the resources whose changes some stream was requested."""
        streams = [stream for own in self._open.values() for stream in own.values()]
        return frozenset().union(*(stream.uris for stream in streams))

    def has(self, client: str) -> bool:
        """Return whether this client has a stream open."""
        return client in self._open

    def list_changed(self, changed: str) -> None:
        """Tell every stream that requested it that a list changed."""
        for streams in self._open.values():
            for stream in streams.values():
                stream.list_changed(changed)

    def updated(self, uri: str, client: str | None = None) -> None:
        """Tell every stream that requested it, or those of one client, that a resource changed."""
        chosen = [self._open.get(client, {})] if client is not None else self._open.values()
        for streams in chosen:
            for stream in streams.values():
                stream.updated(uri)

    def deliver_task(self, task: str, told: Callable[[], Mapping[str, object]]) -> None:
        """Send the state of a task on each stream that requested the task."""
        for stream in [stream for streams in self._open.values() for stream in streams.values()]:
            if task in stream.tasks:
                stream.send({"method": "notifications/tasks", "params": {**told(), "_meta": stream.meta}})

    def open(
        self,
        session: ClientSession,
        identity: str | int | None,
        asked: Mapping[str, Any],
        tasks: frozenset[str] = frozenset(),
    ) -> None:
        """Open a stream of a client, which is told so first. `tasks`: the ids of the tasks that the client asked for.

        Raises:
            RequestRefusedError: the request has no id, the id of another stream, or is one too many.
        """
        streams = self._open.get(session.id, {})
        if identity is None or identity in streams:
            raise RequestRefusedError(INVALID_REQUEST, "subscriptions/listen needs an id that no other stream has")
        if len(streams) >= MAX_STREAMS:
            raise RequestRefusedError(TOO_MANY, f"{MAX_STREAMS} streams of this client are open: cancel some first")
        stream = Subscription(_honored(asked, tasks), identity, session.outbox.offer, tasks)
        stream.acknowledge()
        self._open[session.id] = {**streams, identity: stream}

    def close(self, session: ClientSession, identity: str | int | None) -> None:
        """Close a stream; an unknown one is passed over."""
        streams = self._open.get(session.id, {})
        left = {other: stream for other, stream in streams.items() if other != identity}
        if left:
            self._open[session.id] = left
        else:
            self._open.pop(session.id, None)


def _honored(asked: Mapping[str, Any], tasks: frozenset[str]) -> dict[str, Any]:
    """Return the honoured part of a request: all of it, without the members that were not requested."""
    known = (*(name for name, _ in CHANGES.values()), "resourceSubscriptions")
    honored = {name: asked[name] for name in known if asked.get(name)}
    return {**honored, "taskIds": sorted(tasks)} if tasks else honored
