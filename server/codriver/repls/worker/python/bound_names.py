"""Find names that were rebound after a module was loaded.

A name counts as rebound if a statement in the loaded source binds it and its value has changed since. Rebinding by the
project's own functions is not counted. A new name counts only if it refers to an evaluated function, because libraries
add many names to modules at run time.
"""

from __future__ import annotations

import ast
import re
import types

from ..basics.definition_access import (
    is_class,
    space_of,
    unwrap_descriptor,
    unwrap_functions,
)
from .statements import FUNCTION_NODES, assigned_names, names_bound_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

EVALUATED_FILE_PATTERN = re.compile(
    r"<(eval|stdin|console|ipython|repl|python-input)\b|.*[\\/](ipykernel|xpython)_\d+[\\/]"
)
"""Matches the pseudo file names of evaluated code. Source: the worker; `code`; IPython; ipykernel; xeus."""
DEFINITION, OTHER_BINDING = "definition", "other"
"""Kinds of bindings: by `def` or `class`, or in any other way."""
BLOCK_FIELDS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Syntax node fields that contain statements."""


class BoundNames:
    """The names bound by the statements in a source, and the names that its functions rebind when called."""

    def __init__(self, tree: ast.Module) -> None:
        self.kinds: dict[str, str] = {}
        self.rebound: set[str] = set()
        self._read(tree.body, "")
        has_named = False
        for node in ast.walk(tree):
            has_named = has_named or isinstance(node, ast.NamedExpr)
            if isinstance(node, ast.Global):
                self.rebound.update(node.names)
            elif isinstance(node, FUNCTION_NODES):
                self._read_stores(node)
        for statement in tree.body if has_named else ():
            for name in names_bound_by(statement):
                self.kinds.setdefault(name, OTHER_BINDING)

    def _read(self, body: Iterable[Any], scope: str) -> None:
        """Record the names that statements bind. `scope` is the dotted prefix for names in a class."""
        for node in body:
            is_definition = isinstance(node, (*FUNCTION_NODES, ast.ClassDef))
            for name in assigned_names(node) if not isinstance(node, ast.excepthandler) else ():
                attribute = (
                    name.partition(".")[0] if isinstance(node, ast.Import) and not _has_alias(node, name) else name
                )
                self.kinds[scope + attribute] = DEFINITION if is_definition else OTHER_BINDING
            for target in _assignment_targets(node):
                self.kinds.update(
                    (scope + item.id, OTHER_BINDING) for item in ast.walk(target) if isinstance(item, ast.Name)
                )
            if isinstance(node, ast.ClassDef):
                self._read(node.body, scope + node.name + ".")
            elif not is_definition:
                for field in BLOCK_FIELDS:
                    self._read(getattr(node, field, None) or (), scope)

    def _read_stores(self, function: ast.AST) -> None:
        """Record the names that a function rebinds when it is called."""
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                self.rebound.add(node.attr)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr"):
                named = node.args[1] if len(node.args) > 1 else None
                if isinstance(named, ast.Constant) and isinstance(named.value, str):
                    self.rebound.add(named.value)


def assignment_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern that matches code that may assign to a global or an attribute with this name."""
    attribute = re.escape(name)
    assigned = rf"\.{attribute}\s*(?:[-+*/|&^%@<>]{{0,2}}=)(?!=)"
    return re.compile(
        rf"{assigned}|attr\([^\n]*[\"']{attribute}[\"']|\bdel\b[^\n]*\.{attribute}\b|\bglobal\b[^\n]*\b{attribute}\b"
    )


def code_file(value: object) -> str:
    """Return the file name of a function, of the function in a wrapper, or of the first function in a class.

    Returns "" if unknown.
    """
    if type(value) is types.FunctionType:
        return value.__code__.co_filename
    found = (
        [unwrap_descriptor(item) for item in list(space_of(value).values())]
        if is_class(value)
        else [unwrap_descriptor(value)]
    )
    for item in found:
        for function in unwrap_functions(item):
            return function.__code__.co_filename
    return ""


def is_evaluated(value: object) -> bool:
    """Return whether a function or class was created by evaluated code."""
    return EVALUATED_FILE_PATTERN.match(code_file(value)) is not None


def _assignment_targets(node: Any) -> list[ast.AST]:
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return [node.target]
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else ()
    return [item.optional_vars for item in items if item.optional_vars is not None]


def _has_alias(node: ast.Import, name: str) -> bool:
    return any(alias.asname == name for alias in node.names)
