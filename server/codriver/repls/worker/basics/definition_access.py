"""Access definitions and their attributes without running user code."""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

INSTALLED_DIRECTORIES = ("site-packages", "dist-packages")
"""Directories of installed packages, which do not belong to the project."""
MAX_UNWRAPPED_DECORATORS = 20
"""Maximum number of nested decorators that are unwrapped."""
ABSENT = object()
"""Represents the value of a missing key or attribute."""


def is_class(value: object) -> bool:
    """Return whether a value is a class. Unlike `isinstance`, this never runs user code."""
    return issubclass(type(value), type)


space_of: Callable[[object], Any] = type.__dict__["__dict__"].__get__
"""Returns the namespace of a class without calling its metaclass."""
qualname_of_class: Callable[[object], Any] = type.__dict__["__qualname__"].__get__
_qualname_of_function: Callable[[object], Any] = vars(types.FunctionType)["__qualname__"].__get__
HEAP, IMMUTABLE = 1 << 9, 1 << 8
"""Flags of classes created at run time, and of immutable classes, such as those written in C.

Source: CPython, `object.h`, `Py_TPFLAGS_…`.
"""
flags_of, bases_of, base_of, order_of = (
    type.__dict__[name].__get__ for name in ("__flags__", "__bases__", "__base__", "__mro__")
)
"""Return attributes of a class without calling its metaclass."""


def qualified_name(value: object) -> Any:
    """Return the `__qualname__` of a class or function, without running user code."""
    return qualname_of_class(value) if is_class(value) else _qualname_of_function(value)


def defining_module_name(value: object) -> Any:
    """Return the name of the module that defines a class or function."""
    return space_of(value).get("__module__") if is_class(value) else value.__module__


def unwrap_descriptor(value: Any) -> object:
    """Return the function in a static method, class method or property. Return other values unchanged."""
    if type(value) in (staticmethod, classmethod):
        return value.__func__
    if type(value) is property:
        return value.fget
    return value


def unwrap_functions(value: object) -> Iterator[types.FunctionType]:
    """Yield a decorated function and the functions that it wraps, without running user code."""
    for _ in range(MAX_UNWRAPPED_DECORATORS):
        if type(value) is types.FunctionType:
            yield value
        if is_class(value):
            return
        try:
            value = object.__getattribute__(value, "__dict__").get("__wrapped__")
        except Exception:  # a proxy has no attributes outside of a request
            return
        if value is None:
            return


def all_classes() -> Iterator[type]:
    """Yield every existing class."""
    seen: set[int] = set()
    waiting: list[type] = [object]
    while waiting:
        class_ = waiting.pop()
        found: list[type] = type.__subclasses__(class_)
        for kind in found:
            if id(kind) not in seen:
                seen.add(id(kind))
                waiting.append(kind)
                yield kind
