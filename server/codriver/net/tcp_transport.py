"""The TCP transport of a peer: bytes are consumed in the same turn of the event loop in which they arrive.

Reading a stream by a task costs each message one more turn of the loop, and a write another: together a tenth of an
evaluation. So this is a protocol of asyncio, which is called when bytes arrive, and writes immediately. With TCP
keep-alive the kernel detects that the other side of a silent connection, its machine or its network is gone.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable


FAREWELL_S: Final = 0.5
"""Maximum time for the other side to close the connection too. All known servers close it immediately, unless stuck."""

KEEPALIVE_IDLE_S: Final = 10
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 3
"""10 s of silence, then 3 probes 5 s apart: a half-open connection is noticed within 25 s."""


class TcpTransport(asyncio.Protocol):
    """A connection, from `connect` until either side closes it.

    `on_bytes` receives the bytes. `lost` is called once, when nothing more arrives, with the error that broke the
    connection, or None after an orderly end. Neither may raise.
    """

    def __init__(self) -> None:
        self._early: list[bytes] = []
        """The bytes received before the connection had an owner: uvloop reads immediately."""
        self.on_bytes: Callable[[bytes], None] = self._early.append
        self.lost: Callable[[Exception | None], None] = _pass_over
        self.waits_for_acks = True
        """Whether the other side may hold a message back until the message before is acknowledged, by Nagle's
        algorithm.
        """
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._writable: anyio.Event | None = None
        self._gone = anyio.Event()

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the established connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._socket = transport.get_extra_info("socket")
        self._keep_alive()
        self._rearm_quick_ack()

    def data_received(self, data: bytes) -> None:
        """Pass received bytes on."""
        if self.waits_for_acks:
            self._rearm_quick_ack()
        self.on_bytes(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection once."""
        self.resume_writing()
        self._gone.set()
        self.lost(exc)

    def pause_writing(self) -> None:
        """Stop writing: the other side does not keep up."""
        self._writable = anyio.Event()

    def resume_writing(self) -> None:
        """Continue writing: the other side reads again."""
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    # Methods for the owner

    def hand_to(self, on_bytes: Callable[[bytes], None], lost: Callable[[Exception | None], None]) -> None:
        """Pass received bytes to `on_bytes` from now on, including those already received."""
        self.on_bytes, self.lost = on_bytes, lost
        early, self._early = self._early, []
        for data in early:
            on_bytes(data)

    @property
    def socket(self) -> socket.socket:
        """Return the socket of an open connection."""
        return cast("socket.socket", self._socket)

    def abort(self) -> None:
        """Close the connection immediately, without a call of `lost`. Repeating it is harmless."""
        self.lost = _pass_over
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        """Let received bytes wait in the kernel. Repeating it is harmless."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read received bytes again. Harmless without a pause."""
        if self._transport is not None and not self._transport.is_closing() and not self._transport.is_reading():
            self._transport.resume_reading()

    @property
    def is_open(self) -> bool:
        """Return whether bytes can still be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_clear(self) -> bool:
        """Return whether bytes can be sent and the other side keeps up."""
        return self.is_open and self._writable is None

    def write(self, data: bytes) -> None:
        """Write immediately what the other side keeps up with."""
        if self._transport is not None:
            self._transport.write(data)

    async def send(self, data: bytes) -> None:
        """Send, and wait until the other side keeps up, or the connection is lost."""
        self.write(data)
        if self._writable is not None:
            await self._writable.wait()

    async def close(self) -> None:
        """Close the sending side, ignore what is still received, and close the connection. Repeating it is harmless.

        Closing while the other side still sends resets the connection, and a reset ends some REPLs: nbb, a program of
        Node, does not expect one.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self.on_bytes = _pass_over
        try:
            with anyio.move_on_after(FAREWELL_S):
                transport.write_eof()
                self.resume_reading()
                await self._gone.wait()
        finally:
            transport.abort()

    def _rearm_quick_ack(self) -> None:
        """Ask the kernel to acknowledge at once. nREPL servers write value and `done` separately, and would wait 40 ms.

        Linux forgets the flag with the next request. So the flag is set again at every read, which also acknowledges
        the read bytes.
        """
        if sys.platform == "linux" and self._socket is not None:
            try:
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            except OSError:
                # The socket was closed in the meantime: the read or write that follows says so.
                return

    def _keep_alive(self) -> None:
        """Let the kernel detect another side that disappeared silently."""
        raw = self._socket
        if raw is None or raw.family not in {socket.AF_INET, socket.AF_INET6}:
            return
        probe_when_silent(raw, idle_s=KEEPALIVE_IDLE_S, interval_s=KEEPALIVE_INTERVAL_S, probes=KEEPALIVE_PROBES)
        if sys.platform == "linux":
            # Probes are not sent while data waits for its acknowledgement; this option bounds that wait in the same
            # way.
            limit_ms = 1000 * (KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_PROBES)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)


def _pass_over(_: Any) -> None:
    """Drop a call: the connection has no owner."""


def probe_when_silent(raw: socket.socket, *, idle_s: int, interval_s: int, probes: int) -> None:
    """Let the kernel probe the other side after `idle_s` of silence, and give up after `probes` unanswered probes.

    The probes are `interval_s` apart. Windows has its own times, which are longer.
    """
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "darwin":
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPALIVE, idle_s)
    if sys.platform == "linux":
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle_s)
    if sys.platform in {"linux", "darwin"}:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval_s)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)
