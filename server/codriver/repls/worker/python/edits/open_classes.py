"""Determine whether changing an existing class has the same effect as creating it with the new body."""

from __future__ import annotations

import ast

from ...basics.definition_access import defining_module_name, order_of, qualified_name, space_of
from ..class_renewal import classes_with_hooks, is_plain_class
from ..statements import FUNCTION_NODES, assigned_names
from .statement_syntax import called_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TRANSPARENT_DECORATORS = (
    "property", "staticmethod", "classmethod", "setter", "getter", "deleter", "abstractmethod", "override", "overload",
    "final", "cached_property", "cache", "lru_cache", "wraps", "contextmanager", "singledispatch",
    "singledispatchmethod", "asynccontextmanager",
)  # fmt: skip
"""Decorators that do not read the signature of the decorated function."""
CLASS_CREATION_NAMES = frozenset({"__slots__", "__init_subclass__", "__class_getitem__", "_fields", "__match_args__"})
"""Names in a class body that only have an effect while the class is created."""
METHOD_READING_CLASSES = frozenset({("flask.views", "MethodView")})
"""The module and name of classes that read the names of the methods when a subclass is created.

Source: `MethodView` in Flask's documentation.
"""
CONSTANT_IGNORING_LIBRARIES = frozenset({"abc", "builtins", "django", "sqlalchemy"})
"""Packages whose metaclasses and hooks read only columns, fields and names with double underscores from a class body.

Source: the documentation of SQLAlchemy's declarative mapping and of Django's models and forms.
"""
LATE_SPECIAL_METHODS = frozenset(
    f"__{prefix}{word}__"
    for word in (
        "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "xor",
        "or",
    )
    for prefix in ("", "r", "i")
) | {
    "__call__", "__contains__", "__delitem__", "__enter__", "__exit__", "__ge__", "__getitem__", "__gt__", "__invert__",
    "__iter__", "__le__", "__len__", "__lt__", "__ne__", "__neg__", "__next__", "__pos__", "__repr__", "__setitem__",
    "__str__",
}  # fmt: skip
"""Special methods that are looked up when needed, and not when a class is created. Source: the data model."""


def accepts_method(kind: Any, node: Any) -> bool:
    """Return whether setting a method on an existing class has the same effect as in its body."""
    if not CLASS_CREATION_NAMES.isdisjoint(assigned_names(node)) or space_of(kind).get("_is_protocol"):
        return False
    if any((defining_module_name(base), qualified_name(base)) in METHOD_READING_CLASSES for base in order_of(kind)):
        return False
    return is_plain_class(kind) or (
        isinstance(node, FUNCTION_NODES)
        and all(called_name(decorator) in TRANSPARENT_DECORATORS for decorator in node.decorator_list)
    )


def accepts_attributes(kind: Any, node: Any, names: list[str]) -> bool:
    """Return whether setting attributes on an existing class has the same effect as assigning them in its body."""
    is_new = getattr(node, "value", None) is not None and not any(name in space_of(kind) for name in names)
    if is_plain_class(kind) or (is_new and type(kind) is not type and overrides_setattr(type(kind))):
        return True
    value = getattr(node, "value", None) if isinstance(node, ast.Assign) else None
    old = [space_of(kind).get(name) for name in names]
    return isinstance(value, ast.Constant) and all(map(_is_constant, old)) and _ignores_constants(kind)


def _is_constant(value: object) -> bool:
    return value is None or type(value) in (bool, int, float, complex, str, bytes)


def _ignores_constants(kind: Any) -> bool:
    """Return whether only libraries that ignore the constants in the body of a class have created it."""
    if any(name in space_of(kind) for name in ("__dataclass_fields__", "__attrs_attrs__", "_fields")):
        return False
    creators = {str(defining_module_name(creator)) for creator in (type(kind), *classes_with_hooks(kind))}
    return {creator.partition(".")[0] for creator in creators} <= CONSTANT_IGNORING_LIBRARIES


def can_be_set_later(kind: Any, names: list[str]) -> bool:
    """Return whether all of these attributes still have an effect if they are set after the class was created."""
    return bool(names) and not any(name in CLASS_CREATION_NAMES or _is_dunder_of_class(kind, name) for name in names)


def _is_dunder_of_class(kind: Any, name: str) -> bool:
    """Return whether a name with double underscores may have been read when a class was created."""
    is_operator = is_plain_class(kind) and name in LATE_SPECIAL_METHODS
    return name[:2] == name[-2:] == "__" and not is_operator


def overrides_setattr(kind: type) -> bool:
    """Return whether setting an attribute of a class with this metaclass runs code of the metaclass."""
    return any(
        "__setattr__" in space_of(base) for base in type.__dict__["__mro__"].__get__(kind) if base not in (type, object)
    )
