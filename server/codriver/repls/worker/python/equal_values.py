"""Compare values of the interpreter's own types for equality, without running user code."""

from __future__ import annotations

import collections
import functools
import gc
import inspect
import types

from ..basics.definition_access import ABSENT, is_class, order_of, space_of
from .effects.pure_calls import is_immutable_kind
from .remembered_names import is_plain_value
from .renewal import is_same_code
from .stored_attributes import attribute_dict, instance_dict_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MAX_VALUE_NESTING = 50
"""Maximum number of levels of nested values that are compared. Deeper values count as different."""
COMPARED_SIZE_LIMIT = 20_000
"""Number of elements above which collections count as different, because comparing them would take too long."""
MAX_CLOSURE_DEPTH = 8
"""Maximum nesting of closures that are compared. A function may enclose itself, so there must be a limit."""

CACHE_ATTRIBUTES = {
    "django.urls.resolvers": (
        "_callback_strs",
        "_populated",
        "_local",
        "_reverse_dict",
        "_namespace_dict",
        "_app_dict",
        "regex",
    )
}
"""Attributes in which a library's objects cache what they have computed. Source: Django 5.2."""
DECLARATION_MODULES = ("typing", "pydantic.type_adapter", "msgspec.json", "msgspec.msgpack")
"""Modules whose objects do not change after creation, except that libraries cache results in them."""

EQUAL_BUT_DIFFERENT_MODULES = ("datetime", "decimal")
"""Modules with values that are equal although they differ in their digits or time zones, such as 1.0 and 1.00."""

MAX_SEARCHED_OBJECTS = 2_000
"""Maximum number of objects that are searched for a value that they may contain."""
HEAP_TYPE_FLAG = 1 << 9
"""The flag of classes that are created at run time, unlike those of the interpreter. Source: `Include/object.h`."""
_size_of: Any = type.__dict__["__basicsize__"].__get__
_flags_of: Any = type.__dict__["__flags__"].__get__

CONSTANT_IDS: frozenset[int] = frozenset(map(id, (None, True, False, ABSENT)))


def is_part_of(value: object, owners: Iterable[object]) -> bool:
    """Return whether a value is one of the objects in `owners`, or is stored in one of them or in its parts."""
    seen: set[int] = set()
    level = list(owners)
    while level and len(seen) < MAX_SEARCHED_OBJECTS:
        inner: list[object] = []
        for item in level:
            if item is value:
                return True
            if id(item) in seen or type(item) in (str, bytes, int, float, bool, type(None), types.ModuleType):
                continue
            seen.add(id(item))
            if type(item) is types.FunctionType:
                inner += [*(item.__closure__ or ()), *(item.__defaults__ or ()), *item.__dict__.values()]
            elif is_class(item):
                inner += space_of(item).values() if _flags_of(item) & HEAP_TYPE_FLAG else ()
            else:
                inner += (part for part in gc.get_referents(item) if part is not type(item))
        level = inner
    return False


class _Plain:
    """A plain class. Other classes are compared with it to see whether their instances store more than attributes."""


def is_equal_without_caches(first: Any, other: Any) -> bool:
    """Return whether two values are equal, ignoring data cached in instances and type declarations."""
    if type(first) is type(other) and type(first).__module__ in DECLARATION_MODULES:
        return True
    return is_alike(first, other, has_cached=True)


def is_alike(first: Any, other: Any, depth: int = 0, *, has_cached: bool = False) -> bool:  # noqa: C901, PLR0912  # one branch per case
    """Return whether two values are certainly equal, without running user code.

    With `has_cached`, cached properties are ignored.
    """
    if first is other:
        return True
    kind = type(first)
    if kind is not type(other) or depth > MAX_VALUE_NESTING:
        return False
    if is_plain_value(first):
        return repr(first) == repr(other)
    if kind in (list, tuple):
        return (
            len(first) == len(other)
            and len(first) < COMPARED_SIZE_LIMIT
            and all(is_alike(a, b, depth + 1, has_cached=has_cached) for a, b in zip(first, other))
        )
    if kind is dict:
        return (
            len(first) == len(other)
            and len(first) < COMPARED_SIZE_LIMIT
            and all(
                is_alike(a, b, depth + 1, has_cached=has_cached)
                and is_alike(first[a], other[b], depth + 1, has_cached=has_cached)
                for a, b in zip(first, other)
            )
        )
    if kind is collections.deque:
        return first.maxlen == other.maxlen and is_alike(list(first), list(other), depth + 1, has_cached=has_cached)
    if kind in (set, frozenset):
        if {*map(id, first)} == {*map(id, other)}:
            return True
        return all(map(is_plain_value, first)) and all(map(is_plain_value, other)) and bool(first == other)
    if kind is types.FunctionType:
        return (
            is_same_code(first.__code__, other.__code__)
            and _are_cells_alike(first.__closure__ or (), other.__closure__ or (), depth)
            and is_alike(first.__dict__, other.__dict__, depth + 1, has_cached=has_cached)
            and is_alike(first.__defaults__, other.__defaults__, depth + 1, has_cached=has_cached)
            and is_alike(first.__kwdefaults__, other.__kwdefaults__, depth + 1, has_cached=has_cached)
        )  # fmt: skip
    if kind in (staticmethod, classmethod):
        return is_alike(first.__func__, other.__func__, depth + 1, has_cached=has_cached)
    if kind is functools.partial:
        (function, *given), (other_function, *others) = _flatten_partial(first), _flatten_partial(other)
        return (function is other_function or _is_same_method(function, other_function)) and is_alike(
            given, others, depth + 1, has_cached=has_cached
        )
    if kind is types.MethodType:
        return _is_same_method(first, other)
    if kind is types.GeneratorType:
        return _are_equal_unstarted(first, other, depth)
    if is_class(first) or kind is types.ModuleType:
        return False
    if issubclass(kind, tuple):
        return is_alike(tuple(tuple.__iter__(first)), tuple(tuple.__iter__(other)), depth + 1, has_cached=has_cached)
    if kind.__module__ == "collections" and issubclass(kind, dict):
        return getattr(first, "default_factory", None) is getattr(other, "default_factory", None) and is_alike(
            dict(first), dict(other), depth + 1, has_cached=has_cached
        )
    if is_immutable_kind(kind):
        if kind.__module__ in EQUAL_BUT_DIFFERENT_MODULES and repr(first) != repr(other):
            return False
        try:
            return bool(first == other)
        except Exception:  # the comparison is not defined
            return False
    state, fresh = _instance_state(first, has_cached=has_cached), _instance_state(other, has_cached=has_cached)
    if has_cached and state is None and fresh is None:
        return has_only_attributes(first)
    return bool(state) and is_alike(state, fresh, depth + 1, has_cached=has_cached)


def has_only_attributes(value: object) -> bool:
    """Return whether an instance stores nothing except attributes in its dictionary."""
    return instance_dict_of(value) is not None and not stores_more(order_of(type(value)))


def stores_more(bases: Iterable[Any]) -> bool:
    """Return whether instances of any of these classes store more than attributes, like those of `int` and `list`."""
    return any(
        base is not object and (not _flags_of(base) & HEAP_TYPE_FLAG or _size_of(base) > _size_of(_Plain))
        for base in bases
    )


def find_slots(kind: Any) -> list[tuple[str, Any]]:
    """Return the names and descriptors of the slots of a class and its bases."""
    return [
        (name, slot)
        for base in order_of(kind)
        for name, slot in space_of(base).items()
        if type(slot) is types.MemberDescriptorType and name not in ("__dict__", "__weakref__")
    ]


def _is_same_method(first: Any, other: Any) -> bool:
    """Return whether two values are the same method of the same object."""
    return (
        type(first) is type(other) is types.MethodType
        and first.__func__ is other.__func__
        and first.__self__ is other.__self__
    )


def _flatten_partial(value: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the function and all arguments of a partial object, including those of nested partial objects."""
    given, named = value.args, dict(value.keywords)
    while type(value.func) is functools.partial:
        value = value.func
        given, named = (*value.args, *given), {**value.keywords, **named}
    return value.func, given, named


def _are_equal_unstarted(first: Any, other: Any, depth: int) -> bool:
    """Return whether two generators have not started, have the same code, and have equal arguments."""
    if not all(inspect.getgeneratorstate(each) == inspect.GEN_CREATED for each in (first, other)):
        return False
    return first.gi_code is other.gi_code and is_alike(first.gi_frame.f_locals, other.gi_frame.f_locals, depth + 1)


def _are_cells_alike(ones: Any, others: Any, depth: int) -> bool:
    """Return whether the closure cells of two functions have equal values."""
    try:
        pairs = [(first.cell_contents, other.cell_contents) for first, other in zip(ones, others)]
    except ValueError:  # the cell has no value
        return False
    if len(ones) != len(others) or (ones and depth > MAX_CLOSURE_DEPTH):
        return False
    return all(is_alike(first, other, depth + 1) for first, other in pairs)


def _instance_state(value: Any, *, has_cached: bool) -> dict[str, Any] | None:
    """Return the attributes in an instance's dictionary and slots, or None if it has no attributes."""
    state = attribute_dict(value)
    for kind in order_of(type(value)):
        for name, slot in space_of(kind).items():
            if has_cached and type(slot).__name__ == "cached_property":
                state.pop(name, None)
        for name in CACHE_ATTRIBUTES.get(str(space_of(kind).get("__module__")), ()) if has_cached else ():
            state.pop(name, None)
        for name, slot in space_of(kind).items():
            if type(slot) is types.MemberDescriptorType and name not in ("__dict__", "__weakref__"):
                try:
                    state[name] = slot.__get__(value)
                except AttributeError:  # the slot is empty
                    state[name] = ABSENT
    return state or None
