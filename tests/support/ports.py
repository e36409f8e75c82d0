"""Ports that the system does not assign to others: an assigned one may be reused by the next test, or dialled by
another.
"""

import contextlib
import random
import socket

NOT_GIVEN_OUT = range(12_000, 32_000)
"""Below what Linux, macOS and Windows give out, above what services of a machine use."""


def listen_on_unusual_port():
    """Return a socket that listens on loopback on a port of its own."""
    for port in random.sample(NOT_GIVEN_OUT, 1000):
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise AssertionError("no port is free")


def closed_port():
    """Return a port of its own on which nothing listens."""
    with listen_on_unusual_port() as listener:
        return listener.getsockname()[1]
