"""ZMTP without I/O: parts of messages in any chunks, and invalid data."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.features.jupyter.kernels.zmtp import (
    GREETING,
    MAX_COMMAND_BYTES,
    Decoder,
    ZmtpError,
    encode,
    ready_command,
)

HANDSHAKE = GREETING + ready_command("ROUTER")
MESSAGES = [[b"a"], [b"", b"<IDS|MSG>", b"x" * 300], [b"y" * 70_000, b""]]
STREAM = HANDSHAKE + b"".join(map(encode, MESSAGES))


def messages(decoder, *chunks):
    """Return the messages in the input, assembled."""
    complete, parts, part = [], [], b""
    for chunk in chunks:
        for data, ends_part, ends_message, _ in decoder.feed(chunk):
            part += data
            if ends_part:
                parts, part = [*parts, part], b""
            if ends_message:
                complete, parts = [*complete, parts], []
    return complete


def test_messages_are_decoded():
    decoder = Decoder()
    assert messages(decoder, STREAM) == MESSAGES
    assert decoder.is_ready


def test_messages_are_decoded_byte_by_byte():
    short = HANDSHAKE + encode(MESSAGES[1])
    assert messages(Decoder(), *(short[offset : offset + 1] for offset in range(len(short)))) == [MESSAGES[1]]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_messages_are_decoded_however_they_are_split_into_chunks(cuts):
    offsets = sorted({0, len(STREAM), *cuts})
    assert messages(Decoder(), *(STREAM[start:end] for start, end in pairwise(offsets))) == MESSAGES


@pytest.mark.parametrize(
    ("received", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "the data does not start with a ZMTP greeting"),
        (b"\xff" + bytes(8) + b"\x7f\x01\x05", "the peer uses ZMTP version 1, but at least 3 is required"),
        (GREETING.replace(b"NULL", b"CURVE")[:64], "the peer requires 'CURVE', but only connections"),
        (GREETING + b"\x00\x01a", "a message was received before the end of the handshake"),
        (GREETING + b"\x06" + (MAX_COMMAND_BYTES + 1).to_bytes(8, "big"), "a command has 8,193 bytes"),
        (GREETING + b"\x04\x0b\x05ERROR\x04nope", "the peer refused the connection: nope"),
    ],
)
def test_invalid_data_is_explained(received, reason):
    with pytest.raises(ZmtpError, match=reason):
        Decoder().feed(received)


def test_an_endless_part_is_passed_on_without_being_stored():
    decoder = Decoder()
    decoder.feed(HANDSHAKE + b"\x02" + (2**62).to_bytes(8, "big"))
    for _ in range(100):
        assert decoder.feed(b"x" * 1000) == [(b"x" * 1000, False, False, 2**62)]
    assert decoder._buffer == b""


def test_a_ping_is_answered_with_its_context():
    decoder = Decoder()
    decoder.feed(HANDSHAKE + b"\x04\x0b\x04PING\x00\x0acon4")
    assert decoder.answers == [b"\x04\x09\x04PONGcon4"]


@given(st.binary(max_size=200))
def test_garbage_is_decoded_or_refused(garbage):
    for prefix in (b"", HANDSHAKE):
        with suppress(ZmtpError):
            Decoder().feed(prefix + garbage)
