"""Interpret statements and expressions without running them."""

from __future__ import annotations

from .attribute_access import AttributeAccess
from .call_effects import CallEffects
from .class_creation import ClassCreation
from .effects import Effects
from .expressions import Expressions
from .function_runs import FunctionRuns
from .library_reads import LibraryReads
from .special_methods import SpecialMethods
from .statements import Statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .abstract_values import Value
    from .scopes import Scope
    from .workspace_code import WorkspaceCode


class Interpreter:
    """Visits statements and expressions, and records their effects.

    When it is used as a context manager, it returns a new record, and all of its parts add effects to that record until
    the `with` block ends. Afterwards, it no longer refers to any object of the program.
    """

    def __init__(self, workspace: WorkspaceCode) -> None:
        self._no_effects = found = Effects()
        self.runs = FunctionRuns(found, workspace, self)
        attributes = AttributeAccess(found, workspace, self.runs)
        special = SpecialMethods(found, workspace, self.runs, attributes)
        library = LibraryReads(found, workspace)
        calls = CallEffects(found, workspace, self.runs, attributes, special, library)
        self.expressions = Expressions(found, workspace, self.runs, attributes, special, calls)
        self.classes = ClassCreation(found, workspace, self.runs, library, calls, self.expressions)
        self.statements = Statements(found, workspace, self.runs, special, library, self.expressions, self.classes)
        self._parts: tuple[Any, ...] = (
            self.runs, attributes, special, library, calls, calls.constructors, calls.library_calls, self.expressions,
            self.expressions.assignments, self.classes, self.statements,
        )  # fmt: skip

    def __enter__(self) -> Effects:
        found = Effects()
        self.record_into(found)
        return found

    def __exit__(self, *error: object) -> None:
        self.record_into(self._no_effects)

    def record_into(self, found: Effects) -> None:
        """Make all parts add effects to another record."""
        for part in self._parts:
            part.found = found

    def visit(self, node: Any, scope: Scope) -> None:
        """Visit a statement."""
        self.statements.visit(node, scope)

    def value(self, node: Any, scope: Scope) -> Value:
        """Visit an expression, and return what is known about its value."""
        return self.expressions.value(node, scope)
