"""Enrichment: values that actions and effects name instead of holding, filled in before they are used.

A field of type `Later[int]` holds an int, or a `Later` that says where the int comes from: the *context* of the
dispatch (the time, who asks), the *settings*, the *state*, or, in a continuation, the *result* of the effect before it.
The core fills in an action before its handler sees it, and an effect with the state that its handler left; what cannot
be filled in is an error. Only fields that default to a `Later` are looked at, which is decided once a class: anywhere
else it is data like any other, and nothing that a client sends is ever taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from codriver.core.records import replace
from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from _typeshed import DataclassInstance

T = TypeVar("T")
R = TypeVar("R", bound="DataclassInstance")


def _whole(value: object) -> object:
    return value


@dataclass(frozen=True)
class Later(Generic[T]):
    """A value of type T that is filled in before use: `get` takes it from its source. `name` is for people."""

    source: Literal["context", "settings", "state", "result"]
    name: str
    get: Callable[[Any], Any] = field(default=_whole, compare=False, repr=False)

    if TYPE_CHECKING:
        # To a type checker such a field takes both and gives the value: whoever reads it comes after `fill`.
        def __get__(self, holder: object, owner: type) -> T: ...
        def __set__(self, holder: object, value: T | Later[T]) -> None: ...


class UnresolvedError(CodriverError):
    """A value that was named where nothing of that name is known. A programming error."""

    def __init__(self, later: Later[Any]) -> None:
        super().__init__(f"cannot fill in {later}: nothing of that name is known here")


def from_context(name: str) -> Later[Any]:
    """The context's value `name`."""
    return Later("context", name, itemgetter(name))


def from_settings(name: str) -> Later[Any]:
    """The setting `name`."""
    return Later("settings", name, attrgetter(name))


def from_state(path: str) -> Later[Any]:
    """A part of the state, such as `life.port`."""
    return Later("state", path, attrgetter(path))


def from_result(part: int | None = None) -> Later[Any]:
    """The effect's result, in a continuation, or its part number `part`, counted from 1."""
    return Later("result", "all") if part is None else Later("result", str(part), itemgetter(part - 1))


NOT_YET: Final = object()
"""Stands in the sources for a result that comes later: fields that name it are left as they are."""


def fill(record: R, sources: Mapping[str, object]) -> R:
    """The action or effect with its values filled in from `sources`, by their names; itself when it names none."""
    changes: dict[str, object] = {}
    for name in later_fields(type(record)):
        later = record.__dict__[name]
        if type(later) is Later:
            try:
                source = sources[later.source]
                if source is not NOT_YET:
                    changes[name] = later.get(source)
            except (LookupError, AttributeError, TypeError) as error:
                raise UnresolvedError(later) from error
    return replace(record, **changes) if changes else record


@cache
def later_fields(kind: type[DataclassInstance]) -> tuple[str, ...]:
    """The names of the fields in which a class may name a value."""
    return tuple(one.name for one in fields(kind) if type(one.default) is Later)
