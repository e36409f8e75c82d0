"""`subscriptions/listen`: the stream of changes that a client of the newer protocol asks for.

Source: MCP 2026-07-28, subscriptions. What the client asked for is acknowledged first; then every change of a kind it
asked for is told, tagged with the id of its request, until it cancels the request or leaves.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, event_matches, event_to_notification
from mcp_types import (
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
)
from mcp_types.jsonrpc import INVALID_REQUEST

from codriver.protocol.error_messages import TOO_MANY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.context import ServerRequestContext
    from mcp.server.subscriptions import ServerEvent

    from codriver.net.client_sessions import ClientSession

MAX_STREAMS = 64
"""Of one client; one stream can carry all there is."""


class Subscription:
    """One subscription: an event that it asked for is offered to the client's outbox as soon as it is delivered."""

    def __init__(
        self,
        honored: SubscriptionFilter,
        identity: str | int,
        offer: Callable[[bytes], None],
        tasks: frozenset[str] = frozenset(),
    ) -> None:
        self._honored = honored
        self.tasks = tasks
        self.uris = frozenset(honored.resource_subscriptions or ())
        self.meta: dict[str, object] = {SUBSCRIPTION_ID_META_KEY: identity}
        self._offer = offer
        self._early: list[bytes] | None = []
        """The lines that came before the acknowledgement, which is the first thing on the stream."""

    def deliver(self, event: ServerEvent) -> None:
        """Tell the client, if this is what it asked for."""
        if not event_matches(self._honored, self.uris, event):
            return
        self.send(event_to_notification(event, self.meta).model_dump(by_alias=True, mode="json", exclude_none=True))

    def send(self, notification: Mapping[str, object]) -> None:
        """Send the client this, which it asked for."""
        line = json.dumps({"jsonrpc": "2.0", **notification}).encode() + b"\n"
        if self._early is None:
            self._offer(line)
        else:
            self._early.append(line)

    def acknowledged(self) -> None:
        """The client knows that it is heard."""
        early, self._early = self._early or [], None
        for line in early:
            self._offer(line)


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

    def deliver(self, event: ServerEvent, client: str | None = None) -> None:
        """Give `event` to every stream, or to those of one client."""
        chosen = [self._open.get(client, {})] if client is not None else list(self._open.values())
        for streams in chosen:
            for stream in streams.values():
                stream.deliver(event)

    def deliver_task(self, client: str, task: str, told: Callable[[], Mapping[str, object]]) -> None:
        """Tell a client how its task stands, on each stream that was asked for it."""
        for stream in self._open.get(client, {}).values():
            if task in stream.tasks:
                stream.send({"method": "notifications/tasks", "params": {**told(), "_meta": stream.meta}})

    async def listen(
        self,
        ctx: ServerRequestContext[ClientSession],
        params: SubscriptionsListenRequestParams,
        tasks: frozenset[str] = frozenset(),
    ) -> NoReturn:
        """Serve one stream until its request is cancelled. `tasks`: the ids of those that it asked for.

        Raises:
            MCPError: the request has no id, the id of another stream, or is one too many.
        """
        session, identity = ctx.lifespan_context, ctx.request_id
        streams = self._open.get(session.id, {})
        if identity is None or identity in streams:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen needs an id that no other stream has")
        if len(streams) >= MAX_STREAMS:
            raise MCPError(TOO_MANY, f"{MAX_STREAMS} streams of this client are open: cancel some first")
        honored = _honored(params.notifications, tasks)
        self._open[session.id] = streams
        stream = streams[identity] = Subscription(honored, identity, session.outbox.offer, tasks)
        try:
            acknowledged = SubscriptionsAcknowledgedNotificationParams(notifications=honored, _meta=stream.meta)
            await ctx.session.send_notification(
                SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=identity
            )
            stream.acknowledged()
            while True:
                await anyio.sleep_forever()
        finally:
            del streams[identity]
            if not streams:
                del self._open[session.id]


def _honored(asked: SubscriptionFilter, tasks: frozenset[str]) -> SubscriptionFilter:
    """The filter as it is honoured: all of it, and nothing is said of what was not asked for."""
    of_tasks = {"taskIds": sorted(tasks)} if tasks else {}
    return SubscriptionFilter(
        tools_list_changed=asked.tools_list_changed or None,
        prompts_list_changed=asked.prompts_list_changed or None,
        resources_list_changed=asked.resources_list_changed or None,
        resource_subscriptions=list(asked.resource_subscriptions) if asked.resource_subscriptions else None,
        **of_tasks,
    )
