"""Remember the names in a module without keeping their values alive, and find those that have changed since."""

from __future__ import annotations

import types
import weakref

from ..basics.definition_access import (
    ABSENT,
    defining_module_name,
    is_class,
    qualified_name,
    qualname_of_class,
    space_of,
    unwrap_descriptor,
)
from .bound_names import is_evaluated
from .registry_entries import remember_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .registry_entries import Entries

PLAIN_TYPES = (int, float, complex, bool, str, bytes, type(None))


class RememberedValue:
    """A remembered value that is not kept alive.

    A plain value is stored itself. For any other value, a weak reference or the id is stored.
    """

    __slots__ = ("_is_weak", "_reference")

    def __init__(self, value: object) -> None:
        self._is_weak = False
        self._reference: Any = value
        if not is_plain_value(value):
            try:
                self._reference, self._is_weak = weakref.ref(value), True
            except TypeError:
                self._reference = _Identity(value)

    def is_same_as(self, value: object) -> bool:
        """Return whether `value` is the remembered object or an equal plain value."""
        reference = self._reference
        if self._is_weak:
            return reference() is value
        if type(reference) is _Identity:
            return bool(reference.number == id(value))
        return reference is value or (
            type(reference) is type(value) and is_plain_value(value) and repr(reference) == repr(value)
        )

    def live_object(self) -> object:
        """Return the remembered object, or None if it was a plain value or no longer exists."""
        return self._reference() if self._is_weak else None

    @property
    def was_none(self) -> bool:
        """Return whether the value was None, which is often a placeholder for a value set later."""
        return self._reference is None


class _Identity:
    """The id of an object that does not support weak references."""

    __slots__ = ("number",)

    def __init__(self, value: object) -> None:
        self.number = id(value)


class Names:
    """A snapshot of the names in a module and in its classes. Names in classes are dotted.

    `entries` are the entries that imports have added to the module's collections.
    """

    def __init__(self, space: dict[str, Any]) -> None:
        self._raw: dict[str, Any] | None = dict(space)
        self.entries = remember_entries(space)
        # `_belongs_to` is called last, because few of the thousands of names are classes in this module.
        self._classes = [
            (name, dict(space_of(value)))
            for name, value in self._raw.items()
            if issubclass(type(value), type)
            and qualname_of_class(value) == name
            and not _is_dunder(name)
            and _belongs_to(space, name, value)
        ]
        for owner, inner in self._classes:  # this list grows by nested classes
            self._classes += [
                (f"{owner}.{name}", dict(space_of(value)))
                for name, value in inner.items()
                if issubclass(type(value), type)
                and qualname_of_class(value) == f"{owner}.{name}"
                and not _is_dunder(name)
                and _belongs_to(space, f"{owner}.{name}", value)
            ]
        self._remembered: dict[str, RememberedValue] = {}

    def release(self) -> dict[str, RememberedValue]:
        """Return the remembered values, and drop the strong references to the original objects."""
        if self._raw is not None:
            raw, self._raw = self._raw, None
            # An evaluated value was not created by a load, even if the evaluation ran within one.
            self._remembered = {
                name: RememberedValue(value)
                for name, value in raw.items()
                if not _is_dunder(name) and not is_evaluated(value)
            }
            for owner, space in self._classes:
                for name, value in space.items():
                    if (not _is_dunder(name) or _is_method(value)) and not is_evaluated(value):
                        self._remembered[owner + "." + name] = RememberedValue(value)
            self._classes = []
        return self._remembered

    def forget_entries(self, before: Entries, known: Entries) -> None:
        """Forget the entries that were added at run time: those in `before` that are not in `known`."""
        for name, keys in before.items():
            if name in known and name in self.entries:
                self.entries[name] -= keys - known[name]

    def remember(self, name: str, value: object = ABSENT) -> None:
        """Record that a load bound a dotted name to `value`, or removed the name if there is no value."""
        remembered = self.release()
        if _is_dunder(name):
            return
        if value is ABSENT:
            remembered.pop(name, None)
        else:
            remembered[name] = RememberedValue(value)
        for inner in [item for item in remembered if item.startswith(name + ".")]:
            del remembered[inner]
        if is_class(value):
            for attribute, remaining in list(space_of(value).items()):
                if not _is_dunder(attribute) or _is_method(remaining):
                    remembered[name + "." + attribute] = RememberedValue(remaining)

    def restore(self, name: str, remembered: RememberedValue | None) -> None:
        """Restore the value remembered earlier for a name, or forget the name if `remembered` is None."""
        if remembered is None:
            self.release().pop(name, None)
        else:
            self.release()[name] = remembered


def changed_names(space: dict[str, Any], left: Names) -> dict[str, tuple[object, RememberedValue | None]]:
    """Return the names that have changed since a load, each with its current and its remembered value.

    The current value is ABSENT if the name was removed, and the remembered value is None if the name is new.
    """
    remembered, found = left.release(), {}
    live = {name: value for name, value in list(space.items()) if not _is_dunder(name)}
    waiting = list(live.items())
    for name, value in waiting:  # this list grows by nested classes
        known = remembered.get(name)
        if "." not in name and (known is None or not known.is_same_as(value)):
            found[name] = value, known
        if _belongs_to(space, name, value) and known is not None and known.is_same_as(value):
            for attribute, remaining in list(space_of(value).items()):
                if not _is_dunder(attribute) or _is_method(remaining):
                    live[name + "." + attribute] = remaining
                    before = remembered.get(name + "." + attribute)
                    if before is None or not before.is_same_as(remaining):
                        found[name + "." + attribute] = remaining, before
                    waiting.append((name + "." + attribute, remaining))
    for name, known in remembered.items():
        if name not in live and name.rpartition(".")[0] not in found:
            found[name] = ABSENT, known
    return found


def is_plain_value(value: object) -> bool:
    """Return whether a value is a number, string, bytes, boolean, None, or a tuple of such values."""
    return type(value) in PLAIN_TYPES or (type(value) is tuple and all(map(is_plain_value, value)))


def is_package_of(package: object, module: object) -> bool:
    """Return whether a package contains a module."""
    return type(package) is str and type(module) is str and module.startswith(package + ".")


def has_methods_of_module(space: dict[str, Any], name: str, kind: Any) -> bool:
    """Return whether the methods of a class were created in the module whose dictionary is `space`.

    `name` is the dotted name of the class in that module.
    """
    for item in list(space_of(kind).values()):
        method = unwrap_descriptor(item)
        if type(method) is types.FunctionType and method.__qualname__ == f"{name}.{method.__name__}":
            return method.__globals__ is space
    return False


def _belongs_to(space: dict[str, Any], name: str, value: object) -> bool:
    """Return whether a value is a class defined under this name in the module whose dictionary is `space`."""
    return (
        is_class(value)
        and qualified_name(value) == name
        and (
            defining_module_name(value) == space.get("__name__")
            # The name of its package was assigned to the class.
            or (
                is_package_of(defining_module_name(value), space.get("__name__"))
                and has_methods_of_module(space, name, value)
            )
        )
    )


def _is_dunder(name: object) -> bool:
    return not isinstance(name, str) or name[:2] == name[-2:] == "__"


def _is_method(value: object) -> bool:
    return type(value) in (types.FunctionType, staticmethod, classmethod, property)
