"""Ports that the system does not assign itself, so that no other test gets or connects to one by chance."""

import contextlib
import random
import socket

UNASSIGNED_PORTS = range(12_000, 32_000)
"""Below the ports that Linux, macOS and Windows assign, and above those of most services."""


def listen_on_unusual_port():
    """Return a socket that listens on loopback, on a port that the system does not assign to others."""
    for port in random.sample(UNASSIGNED_PORTS, 1000):
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise AssertionError("no port is free")


def closed_port():
    """Return an unassigned port on which nothing listens."""
    with listen_on_unusual_port() as listener:
        return listener.getsockname()[1]
