"""The TCP listener: accepts connections and gives each a reader, a writer and the protocol."""

from __future__ import annotations

import contextlib
import json
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import SocketAttribute

from codriver.net.keepalive import keep_alive
from codriver.net.listening_sockets import FILES_WITHOUT_CLIENTS
from codriver.net.outbox import Outbox, immediately
from codriver.net.server_record import ANSWER
from codriver.net.socket_reader import READ_BYTES, receiving
from codriver.systems.machine import allow_open_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anyio.abc import SocketStream

    from codriver.net.admission import Admission, Admitted
    from codriver.net.client_sessions import Clients, ClientSession

logger = logging.getLogger(__name__)

CONGESTED_BYTES = 8 * 2**20
"""A client with this many bytes of unread answers is not read until it reads some."""
MAX_REFUSED_AT_ONCE = 8
"""Connections next to those of clients, so that a client too many gets an answer."""
REFUSAL_S = 10.0
REFUSAL_BYTES = 64 * 1024
"""The bytes and the time for reading a client too many, to answer its first request by its id."""
TOO_MANY_CLIENTS = -32000
FLUSH_S = 2.0
"""Maximum time for a closing connection to accept its last lines."""


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """The most that the listener allows: clients at once, and waiting lines and bytes for one client."""

    clients: int
    outbox_messages: int
    outbox_bytes: int


class ServesClients(Protocol):
    """The listener's interface to the protocol that it serves."""

    async def serve(self, session: ClientSession, receive: Callable[[], Awaitable[bytes | None]]) -> None:
        """Serve one client until it has left and has all answers. `receive` returns its bytes, None at their end."""


class Listener:
    """Serves every connection that is admitted, until it is cancelled.

    At most `maxClients` clients are served at the same time; a further admitted client is refused with a message. Of
    the connections that are not admitted yet, the oldest is closed for the newest.
    """

    def __init__(
        self,
        *,
        admission: Admission,
        protocol: ServesClients,
        clients: Clients,
        limits: ListenerLimits,
        on_stop: Callable[[], None],
        requests: Mapping[str, Callable[[str], Awaitable[Mapping[str, object]]]],
    ) -> None:
        """`requests`: by name, what answers a request that a command makes instead of speaking MCP."""
        self._admission = admission
        self._protocol = protocol
        self._clients = clients
        self._limits = limits
        self._on_stop = on_stop
        self._requests = requests
        self._pending: dict[anyio.CancelScope, None] = {}
        """The connections that are not admitted yet, the oldest first."""
        if refused := allow_open_files(limits.clients + FILES_WITHOUT_CLIENTS):
            logger.warning("%d clients may need more files: %s", limits.clients, refused)

    async def serve_one(self, stream: SocketStream) -> None:
        """Serve one connection from its first byte to its last. A failure ends that connection alone."""
        try:
            async with stream:
                await self._serve(stream)
        except Exception:
            logger.exception("a connection ended by a fault")

    async def _serve(self, stream: SocketStream) -> None:
        self._evict_oldest()
        admitted = await self._admit(stream)
        if admitted is None:
            return
        if admitted.stops_server:
            self._on_stop()
            return
        if admitted.request:
            await self._answer(stream, admitted.request, admitted.detail)
            return
        first = admitted.first
        if len(self._clients) >= self._limits.clients:
            logger.warning("refused a client: %d are connected already", len(self._clients))
            await _refuse_full(stream, first, self._limits.clients)
            return
        raw = stream.extra(SocketAttribute.raw_socket)
        keep_alive(raw)
        outbox = Outbox(
            max_notifications=self._limits.outbox_messages,
            max_notification_bytes=self._limits.outbox_bytes,
            congested_bytes=CONGESTED_BYTES,
            write_now=immediately(stream),
        )
        session = self._clients.add(outbox)
        session.starts_server = admitted.starts_server
        session.had_another = admitted.had_another
        session.accepts_skills = admitted.accepts_skills
        session.conversation_of_claude = admitted.conversation
        outbox.on_first_loss = partial(_warn_of_loss, session)
        try:
            await self._converse(session, stream, first)
        finally:
            self._clients.remove(session)

    async def _answer(self, stream: SocketStream, name: str, detail: str) -> None:
        """Answer a request; one that is unknown gets no answer."""
        if (answer := self._requests.get(name)) is None:
            logger.warning("refused a connection with an unknown request")
            return
        message = {"jsonrpc": "2.0", "method": ANSWER, "params": await answer(detail)}
        await stream.send(json.dumps(message).encode() + b"\n")

    def _evict_oldest(self) -> None:
        """Close the oldest connection that is not admitted yet if too many are open."""
        if len(self._clients) + len(self._pending) < self._limits.clients + MAX_REFUSED_AT_ONCE:
            return
        oldest = next(iter(self._pending))
        del self._pending[oldest]
        oldest.cancel()

    async def _admit(self, stream: SocketStream) -> Admitted | None:
        admitted = None
        with anyio.CancelScope() as scope:
            self._pending[scope] = None
            try:
                admitted = await self._admission.admit(stream)
            finally:
                self._pending.pop(scope, None)
        return admitted

    async def _converse(self, session: ClientSession, stream: SocketStream, first: bytes) -> None:
        async with anyio.create_task_group() as tasks:
            session.part = tasks.cancel_scope.cancel
            session.outbox.start_writer = partial(tasks.start_soon, _write, session, stream, tasks.cancel_scope)
            await self._protocol.serve(session, receiving(stream, first, session))
            session.outbox.close()
            # A writer ends when all is written; the writer of a client that does not read is not waited for.
            tasks.cancel_scope.deadline = anyio.current_time() + FLUSH_S


def _warn_of_loss(session: ClientSession) -> None:
    logger.warning("the client %s reads too slowly: notifications to it are dropped", session.name or session.id)


async def _refuse_full(stream: SocketStream, first: bytes, most: int) -> None:
    """Answer the first request of a client too many, and read on, so that no reset destroys the answer."""
    text = (
        f"{most} clients are connected to this server, and maxClients allows no more: end one that nobody needs "
        "(codriver status names them), or raise maxClients in codriver.toml and restart the server"
    )
    with anyio.move_on_after(REFUSAL_S), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while b"\n" not in first and len(first) < REFUSAL_BYTES:
            first += await stream.receive(READ_BYTES)
        error = {"code": TOO_MANY_CLIENTS, "message": text}
        answer = {"jsonrpc": "2.0", "id": _identity_in(first), "error": error}
        await stream.send(json.dumps(answer).encode() + b"\n")
        await stream.send_eof()
        received = 0
        while received < REFUSAL_BYTES:
            received += len(await stream.receive(READ_BYTES))


def _identity_in(data: bytes) -> str | int | None:
    """Return the id of the request in the first line; None without one."""
    try:
        given = json.loads(data.lstrip().partition(b"\n")[0])["id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return given if isinstance(given, str) or type(given) is int else None


async def _write(session: ClientSession, stream: SocketStream, scope: anyio.CancelScope) -> None:
    """Write the waiting lines of the outbox; a client that is gone ends the conversation."""
    try:
        while (batch := session.outbox.batch()) is not None:
            await stream.send(batch)
            size = len(batch)
            del batch  # a quiet client would hold its last answer, of any size, until the next one
            session.outbox.written(size)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        session.has_left = True
        scope.cancel()
