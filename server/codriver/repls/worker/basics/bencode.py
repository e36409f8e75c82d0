"""Bencode: values as bytes, and the next value of a stream. Source: BEP 3, "bencoding"."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Readable(Protocol):
        """A binary file, buffered."""

        def read(self, size: int, /) -> bytes:
            """Read so many bytes, fewer at the end."""


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
        BencodeError, ValueError, TypeError: what comes is no bencode.
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
