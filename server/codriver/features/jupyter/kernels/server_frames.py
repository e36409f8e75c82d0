"""Parse and build the WebSocket frames of a Jupyter Server.

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
    MAX_SHORT_BYTES,
    TooComplexError,
    UnreadableContentError,
    parse_content,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence


SUBPROTOCOL: Final = "v1.kernel.websocket.jupyter.org"
"""The WebSocket subprotocol with binary frames."""

MAX_FRAME_BYTES: Final = 32 * 2**20
"""Maximum size of a frame. Up to three copies of it are in memory at the same time."""
TOO_LONG_MESSAGE: Final = f"the Jupyter Server sent a message of more than {MAX_FRAME_BYTES:,} bytes"
MAX_FRAME_BUFFERS: Final = 1024
"""Maximum number of buffers in a frame."""
MAX_PART_BYTES: Final = 2**20
"""Maximum size of a header, parent header or metadata, which are small."""
TEXT_PLACEHOLDER: Final = "\ufdd0"
"""Placeholder for long strings in messages that do not contain this character.

It is a noncharacter in Unicode, so it does not occur in text by accident.
"""
OFFSET_BYTES: Final = 8
"""Size of an offset in a frame of the subprotocol."""
LEGACY_OFFSET_BYTES: Final = 4
"""Size of an offset in a frame without the subprotocol."""
PART_NAMES: Final = ("header", "parent_header", "metadata", "content")
"""The parts of a message that contain JSON, in order."""
FIXED_SEGMENT_COUNT: Final = 1 + len(PART_NAMES)
"""Number of segments for the channel's name and the parts."""
EMPTY_MAPPING: Final[Mapping[str, Any]] = MappingProxyType({})


class FrameError(PeerError):
    """Raised when a frame from a Jupyter Server is invalid. `cause` explains why."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the Jupyter Server sent an invalid frame: {cause}")
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Frame:
    """A message, and the name of the channel that it is sent on."""

    channel: str
    header: Mapping[str, Any]
    parent_header: Mapping[str, Any] = field(default_factory=lambda: EMPTY_MAPPING)
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY_MAPPING)
    content: Mapping[str, Any] = field(default_factory=lambda: EMPTY_MAPPING)
    buffers: tuple[bytes, ...] = ()
    read_error: str = ""
    """The reason why the content was not parsed, such as too many elements, or an empty string."""


def encode(frame: Frame) -> bytes:
    """Encode a message as a binary frame of the WebSocket subprotocol v1."""
    parts = (frame.header, frame.parent_header, frame.metadata, frame.content)
    segments = [frame.channel.encode(), *map(_encode_part, parts), *frame.buffers]
    start = OFFSET_BYTES * (1 + len(segments) + 1)
    offsets = list(accumulate(map(len, segments), initial=start))
    return b"".join([struct.pack(f"<{1 + len(offsets)}Q", len(offsets), *offsets), *segments])


def decode(data: bytes) -> Frame:
    """Decode a short binary frame without pauses. See `decode_in_turns`."""
    return _run_decoder(decode_in_turns(data, TEXT_PLACEHOLDER))


def decode_in_turns(data: bytes, placeholder: str) -> Generator[None, None, Frame]:
    """Decode a binary frame of the WebSocket subprotocol v1, yielding regularly to let other tasks run.

    `placeholder` must be a string that does not occur in the message, such as a random one.

    Raises:
        FrameError: the frame is malformed or too large.
    """
    _check_size(len(data))
    if len(data) < OFFSET_BYTES:
        raise FrameError(f"the frame has only {len(data)} bytes, too few for the number of offsets")
    count = int.from_bytes(data[:OFFSET_BYTES], "little")
    if not FIXED_SEGMENT_COUNT + 1 <= count <= FIXED_SEGMENT_COUNT + 1 + MAX_FRAME_BUFFERS:
        limits = f"{FIXED_SEGMENT_COUNT + 1} to {FIXED_SEGMENT_COUNT + 1 + MAX_FRAME_BUFFERS}"
        raise FrameError(f"the frame has {count} offsets, but {limits} are allowed")
    if len(data) < OFFSET_BYTES * (1 + count):
        raise FrameError(f"the frame has {len(data)} bytes, too few for its {count} offsets")
    offsets = struct.unpack_from(f"<{count}Q", data, OFFSET_BYTES)
    if offsets[-1] != len(data):
        raise FrameError(f"the last offset of the frame is {offsets[-1]}, but the frame has {len(data)} bytes")
    channel, *parts = _split_segments(data, offsets, head_bytes=OFFSET_BYTES * (1 + count))
    header, parent, metadata, content, *buffers = parts
    small_parts = (
        _decode_name(channel),
        _parse_small_part(header),
        _parse_small_part(parent),
        _parse_small_part(metadata),
    )
    try:
        content_fields = yield from _parse_part(content, placeholder)
    except TooComplexError as error:
        return Frame(*small_parts, read_error=error.cause)
    return Frame(*small_parts, content_fields, tuple(buffers))


def encode_text(frame: Frame) -> str:
    """Encode a message as JSON text, for a server without the subprotocol.

    Buffers are omitted, because requests have none.
    """
    message = {
        "channel": frame.channel, "header": dict(frame.header), "parent_header": dict(frame.parent_header),
        "metadata": dict(frame.metadata), "content": dict(frame.content), "buffers": [],
    }  # fmt: skip
    return json.dumps(message)


def decode_legacy(data: str | bytes) -> Frame:
    """Decode a short frame from a server without the subprotocol. See `decode_legacy_in_turns`."""
    return _run_decoder(decode_legacy_in_turns(data, TEXT_PLACEHOLDER))


def decode_legacy_in_turns(data: str | bytes, placeholder: str) -> Generator[None, None, Frame]:
    """Decode a frame from a server without the subprotocol, yielding regularly to let other tasks run.

    Such a frame is text, or binary if the message has buffers. `placeholder` is as in `decode_in_turns`.

    Raises:
        FrameError: the frame is malformed or too large.
    """
    _check_size(len(data))
    if isinstance(data, str):
        return (yield from _decode_json(data.encode(errors="surrogatepass"), (), placeholder))
    if len(data) < LEGACY_OFFSET_BYTES:
        raise FrameError(f"the frame has only {len(data)} bytes, too few for the number of parts")
    count = int.from_bytes(data[:LEGACY_OFFSET_BYTES], "big")
    if not 1 <= count <= 1 + MAX_FRAME_BUFFERS:
        raise FrameError(f"the frame has {count} parts, but 1 to {1 + MAX_FRAME_BUFFERS} are allowed")
    head_bytes = LEGACY_OFFSET_BYTES * (1 + count)
    if len(data) < head_bytes:
        raise FrameError(f"the frame has {len(data)} bytes, too few for its {count} offsets")
    offsets = (*struct.unpack_from(f">{count}I", data, LEGACY_OFFSET_BYTES), len(data))
    text, *buffers = _split_segments(data, offsets, head_bytes=head_bytes)
    return (yield from _decode_json(text, tuple(buffers), placeholder))


def _run_decoder(decoder: Generator[None, None, Frame]) -> Frame:
    """Run a decoder to its end without pauses, and return its result."""
    while True:
        try:
            next(decoder)
        except StopIteration as finished:
            result: Frame = finished.value
            return result


def _check_size(size: int) -> None:
    if size > MAX_FRAME_BYTES:
        raise FrameError(f"the frame has {size:,} bytes, but at most {MAX_FRAME_BYTES:,} are allowed")


def _split_segments(data: bytes, offsets: Sequence[int], *, head_bytes: int) -> list[bytes]:
    """Return the segments of a frame. Each offset is the end of one segment and the start of the next."""
    if offsets[0] != head_bytes:
        raise FrameError(f"the first offset of the frame is {offsets[0]}, but its header ends at {head_bytes}")
    if any(start > end for start, end in pairwise(offsets)) or offsets[-1] > len(data):
        raise FrameError("the offsets of the frame decrease or exceed its size")
    return [data[start:end] for start, end in pairwise(offsets)]


def _decode_json(text: bytes, buffers: tuple[bytes, ...], placeholder: str) -> Generator[None, None, Frame]:
    try:
        message = yield from _parse_part(text, placeholder)
    except TooComplexError as error:
        raise FrameError(f"a part of the frame could not be read: {error.cause}") from None
    channel = message.get("channel")
    if not isinstance(channel, str):
        raise FrameError("the frame has no channel")
    header, parent, metadata, content = (_as_object(message.get(name)) for name in PART_NAMES)
    return Frame(channel, header, parent, metadata, content, buffers)


def _parse_small_part(text: bytes) -> Mapping[str, Any]:
    if len(text) > MAX_PART_BYTES:
        raise FrameError(
            f"a header or metadata part has {len(text):,} bytes, but at most {MAX_PART_BYTES:,} are allowed"
        )
    try:
        return _as_object(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a part of the frame is not JSON: {error}") from None


def _parse_part(text: bytes, placeholder: str) -> Generator[None, None, Mapping[str, Any]]:
    """Parse a JSON object that may be long, yielding regularly."""
    if len(text) <= MAX_SHORT_BYTES:
        return _parse_small_part(text)
    try:
        return (yield from parse_content(text, placeholder))
    except TooComplexError:
        raise
    except UnreadableContentError as error:
        raise FrameError(f"a part of the frame is not a JSON object: {error.cause}") from None


def _as_object(value: object) -> Mapping[str, Any]:
    """Return a part that must be a JSON object. Treat `null`, which kernels send for a missing part, as empty."""
    if value is None:
        return EMPTY_MAPPING
    if not isinstance(value, dict):
        raise FrameError(f"a part of the frame is a JSON {type(value).__name__} instead of an object")
    return cast("dict[str, Any]", value)


def _decode_name(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FrameError("the channel name of the frame is not UTF-8") from None


def _encode_part(part: Mapping[str, Any]) -> bytes:
    # ASCII, because code may contain lone surrogates. They are valid in JSON, but not in UTF-8.
    return json.dumps(dict(part)).encode("ascii")
