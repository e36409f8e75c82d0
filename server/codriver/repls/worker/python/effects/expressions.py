"""Visit expressions, and determine what is known about their values."""

from __future__ import annotations

import ast
import builtins

from ...basics.definition_access import is_class, space_of
from .abstract_values import MAX_NAMED, NO_ROOTS, UNKNOWN_ROOTS, Value, distinct, either, roots_of
from .analyzed_call import AnalyzedCall
from .assignments import Assignments
from .iterated_values import MAX_ITEMS, iterated_values
from .pure_calls import is_immutable_kind
from .special_methods import COMPARISON_METHODS, OPERATOR_METHOD_NAMES, UNARY_OPERATOR_METHODS
from .static_attributes import UNKNOWN_OBJECT, function_in, is_generic_class, unbound_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .abstract_values import Roots
    from .attribute_access import AttributeAccess
    from .call_effects import CallEffects
    from .effects import Effects
    from .function_runs import FunctionRuns
    from .scopes import Scope
    from .special_methods import SpecialMethods
    from .workspace_code import WorkspaceCode

MAX_VISITED_NODES = 20_000
"""Maximum number of syntax nodes visited for a statement. A larger statement is assumed to have effects."""


class Expressions:
    """Visits expressions. There is one method for each nontrivial kind of expression."""

    def __init__(
        self,
        found: Effects,
        workspace: WorkspaceCode,
        runs: FunctionRuns,
        attributes: AttributeAccess,
        special: SpecialMethods,
        calls: CallEffects,
    ) -> None:
        self.found, self.workspace, self.runs = found, workspace, runs
        self.attributes, self.special, self.calls = attributes, special, calls
        self.assignments = Assignments(found, attributes, self.value)

    def value(self, node: Any, scope: Scope) -> Value:  # noqa: C901, PLR0912  # one branch for each kind of expression
        """Visit an expression, and return what is known about its value."""
        self.found.nodes += 1
        if self.found.nodes > MAX_VISITED_NODES:
            self.found.record_effect(node)
            return Value()
        if isinstance(node, ast.Constant):
            return Value(live=node.value)
        if isinstance(node, ast.Name):
            return self.name_value(node.id, scope)
        if isinstance(node, ast.Attribute):
            inner = node.value
            name = inner.id if isinstance(inner, ast.Name) else ""
            owner = self.name_value(name, scope, node.attr) if name else self.value(inner, scope)
            if owner.after is not None:
                return self.attributes.get_of_super(owner, node.attr)
            return self.attributes.get(owner, node)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.Lambda):
            self.visit_defaults(node, scope)
            return Value(inner=(node, scope))
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return self._comprehension(node, scope)
        if isinstance(node, ast.BinOp):
            return self._operator(node, scope)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, scope)
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return self._yield(node, scope)
        if isinstance(node, ast.Await):
            return self.value(node.value, scope)
        if isinstance(node, ast.IfExp):
            self.visit_condition(node.test, scope)
            return either([self.value(node.body, scope), self.value(node.orelse, scope)])
        if isinstance(node, ast.NamedExpr):
            value = self.value(node.value, scope)
            scope.bind(node.target.id, value, self.found)
            return value
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
            return self._display(node, scope)
        if isinstance(node, ast.JoinedStr):
            parts = [self.value(part, scope).live for part in ast.iter_child_nodes(node)]
            return Value(live="".join(parts)) if all(type(part) is str for part in parts) else Value(kind=str)
        if isinstance(node, ast.FormattedValue):
            formatted = self.value(node.value, scope)
            self.special.record([formatted], "__format__", "__str__", "__repr__")
            if node.format_spec is not None:
                self.value(node.format_spec, scope)
            is_text = type(formatted.live) is str and node.format_spec is None and node.conversion == -1
            return Value(live=formatted.live) if is_text else Value(kind=str)
        if isinstance(node, ast.Compare):
            self.special.record(
                [self.value(operand, scope) for operand in (node.left, *node.comparators)], *COMPARISON_METHODS
            )
            return Value()
        roots: Roots = NO_ROOTS
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                value = self.value(part, scope)
                roots |= value.roots
                self.special.record([value], *(UNARY_OPERATOR_METHODS.get(type(getattr(node, "op", None)), ())))
        return Value(roots if isinstance(node, (ast.BoolOp, ast.Starred, ast.Await)) else NO_ROOTS)

    def name_value(self, name: str, scope: Scope, attribute: str = "") -> Value:
        """Return the value of a name, and record that it is read.

        With `attribute`, only that attribute of the object is recorded as read.
        """
        if scope.names is not None and name in scope.names and name not in scope.globals:
            known: Value = scope.names[name]
            if known.read is not None:
                self.found.reads.add(known.read)
            return known
        if scope.names is None and name in scope.block_names:
            return scope.block_names[name]
        live = scope.space.get(name, UNKNOWN_OBJECT)
        if name in scope.space or not hasattr(builtins, name):
            is_only_part = bool(attribute) and self.attributes.is_stored_in_instance(live, attribute)
            self.found.reads.add((scope.home, f"{name}.{attribute}" if is_only_part else name))
        if live is UNKNOWN_OBJECT:
            live = builtins.__dict__.get(name, UNKNOWN_OBJECT)
            return Value(UNKNOWN_ROOTS if live is UNKNOWN_OBJECT else NO_ROOTS, live)
        self.found.objects[id(live)] = live
        return Value(roots_of(live), live)

    def visit_defaults(self, node: Any, scope: Scope) -> None:
        """Visit the default values of parameters."""
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.value(default, scope)

    def _call(self, node: ast.Call, scope: Scope) -> Value:
        function = self.value(node.func, scope)
        given: list[Value] = []
        for argument in node.args:
            value = self.value(argument.value if isinstance(argument, ast.Starred) else argument, scope)
            is_expanded = isinstance(argument, ast.Starred) and value.kind is tuple and value.items is not None
            given += value.items if is_expanded else [value]
        named = {keyword.arg: self.value(keyword.value, scope) for keyword in node.keywords}
        return self.calls.apply(AnalyzedCall(function, node.func, given, named, node, scope))

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        """Visit a subscript. Its value is known if both the collection and the key are known."""
        owner, key = self.value(node.value, scope), self.value(node.slice, scope)
        self.special.record([owner], "__getitem__")
        live = owner.live
        subscripted = function_in(unbound_attribute(live, "__class_getitem__"))
        if self.workspace.has_function(subscripted):
            return self.runs.run(subscripted, [owner, key], node)
        if is_generic_class(live):
            return Value(owner.roots, live)
        if not _has_plain_items(live) or not live:
            return Value(owner.roots)
        if isinstance(node.slice, ast.Slice):
            return Value(owner.roots, kind=type(live), items=tuple(iterated_values(self.found, owner)))
        if type(key.live) in (str, int):
            try:
                item = live[key.live]
            except LookupError:
                return Value(owner.roots)
            return Value(owner.roots | roots_of(item), item)
        items = list(live.values() if issubclass(type(live), dict) else live)[:MAX_ITEMS]
        made = Value(owner.roots)
        if items and len(items) <= MAX_NAMED and all(map(self.workspace.can_follow, items)):
            made.options = tuple(items)
        kinds = {type(item) for item in items}
        if len(kinds) == 1 and not made.options:
            made.kind = kinds.pop()
        return made

    def _yield(self, node: Any, scope: Scope) -> Value:
        scope.is_generator = True
        value = self.value(node.value, scope) if node.value is not None else Value()
        if isinstance(node, ast.YieldFrom):
            scope.yielded += iterated_values(self.found, value) if not value.is_recursive else []
        else:
            scope.yielded.append(value)
        return Value()

    def visit_condition(self, node: ast.expr, scope: Scope) -> None:
        """Visit a condition, including the special methods that determine its truth value."""
        self.special.record_truth(self.value(node, scope))

    def _display(self, node: Any, scope: Scope) -> Value:
        """Visit a list, tuple, set or dictionary display."""
        kinds: dict[type, type] = {ast.List: list, ast.Tuple: tuple, ast.Set: set, ast.Dict: dict}
        if isinstance(node, ast.Dict):
            keys = [self.value(key, scope) for key in node.keys if key is not None]
            for expression in node.values:
                self.value(expression, scope)
            self.special.record(keys, "__hash__", "__eq__")
            return Value(kind=dict, items=tuple(keys) if all(node.keys) else None)
        items: list[Value] = []
        for elt in node.elts:
            value = self.value(elt.value if isinstance(elt, ast.Starred) else elt, scope)
            items += iterated_values(self.found, value) if isinstance(elt, ast.Starred) else [value]
        if isinstance(node, ast.Set):
            self.special.record(items, "__hash__", "__eq__")
        return Value(kind=kinds[type(node)], items=tuple(items))

    def _comprehension(self, node: Any, scope: Scope) -> Value:
        before = None if scope.names is None else dict(scope.names)
        shadow = scope.names
        scope.names = dict(scope.block_names if shadow is None else shadow)
        items: list[Value] = []
        self._generators(node, list(node.generators), items, scope)
        scope.names = before if shadow is not None else None
        kinds: dict[type, Any] = {ast.ListComp: list, ast.SetComp: set, ast.DictComp: dict}
        return Value(kind=kinds.get(type(node)), items=tuple(distinct(items)) or None)

    def _generators(self, node: Any, left: list[ast.comprehension], items: list[Value], scope: Scope) -> None:
        """Visit the `for` clauses of a comprehension, and then its element once per type of item.

        The values of the elements are added to `items`.
        """
        if not left:
            items.append(self.value(node.key if isinstance(node, ast.DictComp) else node.elt, scope))
            if isinstance(node, ast.DictComp):
                self.value(node.value, scope)
            return
        iterated = self.value(left[0].iter, scope)
        if left[0].is_async:
            self.special.record([iterated], "__aiter__", "__anext__")
        for item in iterated_values(self.found, iterated):
            self.assignments.assign(left[0].target, item, scope)
            for test in left[0].ifs:
                self.value(test, scope)
            self._generators(node, left[1:], items, scope)

    def _operator(self, node: ast.BinOp, scope: Scope) -> Value:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        word = OPERATOR_METHOD_NAMES.get(type(node.op), "")
        for owner, given, name in ((left, right, f"__{word}__"), (right, left, f"__r{word}__")):
            found = unbound_attribute(owner.kind, name) if owner.kind is not None else UNKNOWN_OBJECT
            if self.workspace.has_function(found):
                return self.runs.run(found, [owner, given], node)
        self.special.record([left, right], f"__{word}__", f"__r{word}__")
        for kind in (left.kind, right.kind):
            if is_class(kind) and "_flag_mask_" in space_of(kind):
                self.found.read_class(kind)  # the result is a member, or a combination with the names of members
        if isinstance(node.op, ast.Mod):
            self.special.record(
                [*iterated_values(self.found, right)] if right.items is not None else [right], "__str__", "__repr__"
            )
        if isinstance(node.op, ast.Add) and type(left.live) is str and type(right.live) is str:
            return Value(live=left.live + right.live)
        kind = left.kind if left.kind is not None and is_immutable_kind(left.kind) else right.kind
        return Value(kind=kind if left.kind is right.kind or left.kind is None else left.kind)


def _has_plain_items(live: Any) -> bool:
    """Return whether a value is a dictionary, list or tuple whose class does not change how items are looked up."""
    return any(
        issubclass(type(live), kind)
        and all(unbound_attribute(type(live), name) is space_of(kind)[name] for name in ("__getitem__", "__iter__"))
        and unbound_attribute(type(live), "__len__") is space_of(kind)["__len__"]
        and all(unbound_attribute(type(live), name) is UNKNOWN_OBJECT for name in ("__bool__", "__missing__"))
        and (kind is not dict or unbound_attribute(type(live), "values") is dict.values)
        for kind in (dict, list, tuple)
    )
