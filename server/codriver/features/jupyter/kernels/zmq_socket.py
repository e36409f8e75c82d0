"""A ZeroMQ socket connected to one of a kernel's sockets.

Codriver implements ZeroMQ because libzmq buffers complete messages, and any number of them. A kernel drops messages for
a slow reader: once libzmq's queue of 1,000 messages and the system's buffers are full, everything is lost, including
the end of an evaluation. So published bytes are received immediately, and decoded when there is time. Bytes are cheap,
while decoded messages take three times as much memory.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.features.jupyter.kernels.inbox import DroppedMessages, Inbox
from codriver.features.jupyter.kernels.signed_messages import Assembler, ReceivedMessage, Signer
from codriver.features.jupyter.kernels.zmtp import GREETING, SUBSCRIBE_ALL, Decoder, ZmtpError, encode, ready_command
from codriver.net.cooperative_turns import TurnTimer
from codriver.net.tcp_transport import TcpTransport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.features.jupyter.kernels.lost_messages import LostMessageCounter


CLOSED_MESSAGE: Final = "the kernel closed the connection"
OPEN_TIMEOUT_S: Final = 2.0
"""Maximum time to connect to a kernel that is starting."""
RETRY_INTERVAL_S: Final = 0.02
"""Interval between attempts to connect. A kernel that is starting is not listening on all sockets yet."""
MAX_BACKLOG_BYTES: Final = 16 * 1024
"""Maximum number of bytes waiting to be decoded, apart from the last read.

Further bytes wait in the buffers of the operating system, and then in the Jupyter kernel.
"""
MAX_PUBLISHED_BACKLOG_BYTES: Final = 16 * 2**20
"""Maximum number of published bytes waiting to be decoded, enough for about 20,000 printed lines.

They are stored because the kernel drops messages that are not received.
"""
RECEIVE_BUFFER_BYTES: Final = 4 * 2**20
"""Requested size of the system's buffer for published bytes, thirty times Linux's initial size.

The buffer fills up while this process is not running, which can take seconds on an overloaded machine.
"""
MAX_JOINED_BYTES: Final = 64 * 1024
"""Maximum size up to which queued reads are joined.

If they were not joined, each small read would occupy a page of memory.
"""
SLICE_BYTES: Final = 2 * 1024
"""Number of bytes to decode from small parts between two checks of the time."""
LONG_SLICE_BYTES: Final = 64 * 1024
"""Number of bytes to decode from a long part between two checks of the time."""


class ZmqSocket:
    """A connected ZeroMQ socket. One of its owner's tasks must run `read` while messages are being received."""

    def __init__(
        self,
        transport: TcpTransport,
        socket_type: str,
        identity: str,
        signer: Signer,
        lost_messages: LostMessageCounter,
    ) -> None:
        self._transport = transport
        self._lost_messages = lost_messages
        self._decoder = Decoder()
        self._assembler = Assembler(signer)
        self._inbox = Inbox()
        self._backlog: deque[bytearray] = deque()
        self._backlog_bytes = 0
        self._max_backlog = MAX_PUBLISHED_BACKLOG_BYTES if socket_type == "SUB" else MAX_BACKLOG_BYTES
        self._close_cause: str | None = None
        """The reason why no more bytes will be received."""
        self._has_bytes = anyio.Event()
        """Set when bytes have been received or the connection has been closed."""
        self._has_item = anyio.Event()
        """Set when the inbox has a message."""
        self._may_continue = anyio.Event()
        """Set when a message has been taken from the inbox or more bytes are queued than allowed."""
        self.received_bytes = 0
        """Number of bytes received so far."""
        transport.waits_for_acks = False  # send messages immediately
        self._unsent: list[bytes] | None = [encode(SUBSCRIBE_ALL)] if socket_type == "SUB" else []
        """Frames to send after the handshake. If they were sent earlier, libzmq would disconnect."""
        transport.set_callbacks(self._on_data, self._on_closed)
        transport.write(GREETING + ready_command(socket_type, identity))

    @property
    def unsigned_message_count(self) -> int:
        """Return the number of messages so far that were not signed with the kernel's key."""
        return self._assembler.unsigned

    def send(self, parts: Sequence[bytes]) -> None:
        """Send a message, or queue it until the handshake has finished."""
        data = encode(parts)
        if self._unsent is None:
            self._transport.write(data)
        else:
            self._unsent.append(data)

    async def receive_next(self) -> ReceivedMessage | DroppedMessages:
        """Return the next message, or a placeholder for dropped messages.

        After the connection is closed, wait forever.
        """
        while not len(self._inbox):
            self._has_item = anyio.Event()
            await self._has_item.wait()
        item = self._inbox.pop()
        self._may_continue.set()
        return item

    async def read(self) -> str:
        """Decode received bytes until the connection is closed. Return the cause."""
        turns = TurnTimer()
        try:
            while self._backlog or self._close_cause is None:
                if self._backlog:
                    data = bytes(self._backlog.popleft())
                    await self._decode(data, turns)
                    self._backlog_bytes -= len(data)
                    del data
                    if self._backlog_bytes <= self._max_backlog:
                        self._transport.resume_reading()
                else:
                    self._has_bytes = anyio.Event()
                    await self._has_bytes.wait()
                    turns = TurnTimer()
        except ZmtpError as error:
            return str(error)
        return self._close_cause or "Codriver closed the connection"

    def _on_data(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if self._backlog and len(self._backlog[-1]) + len(data) <= MAX_JOINED_BYTES:
            self._backlog[-1] += data
        else:
            self._backlog.append(bytearray(data))
        self._backlog_bytes += len(data)
        if self._backlog_bytes > self._max_backlog:
            self._transport.pause_reading()
            self._may_continue.set()
        self._has_bytes.set()

    def _on_closed(self, error: Exception | None) -> None:
        self._close_cause = f"the connection was lost ({error})" if error else CLOSED_MESSAGE
        self._has_bytes.set()

    async def _decode(self, data: bytes, turns: TurnTimer) -> None:
        """Decode bytes in steps, and wait for space in the inbox before adding messages to it."""
        start = 0
        while start < len(data):
            if turns.is_turn_over:
                await turns.yield_to_others()
            end = start + min(max(SLICE_BYTES, self._decoder.missing_bytes), LONG_SLICE_BYTES)
            for chunk in self._decoder.feed(data[start:end]):
                message = self._assembler.add(chunk)
                if message is not None:
                    self._lost_messages.add(message)
                    await self._put(message)
            self._send_answers()
            start = end

    def _send_answers(self) -> None:
        """Send the answers required by the protocol. After the handshake, also send queued frames."""
        while self._decoder.answers:
            self._transport.write(self._decoder.answers.pop())
        if self._unsent is not None and self._decoder.is_ready:
            self._transport.write(b"".join(self._unsent))
            self._unsent = None

    async def _put(self, message: ReceivedMessage) -> None:
        while not self._inbox.has_space or (self._inbox.is_dropping and self._backlog_bytes <= self._max_backlog):
            self._may_continue = anyio.Event()
            await self._may_continue.wait()
        self._inbox.put(message)
        self._has_item.set()

    @property
    def is_drained(self) -> bool:
        """Return whether all received messages have been decoded and removed from the inbox."""
        return not self._backlog_bytes and not len(self._inbox)

    async def close(self) -> None:
        """Close the connection. Has no effect if it is already closed."""
        await self._transport.close()


async def open_socket(
    connection_info: Mapping[str, object],
    name: str,
    socket_type: str,
    identity: str,
    signer: Signer,
    lost_messages: LostMessageCounter,
) -> ZmqSocket:
    """Connect to the kernel's socket `name`, and return a ZeroMQ socket of type `socket_type`.

    Raises:
        OSError: the connection is not established within `OPEN_TIMEOUT_S`.
    """
    deadline = anyio.current_time() + OPEN_TIMEOUT_S
    while True:
        try:
            transport = await _connect(connection_info, name, has_large_buffer=socket_type == "SUB")
            return ZmqSocket(transport, socket_type, identity, signer, lost_messages)
        except OSError:
            if anyio.current_time() >= deadline:
                raise
        await anyio.sleep(RETRY_INTERVAL_S)


async def _connect(connection_info: Mapping[str, object], name: str, *, has_large_buffer: bool) -> TcpTransport:
    """Connect to the kernel's socket `name`, optionally with a large receive buffer."""
    loop = asyncio.get_running_loop()
    host, port = str(connection_info["ip"]), connection_info[f"{name}_port"]
    if connection_info.get("transport") == "ipc":
        _, transport = await loop.create_unix_connection(TcpTransport, f"{host}-{port}")
        return transport
    family, kind, protocol, _, address = (await loop.getaddrinfo(host, int(str(port)), type=socket.SOCK_STREAM))[0]
    raw_socket = socket.socket(family, kind, protocol)
    try:
        raw_socket.setblocking(False)  # noqa: FBT003  # the standard library's signature
        if has_large_buffer and _supports_large_buffers(family):
            raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        await loop.sock_connect(raw_socket, address)
        _, transport = await loop.create_connection(TcpTransport, sock=raw_socket)
    except BaseException:
        raw_socket.close()
        raise
    return transport


def _supports_large_buffers(family: int) -> bool:
    """Return whether the system grants the requested buffer size. If it grants less, the buffer can never grow."""
    with socket.socket(family, socket.SOCK_STREAM) as raw_socket, suppress(OSError):
        raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        return raw_socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= RECEIVE_BUFFER_BYTES
    return False
