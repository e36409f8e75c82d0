"""Records are changed by copying their fields, which knows neither slots nor constructors."""

import dataclasses

import pytest

from codriver.core import actions, dispatch, effects, state, values
from codriver.core.values import replace

RECORDS = [
    kind
    for module in (actions, dispatch, effects, state, values)
    for kind in vars(module).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_keeps_its_fields_where_replace_finds_them(kind):
    assert not any("__slots__" in vars(base) for base in kind.__mro__[:-1])
    assert not hasattr(kind, "__post_init__")


def test_replace_gives_a_changed_copy():
    before = state.Session("s1", who="me")
    after = replace(before, who="you")
    assert (before.who, after.who) == ("me", "you")
    assert after == dataclasses.replace(before, who="you")
    assert hash(replace(state.Latch("a", "b", 1), count=2)) == hash(state.Latch("a", "b", 1, 2))


def test_a_copy_is_as_frozen_as_the_record():
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(state.Latch("a", "b", 1), count=2).count = 3  # type: ignore[misc]  # it cannot, and is to say so
