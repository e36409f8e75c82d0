"""Determine the values that an iteration would yield, without iterating."""

from __future__ import annotations

import functools
import gc
import types

from ...basics.definition_access import is_class
from ..stored_attributes import attribute_dict, instance_dict_of
from .abstract_values import MAX_NAMED, Value, roots_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .abstract_values import Roots
    from .effects import Effects

MAX_ITEMS, MAX_KINDS = 200, 4
"""Maximum number of items that are checked in an existing collection, and of their types that are followed."""
MAX_OBJECTS = 4
"""Maximum number of objects of the same type that are followed one by one."""
FOLLOWED_ELEMENT_TYPES = (types.FunctionType, types.MethodType, functools.partial, tuple)
"""Types of collection elements that are followed one by one."""
CALLING_BUILTINS = frozenset({"filter", "map", "max", "min", "sorted"})
"""Built-in functions that call a function or class among their arguments with each element in the others."""


def iterated_values(found: Effects, iterated: Value) -> list[Value]:
    """Return the values that iterating over a value yields, one for each type of existing element."""
    if iterated.alternatives:
        filled = [alternative for alternative in iterated.alternatives if alternative.items != ()]
        return [item for alternative in filled for item in iterated_values(found, alternative)] or [
            Value(iterated.roots)
        ]
    live, kind = iterated.live, type(iterated.live)
    if iterated.items is not None:
        return list(iterated.items)[:MAX_ITEMS] or [Value(iterated.roots)]
    if is_class(live):
        found.read_class(live)
        return [Value(iterated.roots, kind=live)]
    if kind not in (list, tuple, set, frozenset, dict) or not live:
        return [Value(iterated.roots)]
    return element_values(list(live)[:MAX_ITEMS], iterated.roots)


def element_values(items: list[Any], roots: Roots) -> list[Value]:
    """Return a value for each type of existing element, and one for each class and function among them.

    If there are few objects of a type, and their attributes may be called, there is a value for each of them.
    """
    kinds: dict[type, list[Any]] = {}
    named = [item for item in items if is_class(item) or type(item) in FOLLOWED_ELEMENT_TYPES]
    for item in items:
        if not (is_class(item) or type(item) in FOLLOWED_ELEMENT_TYPES):
            kinds.setdefault(type(item), []).append(item)
    values = [Value(roots, item) for item in named[:MAX_NAMED]]
    for kind, found in list(kinds.items())[:MAX_KINDS]:
        if len(found) <= MAX_OBJECTS and any(map(_has_callable_attribute, found)):
            values += [Value(roots | roots_of(item), item) for item in found]
        else:
            values.append(Value(roots, kind=kind))
    return values


def _has_callable_attribute(value: object) -> bool:
    """Return whether an attribute of an object is a class, a function or an object with attributes of its own."""
    return any(
        is_class(attribute) or type(attribute) in FOLLOWED_ELEMENT_TYPES[:-1] or instance_dict_of(attribute) is not None
        for attribute in attribute_dict(value).values()
    )


def plain_dict(value: Any) -> dict[Any, Any] | None:
    """Return a dictionary, or the one that a read-only view shows, and None for any other value."""
    if type(value) is types.MappingProxyType:
        (value,) = gc.get_referents(value)
    return value if type(value) is dict else None


def dict_view_values(live: dict[Any, Any], roots: Roots, name: str) -> tuple[Value, ...]:
    """Return the values that iterating over the keys, values or items of an existing dictionary yields."""
    keys = element_values(list(live)[:MAX_ITEMS], roots)
    if name == "keys":
        return tuple(keys)
    values = element_values(list(live.values())[:MAX_ITEMS], roots)
    if name == "values":
        return tuple(values)
    return tuple(Value(roots, kind=tuple, items=(key, value)) for value in values for key in keys[:1])


def arguments_passed_to(found: Effects, name: str, function: Value, every: list[Value]) -> list[Value]:
    """Return the values that a built-in function passes to a function that it gets as an argument.

    These are elements of the other arguments.
    """
    if name not in CALLING_BUILTINS:
        return [Value()]
    others = [argument for argument in every if argument is not function]
    return [item for argument in others[:1] for item in iterated_values(found, argument)] or [Value()]


def items_returned_by(found: Effects, name: str, every: list[Value]) -> tuple[Value, ...] | None:
    """Return the values that iterating over a built-in function's result yields, or None if unknown."""
    is_sorted = name == "sorted" and bool(every)
    if is_sorted or (name in ("list", "tuple", "set", "frozenset", "reversed", "iter") and len(every) == 1):
        return tuple(iterated_values(found, every[0]))
    if name == "filter" and len(every) == 2:
        return tuple(iterated_values(found, every[1]))
    if name == "enumerate" and every:
        return tuple(Value(kind=tuple, items=(Value(kind=int), item)) for item in iterated_values(found, every[0]))
    if name == "zip" and every:
        columns = [iterated_values(found, argument) for argument in every]
        count = max(map(len, columns))
        return tuple(
            Value(kind=tuple, items=tuple(column[min(number, len(column) - 1)] for column in columns))
            for number in range(count)
        )
    return None
