"""Define methods and assign attributes in existing classes, as the class body would."""

from __future__ import annotations

import ast
import sys
import types

from ...basics.definition_access import ABSENT, qualified_name, space_of
from ..statements import CLASS, FUNCTION
from .open_classes import overrides_setattr
from .statement_syntax import decorators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..statements import Statement
    from .edited_module import EditedModule
    from .function_updates import FunctionUpdates
    from .signature_updates import SignatureUpdates
    from .statement_steps import StatementSteps


class ClassBodySteps:
    """Creates the steps of a load that define functions and methods, and those that assign class attributes."""

    def __init__(
        self,
        edited: EditedModule,
        functions: FunctionUpdates,
        signatures: SignatureUpdates,
        statements: StatementSteps,
    ) -> None:
        self.edited, self.functions, self.signatures, self.statements = edited, functions, signatures, statements

    def make_definition(self, statement: Statement) -> Callable[[], object]:
        """Return a function that defines a top-level function or a method, including its decorators."""
        code = self.edited.codes[1].code_of_statement(statement.node)
        if not statement.owner:
            return self.statements.make_runner(statement.node)
        kind = self.edited.class_of(statement.owner)
        if code is None or set(code.co_freevars) - {"__class__"}:
            return self.statements.make_runner(self.edited.new.tree.body[statement.top])

        def define() -> object:
            space = dict(space_of(kind))
            value: Any = self._make_method(statement.node, code, kind, space)
            made = [
                eval(self.edited.compile(ast.Expression(decorator), "eval"), self.edited.space, space)
                for decorator in decorators(statement)
            ]
            for decorate in reversed(made):
                value = decorate(value)
            type.__setattr__(kind, statement.node.name, value)
            if statement.node.name == "__eq__" and "__hash__" not in space_of(kind):
                type.__setattr__(kind, "__hash__", None)
            name_it = getattr(type(value), "__set_name__", None)
            if name_it is not None:
                name_it(value, kind, statement.node.name)
            return ABSENT

        return define

    def _make_method(self, node: Any, code: types.CodeType, kind: Any, space: dict[str, Any]) -> types.FunctionType:
        """Create the function for a method definition, which may use `super()`."""
        closure = tuple(types.CellType(kind) for _ in code.co_freevars)
        made = types.FunctionType(code, self.edited.space, node.name, None, closure)
        made.__qualname__ = qualified_name(kind) + "." + node.name
        self.signatures.update([made], node, space)
        return made

    def make_assignment(self, owner: str, statement: Statement) -> Callable[[], object]:
        """Return a function that assigns an attribute of a class."""
        kind = self.edited.class_of(owner) if owner else None
        if statement.kind == FUNCTION:
            code = self.edited.codes[1].code_of_statement(statement.node)
            space = dict(space_of(kind)) if kind is not None else {}

            def sign() -> object:
                functions = [function for function in self.functions.touched if function.__code__ is code]
                self.signatures.update(functions, statement.node, space, self.edited.value(statement.name))
                return ABSENT

            return sign
        is_lazy = isinstance(statement.node, ast.AnnAssign) and sys.version_info >= (3, 14)
        code = self.edited.compile(
            ast.Module([_without_annotation(statement.node)] if is_lazy else [statement.node], []), "exec"
        )

        def assign() -> object:
            if is_lazy:
                self._annotate_class(kind, owner)
            before = dict(space_of(kind))
            space = {**before, "__annotations__": dict(before.get("__annotations__") or {})}
            exec(code, self.edited.space, space)
            for name in _changed_bindings(space, before):
                setattr(kind, name, space[name])
                name_it = getattr(type(space[name]), "__set_name__", None)
                if name_it is not None and not overrides_setattr(type(kind)):
                    name_it(space[name], kind, name)
            return ABSENT

        return assign

    def _annotate_class(self, kind: Any, owner: str) -> None:
        """Update the annotations of a class from the source. From Python 3.14 on, they are evaluated lazily."""
        node: Any = next(
            statement.node
            for statement in self.edited.statements
            if statement.kind == CLASS and statement.name + "." == owner
        )
        body: list[ast.stmt] = [
            ast.copy_location(ast.AnnAssign(child.target, child.annotation, None, child.simple), child)
            for child in node.body
            if isinstance(child, ast.AnnAssign) and child.simple
        ]
        stub = type(node)(**{name: getattr(node, name, None) for name in node._fields})
        stub.bases, stub.keywords, stub.decorator_list, stub.body = [], [], [], body or [ast.Pass()]
        ast.copy_location(stub, node)
        ast.fix_missing_locations(stub)
        space: dict[str, Any] = {}
        exec(self.edited.compile(ast.Module([stub], []), "exec"), self.edited.space, space)
        annotate = space[node.name].__annotate__
        if annotate is not None and "__classdict__" in annotate.__code__.co_freevars:
            annotate.__closure__[annotate.__code__.co_freevars.index("__classdict__")].cell_contents = space_of(kind)
        before = kind.__annotate__
        self.edited.undo.record_undo(setattr, kind, "__annotate__", before)
        kind.__annotate__ = annotate


def _without_annotation(node: Any) -> ast.stmt:
    """Convert an annotated assignment to a plain one, or to `pass` if it has no value."""
    made: ast.stmt = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
    return ast.fix_missing_locations(ast.copy_location(made, node))


def _changed_bindings(space: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Return the names whose values differ from the previous ones."""
    found = [
        name for name, value in space.items() if name != "__annotations__" and before.get(name, ABSENT) is not value
    ]
    return [*found, *(["__annotations__"] if space["__annotations__"] != (before.get("__annotations__") or {}) else [])]
