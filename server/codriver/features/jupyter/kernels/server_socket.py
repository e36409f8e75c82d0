"""A WebSocket to a kernel on a Jupyter Server. It is opened once and not reconnected.

`websockets` is imported when the first WebSocket is opened.
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

from codriver.features.jupyter.kernels.content_reader import MAX_SHORT_BYTES
from codriver.features.jupyter.kernels.server_api import ServerApi, describe_error
from codriver.features.jupyter.kernels.server_frames import (
    MAX_FRAME_BYTES,
    SUBPROTOCOL,
    TOO_LONG_MESSAGE,
    Frame,
    FrameError,
    decode,
    decode_in_turns,
    decode_legacy,
    decode_legacy_in_turns,
    encode,
    encode_text,
)
from codriver.net.cooperative_turns import run_in_turns
from codriver.net.tcp_transport import probe_when_silent
from codriver.repls.contract.adapter import NotAReplError, PackageMissingError, ReplUnreachableError

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.protocol import Event


OPEN_TIMEOUT_S: Final = 20.0
"""Maximum time to open a WebSocket."""
PING_INTERVAL_S: Final = 10.0
"""Interval between pings."""
PONG_TIMEOUT_S: Final = 15.0
"""Maximum time to wait for an answer to a ping."""
FIRST_PONG_TIMEOUT_S: Final = 75.0
"""Maximum time to wait for the first answer. A server reads nothing until its kernel has answered, for which it waits
up to a minute.
"""
CLOSE_TIMEOUT_S: Final = 1.0
"""Maximum time to close a WebSocket."""
MESSAGE_TOO_BIG_STATUS: Final = 1009
"""The status code with which a receiver closes the connection if a message is too large.

Source: RFC 6455, "Defined Status Codes".
"""
MAX_QUEUED_FRAMES: Final = 2
"""Maximum number of frames waiting to be read. Further frames wait in the socket, and then on the server."""
MAX_PINGS_PER_SECOND: Final = 100
"""Maximum number of pings from a server per second. Servers normally send one every 30 s."""
PING_CHUNK_BYTES: Final = 4096
"""Number of bytes to process at once if they may contain more than `MAX_PINGS_PER_SECOND` pings.

Each ping has two bytes and takes about 10 µs.
"""
PING_FIRST_BYTE: Final = b"\x89"
"""The first byte of a ping. Source: RFC 6455, "Base Framing Protocol"."""


class SocketLostError(Exception):
    """Raised when a WebSocket is closed. `cause` is the reason.

    `is_stalled` is true if the connection stopped responding, in which case the last messages may be lost.
    """

    def __init__(self, cause: str, *, is_stalled: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        self.is_stalled = is_stalled


class PingFloodError(FrameError):
    """Raised when a server sends endless pings, each of which would have to be answered."""

    def __init__(self) -> None:
        super().__init__(f"more than {MAX_PINGS_PER_SECOND} pings were received within a second")


class ServerWebSocket:
    """An open WebSocket to a kernel on a Jupyter Server."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._uses_v1 = connection.subprotocol == SUBPROTOCOL
        self._has_received = False
        """Whether anything has been received."""
        self._is_stalled = False

    @property
    def is_open(self) -> bool:
        """Return whether the WebSocket is open, as far as this side knows."""
        return self._connection.state.name == "OPEN"

    async def receive(self) -> Frame:
        """Receive the next message.

        Raises:
            SocketLostError: the WebSocket is closed.
            FrameError: the received data is not a message or consists of endless pings.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415  # see the module's docstring

        try:
            data = await self._connection.recv()
        except ConnectionClosed as closed:
            if getattr(self._connection, "is_flooded", False):
                raise PingFloodError from None
            raise self._lost_error(closed) from None
        self._has_received = True
        if self._uses_v1 and isinstance(data, str):
            raise FrameError("the frame is a text frame, but binary frames were negotiated")
        return await self._decode(data)

    async def _decode(self, data: str | bytes) -> Frame:
        """Decode a frame. If it is long, let other tasks run in between."""
        is_short, placeholder = len(data) <= MAX_SHORT_BYTES, secrets.token_hex(16)
        if self._uses_v1 and isinstance(data, bytes):
            return decode(data) if is_short else await run_in_turns(decode_in_turns(data, placeholder))
        return decode_legacy(data) if is_short else await run_in_turns(decode_legacy_in_turns(data, placeholder))

    async def send(self, frame: Frame) -> None:
        """Send a message.

        Raises:
            SocketLostError: the connection is lost. The message may have been sent.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

        try:
            await self._connection.send(encode(frame) if self._uses_v1 else encode_text(frame))
        except ConnectionClosed as closed:
            raise self._lost_error(closed) from None

    async def watch(self) -> None:
        """Regularly ping the server. If a ping is not answered, close the connection and return.

        Without pings, a proxy might keep the connection open long after the server is gone.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

        with suppress(ConnectionClosed):
            while await self._is_alive(PONG_TIMEOUT_S if self._has_received else FIRST_PONG_TIMEOUT_S):
                await anyio.sleep(PING_INTERVAL_S)
            self._is_stalled = True
        self._connection.transport.abort()

    async def _is_alive(self, within_s: float) -> bool:
        with anyio.move_on_after(within_s):
            pong = asyncio.ensure_future(await self._connection.ping())
            # Otherwise, asyncio logs an exception that was never retrieved.
            pong.add_done_callback(lambda future: future.cancelled() or future.exception())
            finished, _ = await asyncio.wait({pong}, timeout=within_s)
            self._has_received = self._has_received or bool(finished)
            return bool(finished)
        return False

    async def close(self) -> None:
        """Close the connection. Has no effect if it is already closed."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(CLOSE_TIMEOUT_S):
                await self._connection.close()
            self._connection.transport.abort()

    def _lost_error(self, closed: Exception) -> SocketLostError:
        if self._is_stalled:
            return SocketLostError("the connection to the Jupyter Server stalled", is_stalled=True)
        sent, received = getattr(closed, "sent", None), getattr(closed, "rcvd", None)
        if sent is not None and sent.code == MESSAGE_TOO_BIG_STATUS:
            return SocketLostError(f"{TOO_LONG_MESSAGE}, so the connection was closed", is_stalled=True)
        if received is None:
            return SocketLostError("the connection to the Jupyter Server was lost")
        reason = f": {received.reason}" if received.reason else ""
        return SocketLostError(f"the Jupyter Server closed the connection with {received.code}{reason}")


async def open_socket(api: ServerApi, kernel: str, session: str) -> ServerWebSocket:
    """Open a WebSocket to a kernel. `session` is the session id sent to the server.

    Raises:
        ReplUnreachableError: nothing answers at the server's URL in time.
        ServerAnswerError: the server refuses the connection.
        NotAReplError: the listener is not a Jupyter Server.
        PackageMissingError: `websockets` is not installed.
    """
    try:
        connect = await anyio.to_thread.run_sync(_client_class)
    except ImportError:
        raise PackageMissingError(api.base, "jupyter", "websockets") from None
    headers, tls = await anyio.to_thread.run_sync(lambda: (api.headers(), api.tls_context()))
    path = f"/api/kernels/{quote(kernel, safe='')}"
    url = f"ws{api.base.removeprefix('http')}{path}/channels?session_id={session}"
    from websockets.exceptions import InvalidHandshake, InvalidStatus  # noqa: PLC0415

    try:
        with anyio.fail_after(OPEN_TIMEOUT_S):
            return ServerWebSocket(await connect(url, additional_headers=headers, ssl=tls))
    except TimeoutError:
        raise ReplUnreachableError(
            api.base, f"the server did not open a WebSocket within {OPEN_TIMEOUT_S:g} s"
        ) from None
    except InvalidStatus as error:
        raise api.error_from_status(error.response.status_code, error.response.reason_phrase, path) from None
    except InvalidHandshake as error:
        cause = f"the server did not open a WebSocket ({type(error).__name__})"
        raise NotAReplError(api.base, cause, protocol="Jupyter") from None
    except (OSError, EOFError) as error:
        raise ReplUnreachableError(api.base, describe_error(error)) from None


@cache
def _client_class() -> type[connect]:
    """Return a `connect` class that keeps the token secret: it neither logs nor follows redirects."""
    from websockets.asyncio.client import connect  # noqa: PLC0415

    # At the DEBUG level, the client logs the header with the token.
    silent_logger = logging.Logger("silent", logging.CRITICAL + 1)  # noqa: LOG001  # independent of the root logger
    connection_class = _connection_class()

    class Client(connect):
        def __init__(self, uri: str, **options: Any) -> None:
            super().__init__(
                uri, create_connection=connection_class, subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
                compression=None, logger=silent_logger, open_timeout=None, ping_interval=None,
                close_timeout=CLOSE_TIMEOUT_S, max_size=MAX_FRAME_BYTES, max_queue=MAX_QUEUED_FRAMES, proxy=None,
                **options,
            )  # fmt: skip

        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    return Client


def _connection_class() -> type[ClientConnection]:
    """Return a connection class that acknowledges data immediately and aborts when it is flooded with pings."""
    from websockets.asyncio.client import ClientConnection  # noqa: PLC0415
    from websockets.frames import Opcode  # noqa: PLC0415

    class Connection(ClientConnection):
        is_flooded = False
        second, pings = 0, 0

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            raw_socket = transport.get_extra_info("socket")
            if raw_socket is not None:
                probe_when_silent(raw_socket, idle_s=10, interval_s=5, probes=3)
            _acknowledge_immediately(transport)

        def data_received(self, data: bytes) -> None:
            _acknowledge_immediately(self.transport)
            chunk_bytes = PING_CHUNK_BYTES if data.count(PING_FIRST_BYTE) > MAX_PINGS_PER_SECOND else len(data)
            for start in range(0, len(data), chunk_bytes):
                if self.is_flooded:
                    return
                super().data_received(data[start : start + chunk_bytes])

        def process_event(self, event: Event) -> None:
            super().process_event(event)
            if getattr(event, "opcode", None) is not Opcode.PING:
                return
            second = int(self.loop.time())
            self.pings = self.pings + 1 if second == self.second else 1
            self.second = second
            if self.pings > MAX_PINGS_PER_SECOND and not self.is_flooded:
                self.is_flooded = True
                self.transport.abort()

    return Connection


def _acknowledge_immediately(transport: asyncio.BaseTransport) -> None:
    """Disable delayed TCP acknowledgments, which would delay each small chunk from a server by 40 ms."""
    raw_socket, option = transport.get_extra_info("socket"), getattr(socket, "TCP_QUICKACK", None)
    if raw_socket is not None and option is not None:
        with suppress(OSError):
            raw_socket.setsockopt(socket.IPPROTO_TCP, option, 1)
