"""Equality of values by the interpreter's own types, without asking user code."""

from __future__ import annotations

import functools
import types

from ..basics.held_definitions import ABSENT, is_class, order_of, space_of
from .bound_names import is_plain
from .pure_calls import is_immutable_kind
from .renewal import is_same_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_DEEP = 50
MOST_COMPARED = 20_000

PLAIN_IDS: frozenset[int] = frozenset(map(id, (None, True, False, ABSENT)))


def is_alike(one: Any, other: Any, depth: int = 0) -> bool:  # noqa: C901, PLR0912  # a case each
    """True if two values are equal by the interpreter's own types, without asking user code."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other) or depth > MOST_DEEP:
        return False
    if is_plain(one):
        return repr(one) == repr(other)
    if kind in (list, tuple):
        return (
            len(one) == len(other)
            and len(one) < MOST_COMPARED
            and all(is_alike(a, b, depth + 1) for a, b in zip(one, other))
        )
    if kind is dict:
        return (
            len(one) == len(other)
            and len(one) < MOST_COMPARED
            and all(is_alike(a, b, depth + 1) and is_alike(one[a], other[b], depth + 1) for a, b in zip(one, other))
        )
    if kind in (set, frozenset):
        return all(map(is_plain, one)) and all(map(is_plain, other)) and bool(one == other)
    if kind is types.FunctionType:
        return (
            is_same_code(one.__code__, other.__code__)
            and not one.__closure__ and not other.__closure__
            and is_alike(one.__defaults__, other.__defaults__, depth + 1)
            and is_alike(one.__kwdefaults__, other.__kwdefaults__, depth + 1)
        )  # fmt: skip
    if kind in (staticmethod, classmethod):
        return is_alike(one.__func__, other.__func__, depth + 1)
    if kind is functools.partial:
        return one.func is other.func and is_alike((one.args, one.keywords), (other.args, other.keywords), depth + 1)
    if is_class(one) or kind is types.ModuleType:
        return False
    if issubclass(kind, tuple):
        return is_alike(tuple(tuple.__iter__(one)), tuple(tuple.__iter__(other)), depth + 1)
    if is_immutable_kind(kind):
        try:
            return bool(one == other)
        except Exception:  # of a comparison that is not defined
            return False
    state, fresh = _state_of(one), _state_of(other)
    return bool(state) and is_alike(state, fresh, depth + 1)


def _state_of(value: Any) -> dict[str, Any] | None:
    """The attributes of an instance, in its dictionary and its slots; None if there is another place for them."""
    found = getattr(value, "__dict__", None)
    state = dict(found) if type(found) is dict else {}
    for kind in order_of(type(value)):
        for name, slot in space_of(kind).items():
            if type(slot) is types.MemberDescriptorType and name not in ("__dict__", "__weakref__"):
                try:
                    state[name] = slot.__get__(value)
                except AttributeError:  # it has no value
                    state[name] = ABSENT
    return state or None
