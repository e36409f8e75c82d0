"""Visit statements, and determine what they read, call and change."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import sys

from ...basics.definition_access import is_class
from ..statements import FUNCTION_NODES
from ..stored_attributes import module_dict
from .abstract_values import NO_ROOTS, Value, roots_of
from .expressions import MAX_VISITED_NODES
from .iterated_values import iterated_values
from .pure_calls import is_collection
from .scopes import Scope, fixed_parameters
from .special_methods import OPERATOR_METHOD_NAMES
from .static_attributes import UNKNOWN_OBJECT, unbound_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .class_creation import ClassCreation
    from .effects import Effects
    from .expressions import Expressions
    from .function_runs import FunctionRuns
    from .library_reads import LibraryReads
    from .special_methods import SpecialMethods
    from .workspace_code import WorkspaceCode


class Statements:
    """Visits statements. There is one method for each nontrivial kind of statement."""

    def __init__(
        self,
        found: Effects,
        workspace: WorkspaceCode,
        runs: FunctionRuns,
        special: SpecialMethods,
        library: LibraryReads,
        expressions: Expressions,
        classes: ClassCreation,
    ) -> None:
        self.found, self.workspace, self.runs, self.special = found, workspace, runs, special
        self.library, self.expressions, self.classes = library, expressions, classes
        self.assignments = expressions.assignments

    def visit(self, node: Any, scope: Scope) -> None:  # noqa: C901, PLR0912, PLR0915  # one branch per case
        """Visit a statement, or an expression that is a part of one."""
        self.found.nodes += 1
        if self.found.nodes > MAX_VISITED_NODES:
            self.found.record_effect(node)
            return
        if isinstance(node, FUNCTION_NODES):
            self.expressions.visit_defaults(node, scope)
            scope.bind(node.name, self.classes.decorate(node, Value(inner=(node, scope)), scope), self.found)
        elif isinstance(node, ast.ClassDef):
            self._class(node, scope)
        elif isinstance(node, ast.Return):
            scope.returned.append(self.expressions.value(node.value, scope) if node.value is not None else Value())
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            self._assign(node, scope)
        elif isinstance(node, ast.AugAssign):
            self._augment(node, scope)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            iterated = self.expressions.value(node.iter, scope)
            is_async = isinstance(node, ast.AsyncFor)
            self.special.record([iterated], *(("__aiter__", "__anext__") if is_async else ("__iter__", "__next__")))
            for each in iterated_values(self.found, iterated):
                self.assignments.bind_in_block(node.target, each, scope)
                self.visit_all(node.body, scope)
            self.visit_all(node.orelse, scope)
        elif isinstance(node, (ast.If, ast.While, ast.Assert)):
            self.expressions.visit_condition(node.test, scope)
            is_none = _tests_none(node.test, scope) if isinstance(node, ast.If) else None
            if is_none is not None and isinstance(node, ast.If):
                self.visit_all(node.body if is_none else node.orelse, scope)
            else:
                self.visit_all((child for child in ast.iter_child_nodes(node) if child is not node.test), scope)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, scope)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if not isinstance(target, ast.Name):
                    self.assignments.store(target, scope)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                value = self.expressions.value(item.context_expr, scope)
                is_async = isinstance(node, ast.AsyncWith)
                self.special.record([value], *(("__aenter__", "__aexit__") if is_async else ("__enter__", "__exit__")))
                if item.optional_vars is not None:
                    self.assignments.bind_in_block(item.optional_vars, self._entered(value, node), scope)
            self.visit_all(node.body, scope)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            scope.globals.update(node.names)
        elif isinstance(node, ast.expr):
            self.expressions.value(node, scope)
        elif isinstance(node, ast.ExceptHandler):
            caught = self.expressions.value(node.type, scope) if node.type is not None else Value()
            if node.name:
                error = Value(kind=caught.live if is_class(caught.live) else None)
                self.library.guess_subclasses(caught.live)
                self.assignments.bind_in_block(ast.Name(node.name, ast.Store()), error, scope)
            self.visit_all(node.body, scope)
        elif type(node).__name__ == "Match":
            self.expressions.value(node.subject, scope)
            for case in node.cases:
                for part in ast.walk(case.pattern):
                    name = getattr(part, "name", None) or getattr(part, "rest", None)
                    if isinstance(name, str):
                        scope.bind(name, Value(), self.found)
                if case.guard is not None:
                    self.expressions.value(case.guard, scope)
                self.visit_all(case.body, scope)
        else:
            if isinstance(node, ast.Try) and scope.names is None:
                self._note_tried_imports(node, scope)
            self.visit_all(ast.iter_child_nodes(node), scope)

    def visit_all(self, nodes: Iterable[Any], scope: Scope) -> None:
        """Visit several statements."""
        for node in nodes:
            self.visit(node, scope)

    def _note_tried_imports(self, node: ast.Try, scope: Scope) -> None:
        """Record the names that a `try` statement imports, because it may handle their absence."""
        for statement in node.body:
            if isinstance(statement, ast.ImportFrom):
                source = _source_of_import(statement, scope)
                self.found.reads.update((source, alias.name) for alias in statement.names)

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        bases = [self.expressions.value(base, scope) for base in node.bases]
        words = [self.expressions.value(keyword.value, scope) for keyword in node.keywords]
        live = scope.space.get(node.name) if scope.names is None else None
        kind = live if is_class(live) else None
        inner = Scope(scope.space, dict(scope.names or {}))
        inner.is_class = True
        for statement in node.body:
            self.visit(statement, inner)
        value = Value(live=kind if kind is not None else UNKNOWN_OBJECT, roots=NO_ROOTS)
        self.classes.run_hooks(node, kind, [*bases, *words], value)
        made = self.classes.decorate(node, value, scope)
        scope.bind(node.name, made, self.found)

    def _assign(self, node: Any, scope: Scope) -> None:
        if isinstance(node, ast.AnnAssign) and scope.is_class:
            self.classes.visit_annotation(node.annotation, scope)
        if node.value is None:
            return
        value = self.expressions.value(node.value, scope)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if scope.is_class:
            self.classes.run_configuration(node, targets, scope)
            self.classes.name_descriptor(value, scope.kind, node)
        for target in targets:
            self.assignments.assign(target, value, scope, reads_target=_reads_target(node.value, target))

    def _augment(self, node: ast.AugAssign, scope: Scope) -> None:
        given = self.expressions.value(node.value, scope)
        if isinstance(node.target, ast.Name):
            before = self.expressions.name_value(node.target.id, scope)
            word = OPERATOR_METHOD_NAMES.get(type(node.op), "")
            for name in (f"__i{word}__", f"__{word}__"):
                found = unbound_attribute(before.kind, name) if before.kind is not None else UNKNOWN_OBJECT
                if self.workspace.has_function(found):
                    self.runs.run(found, [before, given], node)
                    break
            if is_collection(before.kind) or before.live is UNKNOWN_OBJECT:
                self.found.record_addition(before.roots)
            if scope.names is not None and node.target.id in scope.globals:
                self.found.record_effect(node)
        elif isinstance(node.target, ast.Attribute):
            before = self.expressions.value(node.target, scope)
            if is_collection(before.kind):
                self.found.record_addition(before.roots)
            else:
                self.assignments.store(node.target, scope, reads_target=True)
        else:
            self.assignments.store(node.target, scope)

    def _entered(self, manager: Value, node: ast.AST) -> Value:
        """Return the value that a context manager's `__enter__` method returns."""
        for name in ("__enter__", "__aenter__"):
            found = unbound_attribute(manager.kind, name) if manager.kind is not None else UNKNOWN_OBJECT
            if self.workspace.has_function(found):
                return self.runs.run(found, [manager], node)
        return manager

    def _import(self, node: Any, scope: Scope) -> None:
        for alias in node.names:
            source = alias.name if isinstance(node, ast.Import) else _source_of_import(node, scope)
            if scope.names is not None:
                module = sys.modules.get(str(source))
                if module is None:
                    self.found.record_effect(node)
                elif isinstance(node, ast.ImportFrom):
                    live = module_dict(module).get(alias.name, UNKNOWN_OBJECT)
                    self.found.reads.add((str(source), alias.name))
                    scope.names[alias.asname or alias.name] = Value(roots_of(live), live)
                else:
                    name = alias.asname or alias.name.partition(".")[0]
                    scope.names[name] = Value(live=module if alias.asname else sys.modules.get(name, UNKNOWN_OBJECT))


def _reads_target(node: ast.expr, target: ast.expr) -> bool:
    """Return whether an expression reads an attribute with the same name as the one to which it is assigned."""
    if not isinstance(target, ast.Attribute):
        return False
    return any(
        (isinstance(part, ast.Attribute) and part.attr == target.attr)
        or (isinstance(part, ast.Constant) and part.value == target.attr)
        for part in ast.walk(node)
    )


def _source_of_import(node: ast.ImportFrom, scope: Scope) -> str:
    """Return the name of the module from which a statement imports, which may be relative."""
    package = scope.space.get("__package__")
    source = "." * node.level + (node.module or "")
    with contextlib.suppress(ImportError, ValueError):
        source = importlib.util.resolve_name(source, package if type(package) is str else None)
    return source


def _tests_none(node: ast.expr, scope: Scope) -> bool | None:
    """Return the result of a comparison of a parameter with None, if the parameter is known to be None."""
    if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Name) or scope.names is None:
        return None
    value = scope.names.get(node.left.id)
    operator, other = node.ops[0], node.comparators[0]
    is_none = value is not None and value.live is None
    if not is_none or len(node.ops) != 1 or not isinstance(other, ast.Constant) or other.value is not None:
        return None
    if scope.function is None or node.left.id not in fixed_parameters(scope.function):
        return None
    return True if isinstance(operator, ast.Is) else False if isinstance(operator, ast.IsNot) else None
