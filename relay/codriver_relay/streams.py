"""The client's streams, stdin, stdout and stderr, on which the relay never blocks.

If a client does not read, a thread writes the remaining data, and ends when everything is written.
"""

from __future__ import annotations

import os
import select
import sys
from _thread import allocate_lock, start_new_thread

from codriver_relay.messages import LineBuffer

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Callable
    from typing import Protocol

    class Poll(Protocol):
        """The interface of `select.poll`, limited to the methods that the relay uses."""

        def register(self, fd: int, eventmask: int, /) -> None:
            """Report events on a descriptor from now on."""

        def unregister(self, fd: int, /) -> None:
            """Stop reporting events on a descriptor."""

        def poll(self, timeout: float | None = ..., /) -> list[tuple[int, int]]:
            """Return the ready descriptors with their events, after waiting for at most `timeout` milliseconds."""


CLIENT_IN, CLIENT_OUT, DIAGNOSTICS = 0, 1, 2
"""File descriptors of standard input, output and error."""
CAN_POLL = hasattr(select, "poll") and sys.platform != "darwin" and not os.environ.get("CODRIVER_RELAY_THREADS")
"""Whether pipes and terminals can be polled. Windows cannot poll pipes, and macOS cannot poll terminals.

Without polling, threads read stdin and write output.
"""
POLLIN, POLLOUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)
MAX_PIPE_WRITE_BYTES = getattr(select, "PIPE_BUF", 512)
"""Maximum number of bytes that a pipe with free space accepts in one write."""
READ_BYTES, READ_ON_BYTES = 1 << 16, 1 << 20
"""Number of bytes to read at once: a pipe's buffer size, and a larger number within a long line."""


class Output:
    """The output to the client. Writing never blocks, because a thread writes whatever does not fit into the pipe."""

    def __init__(self) -> None:
        self.writable = new_write_poll(CLIENT_OUT)
        self.lock = allocate_lock()
        self.ringing, self.button = socket_pair()
        self.bell = self.ringing.fileno()
        """The descriptor that becomes readable when the thread has written everything."""
        self.is_busy = False
        """Whether a thread is writing. New lines must wait, so nothing more should be read."""
        self.waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write complete lines to the client. Exit the process if the client is gone."""
        with self.lock:
            if self.is_busy:
                self.waiting.append(data)
                return
        if len(data) <= READ_BYTES:
            # A pipe with free space accepts this much.
            while data and self.writable and self.writable.poll(0):
                data = data[write_available(data[:MAX_PIPE_WRITE_BYTES]) :]
        if data:
            self.is_busy = True
            start_new_thread(run_or_exit, (lambda: self.write_pending(data),))

    def write_pending(self, data: bytes) -> None:
        """Write `data`, then any lines that were queued in the meantime. This runs in a thread."""
        writable = new_write_poll(CLIENT_OUT)  # the other poll object may be in use
        while data:  # `is_busy` cannot be used, because the next thread may have set it
            rest = memoryview(data)
            while rest:
                if writable:
                    writable.poll()  # writing to the client's end may not block
                rest = rest[write_available(rest) :]
            with self.lock:
                data, self.waiting = b"".join(self.waiting), []
                self.is_busy = bool(data)
        self.button.send(b"!")

    def wait(self) -> None:
        """Wait until all queued lines are written."""
        while self.is_busy:
            self.ringing.recv(READ_BYTES)


class Input:
    """The input from the client, with a file descriptor that can be polled.

    If stdin itself cannot be polled, a thread forwards it to a socket.
    """

    def __init__(self) -> None:
        self.fd, self.passed = CLIENT_IN, None
        self.lines = LineBuffer()
        self.is_at_end = False
        if not CAN_POLL:
            self.passed, other = socket_pair()
            self.fd = self.passed.fileno()
            from codriver_relay.windows import forward_data

            start_new_thread(run_or_exit, (lambda: forward_data(CLIENT_IN, read_client, other),))

    def read_lines(self) -> list[bytes]:
        """Return the lines completed by newly received data. At the end of the input, the rest counts as a line."""
        data = self.passed.recv(READ_BYTES) if self.passed else read_client()
        if data is None:
            return []
        self.is_at_end = not data
        return self.lines.feed(data) if data else self.lines.pop_rest()


class PollSet:
    """The polled file descriptors and their events. Polling exits the process once the client is gone."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.poll = new_poll()
        self.poll.register(CLIENT_OUT, 0)  # errors are always reported, and mean that the client is gone
        self.poll.register(output.bell, POLLIN)
        self.watched: dict[int, int] = {}
        """The events for which other descriptors are polled."""

    def set_events(self, fd: int, events: int) -> None:
        """Poll a descriptor for these events from now on. Stop polling it if there are none."""
        if self.watched.get(fd, 0) == events:
            return
        if events:
            self.poll.register(fd, events)
        else:
            self.poll.unregister(fd)
        self.watched[fd] = events

    def wait(self, seconds: float | None) -> list[tuple[int, int]]:
        """Wait at most `seconds`, and return the ready descriptors with their events.

        This also returns when the output thread has written everything.
        """
        ready = self.poll.poll(None if seconds is None else seconds * 1000)
        for fd, _ in ready:
            if fd == CLIENT_OUT:
                os._exit(0)
            elif fd == self.output.bell:
                self.output.ringing.recv(READ_BYTES)
        return ready


def new_write_poll(fd: int) -> Poll | None:
    """Return a poll object that waits until `fd` is writable, or None if `fd` cannot be polled."""
    writable = None
    if sys.platform != "win32" and CAN_POLL:
        writable = select.poll()
        writable.register(fd, POLLOUT)
    return writable


def new_poll() -> Poll:
    """Return a new poll object for this system."""
    if sys.platform != "win32" and CAN_POLL:
        return select.poll()
    from codriver_relay.windows import SocketPoll

    return SocketPoll()


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets."""
    if sys.platform == "win32":
        from socket import socketpair  # implemented only in Python
    else:
        from _socket import socketpair

    return socketpair()


def write_available(data: bytes | memoryview) -> int:
    """Write as much of `data` to the client as it accepts, and return the number of bytes written.

    Exit the process if the client is gone.
    """
    try:
        return os.write(CLIENT_OUT, data)
    except BlockingIOError:
        return 0
    except OSError:
        os._exit(0)


def read_client() -> bytes | None:
    """Read from the client. Return b"" at the end of the input, or None if no data is available."""
    try:
        return os.read(CLIENT_IN, READ_BYTES)
    except BlockingIOError:  # another process is reading it too
        return None
    except OSError:  # the terminal was closed
        return b""


def run_or_exit(work: Callable[[], None]) -> None:
    """Call a function in a thread, and exit the process if it fails, because the relay cannot work without it."""
    try:
        work()
    except BaseException:  # noqa: BLE001  # any error is printed and ends the process
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def open_streams() -> None:
    """Open stdin, stdout and stderr if they are closed, so that no other file gets the descriptors 0 to 2."""
    for fd in (CLIENT_IN, CLIENT_OUT, DIAGNOSTICS):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one


def print_to_stderr(text: str) -> None:
    """Print a message to stderr, unless that would block."""
    line, writable = f"codriver-relay: {text}\n".encode("utf-8", "replace"), new_write_poll(DIAGNOSTICS)
    try:
        if writable is None:
            start_new_thread(os.write, (DIAGNOSTICS, line))
        elif writable.poll(0):
            os.write(DIAGNOSTICS, line)
    except OSError:
        return


def discard_message(_text: str) -> None:
    """Ignore a log message. This is the default, because clients display output on stderr as errors."""
