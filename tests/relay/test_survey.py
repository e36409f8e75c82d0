"""What the relay extracts from a line, compared with a full parser."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codriver_relay.messages import MAX_SURVEYED_BYTES, LineBuffer, classify_line

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text('"\\{}[]:,id', max_size=12)
IDS = st.integers() | TEXT
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXT | st.sampled_from(["id", "method", "result", "error"]), inner, max_size=4)
    ),
    max_leaves=12,
)
EXTRA = st.dictionaries(TEXT.filter(lambda name: name not in {"id", "method", "result", "error"}), VALUES, max_size=3)


@st.composite
def lines(draw, members):
    """Generate a message as any peer might write it: members in any order, any spacing, with or without escapes."""
    message = draw(st.permutations(list((draw(EXTRA) | members).items())))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "\r :  ")]))
    return json.dumps(dict(message), separators=separators, ensure_ascii=draw(st.booleans())).encode() + b"\n"


@given(st.data(), IDS, TEXT, VALUES)
def test_a_request_is_recognized_with_its_id(data, id_, method, params):
    message = classify_line(data.draw(lines({"id": id_, "method": method, "params": params})))
    assert message.is_request
    assert not message.is_response
    assert json.loads(message.id) == id_


@given(st.data(), IDS, VALUES, st.sampled_from(["result", "error"]))
def test_a_response_is_recognized_with_its_id(data, id_, value, kind):
    message = classify_line(data.draw(lines({"id": id_, kind: value})))
    assert message.is_response
    assert not message.is_request
    assert json.loads(message.id) == id_


@given(st.data(), TEXT, VALUES)
def test_a_notification_is_neither_request_nor_response(data, method, params):
    message = classify_line(data.draw(lines({"method": method, "params": params})))
    assert not message.is_request
    assert not message.is_response
    assert message.method == method.encode()


@given(IDS, st.booleans(), st.booleans())
def test_an_id_has_the_same_key_in_any_json_spelling(id_, ascii_first, ascii_second):
    first, second = (
        classify_line(json.dumps({"id": id_, "result": 1}, ensure_ascii=only_ascii).encode() + b"\n")
        for only_ascii in (ascii_first, ascii_second)
    )
    assert first.key == second.key


@given(IDS, IDS)
@example(1, "1")
def test_different_ids_have_different_keys(one, other):
    keys = [classify_line(json.dumps({"id": id_, "method": "m"}).encode()).key for id_ in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


@given(st.binary(max_size=60) | st.text('{}[]":,\\id1 ', max_size=30).map(str.encode))
def test_unparsable_bytes_are_classified_as_a_plain_line(garbage):
    assert classify_line(garbage).line == garbage


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"[]", b"3", b'"id"', b"{", b"{}", b'{"id":1', b'{"id":1,"method":', b"null"]
)
def test_a_line_that_is_not_a_message_is_neither_request_nor_response(line):
    message = classify_line(line)
    assert not message.is_request
    assert not message.is_response


@pytest.mark.parametrize("id_", ["null", "true", "[1]", '{"id":1}'])
def test_an_invalid_id_is_treated_as_missing(id_):
    assert classify_line(f'{{"id":{id_},"method":"m"}}'.encode()).id is None


@pytest.mark.parametrize("order", [("id", "result"), ("result", "id")])
@pytest.mark.parametrize(
    "value", ["x" * MAX_SURVEYED_BYTES, '"\\' * MAX_SURVEYED_BYTES, ["id", 2, {"method": "m"}] * 30_000]
)
def test_large_lines_are_recognized_in_any_member_order(order, value):
    message = {name: {"id": 5, "result": value}[name] for name in order}
    found = classify_line(json.dumps(message).encode() + b"\n")
    assert found.is_response
    assert found.key == b"5"


def test_an_id_at_the_scan_limit_is_recognized():
    for padding in range(MAX_SURVEYED_BYTES - 80, MAX_SURVEYED_BYTES):
        line = json.dumps({"p": "x" * padding, "id": "abcdef", "method": "tools/call"}).encode() + b"\n"
        assert classify_line(line).key == b'"abcdef"'
        line = json.dumps({"method": "tools/call", "p": "x" * padding, "id": 123456}).encode() + b"\n"
        assert classify_line(line).key == b"123456"


@given(st.lists(st.binary(max_size=20).map(lambda text: text.replace(b"\n", b""))), st.data())
def test_lines_are_reassembled_however_they_are_split(texts, data):
    stream = b"".join(text + b"\n" for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    framer = LineBuffer()
    found = [
        line
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for line in framer.feed(stream[start:end])
    ]
    assert found == [text + b"\n" for text in texts]
    assert b"".join(framer.rest) == b""
