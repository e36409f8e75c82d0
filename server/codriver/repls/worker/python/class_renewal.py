"""Decide which classes can be changed in place or created again, and update their sets of abstract methods."""

from __future__ import annotations

import abc
import sys
from typing import Generic

from ..basics.definition_access import is_class, order_of, space_of
from .stored_attributes import module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Note = Callable[[str, Callable[[], object], Callable[[], object]], None]

REGISTERING_LIBRARIES = ("sqlalchemy", "sqlmodel", "peewee", "mongoengine", "pony", "tortoise", "flask_sqlalchemy")
"""Libraries that register each class when it is created, and refuse a second one with the same name."""


PLAIN_METACLASSES = frozenset({
    ("builtins", "type"), ("abc", "ABCMeta"), ("django.forms.widgets", "MediaDefiningClass"),
})  # fmt: skip
"""Metaclasses that do not read the attributes of a class.

Source: `MediaDefiningClass` of Django 5.2 only adds `media`.
"""


def is_plain_class(kind: Any) -> bool:
    """Return whether a class was created by `type` or `ABCMeta` alone, without code that reads its attributes."""
    return has_plain_metaclass(kind) and not classes_with_hooks(kind)


def has_plain_metaclass(kind: Any) -> bool:
    """Return whether a class was created by `type` or `ABCMeta` alone, without a decorator that makes fields."""
    if (type(kind).__module__, type(kind).__qualname__) not in PLAIN_METACLASSES:
        return False
    space = space_of(kind)
    return not ("__dataclass_fields__" in space or "__attrs_attrs__" in space or "_fields" in space)


def classes_with_hooks(kind: Any) -> list[Any]:
    """Return the bases of a class whose `__init_subclass__` was called when the class was created.

    The hook of `typing.Generic` is left out, because it only reads the bases.
    """
    return [base for base in kind.__mro__[1:-1] if "__init_subclass__" in space_of(base) and base is not Generic]


def can_be_created_again(kind: Any) -> bool:
    """Return whether a class can be created again. Some libraries refuse a second class with the same name."""
    homes = {str(type.__dict__["__module__"].__get__(base)).partition(".")[0] for base in (*order_of(kind), type(kind))}
    return homes.isdisjoint(REGISTERING_LIBRARIES)


def update_abstract_methods(kinds: Iterable[Any], note: Note) -> None:
    """Update the sets of abstract methods of classes and their subclasses, like `abc.update_abstractmethods`.

    `note` records how to undo each change.
    """
    seen: set[int] = set()
    for kind in kinds:
        for subclass in _with_subclasses(kind):
            if id(subclass) in seen or "__abstractmethods__" not in space_of(subclass):
                continue
            seen.add(id(subclass))
            before, now = space_of(subclass)["__abstractmethods__"], frozenset(_abstract_names(subclass))
            if before != now:
                subclass.__abstractmethods__ = now
                note("", lambda: True, _setter(subclass, before))


def clear_subclass_caches(modules: Iterable[str]) -> None:
    """Clear the caches of abstract base classes in these modules and in the standard library.

    They cache the results of `__subclasshook__` and of protocol checks. Both depend on the methods of a class.
    """
    clear: Any = getattr(abc.ABCMeta, "_abc_caches_clear", None)
    for name in ("collections.abc", "typing", *modules) if clear is not None else ():
        module = sys.modules.get(name)
        for value in list(module_dict(module).values()) if module is not None else ():
            if is_class(value) and issubclass(type(value), abc.ABCMeta):
                clear(value)
                _update_members(value)


def _update_members(kind: Any) -> None:
    """Update the member names that a protocol and its subclasses store in Python 3.12 and later."""
    names_of: Any = getattr(sys.modules.get("typing"), "_get_protocol_attrs", None)
    for subclass in _with_subclasses(kind) if names_of is not None and "__protocol_attrs__" in space_of(kind) else ():
        if space_of(subclass).get("_is_protocol"):
            subclass.__protocol_attrs__ = names_of(subclass)


def _setter(kind: Any, names: Any) -> Callable[[], object]:
    """Return a function that sets the names of a class's abstract methods."""
    return lambda: setattr(kind, "__abstractmethods__", names)


def _with_subclasses(kind: Any) -> Iterator[Any]:
    yield kind
    for subclass in type.__subclasses__(kind):
        yield from _with_subclasses(subclass)


def _abstract_names(kind: Any) -> Iterator[str]:
    """Yield the names of the abstract methods of a class."""
    for base in kind.__bases__:
        for name in space_of(base).get("__abstractmethods__", ()) if is_class(base) else ():
            value = next((space_of(base)[name] for base in order_of(kind) if name in space_of(base)), None)
            if getattr(value, "__isabstractmethod__", False):
                yield name
    for name, value in list(space_of(kind).items()):
        if getattr(value, "__isabstractmethod__", False):
            yield name
