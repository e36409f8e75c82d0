"""TCP keep-alive, by which the kernel detects a client that disappeared silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.net.tcp_transport import probe_when_silent

if TYPE_CHECKING:
    import socket


KEEPALIVE_IDLE_S = 60
KEEPALIVE_INTERVAL_S = 10
KEEPALIVE_PROBES = 3
"""A minute of silence, then 3 probes 10 s apart: a client that disappeared silently is noticed within 90 s."""


def keep_alive(raw: socket.socket) -> None:
    """Let the kernel detect a client that disappeared silently."""
    probe_when_silent(raw, idle_s=KEEPALIVE_IDLE_S, interval_s=KEEPALIVE_INTERVAL_S, probes=KEEPALIVE_PROBES)
