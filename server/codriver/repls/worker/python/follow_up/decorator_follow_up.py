"""Apply decorators again if they depend on a change."""

from __future__ import annotations

import ast
import types

from ...basics.definition_access import ABSENT, is_class, space_of
from ..admin_models import registers_model
from ..celery_tasks import find_task, renewing_task
from ..effects.pure_calls import is_registry_class
from ..rebuilds import refers_to_function
from ..signal_senders import SIGNAL_LIBRARIES, connects_receiver
from ..statements import names_bound_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...basics.undo_records import UndoRecord
    from ..effects.analysis import Analysis
    from ..effects.effects import Effects
    from ..module_text import Text
    from ..name_changes import NameChanges
    from ..rebuilds import Rebuilds
    from .class_follow_up import ClassFollowUp
    from .existing_functions import ExistingFunctions
    from .module_code import ModuleCode
    from .reports import Reports


class DecoratorFollowUp:
    """Reapplies decorators of functions and classes if the decorators depend on a change."""

    def __init__(
        self,
        analysis: Analysis,
        changes: NameChanges,
        code: ModuleCode,
        reports: Reports,
        existing: ExistingFunctions,
        rebuilds: Rebuilds,
        classes: ClassFollowUp,
        undo: UndoRecord,
    ) -> None:
        self.analysis, self.changes, self.code = analysis, changes, code
        self.reports, self.existing, self.rebuilds, self.classes = reports, existing, rebuilds, classes
        self.undo = undo

    def follow(self, text: Text, top: int, node: Any, *, is_affected: bool) -> None:
        """Apply the decorators of a function again if they, or what they receive, depend on a change."""
        effects = self.analysis.decorator_effects(node, text.space)
        if is_affected and not self.changes.is_affected(effects):
            if effects.effect is None and not effects.fills:
                return
            effects.reads |= self.analysis.annotation_reads(node, text.space, with_signatures=True).reads
            for position in (*node.args.defaults, *node.args.kw_defaults):
                effects.reads |= (
                    self.analysis.body_effects([position], text.space, None).reads if position is not None else set()
                )
        elif not self.changes.is_affected(effects):
            return
        task = find_task(text.space.get(node.name))
        if len(node.decorator_list) == 1 and task is not None:
            with renewing_task(text.space, node.name, self.undo):
                is_applied = self.apply_again(text, node)
            self.changes.record_filled({id(task.app)})
            if not is_applied:
                self.reports.report(text, node, f"the decorators used {self.changes.cause(effects)}, which has changed")
        elif self.only_connects(text, node) and self.changes.has_only_changed_classes(effects):
            return  # the signals and admin sites are updated when the load is complete
        elif effects.effect is not None:
            self.reports.report(
                text,
                node,
                f"the decorators ran with {self.changes.cause(effects)}, which has changed, and applying them again "
                "may affect other processes",
            )
        elif effects.fills and not self._fills_only_itself(text, node, effects):
            self.rebuilds.rebuild_filled(text, top, node, effects)
        elif is_registry_class(type(text.space.get(node.name))):  # which would be empty without other statements
            self.rebuilds.rebuild_name(text, node.name, text, top, effects)
        elif not self.apply_again(text, node):
            self.reports.report(text, node, f"the decorators used {self.changes.cause(effects)}, which has changed")

    def only_connects(self, text: Text, node: Any) -> bool:
        """Return whether all decorators connect a function to signals, or register the options of a model."""
        return all(
            (connects_receiver(decorator) or registers_model(decorator))
            and self.analysis.library_name(decorator.func, text.space) in SIGNAL_LIBRARIES
            for decorator in node.decorator_list
        )

    def _fills_only_itself(self, text: Text, node: Any, effects: Effects) -> bool:
        """Return whether the decorators of a definition fill no objects other than the definition itself."""
        bound_name = {id(text.space.get(node.name))} | {
            id(function) for function in self.existing.find(text.file, node)
        }
        return effects.fills <= bound_name

    def apply_again(self, text: Text, node: Any) -> bool:
        """Apply the decorators in a statement to the existing function or class again.

        Returns False if the function or class is unknown.
        """
        before = text.space.get(node.name, ABSENT)
        if isinstance(node, ast.ClassDef):
            if not is_class(before):
                return False
            if not self._undo_decorators(text, node, before):
                return self.classes.make_again(text, node, before)
            value: Any = before
        else:
            functions = self.existing.find(text.file, node)
            if not functions:  # nothing refers to the function that was decorated
                self.code.run(text, node)
                return True
            if len(functions) > 1:
                functions = [function for function in functions if refers_to_function(before, function)]
            if len(functions) != 1:
                return False
            value = functions[0]
            if value.__dict__:  # its decorators would add to the attributes that they have set
                self.code.run(text, node)
                return True
        made = [
            eval(self.code.compile(text, ast.Expression(decorator), "eval"), text.space)
            for decorator in node.decorator_list
        ]
        for decorate in reversed(made):
            value = decorate(value)
        text.space[node.name] = value
        if text.name != self.code.name and value is not before:
            self.undo.record_key(f"{text.name}.{node.name}", text.space, node.name, before)
        return True

    def _undo_decorators(self, text: Text, node: ast.ClassDef, kind: Any) -> bool:
        """Delete the attributes set by the decorators of a class.

        Returns False if the attributes are not known, or if some of them replace attributes set in the body of the
        class.
        """
        effects = self.analysis.decorator_effects(node, text.space)
        names = {name for key, name in effects.attributes if key == id(kind)}
        space = space_of(kind)
        bound = {name for statement in node.body for name in names_bound_by(statement)}
        if "*" in names or names & bound or "__dataclass_fields__" in space or "__attrs_attrs__" in space:
            return False
        # `total_ordering` only adds the comparisons that a class does not have.
        names |= {
            name for name, value in space.items()
            if name not in bound and type(value) is types.FunctionType and value.__module__ == "functools"
        }  # fmt: skip
        for name in names & space.keys():
            before = space[name]
            type.__delattr__(kind, name)
            self.undo.record_attribute("", kind, name, before)
        return True
