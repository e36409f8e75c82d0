import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.wire import bencode
from codriver.wire.bencode import BencodeError, Decoder, encode
from codriver.wire.head_and_tail import left_out_mark

VALUES = [
    (b"i0e", 0),
    (b"i-42e", -42),
    (b"0:", ""),
    (b"5:hello", "hello"),
    ("6:при".encode(), "при"),
    (b"2:\xff\xfe", b"\xff\xfe"),
    (b"le", []),
    (b"de", {}),
    (b"li1e1:ali2eee", [1, "a", [2]]),
    (b"d2:id1:16:statusl4:doneee", {"id": "1", "status": ["done"]}),
    (b"d1:a1:b1:cd1:di1eee", {"a": "b", "c": {"d": 1}}),
]
NO_BENCODE = [
    (b"x", "0x78"),
    (b"HTTP/1.1 200 OK\r\n", "0x48"),
    (b"e", "no matching start"),
    (b"ie", "not a valid integer"),
    (b"i--1e", "not a valid integer"),
    (b"i1x2e", "not a valid integer"),
    (b"1x:a", "invalid length"),
    (b"99999999999999:", "more than 12 digits"),
    (b"i" + b"1" * 2000, "more than 1000 digits"),
    (b"di1e1:ae", "key must be a string"),
    (b"dlei1ee", "key must be a string"),
    (b"d1:ae", "key without a value"),
]
bencode_values = st.recursive(
    st.integers(-(10**30), 10**30) | st.text() | st.binary().filter(lambda raw: not is_utf8(raw)),
    lambda children: st.lists(children, max_size=5) | st.dictionaries(st.text(), children, max_size=5),
    max_leaves=20,
)


def feed_byte_by_byte(raw):
    decoder = Decoder()
    return [value for byte in raw for value in decoder.feed(bytes([byte]))]


def is_utf8(raw):
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize(("raw", "value"), VALUES)
def test_a_whole_value_is_decoded(raw, value):
    assert Decoder().feed(raw) == [value]


@pytest.mark.parametrize(("raw", "value"), VALUES)
def test_a_value_arriving_byte_by_byte_is_decoded(raw, value):
    decoder = Decoder()
    got = [value for byte in raw for value in decoder.feed(bytes([byte]))]
    assert got == [value]
    assert decoder.is_idle


@pytest.mark.parametrize(("raw", "value"), VALUES)
def test_left_over_bytes_are_the_start_of_the_next_value(raw, value):
    decoder = Decoder()
    assert decoder.feed(raw + b"d2:i") == [value]
    assert not decoder.is_idle
    assert decoder.feed(b"d1:7e") == [{"id": "7"}]


def test_several_values_in_one_chunk_are_decoded_in_order():
    assert Decoder().feed(b"".join(raw for raw, _ in VALUES)) == [value for _, value in VALUES]


def test_keys_in_any_order_are_decoded():
    assert Decoder().feed(b"d1:b1:x1:a1:ye") == [{"b": "x", "a": "y"}]


def test_the_last_of_two_equal_keys_takes_precedence():
    assert Decoder().feed(b"d1:a1:x1:a1:ye") == [{"a": "y"}]


def test_a_split_character_is_decoded():
    raw = encode("ж😀")
    for cut in range(len(raw)):
        decoder = Decoder()
        assert decoder.feed(raw[:cut]) + decoder.feed(raw[cut:]) == ["ж😀"]


@pytest.mark.parametrize(("raw", "words"), NO_BENCODE)
def test_invalid_bencode_is_refused_with_an_explanation(raw, words):
    with pytest.raises(BencodeError, match=words):
        Decoder().feed(raw)


@pytest.mark.parametrize(("raw", "words"), NO_BENCODE)
def test_invalid_bencode_that_arrives_byte_by_byte_is_also_refused(raw, words):
    with pytest.raises(BencodeError, match=words):
        feed_byte_by_byte(raw)


def test_values_before_an_error_are_not_lost():
    with pytest.raises(BencodeError) as caught:
        Decoder().feed(b"i1e2:abx")
    assert caught.value.decoded == (1, "ab")


def test_the_nesting_depth_is_limited():
    assert Decoder(max_depth=3).feed(b"llleee") == [[[[]]]]
    with pytest.raises(BencodeError, match="more than 3 levels"):
        Decoder(max_depth=3).feed(b"llll")


def test_a_string_beyond_the_limit_is_refused_before_its_bytes_arrive():
    assert Decoder(max_string_bytes=5).feed(b"5:hello") == ["hello"]
    with pytest.raises(BencodeError, match="6 bytes exceeds the limit of 5 bytes"):
        Decoder(max_string_bytes=5).feed(b"6:")


@pytest.mark.parametrize("text", ["0123456789" * 5, "é" * 25, "文" * 17])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_only_head_and_tail_of_a_long_chunked_string_are_kept(monkeypatch, text, size):
    monkeypatch.setattr(bencode, "MAX_HEAD_BYTES", 20)
    monkeypatch.setattr(bencode, "MAX_TAIL_BYTES", 10)
    found = feed_in_chunks(encode({"value": text, "ns": "user"}), size)
    assert found == [{"value": found[0]["value"], "ns": "user"}]
    value = found[0]["value"]
    assert value.left_out == len(text.encode()) - 30
    head, _, tail = value.partition(left_out_mark(value.left_out))
    assert len(head.encode()) in (18, 19, 20)
    assert len(tail.encode()) in (8, 9, 10)
    assert text.startswith(head)
    assert text.endswith(tail)


def feed_in_chunks(raw, size):
    decoder = Decoder()
    return [value for at in range(0, len(raw), size) for value in decoder.feed(raw[at : at + size])]


def test_nesting_of_a_hundred_thousand_levels_is_refused_without_crashing():
    with pytest.raises(BencodeError, match="nested more than"):
        Decoder().feed(b"l" * 100_000)


def test_a_long_string_received_in_small_chunks_is_decoded_completely():
    text = "0123456789" * 100_000
    raw = encode({"value": text})
    decoder = Decoder()
    got = [value for at in range(0, len(raw), 4096) for value in decoder.feed(raw[at : at + 4096])]
    assert got == [{"value": text}]


def test_the_number_of_missing_bytes_is_computed():
    decoder = Decoder()
    assert decoder.missing_bytes == 0
    decoder.feed(b"d5:value1000:" + b"x" * 10)
    assert decoder.missing_bytes == 990
    decoder.feed(b"x" * 989)
    assert decoder.missing_bytes == 1
    decoder.feed(b"xe")
    assert decoder.missing_bytes == 0


def test_keys_are_encoded_in_byte_order():
    assert encode({"b": 1, "a": [2, "x"], "é": b"\xff"}) == "d1:ali2e1:xe1:bi1e2:é1:".encode() + b"\xffe"


def test_a_non_utf8_key_round_trips():
    raw = b"d1:\xff1:ae"
    assert encode(Decoder().feed(raw)[0]) == raw


@pytest.mark.parametrize("value", [None, True, 1.5, {"a": object()}, {1, 2}])
def test_values_without_a_bencode_form_are_refused(value):
    with pytest.raises(TypeError, match="bencode cannot represent"):
        encode(value)


@given(bencode_values)
def test_every_value_round_trips(value):
    assert Decoder().feed(encode(value)) == [value]


@given(st.lists(bencode_values, max_size=4), st.data())
def test_input_split_anywhere_gives_the_same_values(values, data):
    raw = b"".join(encode(value) for value in values)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    decoder = Decoder()
    got = [
        value
        for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)
        for value in decoder.feed(raw[start:end])
    ]
    assert got == values


@given(st.binary(max_size=200))
def test_random_bytes_are_decoded_or_raise_a_bencode_error(raw):
    try:
        whole = Decoder().feed(raw)
    except BencodeError as error:
        whole = [*error.decoded, "fault"]
    decoder = Decoder()
    pieces = []
    try:
        for byte in raw:
            pieces += decoder.feed(bytes([byte]))
    except BencodeError:
        pieces.append("fault")
    assert pieces == whole
