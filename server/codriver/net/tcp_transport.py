"""A TCP connection that processes received bytes without waiting for another iteration of the event loop.

Reading from a stream in a task takes an additional iteration per message, and so does writing. Together, they take a
tenth of the time of an evaluation. So this is an asyncio protocol, which is called when bytes arrive and writes
immediately. TCP keep-alive detects when the peer of an idle connection has disappeared.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable


CLOSE_TIMEOUT_S: Final = 0.5
"""Maximum time, in seconds, for the peer to close the connection as well. All known servers do so immediately."""

KEEPALIVE_IDLE_S: Final = 10
"""Time without traffic, in seconds, after which the first probe is sent."""
KEEPALIVE_INTERVAL_S: Final = 5
"""Time between two probes, in seconds."""
KEEPALIVE_PROBES: Final = 3
"""Number of unanswered probes after which the connection is closed: 25 s after the last traffic."""


class TcpTransport(asyncio.Protocol):
    """A TCP connection that passes received data to a callback.

    `on_bytes` is called with received data. `lost` is called once when nothing more will be received, with the
    exception that broke the connection or None. Neither may raise.
    """

    def __init__(self) -> None:
        self._early: list[bytes] = []
        """Bytes that arrived before the connection had an owner, as uvloop starts reading immediately."""
        self.on_bytes: Callable[[bytes], None] = self._early.append
        self.lost: Callable[[Exception | None], None] = _ignore
        self.waits_for_acks = True
        """Whether the peer may delay a message until the previous one is acknowledged, by Nagle's algorithm."""
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._writable: anyio.Event | None = None
        self._gone = anyio.Event()

    # The following methods are called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport and configure the socket."""
        self._transport = cast("asyncio.Transport", transport)
        self._socket = transport.get_extra_info("socket")
        self._enable_keepalive()
        self._rearm_quick_ack()

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to the owner."""
        if self.waits_for_acks:
            self._rearm_quick_ack()
        self.on_bytes(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the owner and waiting tasks that the connection is closed."""
        self.resume_writing()
        self._gone.set()
        self.lost(exc)

    def pause_writing(self) -> None:
        """Make `send` wait, because the peer does not read fast enough."""
        self._writable = anyio.Event()

    def resume_writing(self) -> None:
        """Let `send` continue, because the peer is reading again."""
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    # The following methods are for the owner.

    def set_callbacks(self, on_bytes: Callable[[bytes], None], lost: Callable[[Exception | None], None]) -> None:
        """Set the callbacks of the owner. Bytes that were received before are passed on immediately."""
        self.on_bytes, self.lost = on_bytes, lost
        early, self._early = self._early, []
        for data in early:
            on_bytes(data)

    @property
    def socket(self) -> socket.socket:
        """Return the underlying socket. The connection must be open."""
        return cast("socket.socket", self._socket)

    def abort(self) -> None:
        """Close the connection immediately, without calling `lost`. May be called repeatedly."""
        self.lost = _ignore
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        """Stop reading, so that the peer has to wait. May be called repeatedly."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading after `pause_reading`. May be called repeatedly."""
        if self._transport is not None and not self._transport.is_closing() and not self._transport.is_reading():
            self._transport.resume_reading()

    @property
    def is_open(self) -> bool:
        """Return whether data can still be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def can_send_immediately(self) -> bool:
        """Return whether the connection is open and no written data is waiting for the peer."""
        return self.is_open and self._writable is None

    def write(self, data: bytes) -> None:
        """Write data. It is buffered if the peer does not read fast enough."""
        if self._transport is not None:
            self._transport.write(data)

    async def send(self, data: bytes) -> None:
        """Write data, and wait until the peer reads fast enough or the connection is lost."""
        self.write(data)
        if self._writable is not None:
            await self._writable.wait()

    async def close(self) -> None:
        """Stop sending, discard any data that still arrives, and close the connection. May be called repeatedly.

        Closing while the peer is still sending would reset the connection, which makes some REPLs exit, such as nbb on
        Node.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self.on_bytes = _ignore
        try:
            with anyio.move_on_after(CLOSE_TIMEOUT_S):
                transport.write_eof()
                self.resume_reading()
                await self._gone.wait()
        finally:
            transport.abort()

    def _rearm_quick_ack(self) -> None:
        """Make the kernel acknowledge received data immediately.

        nREPL servers send a value and `done` separately, and would otherwise wait 40 ms. Linux resets the option, so it
        is set again for every read.
        """
        if sys.platform == "linux" and self._socket is not None:
            try:
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            except OSError:
                # The socket was closed in the meantime, which the next read or write reports.
                return

    def _enable_keepalive(self) -> None:
        """Enable keep-alive, so that the kernel detects a peer that has disappeared."""
        raw = self._socket
        if raw is None or raw.family not in {socket.AF_INET, socket.AF_INET6}:
            return
        probe_when_silent(raw, idle_s=KEEPALIVE_IDLE_S, interval_s=KEEPALIVE_INTERVAL_S, probes=KEEPALIVE_PROBES)
        if sys.platform == "linux":
            # No probes are sent while data is unacknowledged, so this option limits that time in the same
            # way.
            limit_ms = 1000 * (KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_PROBES)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)


def _ignore(_: Any) -> None:
    """Ignore a callback, because the connection has no owner yet."""


def probe_when_silent(raw: socket.socket, *, idle_s: int, interval_s: int, probes: int) -> None:
    """Enable TCP keep-alive. The connection is closed after several unanswered probes.

    The first probe is sent after `idle_s` without traffic, and the others follow every `interval_s`. Windows uses its
    own, longer times.
    """
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "darwin":
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPALIVE, idle_s)
    if sys.platform == "linux":
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle_s)
    if sys.platform in {"linux", "darwin"}:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval_s)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)
