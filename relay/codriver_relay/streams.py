"""The client's streams, stdin, stdout and stderr: the relay never waits for one of them alone.

A write to a client that does not read is carried on by a thread, which lives only as long as that lasts.
"""

from __future__ import annotations

import os
import select
import sys
from _thread import allocate_lock, start_new_thread

from codriver_relay.messages import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Callable
    from typing import Protocol

    class Poll(Protocol):
        """As much of `select.poll` as is used."""

        def register(self, fd: int, eventmask: int, /) -> None:
            """Report these events of a descriptor from now on."""

        def unregister(self, fd: int, /) -> None:
            """Report none of its events from now on."""

        def poll(self, timeout: float | None = ..., /) -> list[tuple[int, int]]:
            """The descriptors that are ready, with their events, after waiting at most so many milliseconds."""


CLIENT_IN, CLIENT_OUT, DIAGNOSTICS = 0, 1, 2
CAN_POLL = hasattr(select, "poll") and sys.platform != "darwin" and not os.environ.get("CODRIVER_RELAY_THREADS")
"""Whether pipes and terminals can be waited for. Otherwise a thread reads stdin, and one each writes: Windows polls no
pipes, and macOS no terminals.
"""
POLLIN, POLLOUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)
PIPE_BYTES = getattr(select, "PIPE_BUF", 512)
"""The bytes that a pipe takes in one piece if it has any room."""
READ_BYTES, READ_ON_BYTES = 1 << 16, 1 << 20
"""The bytes that a pipe holds; the bytes of a long line that are read at once, in fewer steps."""


class Output:
    """The output to the client. A write never waits: a thread writes the bytes without room, in order."""

    def __init__(self) -> None:
        self.room = room_of(CLIENT_OUT)
        self.lock = allocate_lock()
        self.ringing, self.button = socket_pair()
        self.bell = self.ringing.fileno()
        """The descriptor that rings when the thread has written all."""
        self.is_busy = False
        """Whether a thread is writing: further lines have to wait, so no more should be read."""
        self.waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write whole lines to the client; without a client there is nothing left to do."""
        with self.lock:
            if self.is_busy:
                self.waiting.append(data)
                return
        if len(data) <= READ_BYTES:
            # A pipe with any room has room for so much.
            while data and self.room and self.room.poll(0):
                data = data[write_some(data[:PIPE_BYTES]) :]
        if data:
            self.is_busy = True
            start_new_thread(run_or_end, (lambda: self.write_rest(data),))

    def write_rest(self, data: bytes) -> None:
        """Write `data`, and then all lines that came in the meantime."""
        room = room_of(CLIENT_OUT)  # one of its own: the other may be in use
        while data:  # not `is_busy`: the next thread may have set that already
            rest = memoryview(data)
            while rest:
                if room:
                    room.poll()  # writes to the client's end may not wait
                rest = rest[write_some(rest) :]
            with self.lock:
                data, self.waiting = b"".join(self.waiting), []
                self.is_busy = bool(data)
        self.button.send(b"!")

    def wait(self) -> None:
        """Return when all is written."""
        while self.is_busy:
            self.ringing.recv(READ_BYTES)


class Input:
    """The input from the client, at a pollable descriptor: a thread passes an unpollable stdin on."""

    def __init__(self) -> None:
        self.fd, self.passed = CLIENT_IN, None
        self.lines = Lines()
        self.has_ended = False
        if not CAN_POLL:
            self.passed, other = socket_pair()
            self.fd = self.passed.fileno()
            from codriver_relay.windows import pass_on

            start_new_thread(run_or_end, (lambda: pass_on(CLIENT_IN, read_client, other),))

    def read_lines(self) -> list[bytes]:
        """Return the lines that the client's bytes complete; at the end of the input the rest is a line too."""
        data = self.passed.recv(READ_BYTES) if self.passed else read_client()
        if data is None:
            return []
        self.has_ended = not data
        return self.lines.feed(data) if data else self.lines.take_rest()


class Watch:
    """The polled descriptors; a client that is gone ends the process."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.poll = new_poll()
        self.poll.register(CLIENT_OUT, 0)  # errors are always reported: the client is gone
        self.poll.register(output.bell, POLLIN)
        self.watched: dict[int, int] = {}
        """The events for which the other descriptors are polled now."""

    def set(self, fd: int, events: int) -> None:
        """Poll `fd` for these events from now on; without any, not at all, as errors would be reported all the same."""
        if self.watched.get(fd, 0) == events:
            return
        if events:
            self.poll.register(fd, events)
        else:
            self.poll.unregister(fd)
        self.watched[fd] = events

    def wait(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return the descriptors that are ready, with their events, after waiting at most so long.

        The output's bell is among them once a thread has written all.
        """
        ready = self.poll.poll(None if seconds is None else seconds * 1000)
        for fd, _ in ready:
            if fd == CLIENT_OUT:
                os._exit(0)
            elif fd == self.output.bell:
                self.output.ringing.recv(READ_BYTES)
        return ready


def room_of(fd: int) -> Poll | None:
    """Return a poll that waits for room to write to `fd`; None if only a write can wait."""
    room = None
    if sys.platform != "win32" and CAN_POLL:
        room = select.poll()
        room.register(fd, POLLOUT)
    return room


def new_poll() -> Poll:
    """Return a new poll of this system."""
    if sys.platform != "win32" and CAN_POLL:
        return select.poll()
    from codriver_relay.windows import SocketPoll

    return SocketPoll()


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two sockets, each the other's end."""
    if sys.platform == "win32":
        from socket import socketpair  # in Python alone
    else:
        from _socket import socketpair

    return socketpair()


def write_some(data: bytes | memoryview) -> int:
    """Write to the client; the number of bytes written. Without a client there is nothing left to do."""
    try:
        return os.write(CLIENT_OUT, data)
    except BlockingIOError:
        return 0
    except OSError:
        os._exit(0)


def read_client() -> bytes | None:
    """Return the bytes that the client wrote; empty at its end, None when there is nothing after all."""
    try:
        return os.read(CLIENT_IN, READ_BYTES)
    except BlockingIOError:  # somebody else reads it too
        return None
    except OSError:  # a terminal that was hung up
        return b""


def run_or_end(work: Callable[[], None]) -> None:
    """Run a thread's function, and end the process if it fails: half a relay would only look alive."""
    try:
        work()
    except BaseException:  # noqa: BLE001 - whatever it is, it is shown and ends the process
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def open_streams() -> None:
    """Open closed ones of stdin, stdout and stderr, or the next opened file would take their place."""
    for fd in (CLIENT_IN, CLIENT_OUT, DIAGNOSTICS):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one


def report(text: str) -> None:
    """Say it on stderr, if anybody reads: mere words must hold up nothing."""
    line, room = f"codriver-relay: {text}\n".encode("utf-8", "replace"), room_of(DIAGNOSTICS)
    try:
        if room is None:
            start_new_thread(os.write, (DIAGNOSTICS, line))
        elif room.poll(0):
            os.write(DIAGNOSTICS, line)
    except OSError:
        return


def ignore(_text: str) -> None:
    """Say nothing: a client shows what its servers write to stderr as if it were an error."""
