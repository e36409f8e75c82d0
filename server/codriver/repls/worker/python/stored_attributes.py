"""Read attributes as stored in objects, classes and modules, without running user code.

No user-defined `__getattr__`, `__dir__` or metaclass affects the results.
"""

from __future__ import annotations

import types

from ..basics.definition_access import is_class, space_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MISSING = object()
C_DESCRIPTOR_TYPES = (types.MemberDescriptorType, types.GetSetDescriptorType)
"""Types of attributes computed by Python or a C library, such as the module of a function."""
MODULE_DICT_DESCRIPTOR: Any = vars(types.ModuleType)["__dict__"]
"""The descriptor for the namespace of a module.

Reading the attribute `__dict__` could run code in a user-defined module class.
"""


def is_module(value: object) -> bool:
    """Return whether a value is a module. Unlike `isinstance`, this runs no user code."""
    return issubclass(type(value), types.ModuleType)


def class_and_bases(kind: Any) -> tuple[type, ...]:
    """Return a class and its bases in method resolution order."""
    classes: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return classes


def attribute_dict(value: object) -> dict[str, Any]:
    """Return a copy of an object's instance attributes, or {} if its class overrides `__dict__`."""
    space = instance_dict_of(value)
    return {} if space is None else dict.copy(space)


def instance_dict_of(value: object) -> dict[str, Any] | None:
    """Return an object's instance dictionary, or None if it has none or its class overrides `__dict__`."""
    for kind in class_and_bases(type(value)):
        found = space_of(kind).get("__dict__")
        if found is not None:
            space = found.__get__(value) if type(found) in C_DESCRIPTOR_TYPES else None
            return space if isinstance(space, dict) else None
    return None


def module_dict(module: Any) -> dict[str, Any]:
    """Return the dictionary of a module without triggering the loading of a lazy module."""
    # IPython's class of main modules stores the names elsewhere, as do objects that imitate modules.
    made_in = type.__dict__["__module__"].__get__(type(module))
    is_module = issubclass(type(module), types.ModuleType) and made_in != "IPython.core.interactiveshell"
    space: dict[str, Any] = MODULE_DICT_DESCRIPTOR.__get__(module) if is_module else module.__dict__
    return space


def attribute_names(value: object) -> list[str]:
    """Return the names of all attributes of a value and its classes."""
    if is_module(value):
        found: list[Any] = list(module_dict(value))
    else:
        module = [] if is_class(value) else [attribute_dict(value)]
        kinds = class_and_bases(value if is_class(value) else type(value))
        found = [name for space in (*module, *map(space_of, kinds)) for name in list(space)]
    return [name for name in found if type(name) is str]


def stored_attribute(value: object, name: str) -> Any:
    """Return an attribute as stored in an object or its classes, or MISSING. Methods are not bound."""
    spaces = map(space_of, class_and_bases(value)) if is_class(value) else iter((attribute_dict(value),))
    for space in (*spaces, *map(space_of, class_and_bases(type(value)))):
        if name in space:
            return space[name]
    return MISSING


def string_attribute(value: object, name: str) -> str | None:
    """Return the value of an attribute if it is a string, such as `__doc__`, or None."""
    found = stored_attribute(value, name)
    if type(found) in C_DESCRIPTOR_TYPES:
        try:
            found = found.__get__(value, type(value))
        except Exception:  # it is not supported for this value
            return None
    return found if type(found) is str else None
