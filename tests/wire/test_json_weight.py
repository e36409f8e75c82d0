"""The size and depth of JSON, determined exactly before it is parsed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.wire import untrusted
from codriver.wire.untrusted import find_exceeded_limit, may_exceed_limits

VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def size(value):
    """Return the number of containers, and of commas between their elements."""
    if not isinstance(value, list | dict):
        return 0
    inner = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(0, len(inner) - 1) + sum(map(size, inner))


def depth(value):
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, inner), default=0) if isinstance(value, list | dict) else 0


@given(VALUES, st.booleans(), st.integers(2, 9))
def test_elements_and_depth_match_the_parsed_value(value, ascii_only, piece):
    line = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    before, untrusted.CHUNK_BYTES = untrusted.CHUNK_BYTES, piece
    try:
        assert find_exceeded_limit(line, max_elements=size(value) + 1, max_depth=depth(value)) is None
        if size(value):
            assert "elements" in find_exceeded_limit(line, max_elements=size(value) - 1, max_depth=99).error
            assert "deep" in find_exceeded_limit(line, max_elements=size(value) + 1, max_depth=depth(value) - 1).error
    finally:
        untrusted.CHUNK_BYTES = before


@given(st.binary(max_size=60) | st.text('[]{},"\\ax', max_size=60).map(str.encode))
def test_any_bytes_can_be_scanned(line):
    find_exceeded_limit(line, max_elements=5, max_depth=5)


@pytest.mark.parametrize("identity", ["7", '"a-b"', "-3"])
def test_the_id_of_an_oversized_message_is_found_if_it_comes_early(identity):
    line = f'{{"jsonrpc":"2.0","id" : {identity},"method":"x","params":{{"id":9,"x":[{"[]," * 20}]}}}}'
    assert find_exceeded_limit(line.encode(), max_elements=20).identity == identity.encode()


def test_a_string_full_of_commas_is_one_element():
    line = json.dumps({"code": '[1, "a", {}, ' * 50_000}).encode()
    assert may_exceed_limits(line)
    assert find_exceeded_limit(line) is None
