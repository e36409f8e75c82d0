"""Classes and functions as they lie there: their own names, homes and wrappers, without a question to user code."""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

INSTALLED = ("site-packages", "dist-packages")
"""Folders of what is installed, and of no project."""
MOST_WRAPPERS = 20


def is_class(value: object) -> bool:
    """Whether a value is a class. `isinstance` would ask it, and run what it answers with."""
    return issubclass(type(value), type)


space_of: Callable[[object], Any] = type.__dict__["__dict__"].__get__
"""The names of a class, which its metaclass is not asked for."""
qualname_of_class: Callable[[object], Any] = type.__dict__["__qualname__"].__get__
_qualname_of_function: Callable[[object], Any] = vars(types.FunctionType)["__qualname__"].__get__


def qualname_of(value: object) -> Any:
    """The name of a class or function with those it is in."""
    return qualname_of_class(value) if is_class(value) else _qualname_of_function(value)


def home_of(value: object) -> Any:
    """The name of the module that a class or a function is from."""
    return space_of(value).get("__module__") if is_class(value) else value.__module__


def function_in(held: Any) -> object:
    """The function within a static method, class method or property; any other value is given back."""
    if type(held) in (staticmethod, classmethod):
        return held.__func__
    if type(held) is property:
        return held.fget
    return held


def unwrapped(value: object) -> Iterator[types.FunctionType]:
    """The functions that a decorated one consists of, outermost first; nothing is asked of the user's classes."""
    for _ in range(MOST_WRAPPERS):
        if type(value) is types.FunctionType:
            yield value
        if is_class(value):
            return
        try:
            value = object.__getattribute__(value, "__dict__").get("__wrapped__")
        except AttributeError:
            return
        if value is None:
            return


def all_classes() -> Iterator[type]:
    """Every class that lives."""
    seen: set[int] = set()
    waiting: list[type] = [object]
    while waiting:
        one = waiting.pop()
        found: list[type] = type.__subclasses__(one)
        for kind in found:
            if id(kind) not in seen:
                seen.add(id(kind))
                waiting.append(kind)
                yield kind
