"""Waiting where the system has no `poll`, as on Windows: a thread reads stdin, and sockets alone are waited for."""

from __future__ import annotations

import _socket as socket
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

POLLIN, POLLOUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)


class SocketPoll:
    """`select.poll` for sockets alone, by what every system has. Errors are not waited for."""

    def __init__(self) -> None:
        self.events: dict[int, int] = {}
        self.register, self.unregister = self.events.__setitem__, self.events.__delitem__

    def poll(self, wait_ms: float | None = None) -> list[tuple[int, int]]:
        """The descriptors that are ready, after waiting at most so long."""
        readers, writers = ([fd for fd, events in self.events.items() if events & kind] for kind in (POLLIN, POLLOUT))
        readers, writers, _ = select.select(readers, writers, [], None if wait_ms is None else wait_ms / 1000)
        return [(fd, POLLIN * (fd in readers) | POLLOUT * (fd in writers)) for fd in {*readers, *writers}]


def pass_on(fd: int, read: Callable[[], bytes | None], other: socket.socket) -> None:
    """Send what comes from `fd`, which `read` reads, until its end; while that is not taken, nothing is read."""
    while (data := read()) != b"":
        if data is None:
            select.select([fd], [], [])
        else:
            other.sendall(data)
    other.shutdown(socket.SHUT_WR)
