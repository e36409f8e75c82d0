"""TCP keep-alive: the kernel finds out that a silent connection's other side, its machine or its network is gone."""

from __future__ import annotations

import socket
import sys


def probe_when_silent(raw: socket.socket, *, idle_s: int, interval_s: int, probes: int) -> None:
    """Have the kernel ask the other side after `idle_s` of silence, and give it up when `probes` get no answer.

    The probes are `interval_s` apart. Windows keeps its own times, which are longer.
    """
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "darwin":
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPALIVE, idle_s)
    if sys.platform == "linux":
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle_s)
    if sys.platform in {"linux", "darwin"}:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval_s)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)
