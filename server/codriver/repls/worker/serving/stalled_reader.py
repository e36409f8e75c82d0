"""Interrupt evaluations in programs whose threads are greenlets, such as programs that use gevent or eventlet.

In these, the evaluation and the reader of requests share one operating system thread. Code that never waits prevents
the reader from seeing a request to interrupt it or a disconnected client. So the unread bytes are checked by a thread
that the library does not know.
"""

from __future__ import annotations

import os
from _queue import Empty, SimpleQueue  # the classes in `queue` may be patched
from _socket import MSG_PEEK
from _socket import socket as native_socket

from ..basics.connections import encode
from .thread_interrupts import raise_in_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

CHECK_INTERVAL_S = 0.5
"""Seconds between two checks. If the unread bytes have not changed, the reading thread is considered stalled."""
MAX_PEEKED_BYTES = 65536
"""Maximum number of unread bytes that are searched for a request to interrupt."""
INTERRUPT_FIELD = encode({"op": "interrupt"})[1:-1]
"""The part of a message that requests an interrupt."""


class StalledReader:
    """Watches a socket, and interrupts the thread that should be reading from it.

    `thread` is the identifier of that thread, and `start_new_thread` starts a native thread. Both are passed in because
    the greenlet library has replaced the functions in `_thread`. It has also made the socket non-blocking.
    """

    def __init__(self, sock: socket.socket, thread: int, start_new_thread: Callable[..., Any]) -> None:
        self._socket = native_socket(sock.family, sock.type, sock.proto, os.dup(sock.fileno()))
        self._socket.settimeout(CHECK_INTERVAL_S)  # it waits in C, and leaves the descriptor non-blocking
        self._thread = thread
        self._start_new_thread = start_new_thread
        self._finished: SimpleQueue[None] = SimpleQueue()

    def begin(self) -> None:
        """Start watching."""
        self._start_new_thread(self._watch, ())

    def end(self) -> None:
        """Stop watching."""
        self._finished.put(None)

    def _watch(self) -> None:
        seen: bytes | None = None
        try:
            while not self._is_finished_after(CHECK_INTERVAL_S):
                unread = self._unread()
                if unread is not None and unread == seen and (not unread or INTERRUPT_FIELD in unread):
                    raise_in_thread(self._thread, KeyboardInterrupt)
                seen = unread
        finally:
            self._socket.close()

    def _is_finished_after(self, seconds: float) -> bool:
        """Wait up to `seconds`, and return whether `end` was called."""
        try:
            self._finished.get(timeout=seconds)
        except Empty:
            return False
        return True

    def _unread(self) -> bytes | None:
        """Return the unread bytes without consuming them.

        Returns None if there are none, and b"" if the client has disconnected.
        """
        try:
            return self._socket.recv(MAX_PEEKED_BYTES, MSG_PEEK)
        except OSError:
            return None
