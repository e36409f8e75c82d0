"""Find the objects that a module refers to."""

from __future__ import annotations

from .registries import FUNCTION_TYPE, closure_cell_contents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any


def referenced_values(module: ModuleType) -> Iterator[Any]:
    """Yield the objects in a module's namespace, and those in its containers, functions, closures and classes.

    Objects may be yielded more than once.
    """
    seen: set[int] = set()
    waiting: list[Any] = list(vars(module).values())
    while waiting:
        value = waiting.pop()
        yield value
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        if kind is dict:
            waiting += [*value, *value.values()]
        elif kind in (list, tuple, set, frozenset):
            waiting += value
        elif kind is FUNCTION_TYPE and value.__module__ == module.__name__:
            waiting += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
            waiting += [content for cell in value.__closure__ or () for content in closure_cell_contents(cell)]
        elif kind in (staticmethod, classmethod):
            waiting.append(value.__func__)
        elif kind is property:
            waiting += [value.fget, value.fset, value.fdel]
        elif issubclass(kind, type) and getattr(value, "__module__", None) == module.__name__:
            waiting += [*value.__mro__[1:], *vars(value).values()]


def find_references(module: ModuleType, values: list[Any]) -> set[int]:
    """Return the ids of those functions or classes to which a module refers, itself or by an instance of the class."""
    value_ids = {id(value) for value in values}
    kinds = {id(value) for value in values if issubclass(type(value), type)}
    found: set[int] = set()
    for value in referenced_values(module):
        if id(value) in value_ids:
            found.add(id(value))
        if id(type(value)) in kinds:
            found.add(id(type(value)))
    return found


def refers_to_any(module: ModuleType, values: list[Any]) -> bool:
    """Return whether a module refers to one of these functions or classes, or to an instance of one."""
    return bool(find_references(module, values))
