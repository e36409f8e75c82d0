"""Connections: one client's socket each, read by one thread and written without ever holding up user code for long.

Values are written and read as bencode. Source: BEP 3, "bencoding".
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

    """A message of a client: the reader of a field checks its type."""

    Data = Union[bytes, memoryview]

    class Readable(Protocol):
        """A binary file, buffered."""

        def read(self, size: int, /) -> bytes:
            """Read so many bytes, fewer at the end."""


START_THREAD = threading.Thread.start
"""The original `Thread.start`: its replacement notes the evaluation of a thread of user code."""
THREAD_NAME = "codriver"


def start_thread(target: Callable[[], object], name: str = THREAD_NAME) -> None:
    """Run `target` in a thread of ours, which debuggers and coverage leave alone."""
    START_THREAD(threading.Thread(target=_untraced, args=(target,), name=name, daemon=True))


def _untraced(target: Callable[[], object]) -> None:
    sys.settrace(None)
    target()


WAITING_BYTES = 8 * 2**20
"""The bytes that may wait for a slow client before the printing code has to wait."""
PUSHED_BYTES = 2**18
"""The bytes that may wait for a client before pushed messages are held back."""
STALLED_S = 10.0
"""A client that takes nothing for so long, while code waits for it, is dropped: others want to evaluate too."""


class Connection:
    """One client's connection, until either side ends it: a thread writes what the client does not take at once."""

    def __init__(self, sock: socket.socket, handle: Callable[[Message, Connection], None]) -> None:
        self._socket = sock
        self._handle = handle
        self._lock = threading.Lock()
        self._waiting: collections.deque[Data] = collections.deque()
        self.waiting_bytes = 0
        self._moved_at = 0.0
        self.is_open = True
        self.at_end: list[Callable[[], object]] = []
        """Called when the client has left."""
        self.pending_message: Callable[[], bytes] | None = None
        """Whole messages that have to come before the next one."""

    def answer(self, message: Message, fields: Mapping[str, object]) -> None:
        """Send an answer to `message`, after all others. A client that is gone misses it."""
        self.push(pack(message, fields))

    def refuse(self, message: Message, word: str, words: str) -> None:
        """Refuse a request."""
        parts = {"type": word, "message": words, "phase": "request", "trace": []}
        self.answer(message, {"err": words + "\n", "codriver/error": parts, "status": ["done", "error", word]})

    def push(self, data: Data) -> None:
        """Send whole messages, at once as far as possible: the next code may never let another thread run."""
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
        """Send all waiting messages: the first stays in the queue until all of it is sent."""
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
            self.drop()

    def pusher(self, message: Message, field: str) -> Callable[[str], bool]:
        """A function that sends a text in a field of an answer to `message`; False if too much waits already.

        Raises:
            OSError: the client is gone.
        """

        def push(text: str) -> bool:
            if not self.is_open:
                raise OSError("the client is gone")
            if self.waiting_bytes > PUSHED_BYTES:
                return False
            self.answer(message, {field: text})
            return True

        return push

    def wait_for_space(self) -> None:
        """Wait while the client has too much to read; a client that reads nothing for long is dropped."""
        while self.is_open and self.waiting_bytes > WAITING_BYTES:
            if monotonic() > self._moved_at + STALLED_S:
                self.drop()
            sleep(0.005)

    def drop(self) -> None:
        """End the connection. Twice is harmless."""
        with self._lock:
            self.is_open = False
            self._waiting.clear()
            self.waiting_bytes = 0
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Close the socket in a forked child, without a word to the client: the parent keeps it."""
        # Closing the socket would wait for the reader's file on it.
        with contextlib.suppress(OSError):
            os.close(self._socket.detach())

    def serve(self) -> None:
        """Read requests until the client leaves or sends something else."""
        with self._socket, self._socket.makefile("rb", buffering=65536) as file:
            while isinstance(message := self._next(file), dict):
                self._handle(message, self)
                self.wait_for_space()
            self.drop()
        for act in self.at_end:
            act()

    @staticmethod
    def _next(file: Readable) -> Any:
        try:
            return read_value(file)
        except (OSError, BencodeError, ValueError, TypeError):
            return None


def pack(message: Message, fields: Mapping[str, object]) -> bytes:
    """An answer to `message` as bytes."""
    reply: dict[str, object] = {name: message[name] for name in ("id", "session") if isinstance(message.get(name), str)}
    reply.update(fields)
    return encode(reply)


MAX_DEPTH = 64
MAX_STRING_BYTES = 256 * 2**20


class BencodeError(Exception):
    """The bytes are no bencode, or beyond the limits."""


def encode(value: object) -> bytes:
    """A value of dicts, lists, strings and integers as bytes; None is the empty list, as nREPL servers send it."""
    if isinstance(value, str):
        # Half of a surrogate pair cannot be sent; its escape shows what it was.
        raw = value.encode("utf-8", "backslashreplace")
        return b"%d:%s" % (len(raw), raw)
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, dict):
        # One copy of a long string here, not three.
        return b"".join([b"d", *(encode(one) for key in sorted(value) for one in (key, value[key])), b"e"])
    items = value if isinstance(value, (list, tuple)) else ()
    return b"l" + b"".join(map(encode, items)) + b"e"


def read_value(file: Readable, depth: int = 0, first: bytes | None = None) -> Any:
    """The next value of a binary file; None at its end.

    Raises:
        BencodeError, ValueError, TypeError: the bytes are no bencode.
    """
    head = first or file.read(1)
    if not head:
        return None
    if depth > MAX_DEPTH:
        raise BencodeError("nested too deep")
    if head == b"i":
        return int(_until(file, b"e"))
    if head in (b"l", b"d"):
        items = []
        while (mark := file.read(1)) != b"e":
            if not mark:
                raise BencodeError("ended within a value")
            items.append(read_value(file, depth + 1, mark))
        return items if head == b"l" else dict(zip(items[::2], items[1::2]))
    if not head.isdigit():
        raise BencodeError("no value begins so")
    return _read_string(file, head)


def _read_string(file: Readable, head: bytes) -> str:
    size = int(head + _until(file, b":"))
    if size > MAX_STRING_BYTES:
        raise BencodeError("a string is too long")
    raw = file.read(size)
    if len(raw) < size:
        raise BencodeError("ended within a string")
    return raw.decode("utf-8", "replace")


def _until(file: Readable, end: bytes) -> bytes:
    digits = b""
    while (byte := file.read(1)) != end:
        if not byte or len(digits) > 20:
            raise BencodeError("a number does not end")
        digits += byte
    return digits
