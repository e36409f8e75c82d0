"""Enrichment: values that actions and effects name instead of holding, filled in before they are used.

A field of type `Later[int]` holds an int, or a `Later` that says where the int comes from: the *context* of the
dispatch (the time, who asks), the *settings*, the *state*, or, in a continuation, the *result* of the effect before it.
The core fills in an action before its handler sees it, and an effect with the state that its handler left; what cannot
be filled in is an error. Only fields that default to a `Later` are looked at, which is decided once a class: anywhere
else it is data like any other, and nothing that a client sends is ever taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


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
