from hypothesis import given
from hypothesis import strategies as st

from codriver.core.mappings import MOST_ON_TOP, LayeredMap

KEYS = st.integers(0, 2 * MOST_ON_TOP)


@given(st.dictionaries(KEYS, st.integers()), st.lists(st.tuples(KEYS, st.integers()), max_size=4 * MOST_ON_TOP))
def test_it_is_a_dictionary_in_all_that_can_be_asked(first, changes):
    mapping, expected = LayeredMap(first), dict(first)
    for key, value in changes:
        before = dict(mapping)
        mapping, old = mapping.with_item(key, value), mapping
        assert dict(old) == before
        expected[key] = value
    assert (mapping, len(mapping), repr(mapping)) == (expected, len(expected), repr(expected))
    assert list(mapping) == list(expected)
    assert list(reversed(mapping)) == list(reversed(expected))
    assert list(mapping.items()) == list(expected.items())
    assert list(mapping.values()) == list(expected.values())
    assert list(mapping.newest_first()) == list(reversed(expected.values()))
    for key in range(2 * MOST_ON_TOP + 1):
        assert (key in mapping, mapping.get(key), mapping.get(key, "none")) == (
            key in expected, expected.get(key), expected.get(key, "none"),
        )  # fmt: skip


def test_a_change_copies_little():
    first = changed = LayeredMap(dict.fromkeys(range(1000)))
    for key in range(MOST_ON_TOP):
        changed = changed.with_item(key, None)
        assert changed._below is first._below
    assert changed.with_item("one more", None)._below is not first._below
