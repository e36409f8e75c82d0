"""Run edited top-level statements."""

from __future__ import annotations

import ast
import contextlib
import sys

from ...basics.definition_access import ABSENT
from ..celery_tasks import renewing_task
from ..effects.pure_calls import is_registry_class
from ..statements import FUNCTION_NODES, assigned_names, comparable_dump, line_range, makes_new_object, names_bound_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

    from .edited_module import EditedModule
    from .load_plan import LoadPlan


class StatementSteps:
    """Creates the functions that run top-level statements of an edited module."""

    def __init__(self, edited: EditedModule, plan: LoadPlan) -> None:
        self.edited, self.plan = edited, plan

    def make_runner(self, node: ast.stmt) -> Callable[[], object]:
        """Return a function that runs a top-level statement."""
        if isinstance(node, ast.Expr):
            code = self.edited.compile(ast.Expression(node.value), "eval")
            is_last = node is self.edited.new.tree.body[-1]

            def value() -> object:
                try:
                    with self._hiding_later_entries(node):
                        found: object = eval(code, self.edited.space)
                except Exception as error:
                    if not self._report_conflict(node, error):
                        raise
                    return ABSENT
                return found if is_last else ABSENT

            return value
        run_node = _runner(self.edited.compile(ast.Module([node], []), "exec"), self.edited.space)
        followers = self.edited.followers
        bound = names_bound_by(node)

        def run() -> object:
            if followers is not None:
                followers.rebuilds.forget_names_set_by_globals(followers.text, node)
                home = self.edited.module.__name__
                followers.rebuilds.revived.update((home, name) for name in bound if name not in self.edited.space)
            if type(node).__name__ == "Match":  # only one of its cases binds names
                for name in names_bound_by(node):
                    if not any(
                        name in names_bound_by(statement)
                        for statement in self.edited.new.tree.body
                        if statement is not node
                    ):
                        self.edited.space.pop(name, None)
            if isinstance(node, FUNCTION_NODES) and node.decorator_list:
                with renewing_task(self.edited.space, node.name, self.edited.undo):
                    return run_node()
            with self._hiding_later_entries(node):
                return run_node()

        return self._wrap_preserving_identity(node, run) if isinstance(node, (ast.Assign, ast.AnnAssign)) else run

    def _hiding_later_entries(self, node: ast.stmt) -> AbstractContextManager[None]:
        """Return a context manager that hides what later statements have added to collections."""
        followers = self.edited.followers
        if followers is None:
            return contextlib.nullcontext()
        hidden: AbstractContextManager[None] = followers.later.hidden(followers.text, node)
        return hidden

    def _report_conflict(self, node: ast.Expr, error: Exception) -> bool:
        """Report that a statement fails because its previous version has already added something to a parser.

        Returns False for other errors.
        """
        kind = getattr(sys.modules.get("argparse"), "ArgumentError", None)
        call = node.value
        if not isinstance(call, ast.Call) or kind is None or type(error) is not kind:
            return False
        before = [change.old.node for change in self.edited.comparison.changes if change.old is not None]
        previous = [
            statement.value.func
            for statement in before
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        ]
        if comparable_dump([call.func]) not in [comparable_dump([called]) for called in previous]:
            return False
        why = (
            f"line {line_range(node)[0]}: the statement was not applied, because its previous version is still in "
            f"effect: {error}"
        )
        self.plan.stays.append((self.edited.new.summary(node), why))
        return True

    def _wrap_preserving_identity(self, node: Any, run: Callable[[], object]) -> Callable[[], object]:
        """Wrap a function that assigns a new collection or object.

        The existing collection or object gets the contents of the new one instead.
        """
        followers = self.edited.followers
        names = [name for name in assigned_names(node) if name.isidentifier()]
        olds = [
            change.old
            for change in self.edited.comparison.changes
            if change.new is not None and change.new.node is node
        ]
        is_new = bool(olds) and olds[0] is not None and makes_new_object(node) and makes_new_object(olds[0].node)
        is_fresh = len(names) == 1 and (is_new or is_registry_class(type(self.edited.space.get(names[0]))))
        if followers is None or not is_fresh:
            return run

        def assign() -> object:
            before = self.edited.space.get(names[0], ABSENT)
            found = run()
            if names[0] not in self.edited.bound.rebound:
                followers.rebuilds.preserve_identity(followers.text, names[0], before, node)
            return found

        return assign


def _runner(code: types.CodeType, space: dict[str, Any]) -> Callable[[], object]:
    """Return a function that runs code in a namespace."""

    def run() -> object:
        exec(code, space)
        return ABSENT

    return run
