"""The WebSocket frames of a Jupyter Server.

With the subprotocol `v1.kernel.websocket.jupyter.org`, a message is one binary frame: the number of offsets, the
offsets, and the segments between them. The offsets have 8 bytes each, in little-endian order, are counted from the
start of the frame, and end with the size of the frame. The segments are the channel's name, then header, parent header,
metadata and content as JSON, and any number of buffers. Without the subprotocol, a message is a text frame of JSON. If
it has buffers, it is a binary frame with offsets of 4 bytes in big-endian order, and the JSON is the first segment.
Frames come from another machine, so sizes and offsets are checked before they are used.

Source: jupyter_server, "WebSocket kernel wire protocols".
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from codriver.errors import PeerError
from codriver.features.jupyter.kernels.content_reader import (
    SHORT_BYTES,
    TooComplexError,
    UnreadableError,
    parse_content,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence


SUBPROTOCOL: Final = "v1.kernel.websocket.jupyter.org"

MAX_FRAME_BYTES: Final = 32 * 2**20
"""Far above the values that anybody wants to see, and small enough to hold in memory three times."""
TOO_LONG: Final = f"the connection to the Jupyter Server brought a message of more than {MAX_FRAME_BYTES:,} bytes"
MAX_BUFFERS: Final = 1024
MAX_PART_BYTES: Final = 2**20
"""The most bytes of a header, a parent or metadata, which are small."""
PLACEHOLDER: Final = "\ufdd0"
"""The beginning of the names of long texts; a short message has none. It is no character, so no text has it by
accident.
"""
WORD: Final = 8
LEGACY_WORD: Final = 4
PARTS: Final = ("header", "parent_header", "metadata", "content")
FIXED_SEGMENTS: Final = 1 + len(PARTS)
"""The segments for the channel's name and those parts."""
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class FrameError(PeerError):
    """A frame from a Jupyter Server is invalid; `cause` says why."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the Jupyter Server sent a frame that is no message: {cause}")
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Frame:
    """One message between a kernel and its client, with the channel that carries it; the parts are JSON objects."""

    channel: str
    header: Mapping[str, Any]
    parent_header: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    content: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    buffers: tuple[bytes, ...] = ()
    read_error: str = ""
    """The reason in words why its content is not read: too many elements."""


def encode(frame: Frame) -> bytes:
    """Return the frame's bytes in the subprotocol v1."""
    parts = (frame.header, frame.parent_header, frame.metadata, frame.content)
    segments = [frame.channel.encode(), *map(_dump, parts), *frame.buffers]
    start = WORD * (1 + len(segments) + 1)
    offsets = list(accumulate(map(len, segments), initial=start))
    return b"".join([struct.pack(f"<{1 + len(offsets)}Q", len(offsets), *offsets), *segments])


def decode(data: bytes) -> Frame:
    """Return the message in a short binary frame. See `decoding`."""
    return _at_once(decoding(data, PLACEHOLDER))


def decoding(data: bytes, token: str) -> Generator[None, None, Frame]:
    """Read the message in a binary frame of the subprotocol v1; the generator yields at each point where it can pause.

    `token`: a text that no message has by accident.

    Raises:
        FrameError: the frame has another form, or is too large.
    """
    _check_size(len(data))
    if len(data) < WORD:
        raise FrameError(f"it has {len(data)} bytes, and not even the number of its offsets")
    count = int.from_bytes(data[:WORD], "little")
    if not FIXED_SEGMENTS + 1 <= count <= FIXED_SEGMENTS + 1 + MAX_BUFFERS:
        raise FrameError(f"it names {count} offsets, and {FIXED_SEGMENTS + 1} to {FIXED_SEGMENTS + 1 + MAX_BUFFERS} go")
    if len(data) < WORD * (1 + count):
        raise FrameError(f"its {len(data)} bytes end within its {count} offsets")
    offsets = struct.unpack_from(f"<{count}Q", data, WORD)
    if offsets[-1] != len(data):
        raise FrameError(f"its last offset is {offsets[-1]}, and it ends at {len(data)}")
    channel, *parts = _segments(data, offsets, after=WORD * (1 + count))
    header, parent, metadata, content, *buffers = parts
    before = _text(channel), _object(header), _object(parent), _object(metadata)
    try:
        read = yield from _reading(content, token)
    except TooComplexError as error:
        return Frame(*before, read_error=error.cause)
    return Frame(*before, read, tuple(buffers))


def encode_text(frame: Frame) -> str:
    """Return the frame as JSON, for a server without the subprotocol.

    Buffers are not sent: no request of ours has any.
    """
    parts = {
        "channel": frame.channel, "header": dict(frame.header), "parent_header": dict(frame.parent_header),
        "metadata": dict(frame.metadata), "content": dict(frame.content), "buffers": [],
    }  # fmt: skip
    return json.dumps(parts)


def decode_legacy(data: str | bytes) -> Frame:
    """Return the message in a short frame of a server without the subprotocol. See `decoding_legacy`."""
    return _at_once(decoding_legacy(data, PLACEHOLDER))


def decoding_legacy(data: str | bytes, token: str) -> Generator[None, None, Frame]:
    """Read the message in a frame of a server without the subprotocol: text, or bytes if it has buffers.

    Raises:
        FrameError: the frame has another form, or is too large.
    """
    _check_size(len(data))
    if isinstance(data, str):
        return (yield from _of_json(data.encode(errors="surrogatepass"), (), token))
    if len(data) < LEGACY_WORD:
        raise FrameError(f"it has {len(data)} bytes, and not even the number of its parts")
    count = int.from_bytes(data[:LEGACY_WORD], "big")
    if not 1 <= count <= 1 + MAX_BUFFERS:
        raise FrameError(f"it names {count} parts, and 1 to {1 + MAX_BUFFERS} go")
    first = LEGACY_WORD * (1 + count)
    if len(data) < first:
        raise FrameError(f"its {len(data)} bytes end within its {count} offsets")
    offsets = (*struct.unpack_from(f">{count}I", data, LEGACY_WORD), len(data))
    text, *buffers = _segments(data, offsets, after=first)
    return (yield from _of_json(text, tuple(buffers), token))


def _at_once(work: Generator[None, None, Frame]) -> Frame:
    """Return the result of work without pauses."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Frame = done.value
            return result


def _check_size(size: int) -> None:
    if size > MAX_FRAME_BYTES:
        raise FrameError(f"it has {size:,} bytes, and {MAX_FRAME_BYTES:,} are the most that is taken")


def _segments(data: bytes, offsets: Sequence[int], *, after: int) -> list[bytes]:
    """The segments between the offsets, which begin at the end of the frame's head and never decrease."""
    if offsets[0] != after:
        raise FrameError(f"its first offset is {offsets[0]}, and its head ends at {after}")
    if any(start > end for start, end in pairwise(offsets)) or offsets[-1] > len(data):
        raise FrameError("its offsets go backwards or beyond its end")
    return [data[start:end] for start, end in pairwise(offsets)]


def _of_json(text: bytes, buffers: tuple[bytes, ...], token: str) -> Generator[None, None, Frame]:
    try:
        whole = yield from _reading(text, token)
    except TooComplexError as error:
        raise FrameError(f"a part of it is no JSON that is read: {error.cause}") from None
    channel = whole.get("channel")
    if not isinstance(channel, str):
        raise FrameError("it names no channel")
    header, parent, metadata, content = (_checked(whole.get(name)) for name in PARTS)
    return Frame(channel, header, parent, metadata, content, buffers)


def _object(text: bytes) -> Mapping[str, Any]:
    if len(text) > MAX_PART_BYTES:
        raise FrameError(f"a part beside its content has {len(text):,} bytes, and {MAX_PART_BYTES:,} are the most")
    try:
        return _checked(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a part of it is no JSON: {error}") from None


def _reading(text: bytes, token: str) -> Generator[None, None, Mapping[str, Any]]:
    """Read the object in a long part. Kernels write an absent one as null."""
    if len(text) <= SHORT_BYTES:
        return _object(text)
    try:
        return (yield from parse_content(text, token))
    except TooComplexError:
        raise
    except UnreadableError as error:
        raise FrameError(f"a part of it is no JSON object: {error.cause}") from None


def _checked(value: object) -> Mapping[str, Any]:
    """Return a part as an object; kernels write an absent one as null."""
    if value is None:
        return NOTHING
    if not isinstance(value, dict):
        raise FrameError(f"a part of it is a JSON {type(value).__name__}, and no object")
    return cast("dict[str, Any]", value)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FrameError("the name of its channel is no text") from None


def _dump(part: Mapping[str, Any]) -> bytes:
    # ASCII: half of a surrogate pair, which code may hold, has no UTF-8 and is good JSON.
    return json.dumps(dict(part)).encode("ascii")
