"""Enable TCP keep-alive, so that the kernel detects clients that disappeared without closing their connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.net.tcp_transport import probe_when_silent

if TYPE_CHECKING:
    import socket


KEEPALIVE_IDLE_S = 60
"""Time without traffic, in seconds, after which the first probe is sent."""
KEEPALIVE_INTERVAL_S = 10
"""Time between two probes, in seconds."""
KEEPALIVE_PROBES = 3
"""Number of unanswered probes after which the connection is closed: 90 s after the last traffic."""


def enable_keepalive(raw: socket.socket) -> None:
    """Enable TCP keep-alive on a socket, with the intervals in `KEEPALIVE_IDLE_S` and `KEEPALIVE_INTERVAL_S`."""
    probe_when_silent(raw, idle_s=KEEPALIVE_IDLE_S, interval_s=KEEPALIVE_INTERVAL_S, probes=KEEPALIVE_PROBES)
