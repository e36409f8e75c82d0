"""Find attributes, slots and default values in classes and objects without running code."""

from __future__ import annotations

import types

from ...basics.definition_access import defining_module_name, is_class, order_of, qualified_name, space_of
from .pure_calls import SIGNATURE_READING_LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNKNOWN_OBJECT = object()
"""Represents an unknown object."""


def unbound_attribute(kind: Any, name: str) -> Any:
    """Return an attribute of a class or its bases without binding it, or UNKNOWN_OBJECT."""
    if not is_class(kind):
        return UNKNOWN_OBJECT
    for base in order_of(kind):
        found = space_of(base).get(name, UNKNOWN_OBJECT)
        if found is not UNKNOWN_OBJECT:
            return found
    return UNKNOWN_OBJECT


def slot_value(value: Any, name: str) -> Any:
    """Return an attribute that is stored in a slot of an object, or None."""
    slot = unbound_attribute(type(value), name)
    if type(slot) is not types.MemberDescriptorType:
        return None
    try:
        return slot.__get__(value)
    except AttributeError:  # the slot is empty
        return None


def function_in(value: Any) -> Any:
    """Return the function in a static method or class method. Return other values unchanged."""
    return value.__func__ if type(value) in (staticmethod, classmethod) else value


def defaults_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the default values of a function's parameters, by name."""
    code, given = function.__code__, function.__defaults__ or ()
    plain = code.co_varnames[: code.co_argcount]
    return {**dict(zip(plain[len(plain) - len(given) :], given)), **(function.__kwdefaults__ or {})}


def library_of(value: object) -> str:
    """Return the top-level package of a function, of a class, or of an object's class."""
    kind: Any = value if is_class(value) else type(value)
    if type(value) is types.FunctionType:
        return str(value.__globals__.get("__name__")).partition(".")[0]
    return next(
        (
            top
            for base in order_of(kind)
            if (top := str(defining_module_name(base)).partition(".")[0]) in SIGNATURE_READING_LIBRARIES
        ),
        "",
    )


def is_generic_class(value: Any) -> bool:
    """Return whether subscripting a class works as in `typing.Generic`, which returns an alias of the class."""
    if not is_class(value) or unbound_attribute(type(value), "__getitem__") is not UNKNOWN_OBJECT:
        return False
    definer = next((base for base in order_of(value) if "__class_getitem__" in space_of(base)), None)
    return definer is not None and (defining_module_name(definer), qualified_name(definer)) == ("typing", "Generic")
