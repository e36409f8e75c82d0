"""Collect the attributes of modules and of their classes, and find those that were replaced.

Types are checked with `type`, because `isinstance` would evaluate lazy objects such as Django's settings.
"""

from __future__ import annotations

import sys

from .effects import MISSING_VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def module_contents(module: Any) -> dict[str, Any]:
    """Return the attributes of a module by name, and those of its classes by `Class.name`."""
    found: dict[str, Any] = {}
    name = getattr(module, "__name__", "")
    for key, value in list(getattr(module, "__dict__", {}).items()):
        found[key] = value
        if issubclass(type(value), type) and value.__module__ == name:
            for attribute, content in list(class_namespace(value).items()):
                if isinstance(content, FUNCTION_TYPES) or not attribute.startswith("_"):
                    found[f"{key}.{attribute}"] = content
    return found


def namespace_of(module: Any) -> dict[str, Any]:
    """Return the attributes of a module by name. Return an empty dict for an object that has no attributes."""
    found = getattr(module, "__dict__", None)
    return found if type(found) is dict else {}


def is_definition(name: str, value: Any) -> bool:
    """Return whether an attribute of a module is a function, a class or a constant."""
    return not name.startswith("__") and (callable(value) or name.isupper())


FUNCTION_TYPES = (type(module_contents), classmethod, staticmethod, property)
"""Types of the functions in a class."""


def attribute_value(module: Any, path: str) -> Any:
    """Return an attribute of a module, or of a class in it as `Class.name`, or `MISSING_VALUE`."""
    class_name, _, name = path.rpartition(".")
    namespace = namespace_of(module)
    if not class_name:
        return namespace.get(name, MISSING_VALUE)
    class_ = namespace.get(class_name)
    is_class = issubclass(type(class_), type)
    return class_namespace(class_).get(name, MISSING_VALUE) if is_class else MISSING_VALUE


def class_namespace(class_: Any) -> dict[str, Any]:
    """Return the attributes of a class, without those that it inherits."""
    found: dict[str, Any] = type.__dict__["__dict__"].__get__(class_)
    return found


SIMPLE_TYPES = (bool, int, float, str, bytes, tuple, frozenset, type(None))
"""Types of the constants in modules and classes."""


def changed_attributes(previous: dict[str, Any], present: dict[str, Any]) -> list[str]:
    """Return the names of attributes that were replaced or added since `previous` was collected.

    Only functions, classes and constants are compared, because the module itself changes its variables, counters and
    caches.
    """
    changed = []
    for key, value in present.items():
        owner, _, name = key.rpartition(".")
        if key in previous:
            if previous[key] is value:
                continue
            is_constant = (name.isupper() or owner) and isinstance(value, SIMPLE_TYPES) and not is_internal(name)
            if is_constant or issubclass(type(value), (*FUNCTION_TYPES, type)):
                changed.append(key)
        elif (owner in previous if owner else type(value) is not type(sys)) and (
            isinstance(value, FUNCTION_TYPES) or not is_internal(name)
        ):
            changed.append(key)
    return changed


def is_internal(name: str) -> bool:
    """Return whether an attribute is private, or the name of a counter or a cache."""
    return name.startswith("_") or "count" in name.lower() or "cache" in name.lower()
