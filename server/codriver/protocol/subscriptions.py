"""Subscriptions of clients without a handshake: `subscriptions/listen` streams.

A stream starts with an acknowledgement of the requested kinds. Then every change of these kinds is sent with the id of
the request, until the client cancels the request or disconnects. Source: MCP 2026-07-28, subscriptions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from codriver.protocol.error_messages import INVALID_REQUEST, SERVER_ERROR_CODE, SUBSCRIPTION_KEY, RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.net.client_sessions import ClientSession

MAX_STREAMS_PER_CLIENT = 64
"""Maximum number of one client's streams. A single stream can carry all changes."""

LIST_CHANGES = {
    "tools": ("toolsListChanged", "notifications/tools/list_changed"),
    "prompts": ("promptsListChanged", "notifications/prompts/list_changed"),
    "resources": ("resourcesListChanged", "notifications/resources/list_changed"),
}
"""For each list that may change, the name with which a stream requests its changes, and the notification."""
RESOURCE_UPDATED_METHOD = "notifications/resources/updated"


class Subscription:
    """A subscription of a client, which queues notifications about the requested changes."""

    def __init__(
        self,
        honored: Mapping[str, Any],
        identity: str | int,
        offer: Callable[[bytes], None],
        tasks: frozenset[str] = frozenset(),
    ) -> None:
        self._honored_members = honored
        self.tasks = tasks
        self.uris = frozenset(honored.get("resourceSubscriptions", ()))
        self.meta: dict[str, object] = {SUBSCRIPTION_KEY: identity}
        self._offer = offer

    def notify_list_changed(self, changed: str) -> None:
        """Notify the client that a list has changed, if it requested that."""
        requested, method = LIST_CHANGES[changed]
        if requested in self._honored_members:
            self.send({"method": method, "params": {"_meta": self.meta}})

    def notify_resource_updated(self, uri: str) -> None:
        """Notify the client that a resource has changed, if it requested that."""
        if uri in self.uris:
            self.send({"method": RESOURCE_UPDATED_METHOD, "params": {"uri": uri, "_meta": self.meta}})

    def send(self, notification: Mapping[str, object]) -> None:
        """Queue a notification for the client."""
        self._offer(json.dumps({"jsonrpc": "2.0", **notification}).encode() + b"\n")

    def acknowledge(self) -> None:
        """Acknowledge the subscription. This is its first message."""
        acknowledgement = {"notifications": self._honored_members, "_meta": self.meta}
        self.send({"method": "notifications/subscriptions/acknowledged", "params": acknowledgement})


class Subscriptions:
    """The subscriptions of all clients. Each subscription is an open stream."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str | int, Subscription]] = {}
        """Open streams by client and request id."""

    def watched_uris(self) -> frozenset[str]:
        """Return the URIs of all resources that any client has subscribed to."""
        streams = [stream for streams_by_id in self._open.values() for stream in streams_by_id.values()]
        return frozenset().union(*(stream.uris for stream in streams))

    def has_stream(self, client: str) -> bool:
        """Return whether a client has an open stream."""
        return client in self._open

    def notify_list_changed(self, changed: str) -> None:
        """Notify all clients that subscribed to a list that it has changed."""
        for streams in self._open.values():
            for stream in streams.values():
                stream.notify_list_changed(changed)

    def notify_resource_updated(self, uri: str, client: str | None = None) -> None:
        """Notify clients that subscribed to a resource that it has changed. `client` limits this to one client."""
        chosen = [self._open.get(client, {})] if client is not None else self._open.values()
        for streams in chosen:
            for stream in streams.values():
                stream.notify_resource_updated(uri)

    def deliver_task(self, task: str, state: Callable[[], Mapping[str, object]]) -> None:
        """Send the state of a task to all clients that subscribed to it."""
        for stream in [stream for streams in self._open.values() for stream in streams.values()]:
            if task in stream.tasks:
                stream.send({"method": "notifications/tasks", "params": {**state(), "_meta": stream.meta}})

    def open(
        self,
        session: ClientSession,
        identity: str | int | None,
        requested: Mapping[str, Any],
        tasks: frozenset[str] = frozenset(),
    ) -> None:
        """Open a stream for a client and acknowledge it. `tasks` contains the ids of tasks to follow.

        Raises:
            RequestRefusedError: the request has no id or the id of another stream, or the client has too many streams.
        """
        streams = self._open.get(session.id, {})
        if identity is None or identity in streams:
            raise RequestRefusedError(
                INVALID_REQUEST, "another stream already has this id. Send subscriptions/listen with a new id"
            )
        if len(streams) >= MAX_STREAMS_PER_CLIENT:
            raise RequestRefusedError(
                SERVER_ERROR_CODE,
                f"this client has {MAX_STREAMS_PER_CLIENT} open streams, which is the limit. Cancel some of them first",
            )
        stream = Subscription(_honored_members(requested, tasks), identity, session.outbox.offer, tasks)
        stream.acknowledge()
        self._open[session.id] = {**streams, identity: stream}

    def close(self, session: ClientSession, identity: str | int | None) -> None:
        """Close a stream. Unknown streams are ignored."""
        streams = self._open.get(session.id, {})
        left = {other: stream for other, stream in streams.items() if other != identity}
        if left:
            self._open[session.id] = left
        else:
            self._open.pop(session.id, None)


def _honored_members(requested: Mapping[str, Any], tasks: frozenset[str]) -> dict[str, Any]:
    """Return the part of a subscription request that the server honors, without members that are false or empty."""
    known = (*(name for name, _ in LIST_CHANGES.values()), "resourceSubscriptions")
    honored = {name: requested[name] for name in known if requested.get(name)}
    return {**honored, "taskIds": sorted(tasks)} if tasks else honored
