"""Bencode without I/O: bytes in, values out, and back.

Integers are ``i42e``, byte strings ``5:hello``, lists ``l…e``, dictionaries ``d…e`` (keys are strings). nREPL's servers
send text as UTF-8 byte strings; a string that is no UTF-8 stays `bytes`. Keys need not be sorted. `encode` sorts them.

Source: nREPL documentation, "Transports", and BEP 3, "bencoding".
"""

from __future__ import annotations

from typing import Final, TypeAlias

from codriver.errors import PeerError

Value: TypeAlias = "int | str | bytes | list[Value] | dict[str, Value]"
"""What bencode can say. A key that is no UTF-8 holds its odd bytes as lone surrogates and encodes to the same bytes."""

MAX_DEPTH: Final = 64
"""nREPL's deepest answer seen is 7 deep (cider-nrepl's test results); without a cap one packet could exhaust memory."""

MAX_STRING_BYTES: Final = 256 * 1024 * 1024
"""A printed value is one string. Above this it is taken for an attack or a broken length, not for a value."""

MAX_INTEGER_DIGITS: Final = 1000
"""Far above any count or line number, and below the length from which Python refuses to parse a number."""

_LENGTH_DIGITS: Final = 12
_DIGITS: Final = frozenset(b"0123456789")
_COLON: Final = 0x3A
_INTEGER: Final = 0x69
_LIST: Final = 0x6C
_DICTIONARY: Final = 0x64
_END: Final = 0x65


class BencodeError(PeerError):
    """The bytes are no bencode, or go beyond a limit; what follows cannot be framed any more.

    `decoded` holds the values that the same `Decoder.feed` completed before the fault, so that none is lost.
    """

    def __init__(self, problem: str, *, decoded: tuple[Value, ...] = ()) -> None:
        super().__init__(f"what came is no bencode: {problem}")
        self.problem = problem
        self.decoded = decoded


class Decoder:
    """Collects bytes and gives the values they complete, in time linear in their number.

    Between two calls it keeps the open containers, so nothing is ever parsed twice, and it knows how many bytes a
    string still needs, so the pieces of a long one are kept as they came and joined once.
    """

    def __init__(self, *, max_depth: int = MAX_DEPTH, max_string_bytes: int = MAX_STRING_BYTES) -> None:
        self._max_depth = max_depth
        self._max_string_bytes = max_string_bytes
        self._buffer = bytearray()
        self._at = 0
        self._pieces: list[bytes] = []
        self._missing = 0
        self._open: list[list[Value] | dict[str, Value]] = []
        self._keys: list[str | None] = []
        self._done: list[Value] = []

    @property
    def is_idle(self) -> bool:
        """Whether no value has begun: a connection that ends now ends between two messages."""
        return not self._buffer and not self._open and not self._missing

    def feed(self, data: bytes) -> list[Value]:
        """The values that `data` completes, in order.

        Raises:
            BencodeError: the bytes are no bencode. Feed no more after that.
        """
        if len(data) < self._missing:
            self._pieces.append(data)
            self._missing -= len(data)
            return []
        self._buffer += data[self._missing :] if self._missing else data
        try:
            if self._missing:
                raw = b"".join((*self._pieces, data[: self._missing]))
                self._pieces, self._missing = [], 0
                self._add_string(raw)
            while self._step():
                pass
        except BencodeError as error:
            raise BencodeError(error.problem, decoded=tuple(self._take())) from None
        del self._buffer[: self._at]
        self._at = 0
        return self._take()

    def _take(self) -> list[Value]:
        done, self._done = self._done, []
        return done

    def _step(self) -> bool:
        """Read one token; False when its bytes are not all there."""
        if self._at >= len(self._buffer):
            return False
        token = self._buffer[self._at]
        if token in _DIGITS:
            return self._read_string()
        if token == _END:
            self._at += 1
            self._close()
            return True
        self._refuse_as_key(token)
        if token == _INTEGER:
            return self._read_integer()
        if token == _LIST:
            self._at += 1
            self._begin([])
            return True
        if token == _DICTIONARY:
            self._at += 1
            self._begin({})
            return True
        raise BencodeError(f"a value cannot begin with the byte 0x{token:02x}")

    def _refuse_as_key(self, token: int) -> None:
        if self._open and isinstance(self._open[-1], dict) and self._keys[-1] is None:
            raise BencodeError(f"a dictionary's key must be a string, and one begins with the byte 0x{token:02x}")

    def _find(self, mark: int, *, start: int, limit: int, what: str) -> int | None:
        """The position of the byte `mark`, at most `limit` bytes after `start`; None while it may still come."""
        found = self._buffer.find(mark, start, start + limit + 1)
        if found < 0 and len(self._buffer) - start > limit:
            raise BencodeError(f"{what} has more than {limit} digits")
        return None if found < 0 else found

    def _read_string(self) -> bool:
        colon = self._find(_COLON, start=self._at, limit=_LENGTH_DIGITS, what="a string's length")
        digits = self._buffer[self._at : len(self._buffer) if colon is None else colon][: _LENGTH_DIGITS + 1]
        if not _DIGITS.issuperset(digits):
            raise BencodeError(f"a string's length is {bytes(digits)!r}")
        if colon is None:
            return False
        length = int(digits)
        if length > self._max_string_bytes:
            raise BencodeError(f"a string of {length} bytes is longer than the limit of {self._max_string_bytes} bytes")
        start, end = colon + 1, colon + 1 + length
        with memoryview(self._buffer) as view:
            raw = bytes(view[start:end])
        self._at = start + len(raw)
        if len(raw) < length:
            self._pieces, self._missing = [raw], length - len(raw)
            return False
        self._add_string(raw)
        return True

    def _add_string(self, raw: bytes) -> None:
        """Put a complete string where it belongs: a key that waits for its value, or a value."""
        if self._open and isinstance(self._open[-1], dict) and self._keys[-1] is None:
            self._keys[-1] = raw.decode("utf-8", "surrogateescape")
            return
        try:
            self._add(raw.decode())
        except UnicodeDecodeError:
            self._add(raw)

    def _read_integer(self) -> bool:
        start = self._at + 1
        end = self._find(_END, start=start, limit=MAX_INTEGER_DIGITS, what="an integer")
        if end is None:
            return False
        digits = bytes(self._buffer[start:end])
        if not digits.removeprefix(b"-").isdigit():
            raise BencodeError(f"an integer reads {digits!r}")
        self._at = end + 1
        self._add(int(digits))
        return True

    def _begin(self, container: list[Value] | dict[str, Value]) -> None:
        if len(self._open) >= self._max_depth:
            raise BencodeError(f"it is nested deeper than the limit of {self._max_depth}")
        self._open.append(container)
        self._keys.append(None)

    def _close(self) -> None:
        if not self._open:
            raise BencodeError("an end came where nothing was open")
        if self._keys.pop() is not None:
            raise BencodeError("a dictionary ended after a key without a value")
        self._add(self._open.pop())

    def _add(self, value: Value) -> None:
        """Put a complete value where it belongs."""
        if not self._open:
            self._done.append(value)
            return
        container = self._open[-1]
        if isinstance(container, list):
            container.append(value)
            return
        key = self._keys[-1]
        if key is None:
            raise BencodeError("a dictionary's key must be a string, and one is a container")
        container[key] = value
        self._keys[-1] = None


def encode(value: Value) -> bytes:
    """The bytes of `value`.

    Raises:
        TypeError: bencode has no word for a part of it.
    """
    pieces: list[bytes] = []
    _write(value, pieces)
    return b"".join(pieces)


def _write(value: Value, pieces: list[bytes]) -> None:
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogateescape")
        pieces += (b"%d:" % len(raw), raw)
    elif isinstance(value, bytes):
        pieces += (b"%d:" % len(value), value)
    elif isinstance(value, bool) or value is None:
        raise TypeError(f"bencode cannot say {value!r}")
    elif isinstance(value, int):
        pieces.append(b"i%de" % value)
    elif isinstance(value, dict):
        pieces.append(b"d")
        # BEP 3 orders keys by their raw bytes, which for UTF-8 is the order of code points.
        for raw, key in sorted((key.encode("utf-8", "surrogateescape"), key) for key in value):
            pieces += (b"%d:" % len(raw), raw)
            _write(value[key], pieces)
        pieces.append(b"e")
    elif isinstance(value, list):
        pieces.append(b"l")
        for item in value:
            _write(item, pieces)
        pieces.append(b"e")
    else:
        raise TypeError(f"bencode cannot say {value!r}")
