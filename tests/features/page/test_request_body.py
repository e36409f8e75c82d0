"""Request bodies of the page: an object with members of the expected types, or a bad body."""

import json

import pytest

from codriver.features.page.request_body import BadBodyError, parse_body


def test_each_member_of_a_body_is_read_with_its_expected_type():
    body = parse_body(b'{"a": "x", "n": 3, "l": [1]}')
    assert (body.text("a"), body.number("n"), body.items("l")) == ("x", 3, [1])
    assert (body.text("b"), body.number("b"), body.items("b")) == ("", 0, [])
    assert parse_body(b"").members == {}


@pytest.mark.parametrize(
    "data",
    [
        b"{", b"[]", b"null", b"1", b'"x"', b"\xff", b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}',
        b'{"a": "\\ud800"}', b'{"\\udfff": 1}', b"[" * 60_000, b'{"a":' * 9_000, b'{"a": ' + b"9" * 5_000 + b"}",
    ],
    ids=lambda data: repr(data[:16]),
)  # fmt: skip
def test_anything_but_an_object_is_a_bad_body(data):
    with pytest.raises(BadBodyError):
        parse_body(data)


@pytest.mark.parametrize("value", [None, True, 1.5, -1, 2**53, "1", [1], {}])
def test_a_member_of_an_unexpected_type_is_a_bad_body(value):
    body = parse_body(json.dumps({"a": value}).encode())
    with pytest.raises(BadBodyError):
        body.number("a")
    if not isinstance(value, str):
        with pytest.raises(BadBodyError):
            body.text("a")
    if not isinstance(value, list):
        with pytest.raises(BadBodyError):
            body.items("a")
