"""Look up the special methods that operators and built-in functions call."""

from __future__ import annotations

import ast
import types

from ...basics.definition_access import is_class, space_of
from .iterated_values import iterated_values
from .static_attributes import UNKNOWN_OBJECT, function_in, unbound_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .abstract_values import Value
    from .attribute_access import AttributeAccess
    from .effects import Effects
    from .function_runs import FunctionRuns
    from .workspace_code import WorkspaceCode

PLAIN_TYPES = frozenset(
    {int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, type(None), type, types.ModuleType}
)
"""Types whose special methods are implemented by the interpreter."""
COMPARISON_METHODS = ("__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__", "__contains__", "__bool__", "__len__")
"""Special methods that a comparison may call."""
UNARY_OPERATOR_METHODS: dict[type, tuple[str, ...]] = {
    ast.Not: ("__bool__", "__len__"), ast.And: ("__bool__", "__len__"), ast.Or: ("__bool__", "__len__"),
    ast.USub: ("__neg__",), ast.UAdd: ("__pos__",), ast.Invert: ("__invert__",),
}  # fmt: skip
"""Special methods that an operator calls on each operand by itself, by the operator's class in `ast`."""
METHODS_CALLED_BY: dict[str, tuple[str, ...]] = {
    "str": ("__str__", "__repr__"), "repr": ("__repr__",), "format": ("__format__", "__str__", "__repr__"),
    "ascii": ("__repr__",), "len": ("__len__",), "bool": ("__bool__", "__len__"), "hash": ("__hash__",),
    "int": ("__int__", "__index__"), "float": ("__float__",), "abs": ("__abs__",), "round": ("__round__",),
    "next": ("__next__",), "dir": ("__dir__",), "bytes": ("__bytes__",),
    "reversed": ("__reversed__", "__iter__", "__getitem__"), "fspath": ("__fspath__",),
}  # fmt: skip
"""Special methods that a built-in function calls on its arguments. Source: the Python data model."""
METHODS_CALLED_ON_ITEMS: dict[str, tuple[str, ...]] = {
    "sorted": ("__lt__", "__gt__"), "max": ("__gt__", "__lt__"), "min": ("__lt__", "__gt__"),
    "sum": ("__add__", "__radd__"), "set": ("__hash__", "__eq__"), "frozenset": ("__hash__", "__eq__"),
    "dict": ("__hash__", "__eq__"), "Counter": ("__hash__", "__eq__"), "any": ("__bool__", "__len__"),
    "all": ("__bool__", "__len__"), "sort": ("__lt__", "__gt__"), "nlargest": ("__lt__", "__gt__"),
    "nsmallest": ("__lt__", "__gt__"), "merge": ("__lt__", "__gt__"), "bisect": ("__lt__", "__gt__"),
    "bisect_left": ("__lt__", "__gt__"), "bisect_right": ("__lt__", "__gt__"),
}  # fmt: skip
"""Special methods that a built-in function calls on the items in its arguments."""
ITERATING_FUNCTIONS = frozenset({
    "all", "any", "dict", "enumerate", "filter", "frozenset", "iter", "list", "map", "max", "min", "reversed", "set",
    "sorted", "sum", "tuple", "zip",
})  # fmt: skip
"""Built-in functions that iterate over their arguments."""
OPERATOR_METHOD_NAMES = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Mod: "mod", ast.BitOr: "or",
    ast.BitAnd: "and", ast.FloorDiv: "floordiv", ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift",
    ast.RShift: "rshift", ast.BitXor: "xor",
}  # fmt: skip
"""The name of the special method for an operator, without underscores."""


class SpecialMethods:
    """Records the names that the special methods of values read.

    Their effects are not recorded, because operations are assumed to have no external effects.
    """

    def __init__(
        self, found: Effects, workspace: WorkspaceCode, runs: FunctionRuns, attributes: AttributeAccess
    ) -> None:
        self.found, self.workspace, self.runs, self.attributes = found, workspace, runs, attributes

    def record(self, values: Iterable[Value], *names: str) -> None:
        """Record the special methods that an operation calls on values. An unknown value may be of any class."""
        for value in [
            alternative for value_given in values for alternative in (value_given.alternatives or (value_given,))
        ]:
            if value.kind is None and value.inner is None and value.live is UNKNOWN_OBJECT:
                self.found.guesses.update(("*", f".{name}") for name in names)
                continue
            is_followed = value.kind is not None and value.kind not in PLAIN_TYPES
            is_of_workspace = is_followed and is_class(value.kind) and self.workspace.has_class(value.kind)
            for name in names if is_followed else ():
                found = unbound_attribute(value.kind, name)
                if is_of_workspace:
                    self.attributes.read(value.kind, name)
                if self.workspace.has_function(found):
                    self.runs.read_call(found, [value])

    def record_function(self, name: str, every: list[Value]) -> None:
        """Record the special methods that a built-in function calls on its arguments and their elements."""
        self.record(every, *METHODS_CALLED_BY.get(name, ()))
        if name in ITERATING_FUNCTIONS:
            iterated = every if name not in ("map", "filter") else every[1:]
            self.record(iterated, "__iter__", "__next__")
            if name in METHODS_CALLED_ON_ITEMS:
                self.record(
                    [item for collection in iterated for item in iterated_values(self.found, collection)],
                    *METHODS_CALLED_ON_ITEMS[name],
                )
                self.record(iterated if len(iterated) > 1 else (), *METHODS_CALLED_ON_ITEMS[name])
        if name in ("isinstance", "issubclass") and len(every) == 2 and is_class(every[1].live):
            space = space_of(every[1].live)
            if space.get("_is_protocol"):
                self.found.guesses.update(("*", f".{attribute}") for attribute in space if attribute[:2] != "__")
            self.attributes.read(every[1].live, "__subclasshook__")
            hook = function_in(unbound_attribute(every[1].live, "__subclasshook__"))
            if self.workspace.has_function(hook):
                self.runs.run(hook, [every[1], every[0]], ast.Pass())
                checked = every[0].live if is_class(every[0].live) else every[0].kind
                if is_class(checked):
                    self.found.read_class(checked, "+")

    def record_truth(self, value: Value) -> None:
        """Record the special methods that determine the truth value of a condition."""
        self.record([value], "__bool__", "__len__")
