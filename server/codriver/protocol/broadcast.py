"""Notification broadcast: clients of both protocol eras are told of changes, and of the server's log messages.

*Changes* of a list, a skill or the output log. Clients that made the handshake get list changes unasked, and changes of
the resources that they subscribed to. Clients without a handshake get the changes asked for on their
`subscriptions/listen` streams. Such a stream begins with an acknowledgement of the kinds asked for; then every change
of these kinds is sent, tagged with the id of the request, until the client cancels the request or leaves.

`notifications/message`: the server's complaints, and its news of the REPLs, for the clients that ask for them. A client
of the handshake eras asks by `logging/setLevel`, until it leaves. A client of 2026-07-28 asks by a level in the `_meta`
of a request, and gets messages from the request's arrival until its answer, first those since the last such request.
Messages that nobody asked for are kept, the newest `KEPT` alone. A client gets `BURST` messages at once and then one a
second; the next message counts those left out.

Source: MCP 2025-11-25 and 2026-07-28, logging; MCP 2026-07-28, subscriptions.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codriver.protocol.error_messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEVELS,
    SUBSCRIPTION_KEY,
    TOO_MANY,
    RequestRefusedError,
)
from codriver.protocol.resources import LOG_URI, is_skill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from codriver.core.dispatch import LogMessage, NotifyClients
    from codriver.log.output_log import OutputLog
    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import Clients, ClientSession


OF_RECORDS = ((logging.CRITICAL, "critical"), (logging.ERROR, "error"), (logging.WARNING, "warning"))
ROOT = "codriver"
KEPT = 64
CHARACTERS = 1000
BURST = 20
PER_S = 1.0


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `number` counts the messages of its level; `rank` is the level's place in `LEVELS`."""

    rank: int
    number: int
    logger: str
    text: str


@dataclass(slots=True)
class Listener:
    """One client that asked, for the life of its connection."""

    told: list[int]
    """By level: the number of the last message that the client was told, or did not ask for."""
    ranks: list[int] = field(default_factory=list)
    """The levels that the client's unanswered requests ask for."""
    set_rank: int | None = None
    """The level that the client has set for its session."""
    room: float = BURST
    """The number of messages that the client may be sent now."""
    filled_at: float = 0.0
    left_out: int = 0


class LogMessages:
    """The messages of one server to all its clients. Lives as long as the server."""

    def __init__(self, redactor: Redactor, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._redactor = redactor
        self._clock = clock
        self._kept: deque[Message] = deque(maxlen=KEPT)
        self._counts = [0] * len(LEVELS)
        self._listeners: dict[ClientSession, Listener] = {}

    def note(self, level: str, text: str, logger: str = ROOT) -> None:
        """Tell each listener at this level now, and keep the message for clients that ask later."""
        rank = LEVELS.index(level)
        self._counts[rank] += 1
        shown = self._redactor(text[: 10 * CHARACTERS])[:CHARACTERS].encode("utf-8", "replace").decode()
        self._kept.append(Message(rank, self._counts[rank], logger, shown))
        for client, listener in tuple(self._listeners.items()):
            self._tell(client, listener)

    def perform(self, effect: LogMessage) -> None:
        """Tell the core's message."""
        self.note(effect.level, effect.text, f"{ROOT}.repls" if effect.repl else ROOT)

    def set_level(self, client: ClientSession, level: str) -> None:
        """Send one client the messages of `level` and above from now on."""
        self._listener(client).set_rank = LEVELS.index(level)

    def forget(self, client: ClientSession) -> None:
        """Forget a client that has left."""
        self._listeners.pop(client, None)

    @contextmanager
    def heard_by(self, client: ClientSession, wanted: object) -> Iterator[None]:
        """Within this context, that of a request, the client is told the messages that the request asks for.

        Raises:
            RequestRefusedError: the request asks for an unknown level.
        """
        if wanted not in LEVELS:
            text = f"there is no log level {wanted!r}: the levels are {', '.join(LEVELS)}"
            raise RequestRefusedError(INVALID_PARAMS, text)
        listener, rank = self._listener(client), LEVELS.index(str(wanted))
        listener.ranks.append(rank)
        self._tell(client, listener)
        try:
            yield
        finally:
            listener.ranks.remove(rank)

    @contextmanager
    def hearing_records(self) -> Iterator[None]:
        """Within this context the records of the server's own loggers, warnings and worse, are messages, too."""
        handler = _Records(self, asyncio.get_running_loop())
        logging.getLogger(ROOT).addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger(ROOT).removeHandler(handler)

    def _listener(self, client: ClientSession) -> Listener:
        if client not in self._listeners:
            self._listeners[client] = Listener(list(self._counts), filled_at=self._clock())
        return self._listeners[client]

    def _tell(self, client: ClientSession, listener: Listener) -> None:
        """Tell a client the messages that it has not seen, if it asks for them now."""
        ranks = [*listener.ranks, *(() if listener.set_rank is None else (listener.set_rank,))]
        if not ranks:
            return
        least, told = min(ranks), listener.told
        news = [one for one in self._kept if one.rank >= least and one.number > told[one.rank]]
        listener.left_out += sum(self._counts[least:]) - sum(told[least:]) - len(news)
        listener.told = list(self._counts)
        for message in news:
            self._send(client, listener, message)

    def _send(self, client: ClientSession, listener: Listener, message: Message) -> None:
        now = self._clock()
        listener.room = min(BURST, listener.room + (now - listener.filled_at) * PER_S)
        listener.filled_at = now
        if listener.room < 1:
            listener.left_out += 1
            return
        listener.room -= 1
        before = f" ({listener.left_out} messages before this one were left out)" if listener.left_out else ""
        listener.left_out = 0
        params = {"level": LEVELS[message.rank], "logger": message.logger, "data": message.text + before}
        said = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
        client.outbox.offer(json.dumps(said).encode() + b"\n")


class _Records(logging.Handler):
    """Makes messages of log records from any thread."""

    def __init__(self, messages: LogMessages, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages
        self._loop = loop
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Note a record: the event without its traceback, which tells of our insides."""
        level = next(level for number, level in OF_RECORDS if record.levelno >= number)
        room = ".".join(record.name.split(".")[:2])
        said = level, record.getMessage(), room
        if threading.get_ident() == self._thread:
            self._messages.note(*said)
        else:
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._messages.note, *said)


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
        """Functions that are called when the log has grown, at most as often as clients are told."""

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
        # Nobody has looked which file of which skill has changed: each subscriber reads its own again.
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
        """Tell one client that the log grew, if the client subscribed and is not told yet."""
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
        """Count the present log as known to this client, which is about to subscribe."""
        self.log_grew_for(session)
        session.told_line = self._log.last_line or 0


def _resource_updated(session: ClientSession, uri: str) -> None:
    """Notify a client of the handshake eras, which subscribed to the resource."""
    message = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
    session.outbox.offer(json.dumps(message).encode() + b"\n")


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
        """Tell the client that a list changed, if it asked for that."""
        asked, method = CHANGES[changed]
        if asked in self._honored:
            self.send({"method": method, "params": {"_meta": self.meta}})

    def updated(self, uri: str) -> None:
        """Tell the client that a resource changed, if it asked for that."""
        if uri in self.uris:
            self.send({"method": UPDATED, "params": {"uri": uri, "_meta": self.meta}})

    def send(self, notification: Mapping[str, object]) -> None:
        """Send the client a message that it asked for."""
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

    def deliver_task(self, task: str, told: Callable[[], Mapping[str, object]]) -> None:
        """Send the state of a task on each stream that asked for the task."""
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
    """The honoured part of a request: all of it, without the members that were not asked for."""
    known = (*(name for name, _ in CHANGES.values()), "resourceSubscriptions")
    honored = {name: asked[name] for name in known if asked.get(name)}
    return {**honored, "taskIds": sorted(tasks)} if tasks else honored
