"""Apply the changes in a file whose previous source is known, and run nothing else.

New code is put into the existing functions. If that is not enough, the smallest possible part is run: a default value,
a class attribute, a definition with its decorators, a statement in the module, or a class. Parts that cannot be updated
are reported.
"""

from __future__ import annotations

from ..follow_failures import Reporting
from ..statements import line_range
from .change_planner import ChangePlanner
from .class_body_steps import ClassBodySteps
from .class_planner import ClassPlanner
from .dispatcher_planner import DispatcherPlanner
from .docstring_updates import DocstringUpdates
from .edited_module import EditedModule
from .enum_updates import MemberUpdates
from .function_planner import FunctionPlanner
from .function_updates import FunctionUpdates, edited_functions
from .load_plan import LoadPlan
from .load_steps import LoadStepBuilder
from .refill_planner import RefillPlanner
from .removals import Removals
from .signature_updates import SignatureUpdates
from .statement_steps import StatementSteps
from .statement_syntax import dotted_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterable
    from typing import Any

    from ...basics.undo_records import UndoRecord
    from ..statements import SourceText, Statement
    from .load_steps import LoadStep


class MinimalLoad:
    """Replaces the source of a loaded module with a new one, running as little as possible.

    `again` contains the dotted names that were rebound at run time. The load binds them to the file's definition again.
    `cleared_caches` contains the functions and properties whose caches were cleared, each with the number of
    cached values.
    """

    def __init__(
        self,
        module: types.ModuleType,
        sources: tuple[SourceText, SourceText],
        file: str,
        undo: UndoRecord,
        again: Iterable[str] = (),
    ) -> None:
        self.edited = edited = EditedModule(module, sources, file, undo)
        self.plan = plan = LoadPlan()
        self.functions = FunctionUpdates(edited, plan)
        self.signatures = SignatureUpdates(edited, plan)
        self.members = MemberUpdates(edited, plan)
        function_planner = FunctionPlanner(edited, plan, DocstringUpdates(edited))
        self.classes = ClassPlanner(edited, plan, function_planner)
        self.removals = Removals(edited, plan, self.classes)
        self._changes = ChangePlanner(edited, plan, self.functions, function_planner, self.classes, self.removals)
        statements = StatementSteps(edited, plan)
        self.class_bodies = ClassBodySteps(edited, self.functions, self.signatures, statements)
        self._steps = LoadStepBuilder(edited, plan, statements, self.class_bodies, self.members)
        self.cleared_caches: list[tuple[str, int]] = []
        self._again = list(again)

    def close(self) -> None:
        """Drop all references to updated functions, so that unused functions can be deleted."""
        self.edited.followers = None
        self.functions.close()

    def for_other_module(self, text: Any) -> MinimalLoad:
        """Return a load that can run statements in another module whose source has not changed."""
        return MinimalLoad(text.module, (text.source, text.source), text.file, self.edited.undo)

    def runs_top(self, top: int) -> bool:
        """Return whether this load runs a whole top-level statement because the statement was edited."""
        return top in self.plan.tops

    def pop_not_updated(self) -> list[tuple[str, str]]:
        """Return and clear the list of parts that were not updated."""
        drained, self.plan.stays[:] = list(self.plan.stays), []
        return drained

    @property
    def is_idle(self) -> bool:
        """Return whether there is nothing to do."""
        return not (self.edited.comparison.changes or self.edited.comparison.moved or self._again)

    def update_functions(self, followers: Any | None = None) -> list[LoadStep]:
        """Give existing functions their new code, and return the remaining steps in source order.

        No user code runs until the first step.
        """
        edited, plan = self.edited, self.plan
        edited.followers = followers
        if followers is not None:
            with self._reporting_all():
                followers.prepare()
        functions = edited_functions(edited)
        plan.previous = {id(new.node): old for old, new in functions}
        left: dict[int, types.FunctionType] = {}
        with self._reporting_all():
            left = self.functions.update(functions)
        if followers is not None:
            with self._reporting_all():
                followers.find_changes()
                followers.plan_registries()
        for change in edited.comparison.changes:
            with self._reporting(change.current_statement):
                self._changes.plan_change(change, left)
        with self._reporting_all():
            for name in self._again:
                self._changes.plan_restored_name(name)
            self._changes.plan_decorators()
            DispatcherPlanner(edited, plan).plan_dispatchers()
        with self._reporting_all():
            self.cleared_caches += (*self.plan.cleared_caches, *self.functions.clear_caches())
        with self._reporting_all():
            self.removals.remove_attributes()
        if followers is not None:
            with self._reporting_all():
                RefillPlanner(edited, plan, self.classes, self.removals, followers).plan_refills()
        return self._steps.in_source_order()

    def _reporting(self, statement: Statement) -> Reporting:
        """Return a context manager that reports an error about a statement and continues."""
        line, name = line_range(statement.node)[0], dotted_name(statement)
        return Reporting(lambda why: self.plan.stays.append((name, f"line {line}: {why}")))

    def _reporting_all(self) -> Reporting:
        """Return a context manager that reports an error about the edited names and continues."""
        return Reporting(lambda why: self.plan.stays.append((self.edited.label, why)))
