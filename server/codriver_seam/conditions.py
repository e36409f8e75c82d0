"""Conditions of a capture: comparisons of a variable with a literal, which are read and never evaluated as code."""

from __future__ import annotations

import ast
import operator

from .plain import LISP, comparable, fields_of
from .values import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Test = Callable[[Mapping[str, Any]], bool]

SHAPE = "a comparison of a variable with a literal, such as total > 100, or several with and, or"
OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many, ast.NotIn: lambda one, many: one not in many,
}  # fmt: skip


class Condition:
    """A condition on variables, by a text such as `order.total > 100 and status in ("new", "paid")`.

    Fields are those that an object holds itself, items those of lists, tuples and dictionaries, and of Basilisp's maps,
    whose keywords are written as texts.

    Raises:
        Refusal: the text is something else.
    """

    def __init__(self, text: str) -> None:
        self.names: dict[str, None] = {}
        """The variables that it is about."""
        try:
            self._test = self._read(ast.parse(text.strip(), mode="eval").body)
        except (ValueError, KeyError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise Refusal("accessor-failed", f"when is {SHAPE}; {text[:80]!r} is none") from None

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether the condition holds for these variables.

        Raises:
            LookupError: one of them, a field or an item is not there.
            TypeError: what is compared is neither plain nor of one kind.
        """
        return self._test(values)

    def _read(self, node: ast.expr) -> Test:
        if isinstance(node, ast.BoolOp):
            tests, combine = [self._read(part) for part in node.values], all if isinstance(node.op, ast.And) else any
            return lambda values: combine(test(values) for test in tests)
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            raise ValueError
        compare, wanted = OPERATORS[type(node.ops[0])], ast.literal_eval(node.comparators[0])
        name, steps = self._steps(node.left)
        self.names[name] = None
        if wanted is None:
            # Identity asks no class how it is.
            is_same = {ast.Is: True, ast.Eq: True, ast.IsNot: False, ast.NotEq: False}[type(node.ops[0])]
            return lambda values: (_value(values, name, steps) is None) is is_same
        return lambda values: bool(compare(comparable(_value(values, name, steps)), wanted))

    def _steps(self, node: ast.expr) -> tuple[str, tuple[tuple[bool, Any], ...]]:
        """The variable, and the steps into it: of each whether it is a field, and its name or key."""
        if isinstance(node, ast.Name):
            return node.id, ()
        if isinstance(node, ast.Attribute):
            name, steps = self._steps(node.value)
            return name, (*steps, (True, node.attr))
        if isinstance(node, ast.Subscript):
            name, steps = self._steps(node.value)
            index: Any = node.slice
            if type(index).__name__ == "Index":  # in Python 3.8
                index = index.value
            return name, (*steps, (False, ast.literal_eval(index)))
        raise ValueError


def _value(values: Mapping[str, Any], name: str, steps: tuple[tuple[bool, Any], ...]) -> Any:
    if name not in values:
        raise LookupError(f"there is no {name} then")
    value = values[name]
    for is_field, key in steps:
        if is_field:
            value = fields_of(value)[key]
        elif isinstance(value, dict) and key in dict.keys(value):
            value = dict.get(value, key)
        elif type(value) in (list, tuple):
            value = value[key]
        elif type(value).__module__ == LISP + "map":
            value = next(part for name, part in value.items() if getattr(name, "name", name) == key)
        else:
            raise LookupError(f"{name} has no item {key!r}")
    return value
