"""Records: created and changed through their dictionaries, and otherwise like dataclasses of the standard library."""

import dataclasses
import inspect

import pytest

from codriver.core import actions, dispatch, requests, state
from codriver.core.effects import Effect
from codriver.core.records import dataclass, replace

RECORDS = [
    kind
    for module in (actions, dispatch, dispatch, state, requests)
    for kind in vars(module).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_stores_its_fields_where_replace_expects_them(kind):
    assert not any("__slots__" in vars(base) for base in kind.__mro__[:-1])
    assert not hasattr(kind, "__post_init__")


def test_replace_returns_a_changed_copy():
    before = state.Session("s1", who="me")
    after = replace(before, who="you")
    assert (before.who, after.who) == ("me", "you")
    assert after == dataclasses.replace(before, who="you")
    assert hash(replace(state.LatchedError("a", "b", 1), count=2)) == hash(state.LatchedError("a", "b", 1, 2))


def test_a_copy_is_as_frozen_as_the_record():
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(state.LatchedError("a", "b", 1), count=2).count = 3  # type: ignore[misc]  # it cannot, and is to say so


def of_the_library(kind):
    """Return the same class as created by the library."""
    options = {"frozen": True, "kw_only": kind is Effect}
    bases = tuple(of_the_library(base) if base in RECORDS else base for base in kind.__bases__)
    scope = {name: value for name, value in vars(kind).items() if name in ("__annotations__", "__qualname__")}
    own = [field for field in dataclasses.fields(kind) if field.name in scope.get("__annotations__", ())]
    given = {item.name: item.default for item in own if item.default is not dataclasses.MISSING}
    for item in own:
        if item.default_factory is not dataclasses.MISSING:
            given[item.name] = dataclasses.field(default_factory=item.default_factory)
    return dataclasses.dataclass(type(kind.__name__, bases, {**scope, **given}), **options)


def some_of(kind):
    """Return a value for each field, in the order of the constructor."""
    return {name: f"{name}!" for name in inspect.signature(kind).parameters}


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_is_created_like_a_dataclass(kind):
    library = of_the_library(kind)
    assert str(inspect.signature(kind)) == str(inspect.signature(library))
    given = some_of(kind)
    made = kind(**given)
    assert vars(made) == vars(library(**given)) == given
    needed = {
        name: "here"
        for name, item in inspect.signature(kind).parameters.items()
        if item.default is inspect.Parameter.empty
    }
    assert vars(kind(**needed)) == vars(library(**needed))
    for name in needed:
        with pytest.raises(TypeError, match=name):
            kind(**{other: value for other, value in needed.items() if other != name})
    with pytest.raises(TypeError, match="nobody_knows"):
        kind(**needed, nobody_knows=1)


def test_field_values_can_be_given_by_position_or_by_name():
    @dataclass(frozen=True, kw_only=True)
    class Base:
        then: tuple[int, ...] = ()

    @dataclass(frozen=True)
    class Named(Base):
        first: int
        second: int = 2

    assert (Named(1), Named(1, 3, then=(4,))) == (Named(first=1), Named(1, second=3, then=(4,)))
    with pytest.raises(TypeError, match="positional"):
        Named(1, 2, (4,))  # type: ignore[call-arg]  # it cannot, and is to say so


def test_default_factories_create_a_new_value_for_each_record():
    @dataclass(frozen=True)
    class Holder:
        held: list[int] = dataclasses.field(default_factory=list)

    assert Holder().held is not Holder().held
