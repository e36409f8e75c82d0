"""One socket of ours, connected to a socket of a kernel: what comes is always taken, in turns, and waits in its inbox.

ZeroMQ is spoken here and not by libzmq, which holds the whole of every message, and of any number that wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

import anyio

from codriver.net.loop_turns import Turns
from codriver.net.tcp_transport import TcpTransport
from codriver.repls.jupyter.zeromq.inbox import Inbox
from codriver.repls.jupyter.zeromq.signed_messages import Assembler
from codriver.wire.zmtp import GREETING, SUBSCRIBE_ALL, Decoder, ZmtpError, encode, ready

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.repls.jupyter.zeromq.inbox import Dropped
    from codriver.repls.jupyter.zeromq.signed_messages import Received, Signer

CLOSED: Final = "the kernel closed the connection"
OPEN_S: Final = 2.0
RETRY_S: Final = 0.02
"""How long a kernel that just starts may take until all its sockets listen, and how often that is looked for."""
BACKLOG_BYTES: Final = 16 * 1024
"""What waits to be taken apart, and a read of the system's more; the rest waits there, and then in the kernel."""
SLICE_BYTES: Final = 2 * 1024
LONG_SLICE_BYTES: Final = 64 * 1024
"""What is taken apart between two looks at the clock, of small parts and of a long one."""


class ZmqSocket:
    """A connected socket, until either side closes it. Run `read` in a task of the owner, who takes from it."""

    def __init__(self, transport: TcpTransport, kind: str, identity: str, signer: Signer) -> None:
        self._transport = transport
        self._decoder = Decoder()
        self._assembler = Assembler(signer)
        self._inbox = Inbox()
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._end: str | None = None
        """Why nothing more comes."""
        self._news = anyio.Event()
        """Set when something came."""
        self._mail = anyio.Event()
        """Set when something is in the inbox."""
        self._room = anyio.Event()
        """Set when something was taken out of it."""
        self.received_bytes = 0
        """Bytes so far, of whatever."""
        transport.waits_for_acks = False  # ZeroMQ sends at once
        self._unsent: list[bytes] | None = [encode(SUBSCRIBE_ALL)] if kind == "SUB" else []
        """What waits for the end of the handshake: libzmq hangs up on who says more before."""
        transport.hand_to(self._heard, self._lost)
        transport.write(GREETING + ready(kind, identity))

    @property
    def unsigned(self) -> int:
        """Messages so far that are not signed with the kernel's key."""
        return self._assembler.unsigned

    def send(self, parts: Sequence[bytes]) -> None:
        """Send a message, as far as the kernel takes it at once; the rest goes out when it does."""
        data = encode(parts)
        if self._unsent is None:
            self._transport.write(data)
        else:
            self._unsent.append(data)

    async def take(self) -> Received | Dropped:
        """The next of what came, or the number of what was dropped there. Waits for ever when the connection ended."""
        while not len(self._inbox):
            self._mail = anyio.Event()
            await self._mail.wait()
        taken = self._inbox.take()
        self._room.set()
        return taken

    async def read(self) -> str:
        """Take apart what comes until nothing more does, and give the cause in words."""
        try:
            while self._backlog or self._end is None:
                if self._backlog:
                    data = self._backlog.popleft()
                    await self._take_apart(data)
                    self._backlog_bytes -= len(data)
                    del data
                else:
                    self._transport.resume_reading()
                    self._news = anyio.Event()
                    await self._news.wait()
        except ZmtpError as error:
            return str(error)
        return self._end or "it was closed by us"

    def _heard(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self._backlog.append(data)
        self._backlog_bytes += len(data)
        if self._backlog_bytes > BACKLOG_BYTES:
            self._transport.pause_reading()
        self._news.set()

    def _lost(self, error: Exception | None) -> None:
        self._end = f"the connection broke ({error})" if error else CLOSED
        self._news.set()

    async def _take_apart(self, data: bytes) -> None:
        """Put the messages that the bytes complete into the inbox, in turns; each waits until there is room for it."""
        turns, start = Turns(), 0
        while start < len(data):
            end = start + min(max(SLICE_BYTES, self._decoder.missing_bytes), LONG_SLICE_BYTES)
            for piece in self._decoder.feed(data[start:end]):
                message = self._assembler.take(piece)
                if message is not None:
                    await self._put(message)
            self._answer()
            start = end
            if turns.is_over:
                await turns.leave_off()

    def _answer(self) -> None:
        """Send what the other side's part of the protocol asks for, or has been waited for with."""
        while self._decoder.answers:
            self._transport.write(self._decoder.answers.pop())
        if self._unsent is not None and self._decoder.is_ready:
            self._transport.write(b"".join(self._unsent))
            self._unsent = None

    async def _put(self, message: Received) -> None:
        while not self._inbox.has_room:
            self._room = anyio.Event()
            await self._room.wait()
        self._inbox.put(message)
        self._mail.set()

    async def close(self) -> None:
        """End the connection. Twice is harmless."""
        await self._transport.close()


async def open_socket(
    information: Mapping[str, object], name: str, kind: str, identity: str, signer: Signer
) -> ZmqSocket:
    """A socket of that ZeroMQ type, connected to the kernel's socket of that name.

    Raises:
        OSError: nobody listens there, also after a moment.
    """
    deadline = anyio.current_time() + OPEN_S
    while True:
        try:
            return ZmqSocket(await _connect(information, name), kind, identity, signer)
        except OSError:
            if anyio.current_time() >= deadline:
                raise
        await anyio.sleep(RETRY_S)


async def _connect(information: Mapping[str, object], name: str) -> TcpTransport:
    loop = asyncio.get_running_loop()
    host, port = str(information["ip"]), information[f"{name}_port"]
    if information.get("transport") == "ipc":
        _, transport = await loop.create_unix_connection(TcpTransport, f"{host}-{port}")
    else:
        _, transport = await loop.create_connection(TcpTransport, host, int(str(port)))
    return transport
