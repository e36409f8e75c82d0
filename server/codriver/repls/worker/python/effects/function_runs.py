"""Follow a call into the body of a workspace function."""

from __future__ import annotations

import ast
import types

from ..stored_attributes import attribute_dict
from .abstract_values import NO_ROOTS, Value, cell_value, distinct, either, roots_of
from .effects import Effects, code_position_name, function_read
from .scopes import Scope
from .static_attributes import defaults_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from .abstract_values import Roots
    from .workspace_code import WorkspaceCode

    class Bodies(Protocol):
        """The interface for visiting the bodies of functions."""

        def visit(self, node: Any, scope: Scope) -> None:
            """Visit a statement."""

        def value(self, node: Any, scope: Scope) -> Value:
            """Visit an expression, and return what is known about its value."""

        def record_into(self, found: Effects) -> None:
            """Add effects to another record."""


MAX_CALL_DEPTH = 12
"""Maximum number of nested calls that are followed."""


class FunctionRuns:
    """Visits the bodies of functions that are called.

    `stack` contains the functions whose bodies are being visited: the id of the syntax node, and one that distinguishes
    functions with the same node.
    """

    def __init__(self, found: Effects, workspace: WorkspaceCode, bodies: Bodies) -> None:
        self.found, self.workspace, self._bodies = found, workspace, bodies
        self.stack: tuple[tuple[int, int], ...] = ()

    def run(
        self,
        function: Any,
        given: list[Value],
        node: ast.AST | None = None,
        named: dict[str | None, Value] | None = None,
    ) -> Value:
        """Visit the body of a workspace function, and return the value of the call."""
        self.found.calls.add(id(function))
        self.found.reads.add(function_read(function, "()"))
        source = self.workspace.source(function)
        if source is None:
            self.found.record_effect(node)
            return Value()
        closure = {
            name: cell_value(cell) for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ())
        }
        outer = Scope(function.__globals__, closure)
        key = id(function) if function.__closure__ else 0
        return self.run_node(source, outer, given, named or {}, node, defaults_of(function), key)

    def run_node(
        self,
        inner: Any,
        outer: Scope,
        given: list[Value],
        named: dict[Any, Value],
        node: ast.AST | None,
        defaults: dict[str, Any] | None = None,
        closure_id: int | None = None,
    ) -> Value:
        """Visit the body of a function given by its syntax node `inner`, and return the value of the call.

        `outer` is the scope that contains the function. Several functions may have the same node, but different
        variables in their closures. `closure_id` distinguishes them, by default according to `outer`.
        """
        call = id(inner), id(outer) if closure_id is None else closure_id
        if call in self.stack:
            made = Value()
            made.is_recursive = True
            return made
        self.found.reads.add((outer.home, code_position_name(inner)))
        if len(self.stack) >= MAX_CALL_DEPTH:
            self.found.record_effect(node)
            return Value()
        names = dict(outer.names or {})
        arguments = inner.args
        plain = [parameter.arg for parameter in (*getattr(arguments, "posonlyargs", []), *arguments.args)]
        names.update({name: Value() for name in plain})
        names.update(zip(plain, given))
        names.update({kwonlyarg.arg: Value() for kwonlyarg in arguments.kwonlyargs})
        names.update({name: value for name, value in named.items() if name in names})
        is_partly_known = None in named or any(
            isinstance(argument, ast.Starred) for argument in getattr(node, "args", ())
        )
        for name, live in (defaults or {}).items():
            if name not in plain[: len(given)] and name not in named and name in names:
                self.found.defaults.add(id(live))
                if not is_partly_known:
                    names[name] = Value(roots_of(live), live)
        if arguments.vararg is not None:
            more = given[len(plain) :]
            names[arguments.vararg.arg] = Value(
                frozenset().union(*(value.roots for value in more)), kind=tuple, items=tuple(more) or None
            )
        if arguments.kwarg is not None:
            names[arguments.kwarg.arg] = Value()
        scope = Scope(outer.space, names)
        scope.function = inner
        before, self.stack = self.stack, (*self.stack, call)
        try:
            if isinstance(inner, ast.Lambda):
                return self._bodies.value(inner.body, scope)
            for statement in inner.body:
                self._bodies.visit(statement, scope)
        finally:
            self.stack = before
        if scope.is_generator:
            return Value(kind=types.GeneratorType, items=tuple(distinct(scope.yielded)))
        if not scope.returned:
            return Value()
        return either(scope.returned)

    def run_each(
        self, functions: list[Any], given: list[Value], node: ast.AST, named: dict[str | None, Value]
    ) -> Value:
        """Visit the bodies of all functions that a call may reach."""
        roots: Roots = NO_ROOTS
        for function in functions:
            while not self.workspace.has_function(function) and attribute_dict(function).get("__wrapped__") is not None:
                function = attribute_dict(function)["__wrapped__"]  # noqa: PLW2901  # the function within
            if self.workspace.has_function(function):
                roots |= self.run(function, given, node, named).roots
            else:
                self.found.record_effect(node)
        return Value(roots)

    def read_call(self, function: Any, given: list[Value]) -> None:
        """Record what a call to a workspace function would read, without its effects."""
        found, inside = self.found, Effects()
        inside.nodes = found.nodes
        self._bodies.record_into(inside)
        try:
            self.run(function, given)
        finally:
            self._bodies.record_into(found)
        found.reads |= inside.reads
        found.guesses |= inside.guesses
        found.nodes = inside.nodes
