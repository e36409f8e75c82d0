"""Predict the effects of running a statement by analyzing its syntax and the objects that it names.

Calls to the workspace's functions are followed into their bodies. No user code is run: names, module attributes and
methods are looked up in dictionaries.
"""

from __future__ import annotations

import ast
import types

from ...basics.definition_access import defining_module_name, is_class, order_of
from ..statements import FUNCTION_NODES, names_bound_by
from ..stored_attributes import module_dict
from .abstract_values import Value, class_value
from .effects import Effects, class_read
from .interpreter import Interpreter
from .pure_calls import SIGNATURE_READING_LIBRARIES
from .scopes import Scope, class_names, class_scope
from .static_attributes import UNKNOWN_OBJECT, library_of
from .workspace_code import WorkspaceCode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class Analysis:
    """Predicts the effects that running a module's statements would have.

    `source_of` returns the syntax node of a workspace function, or None for other functions.
    """

    def __init__(self, source_of: Callable[[types.FunctionType], ast.AST | None]) -> None:
        self._workspace = WorkspaceCode(source_of)
        self._interpreter = Interpreter(self._workspace)

    def source(self, function: Any) -> ast.AST | None:
        """Return the syntax node of a workspace function or the source of a workspace file. Return None if unknown."""
        return self._workspace.source(function)

    def statement_effects(self, node: ast.AST, space: dict[str, Any]) -> Effects:
        """Return the effects of running a statement or evaluating an expression in a module."""
        with self._interpreter as found:
            self._interpreter.visit(node, Scope(space))
        return found

    def decorator_effects(self, node: Any, space: dict[str, Any], kind: Any = None) -> Effects:
        """Return the effects of applying the decorators of a definition."""
        classes, scope = self._interpreter.classes, class_scope(space, kind)
        with self._interpreter as found:
            if isinstance(node, ast.ClassDef):
                classes.decorate(node, class_value(node, space), scope)
            elif isinstance(node, FUNCTION_NODES):
                made = classes.decorate(node, Value(inner=(node, scope)), scope)
                if kind is not None:
                    classes.name_descriptor(made, kind, ast.Pass())
        return found

    def body_effects(self, nodes: Iterable[ast.AST], space: dict[str, Any], kind: Any) -> Effects:
        """Return the effects of statements or expressions in the body of the class `kind`."""
        nodes = list(nodes)
        names = class_names(kind)
        for name in {name for node in nodes for name in names_bound_by(node)} & space.keys():
            names.pop(name, None)  # a statement such as `limit = limit` reads the name of the module
        scope = Scope(space, names)
        scope.is_class = kind is not None
        scope.kind = kind
        with self._interpreter as found:
            for node in nodes:
                self._interpreter.visit(node, scope)
        return found

    def reads_signatures(self, node: Any, space: dict[str, Any]) -> bool:
        """Return whether a decorator of a function comes from a library that reads signatures and annotations."""
        scope = Scope(space)
        with self._interpreter:
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                owner = called.value if isinstance(called, ast.Attribute) else called
                value = self._interpreter.value(owner, scope)
                if value.live is not UNKNOWN_OBJECT and library_of(value.live) in SIGNATURE_READING_LIBRARIES:
                    return True
        return False

    def library_name(self, node: ast.expr, space: dict[str, Any]) -> str:
        """Return the top-level package of the object that an expression names, or "" if it is unknown.

        For an attribute, this is the package of the object that has the attribute.
        """
        with self._interpreter:
            value = self._interpreter.value(node.value if isinstance(node, ast.Attribute) else node, Scope(space))
        if value.live is UNKNOWN_OBJECT:
            return ""
        if type(value.live) is types.ModuleType:
            return str(module_dict(value.live).get("__name__")).partition(".")[0]
        kind = value.live if is_class(value.live) else type(value.live)
        home = value.live.__module__ if type(value.live) is types.FunctionType else defining_module_name(kind)
        return str(home).partition(".")[0]

    def annotation_reads(self, node: Any, space: dict[str, Any], *, with_signatures: bool = False) -> Effects:
        """Return the names that a function's annotations read.

        With `with_signatures`, include the signatures of classes.
        """
        scope = Scope(space)
        arguments = node.args
        every = [
            *getattr(arguments, "posonlyargs", []),
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        with self._interpreter as found:
            for annotation in [*(argument.annotation for argument in every if argument is not None), node.returns]:
                if annotation is not None:
                    self._interpreter.classes.visit_annotation(annotation, scope, with_signatures=with_signatures)
        return found

    def call(self, function: types.FunctionType, kind: Any = None) -> Effects:
        """Return the effects of calling a workspace function. `kind` is the class of its first argument, if known."""
        with self._interpreter as found:
            self._interpreter.runs.run(function, [Value(kind=kind)] if kind else [])
        return found

    def bases(self, kind: Any) -> Effects:
        """Return the attributes that a library reads from the bases of a class when creating the class."""
        found = Effects()
        found.reads.update(class_read(base, "=") for base in order_of(kind)[1:-1])
        return found

    def class_creation_effects(
        self, node: ast.ClassDef, space: dict[str, Any], *, reads_bases: bool = True, hooks: str = ""
    ) -> Effects:
        """Return the effects of creating a class, without the effects of its body and decorators.

        Without `reads_bases`, reads by the expressions for its bases and keywords are left out. `hooks` is `metaclass`
        or `bases` if only the hooks of the metaclass or of the bases count.
        """
        with self._interpreter as found:
            self._interpreter.classes.create(node, Scope(space), reads_bases=reads_bases, hooks=hooks)
        return found
