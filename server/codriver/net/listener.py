"""The TCP listener: accepts connections and gives each a reader, a writer and the protocol.

A client's socket stays registered with the event loop from one message to the next. The library's own stream takes the
socket out of the selector after each received piece and puts it in again for the next one: two system calls and some
fifty function calls for each message. Here only back-pressure does that, when more waits than is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import socket
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from anyio.abc import SocketAttribute, SocketListener

from codriver.errors import StartError
from codriver.net.client_sessions import Outbox, immediately
from codriver.net.server_record import PAGE
from codriver.net.tcp_transport import probe_when_silent
from codriver.systems.machine import allow_open_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anyio.abc import SocketStream

    from codriver.net.admission import Admission, Admitted
    from codriver.net.client_sessions import Clients, ClientSession


logger = logging.getLogger(__name__)

ACCEPT_AGAIN_S = 0.1
FILES_BESIDE_CLIENTS = 256
"""The files that REPLs, the log and not yet admitted connections may need, beside one a client."""
CONGESTED_BYTES = 8 * 2**20
"""A client with this many bytes of unread answers is not read until it takes some."""
ROOM_TO_TELL = 8
"""Connections beside those of clients, so that a client too many gets an answer."""
TELL_S = 10.0
TELL_BYTES = 64 * 1024
"""The bytes and the time for reading a client too many, to answer its first request by its id."""
TOO_MANY_CLIENTS = -32000
FLUSH_S = 2.0
"""The time that a closing connection may take to accept its last lines."""
KEEPALIVE_IDLE_S = 60
KEEPALIVE_INTERVAL_S = 10
KEEPALIVE_PROBES = 3
"""A minute of silence, then 3 probes 10 s apart: a client that disappeared silently is noticed within 90 s."""


class ListenError(StartError):
    """The listener could not be opened."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {error.strerror or error}; "
            "choose another with --host and --port, or set mcpSocketServerPort"
        )


async def listen(host: str, port: int) -> tuple[SocketListener, int]:
    """A listener on `host`, on `port` if it is free and else on any free port, and the port it has.

    Raises:
        ListenError: listening failed, for another reason than a taken port.
    """
    try:
        return await _bind(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or port == 0:
            raise ListenError(host, port, error) from error
    try:
        return await _bind(host, 0)
    except OSError as error:
        raise ListenError(host, 0, error) from error


async def _bind(host: str, port: int) -> tuple[SocketListener, int]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        raw.bind((host, port))
        raw.listen(512)
        raw.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        listener = PatientListener(await SocketListener.from_socket(raw))
    except BaseException:
        raw.close()
        raise
    return listener, int(raw.getsockname()[1])


class PatientListener(SocketListener):
    """A listener that outlives failures of single connections, and a time without free file descriptors.

    The library's own listener raises every error of `accept`: a waiting peer that hung up, or a process with too many
    open files, would end the server.
    """

    def __init__(self, listener: SocketListener) -> None:
        self._listener = listener
        self._is_failing = False

    @property
    def _raw_socket(self) -> socket.socket:
        return self._listener._raw_socket  # noqa: SLF001  # the base class asks for it by this name

    async def accept(self) -> SocketStream:
        """The next connection that can be accepted."""
        while True:
            try:
                stream = await self._listener.accept()
            except OSError as error:
                if not self._is_failing:
                    logger.warning("connections cannot be accepted, and wait until they can: %s", error)
                self._is_failing = True
                await anyio.sleep(ACCEPT_AGAIN_S)
            else:
                self._is_failing = False
                return stream

    async def aclose(self) -> None:
        """Close the listener."""
        await self._listener.aclose()


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """The most that the listener allows: clients at once, and waiting lines and bytes for one client."""

    clients: int
    outbox_messages: int
    outbox_bytes: int


class ServesClients(Protocol):
    """The listener's interface to the protocol behind it."""

    async def serve(self, session: ClientSession, receive: Callable[[], Awaitable[bytes | None]]) -> None:
        """Serve one client until it has left and has all answers. `receive` gives its bytes, None at their end."""


class Listener:
    """Serves every connection that is admitted, until it is cancelled.

    At most `maxClients` clients are served at once; a further admitted client is told so. Of the connections that are
    not admitted yet, the oldest makes room for the newest.
    """

    def __init__(
        self,
        *,
        admission: Admission,
        protocol: ServesClients,
        clients: Clients,
        limits: ListenerLimits,
        on_stop: Callable[[], None],
        on_page: Callable[[str], Awaitable[Mapping[str, object]]],
    ) -> None:
        """`on_page` opens the page under a host, `""` for its own name, and returns the answer for the caller."""
        self._admission = admission
        self._protocol = protocol
        self._clients = clients
        self._limits = limits
        self._on_stop = on_stop
        self._on_page = on_page
        self._pending: dict[anyio.CancelScope, None] = {}
        """The connections that are not admitted yet, the oldest first."""
        if refused := allow_open_files(limits.clients + FILES_BESIDE_CLIENTS):
            logger.warning("%d clients may need more files: %s", limits.clients, refused)

    async def serve_one(self, stream: SocketStream) -> None:
        """Serve one connection from its first byte to its last. A failure ends that connection alone."""
        try:
            async with stream:
                await self._serve(stream)
        except Exception:
            logger.exception("a connection ended by a fault")

    async def _serve(self, stream: SocketStream) -> None:
        self._make_room()
        admitted = await self._admit(stream)
        if admitted is None:
            return
        if admitted.stops_server:
            self._on_stop()
            return
        if admitted.page_host is not None:
            told = {"jsonrpc": "2.0", "method": PAGE, "params": await self._on_page(admitted.page_host)}
            await stream.send(json.dumps(told).encode() + b"\n")
            return
        first = admitted.first
        if len(self._clients) >= self._limits.clients:
            logger.warning("refused a client: %d are connected already", len(self._clients))
            await _tell_full(stream, first, self._limits.clients)
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
        session.takes_skills = admitted.takes_skills
        session.conversation_of_claude = admitted.conversation
        outbox.on_first_loss = partial(_warn_of_loss, session)
        try:
            await self._converse(session, stream, first)
        finally:
            self._clients.remove(session)

    def _make_room(self) -> None:
        """Make room if too many connections are open: close the oldest that is not admitted yet."""
        if len(self._clients) + len(self._pending) < self._limits.clients + ROOM_TO_TELL:
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


async def _tell_full(stream: SocketStream, first: bytes, most: int) -> None:
    """Answer the first request of a client too many, and read on, so that no reset destroys the answer."""
    text = (
        f"{most} clients are connected to this server, and maxClients allows no more: end one that nobody needs "
        "(codriver status names them), or raise maxClients in codriver.toml and restart the server"
    )
    with anyio.move_on_after(TELL_S), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while b"\n" not in first and len(first) < TELL_BYTES:
            first += await stream.receive(READ_BYTES)
        error = {"code": TOO_MANY_CLIENTS, "message": text}
        answer = {"jsonrpc": "2.0", "id": _identity_in(first), "error": error}
        await stream.send(json.dumps(answer).encode() + b"\n")
        await stream.send_eof()
        heard = 0
        while heard < TELL_BYTES:
            heard += len(await stream.receive(READ_BYTES))


def _identity_in(data: bytes) -> str | int | None:
    """The id of the request in the first line; None without one."""
    try:
        given = json.loads(data.lstrip().partition(b"\n")[0])["id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return given if isinstance(given, str) or type(given) is int else None


def keep_alive(raw: socket.socket) -> None:
    """Let the kernel detect a client that disappeared silently."""
    probe_when_silent(raw, idle_s=KEEPALIVE_IDLE_S, interval_s=KEEPALIVE_INTERVAL_S, probes=KEEPALIVE_PROBES)


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


READ_BYTES: Final = 64 * 1024
MOST_WAITING_BYTES: Final = 64 * 1024
"""The bytes that may wait here; further bytes wait in the kernel, and then at the client."""


class SocketReader(asyncio.Protocol):
    """Reader of one connection, in place of the library's protocol, which goes on with the writing."""

    def __init__(self, transport: asyncio.Transport, before: Any, first: bytes, session: ClientSession | None) -> None:
        """`before`: the library's protocol. `first`: the bytes that were read already.

        The `session` may take bytes at once while somebody waits for them: then nobody is woken.
        """
        self._transport = transport
        self._session = session
        self._is_awaited = False
        self._before = before
        self._waiting: deque[bytes] = deque([first] if first else [])
        self._waiting += before.read_queue
        self._waiting_bytes = sum(map(len, self._waiting))
        self._news = asyncio.Event()
        self._is_paused = True
        self._is_over = before.is_at_eof or transport.is_closing()
        """Whether nothing more comes."""
        self._has_failed = before.exception is not None
        transport.set_protocol(self)

    async def receive(self) -> bytes | None:
        """The next bytes: empty at their end, None when the connection is broken."""
        if self._waiting:
            await anyio.lowlevel.checkpoint()
        elif not self._is_over:
            if self._is_paused:
                self._is_paused = False
                self._transport.resume_reading()
            self._news.clear()
            self._is_awaited = True
            try:
                await self._news.wait()
            finally:
                self._is_awaited = False
        if not self._waiting:
            return None if self._has_failed else b""
        data = self._waiting.popleft()
        if len(data) > READ_BYTES:
            self._waiting.appendleft(data[READ_BYTES:])
            data = data[:READ_BYTES]
        self._waiting_bytes -= len(data)
        return data

    # Callbacks of asyncio

    def data_received(self, data: bytes) -> None:
        """Take received bytes. Windows' event loop gives them in an array of its own."""
        data = bytes(data)
        if self._is_awaited and self._session is not None and self._session.take_at_once(data):
            return
        self._is_awaited = False
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= MOST_WAITING_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        """The client sends no more, and may still read answers."""
        self._is_over = True
        self._news.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more comes, nor can be sent."""
        self._is_over = True
        self._has_failed = exc is not None
        self._news.set()
        self._before.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not keep up."""
        self._before.pause_writing()

    def resume_writing(self) -> None:
        """The client takes more."""
        self._before.resume_writing()


def receiving(
    stream: SocketStream, first: bytes, session: ClientSession | None = None
) -> Callable[[], Awaitable[bytes | None]]:
    """A function that gives `first`, then the stream's bytes: empty at their end, None for a broken stream.

    Bytes that the `session` takes at once are left out.

    The library keeps its transport and its protocol private; without them the library's own stream is read.
    """
    transport, before = getattr(stream, "_transport", None), getattr(stream, "_protocol", None)
    if isinstance(transport, asyncio.Transport) and before is not None:
        return SocketReader(transport, before, first, session).receive
    waiting = [first] if first else []

    async def receive() -> bytes | None:
        if waiting:
            return waiting.pop()
        try:
            return await stream.receive(READ_BYTES)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return None

    return receive
