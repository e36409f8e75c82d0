"""Find out which names of a class the hooks of its bases and its metaclass read when the class is created."""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DYNAMIC_WORDS = frozenset({"vars", "dir", "__dict__", "__annotations__", "inspect", "fields", "signature"})
"""Words in a hook that may read any name of a class."""
ATTRIBUTE_FUNCTIONS = frozenset({"getattr", "hasattr"})
"""Functions that look up an attribute by a name that may be computed."""
LOOKUP_METHODS = frozenset({"get", "pop", "setdefault"})
"""Methods of the namespace of a class that look up one name."""
CREATING_METHODS = frozenset({"__new__", "__init__", "__prepare__"})
"""Methods of a metaclass that run when a class is created."""
NAMESPACE_POSITION = 3
"""The position of the namespace among the parameters of a metaclass's `__new__` and `__init__`."""


def may_read_name(source: Any, names: set[str]) -> bool:
    """Return whether a hook may read one of these names of a class. `source` is the syntax node of the hook."""
    words: set[object] = set()
    for part in ast.walk(source):
        if isinstance(part, ast.Attribute):
            words.add(part.attr)
        elif isinstance(part, ast.Name):
            words.add(part.id)
        elif isinstance(part, ast.Constant):
            words.add(part.value if isinstance(part.value, str) else "")
        elif _is_dynamic_lookup(part):
            return True
    return not words.isdisjoint(names | DYNAMIC_WORDS) or not _uses_namespace_for_constants(source)


def _is_dynamic_lookup(node: ast.AST) -> bool:
    """Return whether an expression reads an attribute whose name is computed."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in ATTRIBUTE_FUNCTIONS:
        return False
    return len(node.args) < 2 or not isinstance(node.args[1], ast.Constant)


def _uses_namespace_for_constants(source: Any) -> bool:
    """Return whether a method of a metaclass looks up nothing but constant names in the namespace of a class."""
    arguments = source.args
    every = [*getattr(arguments, "posonlyargs", []), *arguments.args]
    if source.name not in CREATING_METHODS or len(every) <= NAMESPACE_POSITION:
        return arguments.vararg is None or source.name not in CREATING_METHODS
    namespace = every[NAMESPACE_POSITION].arg
    mentions = [part for part in ast.walk(source) if isinstance(part, ast.Name) and part.id == namespace]
    return {id(part) for part in mentions} <= {id(part) for part in _harmless_mentions(source)}


def _harmless_mentions(source: ast.AST) -> Iterator[ast.AST]:
    """Yield expressions in which a constant key is looked up, and arguments of the method that creates the class."""
    for part in ast.walk(source):
        key: Any = part.slice if isinstance(part, ast.Subscript) else None
        key = key.value if type(key).__name__ == "Index" else key  # in Python 3.8
        if isinstance(part, ast.Subscript) and isinstance(key, ast.Constant):
            yield part.value
        elif isinstance(part, ast.Compare) and isinstance(part.left, ast.Constant):
            yield from part.comparators
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            if part.func.attr in CREATING_METHODS:
                yield from part.args
            elif part.func.attr in LOOKUP_METHODS and part.args and isinstance(part.args[0], ast.Constant):
                yield part.func.value
