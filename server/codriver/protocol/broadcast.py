"""Notify clients of changes to lists, skills or the output log, in either version of the protocol.

Clients that made the handshake are notified of changes to lists without requesting it, and of changes to resources to
which they subscribed. Clients without a handshake receive what they requested on their `subscriptions/listen` streams.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from codriver.protocol.resources import LOG_URI, is_skill

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.core.effects import NotifyClients
    from codriver.log.output_log import OutputLog
    from codriver.net.client_sessions import Clients, ClientSession
    from codriver.protocol.subscriptions import Subscriptions

_LIST_CHANGED_LINES: dict[str, bytes] = {
    changed: json.dumps({"jsonrpc": "2.0", "method": f"notifications/{changed}/list_changed"}).encode() + b"\n"
    for changed in ("tools", "resources")
}
"""For each kind of list, the line with which clients are notified that the list has changed."""


class Broadcast:
    """Sends notifications about changes to all clients, for the lifetime of a server."""

    def __init__(self, clients: Clients, subscriptions: Subscriptions, log: OutputLog) -> None:
        self._clients = clients
        self.subscriptions = subscriptions
        self._log = log
        self.followers: set[Callable[[], None]] = set()
        """Functions that are called when the log has grown, at most as often as clients are notified."""

    def notify_list_changed(self, effect: NotifyClients) -> None:
        """Notify all clients that the list of tools or resources has changed."""
        line = _LIST_CHANGED_LINES[effect.changed]
        for session in self._clients:
            if session.handshake:
                session.outbox.offer(line)
        self.subscriptions.notify_list_changed(effect.changed)
        if effect.changed == "resources":
            self._skills_changed()

    def _skills_changed(self) -> None:
        # It is unknown which file of which skill has changed, so all subscribers are notified.
        for session in self._clients:
            for uri in sorted(filter(is_skill, session.subscribed)):
                _notify_resource_updated(session, uri)
        for uri in sorted(filter(is_skill, self.subscriptions.watched_uris())):
            self.subscriptions.notify_resource_updated(uri)

    def notify_all_of_log_growth(self) -> None:
        """Notify all clients that subscribed to the log that it has grown, and call the functions in `followers`."""
        for follower in tuple(self.followers):
            follower()
        for session in self._clients:
            self.notify_client_of_log_growth(session)

    def notify_client_of_log_growth(self, session: ClientSession) -> None:
        """Notify one client that the log has grown, if it subscribed to the log and was not notified already."""
        is_subscribed, has_streams = LOG_URI in session.subscribed, self.subscriptions.has_stream(session.id)
        if not is_subscribed and not has_streams:
            return
        last_line = self._log.last_line or 0
        if session.reported_line < last_line:
            session.reported_line = last_line
            if is_subscribed:
                _notify_resource_updated(session, LOG_URI)
            if has_streams:
                self.subscriptions.notify_resource_updated(LOG_URI, session.id)

    def mark_log_as_known(self, session: ClientSession) -> None:
        """Record that a client knows the current log, because it is about to subscribe to the log."""
        self.notify_client_of_log_growth(session)
        session.reported_line = self._log.last_line or 0


def _notify_resource_updated(session: ClientSession, uri: str) -> None:
    """Notify a client that opened its session with a handshake that a resource has changed."""
    message = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
    session.outbox.offer(json.dumps(message).encode() + b"\n")
