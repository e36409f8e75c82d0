import contextlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.features.jupyter.kernels import server_frames
from codriver.features.jupyter.kernels.server_frames import (
    Frame,
    FrameError,
    decode,
    decode_legacy,
    encode,
    encode_text,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=4)
CHANNELS = st.sampled_from(["shell", "iopub", "stdin", "control"])
FRAMES = st.builds(
    Frame, CHANNELS, OBJECTS, OBJECTS, OBJECTS, OBJECTS, st.lists(st.binary(max_size=40), max_size=3).map(tuple)
)
PLAIN = Frame("shell", {"msg_id": "1"}, {}, {}, {"code": "1+2"})


def legacy(frame):
    """Return the frame as a server without the subprotocol sends one with buffers."""
    parts = [encode_text(frame).encode(), *frame.buffers]
    offsets = [4 * (len(parts) + 1)]
    for part in parts[:-1]:
        offsets.append(offsets[-1] + len(part))
    return struct.pack(f">{1 + len(offsets)}I", len(parts), *offsets) + b"".join(parts)


@given(FRAMES)
def test_a_frame_round_trips(frame):
    assert decode(encode(frame)) == frame


@given(FRAMES)
def test_a_frame_without_the_subprotocol_round_trips(frame):
    assert decode_legacy(legacy(frame)) == frame


@given(FRAMES)
def test_encoding_as_a_text_frame_drops_only_the_buffers(frame):
    text = decode_legacy(encode_text(frame))
    assert (text.channel, text.header, text.content, text.buffers) == (frame.channel, frame.header, frame.content, ())


@given(FRAMES, st.data())
def test_a_truncated_frame_is_refused(frame, data):
    encoded = encode(frame)
    with pytest.raises(FrameError):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@given(st.binary(max_size=200))
def test_garbage_is_refused_without_crashing(data):
    for decoder in (decode, decode_legacy):
        with contextlib.suppress(FrameError):
            assert isinstance(decoder(data), Frame)


@given(st.binary(max_size=80), st.integers(0, 79), st.binary(min_size=1, max_size=8))
def test_a_corrupted_frame_is_refused_or_parsed_without_crashing(tail, offset, patch):
    encoded = bytearray(encode(PLAIN) + tail)
    encoded[offset : offset + len(patch)] = patch
    for decoder in (decode, decode_legacy):
        with contextlib.suppress(FrameError):
            assert isinstance(decoder(bytes(encoded)), Frame)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too few for the number"),
        (struct.pack("<Q", 2**63), "offsets, but 6 to"),
        (struct.pack("<Q", 5), "has 5 offsets"),
        (struct.pack("<Q", 6), "too few for its 6 offsets"),
        (struct.pack("<7Q", 6, 56, 56, 56, 56, 56, 99), "last offset of the frame is 99"),
        (struct.pack("<7Q", 6, 8, 56, 56, 56, 56, 56), "first offset of the frame is 8"),
        (struct.pack("<7Q", 6, 56, 2**63, 56, 56, 56, 56), "offsets of the frame decrease"),
        (struct.pack("<7Q", 6, 56, 57, 59, 61, 63, 65) + b"\xff{}{}{}{}", "channel name of the frame is not UTF-8"),
        (struct.pack("<7Q", 6, 56, 57, 59, 61, 63, 65) + b"s[]{}{}{}", "JSON list"),
        (struct.pack("<7Q", 6, 56, 57, 59, 61, 63, 65) + b"s[}{}{}{}", "not JSON"),
    ],
)
def test_a_malformed_frame_is_refused_with_a_reason(data, reason):
    with pytest.raises(FrameError, match=reason):
        decode(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0", "too few for the number"),
        (struct.pack(">I", 2**31), "parts, but 1 to"),
        (struct.pack(">2I", 2, 12), "too few for its 2 offsets"),
        (struct.pack(">2I", 1, 99) + b"{}", "first offset of the frame is 99"),
        ("[]", "JSON list"),
        ("{}", "has no channel"),
        ('{"channel": "shell", "content": 3}', "JSON int"),
        ("[" * 100_000, "more than 100 levels deep"),
    ],
)
def test_a_malformed_frame_without_the_subprotocol_is_also_refused(data, reason):
    with pytest.raises(FrameError, match=reason):
        decode_legacy(data)


def test_an_oversized_frame_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(server_frames, "MAX_FRAME_BYTES", 50)
    with pytest.raises(FrameError, match="at most 50 are allowed"):
        decode(encode(PLAIN))
    with pytest.raises(FrameError, match="at most 50 are allowed"):
        decode_legacy(" " * 51)


def test_a_missing_part_of_a_frame_is_read_as_empty():
    assert decode_legacy(json.dumps({"channel": "iopub", "header": {}, "parent_header": None})).parent_header == {}


def test_code_with_a_lone_surrogate_can_be_sent():
    frame = Frame("shell", {}, {}, {}, {"code": "'\ud800'"})
    assert decode(encode(frame)) == frame
