"""Fix hy-nrepl, so that it reads one complete request at a time and its threads do not write concurrently.

If two requests are received in one read, hy-nrepl answers the first and ignores the second until it receives a third.
The second evaluation then never ends.
"""

from __future__ import annotations

import sys
from threading import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

server = sys.modules.get("hy-nrepl.server") or sys.modules["hy_nrepl.server"]
handler: Any = server.ReplRequestHandler


def first_value_length(data: bytearray) -> int:
    """Return the length in bytes of the first bencoded value, or 0 if it is incomplete."""
    position = depth = 0
    while position < len(data):
        kind = data[position : position + 1]
        if kind in b"ld":
            depth, position = depth + 1, position + 1
        elif kind == b"e":
            depth, position = depth - 1, position + 1
        else:
            end = data.find(b"e" if kind == b"i" else b":", position)
            if end < 0:
                return 0
            position = end + 1 + (0 if kind == b"i" else int(data[position:end]))
        if depth == 0:
            return position if position <= len(data) else 0
    return 0


class OneByOne:
    """Wraps a connection so that each call to `recv` returns one complete request.

    `started` contains the bytes of a request that were already received.
    """

    def __init__(self, connection: socket.socket, started: bytearray) -> None:
        self.socket, self.started, self.pending, self.lock = connection, started, bytearray(), Lock()

    def __getattr__(self, name: str) -> object:
        """Return an attribute of the wrapped connection."""
        return getattr(self.socket, name)

    def sendall(self, data: bytes) -> None:
        """Send a message without interleaving it with messages from other threads."""
        with self.lock:
            self.socket.sendall(data)

    def recv(self, _most: int) -> bytes:
        """Return the next request, or b"" at the end of the connection."""
        self.pending[:0] = self.started
        self.started.clear()
        while True:
            try:
                end = first_value_length(self.pending)
            except ValueError:
                end = len(self.pending)
            if end:
                message = bytes(self.pending[:end])
                del self.pending[:end]
                return message
            more = self.socket.recv(65536)
            if not more:
                return more
            self.pending += more


def install() -> None:
    """Wrap new connections, and the current one as soon as its pending read returns."""

    def setup(self: Any) -> None:
        self.request = OneByOne(self.request, bytearray())

    handler.setup, handler.codriver = setup, True
    for frame in sys._current_frames().values():
        at: Any = frame
        while at is not None:
            local_variables = at.f_locals
            served = next((variable for variable in local_variables.values() if isinstance(variable, handler)), None)
            if at.f_code is handler.handle.__code__ and served is not None:
                started = next(variable for variable in local_variables.values() if isinstance(variable, bytearray))
                served.request = OneByOne(served.request, started)
            at = at.f_back


if not hasattr(handler, "codriver"):
    install()
