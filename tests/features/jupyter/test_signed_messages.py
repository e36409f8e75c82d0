"""Messages as kernels sign them: assembled within limits, and dropped if the key differs."""

import json

import pytest

from codriver.features.jupyter.kernels import signed_messages
from codriver.features.jupyter.kernels.lost_messages import MAX_FOREIGN_REPLIES, LostMessageCounter
from codriver.features.jupyter.kernels.signed_messages import MAX_HEADER_BYTES, Assembler, Signer
from codriver.features.jupyter.kernels.zmtp import PartChunk

SIGNER = Signer(b"key", "hmac-sha256")
HEADER = {"msg_id": "1", "msg_type": "stream"}
PARENT = {"msg_id": "0"}


def assemble(assembler, parts, size=7):
    """Receive the message of these parts, each in chunks of a size."""
    for number, part in enumerate(parts, 1):
        for start in range(0, max(1, len(part)), size):
            ends = start + size >= len(part)
            message = assembler.add(
                PartChunk(part[start : start + size], ends, ends and number == len(parts), len(part))
            )
    return message


def parts(content, signer=SIGNER, header=HEADER):
    return signer.sign_parts(header, PARENT, {}, content)


@pytest.mark.parametrize("leading_parts", [[], [b"topic"], [b"id", b""]])
@pytest.mark.parametrize("trailing_parts", [[], [b"buffer", b""]])
def test_a_signed_message_is_read_whatever_surrounds_it(leading_parts, trailing_parts):
    message = assemble(Assembler(SIGNER), [*leading_parts, *parts({"text": "x" * 100}), *trailing_parts])
    assert (message.header, message.parent, message.type) == (HEADER, PARENT, "stream")
    assert json.loads(b"".join(message.head)) == {"text": "x" * 100}


def test_messages_signed_with_a_different_key_are_counted():
    assembler = Assembler(SIGNER)
    assert assemble(assembler, parts({}, Signer(b"other", "hmac-sha256"))) is None
    assert assemble(assembler, [b"garbage"]) is None
    assert assemble(assembler, [*parts({})[:-1]]) is None
    assert assembler.unsigned == 3
    assert assemble(assembler, parts({})) is not None


def test_a_replayed_message_is_dropped():
    assembler, message = Assembler(SIGNER), parts({})
    assert assemble(assembler, message) is not None
    assert assemble(assembler, message) is None


def test_without_a_key_nothing_is_signed():
    assert assemble(Assembler(Signer(b"", "hmac-sha256")), parts({}, Signer(b"", ""))) is not None


def test_only_head_and_tail_of_long_content_are_stored_but_all_of_it_is_signed(monkeypatch):
    for name, value in {"MAX_CONTENT_BYTES": 50, "MAX_CONTENT_HEAD_BYTES": 20, "MAX_CONTENT_TAIL_BYTES": 10}.items():
        monkeypatch.setattr(signed_messages, name, value)
    content = json.dumps({"text": "x" * 100}).encode()
    message = assemble(Assembler(SIGNER), parts({"text": "x" * 100}))
    assert (b"".join(message.head), b"".join(message.tail)) == (content[:20], content[-10:])
    assert message.omitted_bytes == len(content) - 30


def test_an_oversized_header_is_refused():
    assembler = Assembler(SIGNER)
    assert assemble(assembler, parts({}, header={**HEADER, "x": "y" * MAX_HEADER_BYTES}), size=10_000) is None
    assert assembler.unsigned == 1


def test_endless_parts_are_not_buffered():
    assembler = Assembler(SIGNER)
    for _ in range(100_000):
        assembler.add(PartChunk(b"", ends_part=True, ends_message=False, part_bytes=0))
    for part in parts({}):
        assembler.add(PartChunk(part, ends_part=True, ends_message=False, part_bytes=len(part)))
    for _ in range(100_000):
        assembler.add(PartChunk(b"buffer", ends_part=True, ends_message=False, part_bytes=0))
    assert len(assembler._parts) == 5
    assert assembler.add(PartChunk(b"", ends_part=True, ends_message=True, part_bytes=0)).header == HEADER


def receive_numbered(counter, *ids, kind="stream", content=None):
    """Receive messages with these ids."""
    for message_id in ids:
        header = {"msg_id": message_id, "msg_type": kind}
        counter.add(assemble(Assembler(SIGNER), parts(content or {}, header=header), size=100))
    return counter


def idle(counter, message_id):
    return receive_numbered(counter, message_id, kind="status", content={"execution_state": "idle"})


def series(numbers):
    return [f"session_7_{number}" for number in numbers]


def test_lost_messages_are_counted_when_the_kernel_becomes_idle():
    counter = receive_numbered(LostMessageCounter(), *series(range(10)), *series(range(500, 510)))
    assert counter.lost == 0
    assert idle(counter, *series([510])).lost == 490
    receive_numbered(counter, *series(range(511, 600)))
    assert idle(counter, *series([600])).lost == 490


def test_reordered_messages_and_replies_to_others_do_not_count_as_lost():
    counter = receive_numbered(LostMessageCounter(), *series([0, *range(300, 400), *range(1, 300)]))
    assert idle(counter, *series([400])).lost == 0
    assert idle(counter, *series([400 + MAX_FOREIGN_REPLIES])).lost == 0


def test_messages_without_numbers_never_count_as_lost():
    counter = receive_numbered(LostMessageCounter(), "7b1c-0", "_", "a_b", "a_" + "9" * 5000, "17")
    assert idle(counter, "ffff").lost == 0
