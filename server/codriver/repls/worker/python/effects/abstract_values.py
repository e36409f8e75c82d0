"""Abstract values: what is known about the value of an expression that is analyzed but not evaluated."""

from __future__ import annotations

import types

from ...basics.definition_access import is_class
from .static_attributes import UNKNOWN_OBJECT, unbound_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable
    from typing import Any, FrozenSet

    from .effects import Read

    Roots = FrozenSet[int]

NO_ROOTS: Roots = frozenset()
"""The roots of values that are not part of an existing object."""
UNKNOWN_ROOTS: Roots = frozenset((0,))
"""The roots of values that may be part of an unknown object."""
MAX_NAMED = 12
"""Maximum number of alternatives that are tracked for a value."""
FUNCTION_TYPES = (types.FunctionType, types.MethodType)
"""Types of functions, which are followed one by one."""


class Value:
    """The value of an expression that is not evaluated, with everything that is known about it.

    - `live` is the existing object itself, if it is known.
    - `kind` is the class of the value, and `inner` is the syntax node of the function, if they are known.
    - `roots` are the ids of the existing objects that the value may be part of.
    - `items` are the values that an iteration over the value yields.
    - `options` are existing objects, one of which is the value.
    - `alternatives` are the possible values, if they have several types.
    - `attributes` are the attributes that the constructor of a new object has set, by name.
    - `after` is the class after which `super()` starts to look up attributes.
    """

    __slots__ = (
        "after", "alternatives", "attributes", "bound", "inner", "is_recursive", "items", "kind", "live", "options",
        "read", "roots",
    )  # fmt: skip

    def __init__(
        self,
        roots: Roots = NO_ROOTS,
        live: Any = UNKNOWN_OBJECT,
        kind: Any = None,
        inner: Any = None,
        bound: Any = None,
        items: Any = None,
    ) -> None:
        self.roots, self.live, self.inner, self.bound, self.items = roots, live, inner, bound, items
        self.kind = type(live) if live is not UNKNOWN_OBJECT and kind is None else kind
        self.read: Read | None = None
        self.options: tuple[Any, ...] = ()
        self.after: Any = None
        self.attributes: dict[str, Value] | None = None
        self.alternatives: tuple[Value, ...] = ()
        self.is_recursive = False

    def set_attribute(self, name: str | None, value: Value | None) -> None:
        """Set an attribute on a new object.

        If an attribute is set more than once, its value is unknown. If `name` is None, all attributes are unknown.
        """
        if self.attributes is None:
            return
        if name is None:
            self.attributes = None
        elif value is None or name in self.attributes or unbound_attribute(self.kind, name) is not UNKNOWN_OBJECT:
            self.attributes[name] = Value(UNKNOWN_ROOTS)
        else:
            self.attributes[name] = value


def roots_of(value: object) -> Roots:
    """Return the roots of an object: its id, or none if the object is immutable."""
    if type(value) in (int, float, complex, bool, str, bytes, type(None), types.ModuleType, tuple, frozenset):
        return NO_ROOTS
    return frozenset((id(value),))


def has_roots(values: Iterable[Value]) -> bool:
    """Return whether any of the values is part of an existing object."""
    return any(value.roots for value in values)


def either(values: list[Value]) -> Value:
    """Combine several values into one that may be any of them."""
    roots: Roots = frozenset().union(*(value.roots for value in values))
    flat = [alternative for value in values for alternative in (value.alternatives or (value,))]
    options = distinct(flat)
    if len(options) == 1:
        only = options[0]
        made = Value(roots, only.live, only.kind, only.inner, only.bound, only.items)
        made.options, made.is_recursive = only.options, only.is_recursive
        made.attributes = only.attributes if len(flat) == 1 else None
        return made
    kinds = {option.kind for option in options}
    kind = kinds.pop() if len(kinds) == 1 else None
    made = Value(roots, kind=kind)
    if kind is None or kind in FUNCTION_TYPES:
        made.alternatives = tuple(options)
    return made


def distinct(values: list[Value]) -> list[Value]:
    """Return the values without duplicates, one for each known type, object and function."""
    found: dict[Any, Value] = {}
    for value in values:
        bound = None if value.bound is None else (value.bound.kind, id(value.bound.live))
        function = value.inner and id(value.inner[0])
        found.setdefault((value.kind, id(value.live), function, bound, value.items), value)
    return list(found.values())[:MAX_NAMED]


def cell_value(cell: types.CellType) -> Value:
    """Return what is known about a variable in a closure."""
    try:
        live = cell.cell_contents
    except ValueError:
        return Value()
    return Value(roots_of(live), live)


def class_value(node: ast.ClassDef, space: dict[str, Any]) -> Value:
    """Return what is known about the class that a statement has created."""
    live = space.get(node.name)
    return Value(roots_of(live), live) if is_class(live) else Value()
