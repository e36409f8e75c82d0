"""Plan to define a `singledispatchmethod` and all its implementations again if their types have changed."""

from __future__ import annotations

import ast
import functools

from ...basics.definition_access import space_of
from ..statements import DECORATORS, FUNCTION, SIGNATURE
from .signature_updates import SIGNATURE_USED_REASON
from .statement_syntax import decorators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..statements import Statement
    from .edited_module import EditedModule
    from .load_plan import LoadPlan


class DispatcherPlanner:
    """Plans the steps for methods that are registered with a `singledispatchmethod`."""

    def __init__(self, edited: EditedModule, plan: LoadPlan) -> None:
        self.edited, self.plan = edited, plan

    def plan_dispatchers(self) -> None:
        """Plan to define a `singledispatchmethod` and all its implementations again if their types have changed."""
        found: dict[tuple[str, str], None] = {}
        for change in self.edited.comparison.changes:
            if change.old is None or change.new is None or {DECORATORS, SIGNATURE} & set(change.parts):
                for statement in (change.old, change.new):
                    name = self._find(statement) if statement is not None else ""
                    if statement is not None and name:
                        found[statement.owner, name] = None
        for owner, name in found:
            for statement in self.edited.statements:
                if (
                    statement.owner == owner
                    and not statement.guard
                    and (statement.name == owner + name or self._find(statement) == name)
                ):
                    self.plan.attributes.pop(id(statement.node), None)
                    self.plan.defined[id(statement.node)] = statement
                    self.plan.stays[:] = [
                        row for row in self.plan.stays if row != (statement.name, SIGNATURE_USED_REASON)
                    ]
            if self.edited.followers is not None:
                self.edited.followers.changes.record_update(self.edited.module.__name__, owner + name)

    def _find(self, statement: Statement) -> str:
        """Return the name of the `singledispatchmethod` with which a method is registered, or ""."""
        kind = self.edited.class_of(statement.owner) if statement.kind == FUNCTION and statement.owner else None
        for decorator in decorators(statement) if kind is not None else ():
            inner = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(inner, ast.Attribute) and inner.attr == "register" and isinstance(inner.value, ast.Name):
                name = inner.value.id
                if type(space_of(kind).get(name)) is functools.singledispatchmethod:
                    return name
        return ""
