"""Bencode without I/O: an incremental decoder and an encoder.

Integers are ``i42e``, byte strings ``5:hello``, lists ``l…e``, dictionaries ``d…e`` with strings as keys. nREPL servers
send text as UTF-8 byte strings. A string that is not valid UTF-8 is decoded as `bytes`. The decoder accepts keys in any
order, and `encode` sorts them.

Source: nREPL documentation, "Transports", and BEP 3, "bencoding".
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Final, TypeAlias

from codriver.errors import PeerError
from codriver.wire.head_and_tail import HeadAndTail, left_out_mark

Value: TypeAlias = "int | str | bytes | list[Value] | dict[str, Value]"
"""Any bencoded value. Invalid UTF-8 in a key is preserved as lone surrogates, which encode to the same bytes."""

Container: TypeAlias = "list[Value] | dict[str, Value]"

MAX_DEPTH: Final = 64
"""Maximum nesting of lists and dictionaries.

The deepest nREPL answer seen has 7 levels (cider-nrepl's test results). Without a limit, one message could exhaust
memory.
"""

MAX_STRING_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of one string, such as a printed value. A longer one means an attack or a corrupt length."""

MAX_HEAD_BYTES: Final = 8 * 1024 * 1024
"""Maximum number of bytes to store from the start of a string received in chunks."""
MAX_TAIL_BYTES: Final = 4 * 1024 * 1024
"""Maximum number of bytes to store from the end of a string received in chunks.

Decoding a complete string of 256 MiB would take four times as much memory, and callers do not read so much of a value.
"""

MAX_INTEGER_DIGITS: Final = 1000
"""Maximum length of an integer: more than any count needs, and below the length that Python refuses to parse."""

REPLACEMENT_CHARACTER: Final = "\ufffd"
_MAX_LENGTH_DIGITS: Final = 12
"""Maximum number of digits in the length of a string."""
_MAX_CACHED_KEYS: Final = 256
"""Maximum number of encoded keys that are cached. A protocol uses a few dozen field names."""
_ZERO, _NINE, _COLON = b"09:"
_INTEGER_BYTE: Final = 0x69
_LIST_BYTE: Final = 0x6C
_DICTIONARY_BYTE: Final = 0x64
_END_BYTE: Final = 0x65


class TruncatedText(str):
    """A string whose middle was replaced by a marker. `left_out` is the number of bytes that the marker replaces."""

    __slots__ = ("left_out",)

    left_out: int


class BencodeError(PeerError):
    """Raised when received bytes are not valid bencode or exceed a limit. The stream cannot be decoded any further.

    `decoded` contains the values that the same call of `Decoder.feed` completed before the error.
    """

    def __init__(self, error: str, *, decoded: tuple[Value, ...] = ()) -> None:
        super().__init__(f"received invalid bencode: {error}")
        self.error = error
        self.decoded = decoded


class Decoder:
    """An incremental bencode decoder that takes linear time.

    Open containers are kept between calls, so no byte is parsed twice. The chunks of a long string are stored as they
    arrive, up to a limit, and joined once.
    """

    def __init__(self, *, max_depth: int = MAX_DEPTH, max_string_bytes: int = MAX_STRING_BYTES) -> None:
        self._max_depth = max_depth
        self._max_string_bytes = max_string_bytes
        self._rest = b""
        """The bytes of an incomplete integer, or of an incomplete length of a string."""
        self._partial = HeadAndTail(MAX_HEAD_BYTES, MAX_TAIL_BYTES)
        """The received part of an incomplete string."""
        self._missing = 0
        self._done: list[Value] = []
        self._container: Container = self._done
        """The innermost container that is still open, or the list of completed values."""
        self._key: str | None = None
        """The key for which the container's next value is expected."""
        self._around: list[tuple[Container, str | None]] = []
        """The enclosing containers, each with the key whose value is being read."""

    @property
    def is_idle(self) -> bool:
        """Return whether the decoder is between two values. If not, closing the connection would lose data."""
        return not self._rest and not self._around and not self._missing

    @property
    def missing_bytes(self) -> int:
        """Return the number of bytes missing from a partially received string, or 0 outside such a string."""
        return self._missing

    def feed(self, data: bytes) -> list[Value]:
        """Return the values that `data` completes, in order.

        Raises:
            BencodeError: the bytes are not bencode. The decoder cannot be used afterwards.
        """
        if len(data) < self._missing:
            self._partial.add(data)
            self._missing -= len(data)
            return []
        start = self._missing
        try:
            if start:
                self._partial.add(data[:start])
                partial, self._missing = self._partial, 0
                self._partial = HeadAndTail(MAX_HEAD_BYTES, MAX_TAIL_BYTES)
                self._add_string(partial)
            elif self._rest:
                data = self._rest + data
            self._rest = data[self._read(data, start) :]
        except BencodeError as error:
            raise BencodeError(error.error, decoded=tuple(self._consume())) from None
        return self._consume()

    def _consume(self) -> list[Value]:
        done = self._done[:]
        self._done.clear()
        return done

    def _read(self, data: bytes, at: int) -> int:
        """Decode tokens, starting at the offset `at`.

        Returns the offset of the first incomplete token, or the length of `data`. A message has about twenty strings,
        so strings are decoded inline instead of by a call for each.
        """
        size, container, key = len(data), self._container, self._key
        while at < size:
            token = data[at]
            if _ZERO <= token <= _NINE:
                # A length has two digits on average, so this loop is faster than a regular expression.
                colon, count = at + 1, token - _ZERO
                while colon < size and _ZERO <= data[colon] <= _NINE and colon - at < _MAX_LENGTH_DIGITS:
                    count = 10 * count + data[colon] - _ZERO
                    colon += 1
                end = colon + 1 + count
                if end > size or data[colon] != _COLON or count > self._max_string_bytes:
                    at = self._begin_string(data, at, colon, count)
                    break
                raw, at = data[colon + 1 : end], end
                if key is None and type(container) is dict:
                    key = raw.decode("utf-8", "surrogateescape")
                    continue
                try:
                    value: Value = raw.decode()
                except UnicodeDecodeError:
                    value = raw
            elif token == _END_BYTE and key is None and self._around:
                value, at = container, at + 1
                container, key = self._around.pop()
            else:
                other = self._read_other(token, data, at, is_key=key is None and type(container) is dict)
                if other is None:
                    break
                value, at = other
                if type(value) is dict or type(value) is list:
                    self._around.append((container, key))
                    container, key = value, None
                    continue
            if type(container) is list:
                container.append(value)
            elif type(container) is dict and key is not None:
                container[key] = value
                key = None
        self._container, self._key = container, key
        return at

    def _begin_string(self, data: bytes, at: int, colon: int, count: int) -> int:
        """Store the available bytes of an incomplete string, and return the offset after those bytes."""
        size, start = len(data), colon + 1
        if colon == size or data[colon] != _COLON:
            self._check_length(data, at)
            return at
        if count > self._max_string_bytes:
            limit = self._max_string_bytes
            raise BencodeError(f"a string of {count} bytes exceeds the limit of {limit} bytes")
        self._partial.add(data[start:])
        self._missing = start + count - size
        return size

    def _read_other(self, token: int, data: bytes, at: int, *, is_key: bool) -> tuple[int | Container, int] | None:
        """Return an integer or an empty container, with the offset after it, or None if bytes are missing."""
        if is_key:
            raise BencodeError(f"a dictionary's key must be a string, but one begins with the byte 0x{token:02x}")
        if token == _END_BYTE:
            after_key = "a dictionary ended after a key without a value"
            raise BencodeError(after_key if self._around else "an end marker has no matching start")
        if token == _INTEGER_BYTE:
            return self._read_integer(data, at + 1)
        if token not in (_DICTIONARY_BYTE, _LIST_BYTE):
            raise BencodeError(f"a value cannot begin with the byte 0x{token:02x}")
        if len(self._around) >= self._max_depth:
            raise BencodeError(f"a value is nested more than {self._max_depth} levels deep")
        return ({} if token == _DICTIONARY_BYTE else []), at + 1

    def _check_length(self, data: bytes, at: int) -> None:
        """Check that the available bytes can be the beginning of a string's length.

        Raises:
            BencodeError: the bytes are not digits, or there are too many.
        """
        digits = data[at : at + _MAX_LENGTH_DIGITS + 1].partition(b":")[0]
        if not digits.isdigit():
            raise BencodeError(f"a string has the invalid length {digits!r}")
        if len(digits) > _MAX_LENGTH_DIGITS:
            raise BencodeError(f"a string's length has more than {_MAX_LENGTH_DIGITS} digits")

    def _read_integer(self, data: bytes, start: int) -> tuple[int, int] | None:
        end = data.find(_END_BYTE, start, start + MAX_INTEGER_DIGITS + 1)
        if end < 0:
            if len(data) - start > MAX_INTEGER_DIGITS:
                raise BencodeError(f"an integer has more than {MAX_INTEGER_DIGITS} digits")
            return None
        digits = data[start:end]
        if not digits.removeprefix(b"-").isdigit():
            raise BencodeError(f"{digits!r} is not a valid integer")
        return int(digits), end + 1

    def _add_string(self, partial: HeadAndTail) -> None:
        """Add a string that was received in chunks to the current container, as a key or as a value."""
        container, key = self._container, self._key
        if key is None and type(container) is dict:
            self._key = partial.head.decode("utf-8", "surrogateescape")
            return
        value: Value = partial.head
        if partial.left_out:
            value = _cut(partial)
        else:
            with suppress(UnicodeDecodeError):
                value = partial.head.decode()
        if type(container) is list:
            container.append(value)
        elif type(container) is dict and key is not None:
            container[key] = value
            self._key = None


def _cut(string: HeadAndTail) -> TruncatedText:
    """Join the stored head and tail of a long string with a marker between them.

    Characters that were split at the cut are dropped.
    """
    head = string.head.decode(errors="replace").removesuffix(REPLACEMENT_CHARACTER)
    tail = string.tail.decode(errors="replace").lstrip(REPLACEMENT_CHARACTER)
    text = TruncatedText(f"{head}{left_out_mark(string.left_out)}{tail}")
    text.left_out = string.left_out
    return text


def encode(value: Value) -> bytes:
    """Encode a value as bencode. The keys of dictionaries are sorted.

    Raises:
        TypeError: the value contains a type that bencode cannot represent.
    """
    chunks: list[bytes] = []
    _write(value, chunks)
    return b"".join(chunks)


@lru_cache(maxsize=_MAX_CACHED_KEYS)
def _raw_key(key: str) -> bytes:
    """Return the UTF-8 bytes of a key, by which keys are sorted."""
    return key.encode("utf-8", "surrogateescape")


@lru_cache(maxsize=_MAX_CACHED_KEYS)
def _encoded_key(key: str) -> bytes:
    raw = _raw_key(key)
    return b"%d:%b" % (len(raw), raw)


def _write(value: Value, chunks: list[bytes]) -> None:
    if type(value) is str:
        raw = value.encode("utf-8", "surrogateescape")
        chunks += (b"%d:" % len(raw), raw)
    elif type(value) is int:  # a bool cannot be encoded
        chunks += (b"i%de" % value,)
    elif type(value) is bytes:
        chunks += (b"%d:" % len(value), value)
    elif type(value) is dict:
        chunks += (b"d",)
        # BEP 3 orders keys by their raw bytes, which for UTF-8 is the order of code points.
        for key in sorted(value, key=_raw_key):
            item = value[key]
            if type(item) is str:
                raw = item.encode("utf-8", "surrogateescape")
                chunks += (_encoded_key(key), b"%d:" % len(raw), raw)
            elif type(item) is int:
                chunks += (_encoded_key(key), b"i%de" % item)
            else:
                chunks += (_encoded_key(key),)
                _write(item, chunks)
        chunks += (b"e",)
    elif type(value) is list:
        chunks += (b"l",)
        for item in value:
            _write(item, chunks)
        chunks += (b"e",)
    else:
        raise TypeError(f"bencode cannot represent {value!r}")
