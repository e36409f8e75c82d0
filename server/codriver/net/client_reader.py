"""Read from a connection that stays registered with the event loop between messages.

anyio's stream unregisters the socket after each received chunk and registers it again for the next, which costs two
system calls and about fifty function calls per message. This reader only does so for back-pressure, when too much is
waiting to be read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import SocketStream

    from codriver.net.client_sessions import ClientSession

MAX_READ_BYTES: Final = 64 * 1024
"""Maximum number of bytes returned by one read."""
MAX_BUFFERED_BYTES: Final = 64 * 1024
"""Number of buffered bytes at which reading pauses. Further data then waits in the kernel and at the client."""


class SocketReader(asyncio.Protocol):
    """An asyncio protocol that reads from a connection. anyio's protocol, which it replaces, still handles writing."""

    def __init__(self, transport: asyncio.Transport, before: Any, first: bytes, session: ClientSession | None) -> None:
        """Replace anyio's protocol `before`. `first` contains the bytes that were already read.

        While a caller is waiting for data, the `session` may consume bytes immediately without waking the caller.
        """
        self._transport = transport
        self._session = session
        self._is_awaited = False
        self._before = before
        self._waiting: deque[bytes] = deque([first] if first else [])
        self._waiting += before.read_queue
        self._waiting_bytes = sum(map(len, self._waiting))
        self._received = asyncio.Event()
        self._is_paused = True
        self._is_over = before.is_at_eof or transport.is_closing()
        """Whether no more data will arrive."""
        self._has_failed = before.exception is not None
        transport.set_protocol(self)

    async def receive(self) -> bytes | None:
        """Return the next bytes, b"" when the client sends no more, or None if the connection broke."""
        if self._waiting:
            await anyio.lowlevel.checkpoint()
        elif not self._is_over:
            if self._is_paused:
                self._is_paused = False
                self._transport.resume_reading()
            self._received.clear()
            self._is_awaited = True
            try:
                await self._received.wait()
            finally:
                self._is_awaited = False
        if not self._waiting:
            return None if self._has_failed else b""
        data = self._waiting.popleft()
        if len(data) > MAX_READ_BYTES:
            self._waiting.appendleft(data[MAX_READ_BYTES:])
            data = data[:MAX_READ_BYTES]
        self._waiting_bytes -= len(data)
        return data

    # The following methods are called by asyncio.

    def data_received(self, data: bytes) -> None:
        """Buffer a copy of received bytes. The event loop of Windows reuses its buffer."""
        data = bytes(data)
        if self._is_awaited and self._session is not None and self._session.read_immediately(data):
            return
        self._is_awaited = False
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= MAX_BUFFERED_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._received.set()

    def eof_received(self) -> bool:
        """Record that the client sends nothing more. Keep the connection open, because it may still read answers."""
        self._is_over = True
        self._received.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the connection is closed."""
        self._is_over = True
        self._has_failed = exc is not None
        self._received.set()
        self._before.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pause writing because the client does not read fast enough."""
        self._before.pause_writing()

    def resume_writing(self) -> None:
        """Continue writing because the client is reading again."""
        self._before.resume_writing()


def bytes_receiver(
    stream: SocketStream, first: bytes, session: ClientSession | None = None
) -> Callable[[], Awaitable[bytes | None]]:
    """Return an async function that returns `first`, and then the next bytes of the stream with each call.

    It returns b"" at the end, and None if the connection broke. Bytes that the `session` consumes immediately are
    skipped. It uses anyio's private transport and protocol. If they are not accessible, it reads anyio's stream.
    """
    transport, before = getattr(stream, "_transport", None), getattr(stream, "_protocol", None)
    if isinstance(transport, asyncio.Transport) and before is not None:
        return SocketReader(transport, before, first, session).receive
    waiting = [first] if first else []

    async def receive() -> bytes | None:
        if waiting:
            return waiting.pop()
        try:
            return await stream.receive(MAX_READ_BYTES)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return None

    return receive
