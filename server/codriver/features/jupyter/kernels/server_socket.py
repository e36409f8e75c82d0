"""A WebSocket to a kernel of a Jupyter Server. It is opened once and not reconnected.

`websockets` is imported when the first one is opened.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import anyio

from codriver.features.jupyter.kernels.content_reader import SHORT_BYTES
from codriver.features.jupyter.kernels.server_api import ServerApi, describe
from codriver.features.jupyter.kernels.server_frames import (
    MAX_FRAME_BYTES,
    SUBPROTOCOL,
    TOO_LONG,
    Frame,
    FrameError,
    decode,
    decode_legacy,
    decoding,
    decoding_legacy,
    encode,
    encode_text,
)
from codriver.net.cooperative_turns import in_turns
from codriver.net.tcp_transport import probe_when_silent
from codriver.repls.contract.adapter import NotAnReplError, PackageMissingError, ReplUnreachableError

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.protocol import Event


OPEN_S: Final = 20.0
PING_S: Final = 10.0
PONG_S: Final = 15.0
FIRST_PONG_S: Final = 75.0
"""A server reads only after its kernel's first answer, for which it waits up to a minute."""
CLOSE_S: Final = 1.0
TOO_BIG: Final = 1009
"""The code of a close by a receiver of too long a message. Source: RFC 6455, "Defined Status Codes"."""
MAX_QUEUED_FRAMES: Final = 2
"""Frames that wait to be read; the rest waits in the system, and then in the server."""
MAX_PINGS: Final = 100
"""Pings of a server in a second, and in one received piece, before it is given up: servers send one in 30 s."""
CHUNK_BYTES: Final = 4096
"""The bytes read at once, if they may hold more pings than that: each takes some 10 µs, and has two bytes."""
PING_HEAD: Final = b"\x89"
"""The first byte of a ping. Source: RFC 6455, "Base framing protocol"."""


class SocketLostError(Exception):
    """A WebSocket ended. `cause` says why; `is_stalled`: it ended without a sign, and the last messages may be lost."""

    def __init__(self, cause: str, *, is_stalled: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        self.is_stalled = is_stalled


class PingFloodError(FrameError):
    """A Jupyter Server sends pings without end, and each has to be answered."""

    def __init__(self) -> None:
        super().__init__(f"more than {MAX_PINGS} pings came within a second")


class ServerSocket:
    """An open WebSocket, for its life."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._speaks_v1 = connection.subprotocol == SUBPROTOCOL
        self._is_answering = False
        """Whether anything came."""
        self._is_stalled = False

    @property
    def is_open(self) -> bool:
        """Return whether messages go out now, as far as we know."""
        return self._connection.state.name == "OPEN"

    async def receive(self) -> Frame:
        """Return the next message.

        Raises:
            SocketLostError: no message comes any more.
            FrameError: the received data are no message, or pings without end.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415  # see the module's docstring

        try:
            data = await self._connection.recv()
        except ConnectionClosed as closed:
            if getattr(self._connection, "is_flooded", False):
                raise PingFloodError from None
            raise self._lost(closed) from None
        self._is_answering = True
        if self._speaks_v1 and isinstance(data, str):
            raise FrameError("it is text, where binary frames were agreed on")
        return await self._decoded(data)

    async def _decoded(self, data: str | bytes) -> Frame:
        """Return the message in a frame; a long one is read in turns."""
        is_short, token = len(data) <= SHORT_BYTES, secrets.token_hex(16)
        if self._speaks_v1 and isinstance(data, bytes):
            return decode(data) if is_short else await in_turns(decoding(data, token))
        return decode_legacy(data) if is_short else await in_turns(decoding_legacy(data, token))

    async def send(self, frame: Frame) -> None:
        """Send a message.

        Raises:
            SocketLostError: the connection is lost; the message may have gone out.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

        try:
            await self._connection.send(encode(frame) if self._speaks_v1 else encode_text(frame))
        except ConnectionClosed as closed:
            raise self._lost(closed) from None

    async def watch(self) -> None:
        """Ping the server now and then; end the connection, and return, if no answer comes.

        A proxy may hold a connection with its other half long gone.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

        with suppress(ConnectionClosed):
            while await self._is_alive(PONG_S if self._is_answering else FIRST_PONG_S):
                await anyio.sleep(PING_S)
            self._is_stalled = True
        self._connection.transport.abort()

    async def _is_alive(self, within_s: float) -> bool:
        with anyio.move_on_after(within_s):
            pong = asyncio.ensure_future(await self._connection.ping())
            pong.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio complains of it
            done, _ = await asyncio.wait({pong}, timeout=within_s)
            self._is_answering = self._is_answering or bool(done)
            return bool(done)
        return False

    async def close(self) -> None:
        """End the connection. Twice is harmless."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(CLOSE_S):
                await self._connection.close()
            self._connection.transport.abort()

    def _lost(self, closed: Exception) -> SocketLostError:
        if self._is_stalled:
            return SocketLostError("the way to the Jupyter Server stalled", is_stalled=True)
        sent, received = getattr(closed, "sent", None), getattr(closed, "rcvd", None)
        if sent is not None and sent.code == TOO_BIG:
            return SocketLostError(f"{TOO_LONG}, and was cut for that", is_stalled=True)
        if received is None:
            return SocketLostError("the connection to the Jupyter Server was cut")
        reason = f": {received.reason}" if received.reason else ""
        return SocketLostError(f"the Jupyter Server closed the connection with {received.code}{reason}")


async def open_socket(api: ServerApi, kernel: str, session: str) -> ServerSocket:
    """Return a WebSocket to a kernel, under a session id of ours.

    Raises:
        ReplUnreachableError: no one answers there in time.
        ServerAnswerError: the server refuses.
        NotAnReplError: the listener is no Jupyter Server.
        PackageMissingError: `websockets` is not installed.
    """
    try:
        client = await anyio.to_thread.run_sync(_client)
    except ImportError:
        raise PackageMissingError(api.base, "jupyter", "websockets") from None
    headers, tls = await anyio.to_thread.run_sync(lambda: (api.headers(), api.tls()))
    path = f"/api/kernels/{quote(kernel, safe='')}"
    url = f"ws{api.base.removeprefix('http')}{path}/channels?session_id={session}"
    from websockets.exceptions import InvalidHandshake, InvalidStatus  # noqa: PLC0415

    try:
        with anyio.fail_after(OPEN_S):
            return ServerSocket(await client(url, additional_headers=headers, ssl=tls))
    except TimeoutError:
        raise ReplUnreachableError(api.base, f"it did not open a WebSocket within {OPEN_S:g} s") from None
    except InvalidStatus as error:
        raise api.refusal(error.response.status_code, error.response.reason_phrase, path) from None
    except InvalidHandshake as error:
        cause = f"it does not open a WebSocket ({type(error).__name__})"
        raise NotAnReplError(api.base, cause, protocol="Jupyter") from None
    except (OSError, EOFError) as error:
        raise ReplUnreachableError(api.base, describe(error)) from None


@cache
def _client() -> type[connect]:
    """Return the client of `websockets` with our options: no log and no other server gets the token."""
    from websockets.asyncio.client import connect  # noqa: PLC0415

    # At the level DEBUG the client would log the header with the token.
    silent = logging.Logger("silent", logging.CRITICAL + 1)  # noqa: LOG001  # no setting of the root's reaches it
    connection = _connection()

    class Client(connect):
        def __init__(self, uri: str, **given: Any) -> None:
            super().__init__(
                uri, create_connection=connection, subprotocols=[SUBPROTOCOL], compression=None, logger=silent,  # type: ignore[list-item]
                open_timeout=None, ping_interval=None, close_timeout=CLOSE_S, max_size=MAX_FRAME_BYTES,
                max_queue=MAX_QUEUED_FRAMES, proxy=None, **given,
            )  # fmt: skip

        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    return Client


def _connection() -> type[ClientConnection]:
    """Return a connection of `websockets` that acknowledges at once, and gives up on endless pings."""
    from websockets.asyncio.client import ClientConnection  # noqa: PLC0415
    from websockets.frames import Opcode  # noqa: PLC0415

    class Connection(ClientConnection):
        is_flooded = False
        second, pings = 0, 0

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            raw = transport.get_extra_info("socket")
            if raw is not None:
                probe_when_silent(raw, idle_s=10, interval_s=5, probes=3)
            _acknowledge_at_once(transport)

        def data_received(self, data: bytes) -> None:
            _acknowledge_at_once(self.transport)
            step = CHUNK_BYTES if data.count(PING_HEAD) > MAX_PINGS else len(data)
            for start in range(0, len(data), step):
                if self.is_flooded:
                    return
                super().data_received(data[start : start + step])

        def process_event(self, event: Event) -> None:
            super().process_event(event)
            if getattr(event, "opcode", None) is not Opcode.PING:
                return
            second = int(self.loop.time())
            self.pings = self.pings + 1 if second == self.second else 1
            self.second = second
            if self.pings > MAX_PINGS and not self.is_flooded:
                self.is_flooded = True
                self.transport.abort()

    return Connection


def _acknowledge_at_once(transport: asyncio.BaseTransport) -> None:
    """Have the system acknowledge at once: without that, each small chunk of a Jupyter Server waits 40 ms."""
    raw, option = transport.get_extra_info("socket"), getattr(socket, "TCP_QUICKACK", None)
    if raw is not None and option is not None:
        with suppress(OSError):
            raw.setsockopt(socket.IPPROTO_TCP, option, 1)
