"""Notification broadcast: clients of both protocol eras are told that a list, a skill or the output log changed.

Those that made the handshake get list changes unasked, and changes of the resources that they subscribed to; those that
say who they are in every request get what they asked for on their `subscriptions/listen` streams. Such a stream begins
with an acknowledgement of the kinds asked for; then every change of one is told, tagged with the id of the request,
until the client cancels the request or leaves. Source: MCP 2026-07-28, subscriptions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from codriver.protocol.error_messages import INVALID_REQUEST, SUBSCRIPTION_KEY, TOO_MANY, RequestRefusedError
from codriver.protocol.resources import LOG_URI, is_skill

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.core.effects import NotifyClients
    from codriver.log.output_log import OutputLog
    from codriver.net.client_sessions import Clients, ClientSession


_LIST_CHANGED: dict[str, bytes] = {
    changed: json.dumps({"jsonrpc": "2.0", "method": f"notifications/{changed}/list_changed"}).encode() + b"\n"
    for changed in ("tools", "resources")
}


class Broadcast:
    """The notifications of one server to all its clients. Lives as long as the server."""

    def __init__(self, clients: Clients, subscriptions: Subscriptions, log: OutputLog) -> None:
        self._clients = clients
        self.subscriptions = subscriptions
        self._log = log
        self.followers: set[Callable[[], None]] = set()
        """Called whenever the log has grown, at most as often as clients are told."""

    def list_changed(self, effect: NotifyClients) -> None:
        """Tell every client that the list of tools or of resources changed."""
        line = _LIST_CHANGED[effect.changed]
        for session in self._clients:
            if session.handshake:
                session.outbox.offer(line)
        self.subscriptions.list_changed(effect.changed)
        if effect.changed == "resources":
            self._skills_changed()

    def _skills_changed(self) -> None:
        # Which file of which skill it was, nobody has looked: whoever subscribed to one reads it again.
        for session in self._clients:
            for uri in sorted(filter(is_skill, session.subscribed)):
                _resource_updated(session, uri)
        for uri in sorted(filter(is_skill, self.subscriptions.uris())):
            self.subscriptions.updated(uri)

    def log_grew(self) -> None:
        """Tell every client that subscribed to the log, and every follower, that it grew."""
        for follower in tuple(self.followers):
            follower()
        for session in self._clients:
            self.log_grew_for(session)

    def log_grew_for(self, session: ClientSession) -> None:
        """Tell one client that the log grew, if it subscribed and is not told yet."""
        is_subscribed, has_streams = LOG_URI in session.subscribed, self.subscriptions.has(session.id)
        if not is_subscribed and not has_streams:
            return
        last_line = self._log.last_line or 0
        if session.told_line < last_line:
            session.told_line = last_line
            if is_subscribed:
                _resource_updated(session, LOG_URI)
            if has_streams:
                self.subscriptions.updated(LOG_URI, session.id)

    def log_known_to(self, session: ClientSession) -> None:
        """Take what is logged already for no news to this one, which is about to subscribe."""
        self.log_grew_for(session)
        session.told_line = self._log.last_line or 0


def _resource_updated(session: ClientSession, uri: str) -> None:
    """Notify a client of the handshake eras, which subscribed to the resource."""
    message = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
    session.outbox.offer(json.dumps(message).encode() + b"\n")


MAX_STREAMS = 64
"""Of one client; one stream can carry all there is."""


CHANGES = {
    "tools": ("toolsListChanged", "notifications/tools/list_changed"),
    "prompts": ("promptsListChanged", "notifications/prompts/list_changed"),
    "resources": ("resourcesListChanged", "notifications/resources/list_changed"),
}
"""The lists that may change: what a stream asks for, and the notification."""
UPDATED = "notifications/resources/updated"


class Subscription:
    """One subscription: a change that it asked for is offered to the client's outbox as soon as it is delivered."""

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
        """Tell the client that a list changed, if it asked for that."""
        asked, method = CHANGES[changed]
        if asked in self._honored:
            self.send({"method": method, "params": {"_meta": self.meta}})

    def updated(self, uri: str) -> None:
        """Tell the client that a resource changed, if it asked for that."""
        if uri in self.uris:
            self.send({"method": UPDATED, "params": {"uri": uri, "_meta": self.meta}})

    def send(self, notification: Mapping[str, object]) -> None:
        """Send the client this, which it asked for."""
        self._offer(json.dumps({"jsonrpc": "2.0", **notification}).encode() + b"\n")

    def acknowledge(self) -> None:
        """Tell the client that it is heard, before all else."""
        told = {"notifications": self._honored, "_meta": self.meta}
        self.send({"method": "notifications/subscriptions/acknowledged", "params": told})


class Subscriptions:
    """The subscriptions of all clients, each an open stream."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str | int, Subscription]] = {}
        """By client, and by the id of the request."""

    def uris(self) -> frozenset[str]:
        """The resources whose changes some stream was asked for."""
        streams = [stream for own in self._open.values() for stream in own.values()]
        return frozenset().union(*(stream.uris for stream in streams))

    def has(self, client: str) -> bool:
        """Whether this client has a stream open."""
        return client in self._open

    def list_changed(self, changed: str) -> None:
        """Tell every stream that asked for it that a list changed."""
        for streams in self._open.values():
            for stream in streams.values():
                stream.list_changed(changed)

    def updated(self, uri: str, client: str | None = None) -> None:
        """Tell every stream that asked for it, or those of one client, that a resource changed."""
        chosen = [self._open.get(client, {})] if client is not None else self._open.values()
        for streams in chosen:
            for stream in streams.values():
                stream.updated(uri)

    def deliver_task(self, client: str, task: str, told: Callable[[], Mapping[str, object]]) -> None:
        """Tell a client how its task stands, on each stream that was asked for it."""
        for stream in self._open.get(client, {}).values():
            if task in stream.tasks:
                stream.send({"method": "notifications/tasks", "params": {**told(), "_meta": stream.meta}})

    def open(
        self,
        session: ClientSession,
        identity: str | int | None,
        asked: Mapping[str, Any],
        tasks: frozenset[str] = frozenset(),
    ) -> None:
        """Open a stream of a client, which is told so first. `tasks`: the ids of those that it asked for.

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
        """Close a stream. One that is not open is passed over."""
        streams = self._open.get(session.id, {})
        left = {other: stream for other, stream in streams.items() if other != identity}
        if left:
            self._open[session.id] = left
        else:
            self._open.pop(session.id, None)


def _honored(asked: Mapping[str, Any], tasks: frozenset[str]) -> dict[str, Any]:
    """The honoured part of a request: all of it, and nothing is said of what was not asked for."""
    known = (*(name for name, _ in CHANGES.values()), "resourceSubscriptions")
    honored = {name: asked[name] for name in known if asked.get(name)}
    return {**honored, "taskIds": sorted(tasks)} if tasks else honored
