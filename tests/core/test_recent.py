"""A bounded mapping that keeps the entries set last, in order."""

from hypothesis import given
from hypothesis import strategies as st

from codriver.core.records import Recent


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 7), st.booleans())))
def test_the_newest_entries_are_kept_in_the_order_they_were_set(most, steps):
    kept, expected = Recent(most), []
    for place, (key, is_default) in enumerate(steps):
        if is_default:
            kept.setdefault(key, place)
            expected += [] if key in dict(expected) else [(key, place)]
        else:
            kept[key] = place
            expected = [item for item in expected if item[0] != key] + [(key, place)]
        expected = expected[-most:]
        assert list(kept.items()) == expected
