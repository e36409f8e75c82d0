"""Determine what is changed when values are assigned to names, attributes and items."""

from __future__ import annotations

import ast
import types

from .abstract_values import Value, roots_of
from .static_attributes import UNKNOWN_OBJECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .attribute_access import AttributeAccess
    from .effects import Effects
    from .scopes import Scope


class Assignments:
    """Assigns values to targets. `evaluate` visits an expression in a target, and returns the expression's value."""

    def __init__(self, found: Effects, attributes: AttributeAccess, evaluate: Callable[[Any, Scope], Value]) -> None:
        self.found, self.attributes, self.evaluate = found, attributes, evaluate

    def assign(self, target: ast.AST, value: Value, scope: Scope, *, reads_target: bool = False) -> None:
        """Visit the targets of an assignment, and bind names to the assigned values.

        With `reads_target`, the assigned value depends on the previous value of the target.
        """
        if isinstance(target, ast.Name):
            scope.bind(target.id, value, self.found)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = value.items
            if items is None and type(value.live) in (tuple, list):
                items = tuple(Value(value.roots | roots_of(item), item) for item in value.live)
            if (
                items is None
                or len(items) != len(target.elts)
                or any(isinstance(elt, ast.Starred) for elt in target.elts)
            ):
                items = [Value(value.roots) for _ in target.elts]
            for element, item in zip(target.elts, items):
                self.assign(element, item, scope)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Value(value.roots), scope)
        else:
            self.store(target, scope, value, reads_target=reads_target)

    def bind_in_block(self, target: ast.AST, value: Value, scope: Scope) -> None:
        """Bind the target of a loop, `with` statement or `except` clause for the statements in its block."""
        scope.is_block_target = True
        self.assign(target, value, scope)
        scope.is_block_target = False

    def store(self, target: Any, scope: Scope, value: Value | None = None, *, reads_target: bool = False) -> None:
        """Record an assignment to an attribute or item."""
        owner = self.evaluate(target.value, scope)
        if isinstance(target, ast.Subscript):
            self.evaluate(target.slice, scope)
        self.found.fills |= owner.roots
        if reads_target or not isinstance(target, ast.Attribute):
            self.found.record_addition(owner.roots)
        if isinstance(target, ast.Attribute):
            self.found.attributes.update((root, target.attr) for root in owner.roots)
            owner.set_attribute(target.attr, value)
            self.attributes.run_setters(owner, target.attr)
        if owner.live is not UNKNOWN_OBJECT and type(owner.live) is types.ModuleType:
            self.found.record_effect(target)
