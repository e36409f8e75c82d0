"""Connections to clients. A thread reads each socket, and writing never blocks user code for long.

Messages are encoded in bencode. Source: BEP 3, "bencoding".
"""

from __future__ import annotations

import collections
import contextlib
import os
import socket
import sys
import threading
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Dict, Protocol, Union

    Message = Dict[str, Any]

    """A message from a client, whose fields have not been validated."""

    Data = Union[bytes, memoryview]

    class Readable(Protocol):
        """The interface of a buffered binary file."""

        def read(self, size: int, /) -> bytes:
            """Read `size` bytes, or fewer at the end of the file."""


ORIGINAL_START_THREAD = threading.Thread.start
"""The original `Thread.start`, which is replaced by a wrapper that tracks which evaluation starts a thread."""
THREAD_NAME = "codriver"
"""The name of all threads that belong to the worker."""


def start_thread(target: Callable[[], object], name: str = THREAD_NAME) -> None:
    """Run `target` in a daemon thread that debuggers, profilers and coverage tools ignore."""
    ORIGINAL_START_THREAD(threading.Thread(target=_run_untraced, args=(target,), name=name, daemon=True))


def _run_untraced(target: Callable[[], object]) -> None:
    """Call `target` without the trace functions that debuggers, profilers and coverage tools set for new threads."""
    if sys.getprofile() is not None:
        sys.setprofile(None)
    if sys.gettrace() is not None:
        # Before Python 3.12, debugpy replaces `sys.settrace` with a function that prints a warning.
        debugger = getattr(sys.modules.get("pydevd_tracing"), "TracingFunctionHolder", None)
        set_trace = getattr(debugger, "_original_tracing", None) or sys.settrace
        set_trace(None)
    target()


MAX_QUEUED_BYTES = 8 * 2**20
"""Maximum number of bytes queued for a slow client. Beyond it, code that prints must wait."""
MAX_QUEUED_EVENT_BYTES = 2**18
"""Maximum number of bytes queued for a client before it no longer receives events."""
STALLED_TIMEOUT_S = 10.0
"""Seconds after which a client that reads nothing is disconnected, so that other clients can evaluate."""


class Connection:
    """A connection to one client. Data that the client does not accept immediately is sent by a thread."""

    def __init__(self, sock: socket.socket, handle: Callable[[Message, Connection], None]) -> None:
        self._socket = sock
        self._handle = handle
        self._lock = threading.Lock()
        self._waiting: collections.deque[Data] = collections.deque()
        self.waiting_bytes = 0
        self._moved_at = 0.0
        self.is_open = True
        self.at_end: list[Callable[[], object]] = []
        """Functions that are called after the client has disconnected."""
        self.pending_message: Callable[[], bytes] | None = None
        """Returns encoded messages that must precede the next one."""

    def reply(self, message: Message, fields: Mapping[str, object]) -> None:
        """Send a reply to `message`, after all earlier ones. Drop the reply if the client has disconnected."""
        self.send(encode_reply(message, fields))

    def reply_failure(self, message: Message, word: str, words: str) -> None:
        """Reply that a request failed. `word` is the status, and `words` is the error message."""
        parts = {"type": word, "message": words, "phase": "request", "trace": []}
        self.reply(message, {"err": words + "\n", "codriver/error": parts, "status": ["done", "error", word]})

    def send(self, data: Data) -> None:
        """Send encoded messages, immediately if possible.

        Sending cannot be left to another thread, because the code that is run next may never release the interpreter
        lock.
        """
        with self._lock:
            if self.pending_message is not None:
                data = self.pending_message() + bytes(data)
            if not self._waiting and self.is_open and hasattr(socket, "MSG_DONTWAIT"):
                try:
                    data = memoryview(data)[self._socket.send(data, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    pass
                except OSError:
                    self.is_open = False
            if data and self.is_open:
                self._waiting.append(data)
                self.waiting_bytes += len(data)
                if len(self._waiting) == 1:
                    self._moved_at = monotonic()
                    start_thread(self._write)

    def _write(self) -> None:
        """Send the queued messages. A message stays in the queue until all of it has been sent."""
        try:
            while True:
                rest = memoryview(self._waiting[0])
                while rest:
                    rest = rest[self._socket.send(rest[: 2**20]) :]
                    self._moved_at = monotonic()
                with self._lock:
                    self.waiting_bytes -= len(self._waiting.popleft())
                    if not self._waiting:
                        return
        except (OSError, IndexError):
            self.close()

    def make_sender(self, message: Message, field: str) -> Callable[[str], bool]:
        """Return a function that sends text in a field of replies to `message`.

        The function returns True, or False without sending the text if too much data is queued. It raises `OSError` if
        the client has disconnected.
        """

        def push(text: str) -> bool:
            if not self.is_open:
                raise OSError("the client is gone")
            if self.waiting_bytes > MAX_QUEUED_EVENT_BYTES:
                return False
            self.reply(message, {field: text})
            return True

        return push

    def wait_for_space(self) -> None:
        """Wait while too much data is queued. Disconnect a client that reads nothing for `STALLED_TIMEOUT_S`."""
        while self.is_open and self.waiting_bytes > MAX_QUEUED_BYTES:
            if monotonic() > self._moved_at + STALLED_TIMEOUT_S:
                self.close()
            sleep(0.005)

    def close(self) -> None:
        """Close the connection. Repeated calls have no effect."""
        with self._lock:
            self.is_open = False
            self._waiting.clear()
            self.waiting_bytes = 0
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close_in_child(self) -> None:
        """Close the socket in a forked child process without disconnecting the parent's client."""
        # Closing the socket object would wait for the file used by the reader.
        with contextlib.suppress(OSError):
            os.close(self._socket.detach())

    def serve(self) -> None:
        """Handle requests until the client disconnects or sends something invalid."""
        with self._socket, self._socket.makefile("rb", buffering=65536) as file:
            while isinstance(message := self._next(file), dict):
                self._handle(message, self)
                self.wait_for_space()
            self.close()
        for act in self.at_end:
            act()

    @staticmethod
    def _next(file: Readable) -> Any:
        """Return the next request, or None at the end of the input or if the data is invalid."""
        try:
            return read_value(file)
        except (OSError, BencodeError, ValueError, TypeError):
            return None


def encode_reply(message: Message, fields: Mapping[str, object]) -> bytes:
    """Encode a reply to `message`, including the ids of its request and session."""
    reply: dict[str, object] = {name: message[name] for name in ("id", "session") if isinstance(message.get(name), str)}
    reply.update(fields)
    return encode(reply)


MAX_VALUE_DEPTH = 64
"""Maximum nesting of a value."""
MAX_STRING_BYTES = 256 * 2**20
"""Maximum length of a string."""


class BencodeError(Exception):
    """Raised when data is not valid bencode or exceeds the limits."""


def encode(value: object) -> bytes:
    """Encode a dict, list, string or integer. None becomes an empty list, as in other nREPL servers."""
    if isinstance(value, str):
        # Lone surrogates cannot be sent, so they are escaped.
        raw = value.encode("utf-8", "backslashreplace")
        return b"%d:%s" % (len(raw), raw)
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, dict):
        # Joining once avoids several copies of a long string.
        return b"".join([b"d", *(encode(item) for key in sorted(value) for item in (key, value[key])), b"e"])
    items = value if isinstance(value, (list, tuple)) else ()
    return b"l" + b"".join(map(encode, items)) + b"e"


def read_value(file: Readable, depth: int = 0, first: bytes | None = None) -> Any:
    """Read the next value from a binary file, or return None at its end.

    `first` is the first byte of the value if it has already been read.

    Raises:
        BencodeError, ValueError, TypeError: the data is not valid bencode.
    """
    head = first or file.read(1)
    if not head:
        return None
    if depth > MAX_VALUE_DEPTH:
        raise BencodeError("values are nested too deeply")
    if head == b"i":
        return int(_read_digits(file, b"e"))
    if head in (b"l", b"d"):
        items = []
        while (mark := file.read(1)) != b"e":
            if not mark:
                raise BencodeError("the data ended within a value")
            items.append(read_value(file, depth + 1, mark))
        return items if head == b"l" else dict(zip(items[::2], items[1::2]))
    if not head.isdigit():
        raise BencodeError("a value starts with an unknown byte")
    return _read_string(file, head)


def _read_string(file: Readable, head: bytes) -> str:
    """Read a string. `head` is the first digit of its length, which has already been read."""
    size = int(head + _read_digits(file, b":"))
    if size > MAX_STRING_BYTES:
        raise BencodeError("a string is too long")
    raw = file.read(size)
    if len(raw) < size:
        raise BencodeError("the data ended within a string")
    return raw.decode("utf-8", "replace")


def _read_digits(file: Readable, end: bytes) -> bytes:
    """Read the digits of a number up to the byte `end`, which is consumed too."""
    digits = b""
    while (byte := file.read(1)) != end:
        if not byte or len(digits) > 20:
            raise BencodeError("a number is too long or is not terminated")
        digits += byte
    return digits
