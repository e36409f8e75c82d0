"""Plan how to apply each difference between the sources of a module."""

from __future__ import annotations

import ast

from ...basics.definition_access import ABSENT
from ..statements import (
    BODY,
    CLASS,
    DOCSTRING,
    FUNCTION,
    GUARD,
    IMPORT,
    VALUE,
    assigned_names,
    names_bound_by,
)
from .removals import NOT_UNDONE_REASON
from .statement_syntax import has_no_effect, names_bound

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types

    from ..statements import Change
    from .class_planner import ClassPlanner
    from .edited_module import EditedModule
    from .function_planner import FunctionPlanner
    from .function_updates import FunctionUpdates
    from .load_plan import LoadPlan
    from .removals import Removals


class ChangePlanner:
    """Plans the steps for each change to a function, a statement, a guard, a docstring or a class."""

    def __init__(
        self,
        edited: EditedModule,
        plan: LoadPlan,
        functions: FunctionUpdates,
        function_planner: FunctionPlanner,
        classes: ClassPlanner,
        removals: Removals,
    ) -> None:
        self.edited, self.plan, self.functions = edited, plan, functions
        self.function_planner, self.classes, self.removals = function_planner, classes, removals
        self.docstrings = function_planner.docstrings

    def plan_change(self, change: Change, left: dict[int, types.FunctionType]) -> None:
        """Plan the steps for one difference between the sources."""
        statement, old, new = change.current_statement, change.old, change.new
        is_function = old is not None and new is not None and old.kind == new.kind == FUNCTION
        has_code = is_function and old is not None and self.functions.has_code(old, left)
        if statement.guard or statement.kind == GUARD:
            self._plan_guarded(change, has_code=has_code)
        elif new is None:
            self.removals.plan_removal(statement)
            is_undone = self.removals.is_undone(statement)
            if not is_undone and not has_no_effect(statement.node):
                self.plan.stays.append((statement.name, NOT_UNDONE_REASON))
        elif statement.owner:
            self.classes.plan_change(change, new, has_code=has_code)
        elif statement.kind == FUNCTION:
            if not (has_code and self.function_planner.needs_only_update(change)):
                self.plan.defined[id(new.node)] = new
        elif statement.kind == DOCSTRING:
            self.docstrings.set_docstring(None, new.node)
        elif statement.kind == CLASS and change.parts == (DOCSTRING,):
            self.docstrings.set_docstring(
                self.edited.space.get(statement.name), new.node.body[0] if new.parts[DOCSTRING] else None
            )
        elif not has_no_effect(statement.node):
            self.plan.tops.add(new.top)
            if old is not None and old.kind == new.kind == VALUE:  # it may no longer have an assignment expression
                self.plan.removed += [name for name in names_bound_by(old.node) if name not in names_bound_by(new.node)]

    def _plan_guarded(self, change: Change, *, has_code: bool) -> None:
        """Plan the steps for a difference inside a compound statement such as `if` or `try`."""
        statement, new = change.current_statement, change.new
        if new is None:
            self.removals.plan_removal(statement)
        elif not (has_code and set(change.parts) <= {BODY, DOCSTRING}):
            is_moved = (
                statement.kind == FUNCTION and change.old is not None and self.edited.value(statement.name) is ABSENT
            )
            if not is_moved:
                if not statement.owner and statement.kind in (IMPORT, VALUE, FUNCTION, CLASS):
                    self._forget_moved(change)
                self.plan.tops.add(new.top)

    def _forget_moved(self, change: Change) -> None:
        """Remove the names bound by a statement that moved to another compound statement, such as another `if`.

        Names that other statements bind are kept.
        """
        if change.old is None or change.old.guard == change.current_statement.guard:
            return
        for name in (
            names_bound(change.current_statement.node) if change.old.kind == IMPORT else [change.current_statement.name]
        ):
            others = [
                statement
                for statement in self.edited.statements
                if statement.node is not change.current_statement.node
                and not statement.owner
                and name in assigned_names(statement.node)
            ]
            if not others and name in self.edited.space:
                del self.edited.space[name]

    def plan_restored_name(self, name: str) -> None:
        """Plan to restore the file's definition of a name that was rebound at run time."""
        found = [
            statement
            for statement in self.edited.statements
            if name in [statement.owner + bindings for bindings in assigned_names(statement.node)]
            or statement.name == name
        ]
        for statement in found[-1:]:
            if statement.guard or (statement.kind == CLASS and statement.owner):
                self.plan.tops.add(statement.top)
            elif statement.kind == FUNCTION:
                self.plan.defined[id(statement.node)] = statement
            elif statement.owner:
                self.plan.attributes[id(statement.node)] = statement.owner, statement
            else:
                self.plan.tops.add(statement.top)

    def plan_decorators(self) -> None:
        """Plan to redefine functions whose decorators use a redefined function, such as a property's setter."""
        names = {statement.name for statement in self.plan.defined.values()}
        for statement in self.edited.statements if names else ():
            if statement.kind == FUNCTION and not statement.guard and statement.name in names:
                read = (node for decorator in statement.node.decorator_list for node in ast.walk(decorator))
                if any(isinstance(node, ast.Name) and node.id == statement.node.name for node in read):
                    self.plan.defined[id(statement.node)] = statement
