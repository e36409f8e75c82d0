"""ZMTP 3.0 without I/O: the protocol for a connection between two ZeroMQ sockets.

Parts of messages are returned in chunks as they arrive, so the caller decides how much of them to store. libzmq does
not offer this choice. It buffers each message completely and can limit only the size of a single part.

Source: ZeroMQ RFC 23, "ZeroMQ Message Transport Protocol" 3.0, with the mechanism NULL; RFC 37 for PING and PONG.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codriver.errors import PeerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SIGNATURE_BYTES: Final = 10
"""Size of the signature at the start of a greeting."""
GREETING_BYTES: Final = 64
"""Size of a greeting."""
GREETING: Final = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
"""The bytes that each side sends first: signature, version, mechanism, and a zero for the role of client."""

SUBSCRIBE_ALL: Final = (b"\x01",)
"""The message with which a SUB socket subscribes to all topics."""

MAX_COMMAND_BYTES: Final = 8 * 1024
"""Maximum size of a command, which consists of a name and a few properties."""

_MORE, _LONG, _COMMAND = 1, 2, 4
"""Flags of a frame: more frames follow in the message, the size has eight bytes, and the frame is a command."""
_SHORT_HEAD_BYTES: Final = 2
"""Length of a frame header with a one-byte size."""
_LONG_HEAD_BYTES: Final = 9
"""Length of a frame header with an eight-byte size."""
_MAX_SHORT_BYTES: Final = 255
"""Maximum size of a frame with a one-byte size."""
_MAJOR, _MECHANISM = 10, slice(12, 32)
"""Positions of the major version and of the mechanism in a greeting."""


class ZmtpError(PeerError):
    """Raised when received bytes are not unencrypted ZMTP 3. Subsequent bytes cannot be decoded either."""

    def __init__(self, error: str) -> None:
        super().__init__(f"the ZeroMQ connection failed: {error}")
        self.error = error


class PartChunk(NamedTuple):
    """A chunk of one part of a message."""

    data: bytes
    ends_part: bool
    ends_message: bool
    part_bytes: int
    """Size of the complete part in bytes, which is known from the first chunk on."""


def is_greeting(first_bytes: bytes) -> bool:
    """Return whether a connection that starts with these bytes speaks ZMTP. At least `SIGNATURE_BYTES` are needed."""
    return (
        len(first_bytes) >= SIGNATURE_BYTES
        and first_bytes[0] == GREETING[0]
        and first_bytes[SIGNATURE_BYTES - 1] & 1 == 1
    )


def ready_command(socket_type: str, identity: str = "") -> bytes:
    """Return the command that completes this side's handshake."""
    properties: Mapping[bytes, bytes] = {b"Socket-Type": socket_type.encode(), b"Identity": identity.encode()}
    body = b"\x05READY" + b"".join(
        bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value for name, value in properties.items()
    )
    return _frame(body, _COMMAND)


def encode(parts: Sequence[bytes]) -> bytes:
    """Encode a message of one or more parts as frames."""
    *parts_with_more, last = parts
    return b"".join([*(_frame(part, _MORE) for part in parts_with_more), _frame(last, 0)])


def _frame(body: bytes, flags: int) -> bytes:
    if len(body) > _MAX_SHORT_BYTES:
        return bytes((flags | _LONG,)) + len(body).to_bytes(8, "big") + body
    return bytes((flags, len(body))) + body


class Decoder:
    """An incremental decoder for one connection, starting at the peer's greeting.

    It buffers at most a greeting, a command or the header of a frame.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._is_greeted = False
        self._part_bytes = self._missing = 0
        """Size of the current part in bytes. `_missing` is the number of bytes that have not been received yet."""
        self._is_last = False
        """Whether the current part is the last one of its message."""
        self.is_ready = False
        """Whether the peer has completed its handshake."""
        self.answers: list[bytes] = []
        """Answers to PING commands, which the caller sends and removes."""

    @property
    def missing_bytes(self) -> int:
        """Return the number of bytes that are still missing from the current part.

        Feeding at most this many bytes only copies them.
        """
        return self._missing

    def feed(self, data: bytes) -> list[PartChunk]:
        """Return the chunks of message parts in `data`, in order.

        Raises:
            ZmtpError: the bytes are not ZMTP. The decoder cannot be used afterwards.
        """
        chunks: list[PartChunk] = []
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        offset, size = 0, len(data)
        while offset < size:
            if self._missing:
                end = min(size, offset + self._missing)
                self._missing -= end - offset
                ends_part = not self._missing
                chunks.append(PartChunk(data[offset:end], ends_part, ends_part and self._is_last, self._part_bytes))
            elif not self._is_greeted:
                if not self._read_greeting(data[offset : offset + GREETING_BYTES]):
                    break
                end = offset + GREETING_BYTES
            else:
                end = self._start_frame(data, offset, chunks)
                if end < 0:
                    break
            offset = end
        self._buffer = data[offset:]
        return chunks

    def _read_greeting(self, greeting: bytes) -> bool:
        """Check the part of the peer's greeting that has been received. Return whether the greeting is complete."""
        if len(greeting) >= SIGNATURE_BYTES and not is_greeting(greeting):
            raise ZmtpError("the data does not start with a ZMTP greeting")
        if len(greeting) > _MAJOR and greeting[_MAJOR] < GREETING[_MAJOR]:
            raise ZmtpError(f"the peer uses ZMTP version {greeting[_MAJOR]}, but at least 3 is required")
        if len(greeting) < GREETING_BYTES:
            return False
        mechanism = greeting[_MECHANISM].rstrip(b"\0").decode(errors="replace")
        if mechanism != "NULL":
            raise ZmtpError(f"the peer requires {mechanism!r}, but only connections without encryption are supported")
        self._is_greeted = True
        return True

    def _start_frame(self, data: bytes, offset: int, chunks: list[PartChunk]) -> int:
        """Decode a frame header or a complete command. Return the offset after it, or -1 if bytes are missing."""
        flags = data[offset]
        header_bytes = _LONG_HEAD_BYTES if flags & _LONG else _SHORT_HEAD_BYTES
        start = offset + header_bytes
        if len(data) < start:
            return -1
        count = int.from_bytes(data[offset + 1 : start], "big")
        if flags & _COMMAND:
            if count > MAX_COMMAND_BYTES:
                raise ZmtpError(f"a command has {count:,} bytes, but at most {MAX_COMMAND_BYTES:,} are allowed")
            if len(data) < start + count:
                return -1
            self._handle_command(data[start : start + count])
            return start + count
        if not self.is_ready:
            raise ZmtpError("a message was received before the end of the handshake")
        self._part_bytes = self._missing = count
        self._is_last = not flags & _MORE
        if not count:
            chunks.append(PartChunk(b"", ends_part=True, ends_message=self._is_last, part_bytes=0))
        return start

    def _handle_command(self, body: bytes) -> None:
        name = body[1 : 1 + body[0]] if body else b""
        if name == b"READY":
            self.is_ready = True
        elif name == b"ERROR":
            reason = body[7:].decode(errors="replace")
            raise ZmtpError(f"the peer refused the connection: {reason or 'no reason given'}")
        elif name == b"PING":
            self.answers.append(_frame(b"\x04PONG" + body[7:], _COMMAND))
