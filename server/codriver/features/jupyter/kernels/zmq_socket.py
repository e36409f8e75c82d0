"""A ZeroMQ socket that is connected to a socket of a kernel.

Codriver implements ZeroMQ because libzmq buffers complete messages, and any number of them. A kernel drops messages for
a slow reader: once 1,000 messages of libzmq and the buffers of the system are full, everything is lost, including the
end of an evaluation. So published bytes are received immediately, and are decoded when there is time. Bytes are cheap,
while decoded messages take three times as much memory.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.features.jupyter.kernels.inbox import Dropped, Inbox
from codriver.features.jupyter.kernels.signed_messages import Assembler, Received, Signer
from codriver.features.jupyter.kernels.zmtp import GREETING, SUBSCRIBE_ALL, Decoder, ZmtpError, encode, ready
from codriver.net.cooperative_turns import Turns
from codriver.net.tcp_transport import TcpTransport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.features.jupyter.kernels.lost_messages import Numbers


CLOSED: Final = "the kernel closed the connection"
OPEN_S: Final = 2.0
RETRY_S: Final = 0.02
"""The time for a starting kernel until all its sockets listen, and the rest between attempts."""
BACKLOG_BYTES: Final = 16 * 1024
"""The bytes that wait to be decoded, and one more read; the rest waits in the system, and then in the kernel."""
PUBLISHED_BACKLOG_BYTES: Final = 16 * 2**20
"""The published bytes that wait to be decoded, as nothing else holds them for long: some 20,000 prints of a line."""
BUFFER_BYTES: Final = 4 * 2**20
"""The system's buffer for published bytes, as far as the system allows, while this process gets no turn: with ten times
as many processes as processors that takes seconds. By itself Linux begins with a thirtieth of this."""
CHUNK_BYTES: Final = 64 * 1024
"""The size to which waiting reads are joined: each read of few bytes would take a page of memory."""
SLICE_BYTES: Final = 2 * 1024
LONG_SLICE_BYTES: Final = 64 * 1024
"""The bytes that are decoded between two looks at the clock, of small parts and of a long one."""


class ZmqSocket:
    """A connected socket, until either side closes it. Run `read` in a task of the owner, which takes the messages."""

    def __init__(self, transport: TcpTransport, kind: str, identity: str, signer: Signer, numbers: Numbers) -> None:
        self._transport = transport
        self._numbers = numbers
        self._decoder = Decoder()
        self._assembler = Assembler(signer)
        self._inbox = Inbox()
        self._backlog: deque[bytearray] = deque()
        self._backlog_bytes = 0
        self._most_backlog = PUBLISHED_BACKLOG_BYTES if kind == "SUB" else BACKLOG_BYTES
        self._end: str | None = None
        """The reason why nothing more comes."""
        self._received_item = anyio.Event()
        """Set when something came."""
        self._mail = anyio.Event()
        """Set when something is in the inbox."""
        self._freed = anyio.Event()
        """Set when the inbox got room, or more bytes came than may wait to be taken apart."""
        self.received_bytes = 0
        """All bytes received so far."""
        transport.waits_for_acks = False  # Messages of ZeroMQ are sent at once
        self._unsent: list[bytes] | None = [encode(SUBSCRIBE_ALL)] if kind == "SUB" else []
        """Frames that wait for the end of the handshake: libzmq hangs up on a peer that sends them earlier."""
        transport.hand_to(self._receive, self._lost)
        transport.write(GREETING + ready(kind, identity))

    @property
    def unsigned(self) -> int:
        """Return the number of messages so far that are not signed with the kernel's key."""
        return self._assembler.unsigned

    def send(self, parts: Sequence[bytes]) -> None:
        """Send a message, as far as the kernel takes it at once; the rest goes out later."""
        data = encode(parts)
        if self._unsent is None:
            self._transport.write(data)
        else:
            self._unsent.append(data)

    async def receive_next(self) -> Received | Dropped:
        """Return the next message, or the number of messages dropped there. Waits forever when the connection ended."""
        while not len(self._inbox):
            self._mail = anyio.Event()
            await self._mail.wait()
        item = self._inbox.receive_next()
        self._freed.set()
        return item

    async def read(self) -> str:
        """Decode received bytes until the connection ends, and return the cause in words."""
        turns = Turns()
        try:
            while self._backlog or self._end is None:
                if self._backlog:
                    data = bytes(self._backlog.popleft())
                    await self._decode(data, turns)
                    self._backlog_bytes -= len(data)
                    del data
                    if self._backlog_bytes <= self._most_backlog:
                        self._transport.resume_reading()
                else:
                    self._received_item = anyio.Event()
                    await self._received_item.wait()
                    turns = Turns()
        except ZmtpError as error:
            return str(error)
        return self._end or "it was closed by us"

    def _receive(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if self._backlog and len(self._backlog[-1]) + len(data) <= CHUNK_BYTES:
            self._backlog[-1] += data
        else:
            self._backlog.append(bytearray(data))
        self._backlog_bytes += len(data)
        if self._backlog_bytes > self._most_backlog:
            self._transport.pause_reading()
            self._freed.set()
        self._received_item.set()

    def _lost(self, error: Exception | None) -> None:
        self._end = f"the connection broke ({error})" if error else CLOSED
        self._received_item.set()

    async def _decode(self, data: bytes, turns: Turns) -> None:
        """Put the messages that the bytes complete into the inbox, in turns; each waits until there is room for it."""
        start = 0
        while start < len(data):
            if turns.is_over:
                await turns.leave_off()
            end = start + min(max(SLICE_BYTES, self._decoder.missing_bytes), LONG_SLICE_BYTES)
            for chunk in self._decoder.feed(data[start:end]):
                message = self._assembler.receive_next(chunk)
                if message is not None:
                    self._numbers.received(message)
                    await self._put(message)
            self._answer()
            start = end

    def _answer(self) -> None:
        """Send the answers that the protocol asks for, and the frames that waited for the handshake."""
        while self._decoder.answers:
            self._transport.write(self._decoder.answers.pop())
        if self._unsent is not None and self._decoder.is_ready:
            self._transport.write(b"".join(self._unsent))
            self._unsent = None

    async def _put(self, message: Received) -> None:
        while not self._inbox.has_space or (self._inbox.is_started and self._backlog_bytes <= self._most_backlog):
            self._freed = anyio.Event()
            await self._freed.wait()
        self._inbox.put(message)
        self._mail.set()

    @property
    def is_read(self) -> bool:
        """Return true if no received bytes wait."""
        return not self._backlog_bytes and not len(self._inbox)

    async def close(self) -> None:
        """End the connection. Twice is harmless."""
        await self._transport.close()


async def open_socket(
    information: Mapping[str, object], name: str, kind: str, identity: str, signer: Signer, numbers: Numbers
) -> ZmqSocket:
    """Return a socket of that ZeroMQ type, connected to the kernel's socket of that name.

    Raises:
        OSError: no one listens there, also after a moment.
    """
    deadline = anyio.current_time() + OPEN_S
    while True:
        try:
            transport = await _connect(information, name, is_wide=kind == "SUB")
            return ZmqSocket(transport, kind, identity, signer, numbers)
        except OSError:
            if anyio.current_time() >= deadline:
                raise
        await anyio.sleep(RETRY_S)


async def _connect(information: Mapping[str, object], name: str, *, is_wide: bool) -> TcpTransport:
    """A connection to the kernel's socket of that name, with a large system buffer for a socket that `is_wide`."""
    loop = asyncio.get_running_loop()
    host, port = str(information["ip"]), information[f"{name}_port"]
    if information.get("transport") == "ipc":
        _, transport = await loop.create_unix_connection(TcpTransport, f"{host}-{port}")
        return transport
    family, kind, protocol, _, address = (await loop.getaddrinfo(host, int(str(port)), type=socket.SOCK_STREAM))[0]
    connected = socket.socket(family, kind, protocol)
    try:
        connected.setblocking(False)  # noqa: FBT003  # the library's own way
        if is_wide and _has_wide_buffers(family):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        await loop.sock_connect(connected, address)
        _, transport = await loop.create_connection(TcpTransport, sock=connected)
    except BaseException:
        connected.close()
        raise
    return transport


def _has_wide_buffers(family: int) -> bool:
    """Return true if the system gives a socket the wanted buffer: it may give less, and never more later."""
    with socket.socket(family, socket.SOCK_STREAM) as tried, suppress(OSError):
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        return tried.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= BUFFER_BYTES
    return False
