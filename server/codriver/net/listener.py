"""The TCP listener, which admits connections and passes them to the protocol."""

from __future__ import annotations

import contextlib
import json
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import SocketAttribute

from codriver.net.client_reader import MAX_READ_BYTES, bytes_receiver
from codriver.net.keepalive import enable_keepalive
from codriver.net.listening_sockets import RESERVED_DESCRIPTORS
from codriver.net.outbox import Outbox, immediate_sender
from codriver.net.server_record import ANSWER_METHOD
from codriver.systems.machine import allow_open_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anyio.abc import SocketStream

    from codriver.net.admission import Admission, AdmittedPeer
    from codriver.net.client_sessions import Clients, ClientSession

logger = logging.getLogger(__name__)

MAX_UNREAD_BYTES = 8 * 2**20
"""Size of a client's unread answers, in bytes, above which no more of its requests are read."""
MAX_EXCESS_CONNECTIONS = 8
"""Number of connections accepted beyond the maximum number of clients, so that excess clients receive an error."""
REFUSAL_TIMEOUT_S = 10.0
"""Maximum time for refusing an excess client, in seconds."""
MAX_REFUSED_BYTES = 64 * 1024
"""Maximum number of bytes read from an excess client to find the id of its first request."""
TOO_MANY_CLIENTS_CODE = -32000
"""JSON-RPC error code sent to an excess client."""
FLUSH_TIMEOUT_S = 2.0
"""Maximum time for sending the last lines when a connection is closed, in seconds."""


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """The maximum number of clients, and of queued messages and bytes per client."""

    clients: int
    outbox_messages: int
    outbox_bytes: int


class ClientProtocol(Protocol):
    """The protocol that the listener serves, such as MCP."""

    async def serve(self, session: ClientSession, receive: Callable[[], Awaitable[bytes | None]]) -> None:
        """Serve a client until it has disconnected and received all answers.

        `receive` returns the next bytes from the client. It returns b"" when the client sends no more, and None if the
        connection broke.
        """


class Listener:
    """Serves connections until cancelled.

    At most `limits.clients` clients are served at a time. Further clients get an error. If too many connections wait
    for admission, the oldest one is closed.
    """

    def __init__(
        self,
        *,
        admission: Admission,
        protocol: ClientProtocol,
        clients: Clients,
        limits: ListenerLimits,
        on_stop: Callable[[], None],
        requests: Mapping[str, Callable[[str], Awaitable[Mapping[str, object]]]],
    ) -> None:
        """Set up the listener.

        `requests` contains the handlers of single requests that commands make instead of speaking MCP, by name.
        """
        self._admission = admission
        self._protocol = protocol
        self._clients = clients
        self._limits = limits
        self._on_stop = on_stop
        self._requests = requests
        self._pending: dict[anyio.CancelScope, None] = {}
        """Connections that have not been admitted yet, oldest first."""
        if refused := allow_open_files(limits.clients + RESERVED_DESCRIPTORS):
            logger.warning("%d clients may need more open files than the system allows: %s", limits.clients, refused)

    async def serve_connection(self, stream: SocketStream) -> None:
        """Serve one connection until it is closed. Unexpected exceptions are logged and only end this connection."""
        try:
            async with stream:
                await self._serve(stream)
        except Exception:
            logger.exception("a connection failed unexpectedly")

    async def _serve(self, stream: SocketStream) -> None:
        self._evict_oldest()
        admitted = await self._admit(stream)
        if admitted is None:
            return
        if admitted.stops_server:
            self._on_stop()
            return
        if admitted.request:
            await self._answer_request(stream, admitted.request, admitted.detail)
            return
        first = admitted.first
        if len(self._clients) >= self._limits.clients:
            logger.warning("refused a client because %d are already connected", len(self._clients))
            await _refuse_full(stream, first, self._limits.clients)
            return
        raw = stream.extra(SocketAttribute.raw_socket)
        enable_keepalive(raw)
        outbox = Outbox(
            max_notifications=self._limits.outbox_messages,
            max_notification_bytes=self._limits.outbox_bytes,
            congested_bytes=MAX_UNREAD_BYTES,
            write_now=immediate_sender(stream),
        )
        session = self._clients.add(outbox)
        session.starts_server = admitted.starts_server
        session.had_another = admitted.had_another
        session.accepts_skills = admitted.accepts_skills
        session.conversation_of_claude = admitted.conversation
        outbox.on_first_loss = partial(_warn_of_loss, session)
        try:
            await self._run_protocol(session, stream, first)
        finally:
            self._clients.remove(session)

    async def _answer_request(self, stream: SocketStream, name: str, detail: str) -> None:
        """Answer the single request of a command. Unknown requests get no answer."""
        if (answer := self._requests.get(name)) is None:
            logger.warning("refused a connection that sent an unknown request")
            return
        message = {"jsonrpc": "2.0", "method": ANSWER_METHOD, "params": await answer(detail)}
        await stream.send(json.dumps(message).encode() + b"\n")

    def _evict_oldest(self) -> None:
        """Close the oldest connection waiting for admission if there are too many."""
        if len(self._clients) + len(self._pending) < self._limits.clients + MAX_EXCESS_CONNECTIONS:
            return
        oldest = next(iter(self._pending))
        del self._pending[oldest]
        oldest.cancel()

    async def _admit(self, stream: SocketStream) -> AdmittedPeer | None:
        admitted = None
        with anyio.CancelScope() as scope:
            self._pending[scope] = None
            try:
                admitted = await self._admission.admit(stream)
            finally:
                self._pending.pop(scope, None)
        return admitted

    async def _run_protocol(self, session: ClientSession, stream: SocketStream, first: bytes) -> None:
        async with anyio.create_task_group() as tasks:
            session.part = tasks.cancel_scope.cancel
            session.outbox.start_writer = partial(tasks.start_soon, _write, session, stream, tasks.cancel_scope)
            await self._protocol.serve(session, bytes_receiver(stream, first, session))
            session.outbox.close()
            # The writer ends when everything is sent. Do not wait longer for a client that does not read.
            tasks.cancel_scope.deadline = anyio.current_time() + FLUSH_TIMEOUT_S


def _warn_of_loss(session: ClientSession) -> None:
    logger.warning("the client %s reads too slowly, so notifications to it are dropped", session.name or session.id)


async def _refuse_full(stream: SocketStream, first: bytes, most: int) -> None:
    """Answer the first request of an excess client with an error.

    Then read on for a while, because closing the connection early would reset it, and the client might not receive the
    error.
    """
    text = (
        f"{most} clients are connected to this server, and maxClients allows no more. Disconnect one (`codriver "
        "status` lists them), or raise maxClients in codriver.toml and restart the server"
    )
    with anyio.move_on_after(REFUSAL_TIMEOUT_S), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while b"\n" not in first and len(first) < MAX_REFUSED_BYTES:
            first += await stream.receive(MAX_READ_BYTES)
        error = {"code": TOO_MANY_CLIENTS_CODE, "message": text}
        answer = {"jsonrpc": "2.0", "id": _first_request_id(first), "error": error}
        await stream.send(json.dumps(answer).encode() + b"\n")
        await stream.send_eof()
        received = 0
        while received < MAX_REFUSED_BYTES:
            received += len(await stream.receive(MAX_READ_BYTES))


def _first_request_id(data: bytes) -> str | int | None:
    """Return the id of the JSON-RPC request in the first line, or None if there is none."""
    try:
        given = json.loads(data.lstrip().partition(b"\n")[0])["id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return given if isinstance(given, str) or type(given) is int else None


async def _write(session: ClientSession, stream: SocketStream, scope: anyio.CancelScope) -> None:
    """Send the queued lines to a client in batches. If the client has disconnected, cancel `scope`."""
    try:
        while (batch := session.outbox.pop_batch()) is not None:
            await stream.send(batch)
            size = len(batch)
            del batch  # otherwise an idle client's last answer would stay in memory
            session.outbox.record_written(size)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        session.has_left = True
        scope.cancel()
