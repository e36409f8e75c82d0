"""Scopes: the names in an analyzed module, class body or function call, and what is known about their values."""

from __future__ import annotations

import ast

from ...basics.definition_access import space_of
from .abstract_values import Value, roots_of
from .effects import class_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .effects import Effects


class Scope:
    """A scope in the analyzed code.

    - `space` is the namespace of the module, and `home` is the module's name.
    - `names` are the local names with their values, or None in a module.
    - `block_names` are the targets of loops, `with` statements and `except` clauses in a module.
    - `globals` are the names that the scope declares `global` or `nonlocal`.
    - `is_class` is set in the body of a class. `kind` is that class, if it is known.
    - `function` is the syntax node of the function whose body this is.
    - `returned` and `yielded` are the values that a function has returned and yielded so far.
    """

    __slots__ = (
        "block_names", "function", "globals", "home", "is_block_target", "is_class", "is_generator", "kind",
        "names", "returned", "space", "yielded",
    )  # fmt: skip

    def __init__(self, space: dict[str, Any], names: dict[str, Value] | None = None) -> None:
        self.space, self.names = space, names
        self.home = str(space.get("__name__"))
        self.is_class = False
        self.kind: Any = None
        self.returned: list[Value] = []
        self.yielded: list[Value] = []
        self.is_generator = False
        self.is_block_target = False
        self.block_names: dict[str, Value] = {}
        self.globals: set[str] = set()
        self.function: Any = None

    def bind(self, name: str, value: Value, found: Effects) -> None:
        """Bind a name of the scope, or of the current block in a module, to a value."""
        if self.names is None:
            if self.is_block_target:
                self.block_names[name] = value
            return
        if name in self.globals:
            found.effect = found.effect or f"global {name}"
        self.names[name] = value


def class_scope(space: dict[str, Any], kind: Any) -> Scope:
    """Return the scope of the body of an existing class, or of the module if `kind` is None."""
    return Scope(space, None if kind is None else class_names(kind))


def class_names(kind: Any) -> dict[str, Value]:
    """Return the names that are visible in the body of a class, with their values."""
    found: dict[str, Value] = {}
    for name, value in space_of(kind).items() if kind is not None else ():
        found[name] = Value(live=value, roots=roots_of(value))
        found[name].read = class_read(kind, name)
    return found


def fixed_parameters(function: Any) -> frozenset[str]:
    """Return the parameters that the body of a function, given by its syntax node, never binds again."""
    arguments = function.args
    parameters = {part.arg for part in (*getattr(arguments, "posonlyargs", []), *arguments.args, *arguments.kwonlyargs)}
    stored: set[str] = set()
    for part in ast.walk(function):
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            stored.add(part.id)
        elif isinstance(part, (ast.Global, ast.Nonlocal)):
            stored.update(part.names)
        elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and part is not function:
            stored.add(part.name)
        elif isinstance(part, (ast.Import, ast.ImportFrom)):
            stored.update(alias.asname or alias.name.partition(".")[0] for alias in part.names)
        elif isinstance(part, ast.ExceptHandler) and part.name is not None:
            stored.add(part.name)
        elif type(part).__name__ in ("MatchAs", "MatchStar", "MatchMapping"):  # Python 3.10 has added them
            stored.add(str(getattr(part, "name", None) or getattr(part, "rest", None)))
    return frozenset(parameters - stored)
