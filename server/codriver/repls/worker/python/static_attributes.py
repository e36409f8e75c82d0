"""Attributes of values as they lie there: none is made up by a `__getattr__`, `__dir__` or metaclass of the user's."""

from __future__ import annotations

import types

from ..basics.class_spaces import is_class, space_of
from .shared_names import space_of_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MISSING = object()
OF_C = (types.MemberDescriptorType, types.GetSetDescriptorType)
"""Attributes that Python or a library in C computes, such as the module of a function."""


def is_module(value: object) -> bool:
    """True for a module. `isinstance` would ask it, and run what it answers with."""
    return issubclass(type(value), types.ModuleType)


def classes_of(kind: Any) -> tuple[type, ...]:
    """A class and those it inherits from, in the order in which names are looked for."""
    classes: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return classes


def own_space(value: object) -> dict[str, Any]:
    """The attributes that an object itself has; none where its class makes up a `__dict__`."""
    for kind in classes_of(type(value)):
        found = space_of(kind).get("__dict__")
        if found is not None:
            space = found.__get__(value) if type(found) in OF_C else None
            return dict.copy(space) if isinstance(space, dict) else {}
    return {}


def names_in(value: object) -> list[str]:
    """The names of attributes of a value and of its classes."""
    if is_module(value):
        found: list[Any] = list(space_of_module(value))
    else:
        own = [] if is_class(value) else [own_space(value)]
        kinds = classes_of(value if is_class(value) else type(value))
        found = [name for space in (*own, *map(space_of, kinds)) for name in list(space)]
    return [name for name in found if type(name) is str]


def attribute(value: object, name: str) -> Any:
    """An attribute as its object, or one of the classes, holds it; MISSING where none does. A method is a function."""
    spaces = map(space_of, classes_of(value)) if is_class(value) else iter((own_space(value),))
    for space in (*spaces, *map(space_of, classes_of(type(value)))):
        if name in space:
            return space[name]
    return MISSING


def text_of(value: object, name: str) -> str | None:
    """An attribute that is a text, such as `__doc__`; None for any other value."""
    found = attribute(value, name)
    if type(found) in OF_C:
        try:
            found = found.__get__(value, type(value))
        except Exception:  # it is of another class, or a library's own
            return None
    return found if type(found) is str else None
