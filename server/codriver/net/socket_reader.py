"""The reader of one connection.

A client's socket stays registered with the event loop from one message to the next. The library's own stream takes the
socket out of the selector after each received chunk and puts it in again for the next one: two system calls and some
fifty function calls for each message. Here only back-pressure does that, when more is waiting than is taken.
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

READ_BYTES: Final = 64 * 1024
MOST_WAITING_BYTES: Final = 64 * 1024
"""Maximum number of bytes buffered; further bytes wait in the kernel, and then at the client."""


class SocketReader(asyncio.Protocol):
    """Reader of one connection, in place of the library's protocol, which continues with the writing."""

    def __init__(self, transport: asyncio.Transport, before: Any, first: bytes, session: ClientSession | None) -> None:
        """`before` is the library's protocol, `first` the bytes that were read already.

        The `session` may consume bytes immediately while somebody waits for them; then no one is woken.
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
        """Whether nothing more comes."""
        self._has_failed = before.exception is not None
        transport.set_protocol(self)

    async def receive(self) -> bytes | None:
        """Return the next bytes: empty at their end, None when the connection is broken."""
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
        if len(data) > READ_BYTES:
            self._waiting.appendleft(data[READ_BYTES:])
            data = data[:READ_BYTES]
        self._waiting_bytes -= len(data)
        return data

    # Callbacks of asyncio

    def data_received(self, data: bytes) -> None:
        """Store received bytes. Windows' event loop passes an array that it reuses."""
        data = bytes(data)
        if self._is_awaited and self._session is not None and self._session.read_immediately(data):
            return
        self._is_awaited = False
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= MOST_WAITING_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._received.set()

    def eof_received(self) -> bool:
        """Note that the client sends no more. It may still read answers."""
        self._is_over = True
        self._received.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that nothing more can be received or sent."""
        self._is_over = True
        self._has_failed = exc is not None
        self._received.set()
        self._before.connection_lost(exc)

    def pause_writing(self) -> None:
        """Stop writing: the client does not keep up."""
        self._before.pause_writing()

    def resume_writing(self) -> None:
        """Continue writing: the client reads again."""
        self._before.resume_writing()


def receiving(
    stream: SocketStream, first: bytes, session: ClientSession | None = None
) -> Callable[[], Awaitable[bytes | None]]:
    """Return a function that returns `first`, then the stream's bytes: empty at their end, None for a broken stream.

    Bytes that the `session` consumes immediately are left out.

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
