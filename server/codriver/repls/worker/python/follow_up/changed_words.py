"""Find the words that a statement must contain to depend on a load, and values that were modified before the load."""

from __future__ import annotations

import ast
import contextlib
import sys

from ...basics.definition_access import ABSENT, is_class, order_of, qualified_name, space_of
from ..celery_tasks import find_task
from ..effects.pure_calls import is_registry_class
from ..equal_values import is_equal_without_caches
from ..registrations import REGISTRY_TYPES
from ..statements import BASES, CLASS, DECORATORS, FUNCTION, FUNCTION_NODES, assigned_names, names_bound_by
from ..stored_attributes import module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..edits.edited_module import EditedModule
    from ..effects.analysis import Analysis
    from ..module_text import Text
    from ..registrations import Registrations
    from ..statements import Statement
    from .later_entries import LaterEntries
    from .module_code import ModuleCode
    from .module_sources import ModuleSources

NAMESPACE_READERS = frozenset({"globals", "vars", "dir", "locals"})
"""Functions that return the names in a module."""


class ChangedWords:
    """The names and positions by which a statement is found to depend on the changes of a load.

    - `words` contains the names changed by the edit, without their module or class.
    - `touched` contains the positions of assignments whose values have been modified since they ran.
    - `truths` contains the results of the conditions of `if` statements before the load, by position.
    """

    def __init__(
        self,
        edited: EditedModule,
        sources: ModuleSources,
        analysis: Analysis,
        registrations: Registrations,
        code: ModuleCode,
        later: LaterEntries,
    ) -> None:
        self._edited, self.sources, self.analysis = edited, sources, analysis
        self.registrations, self.code, self.later = registrations, code, later
        self.words: set[str] = set()
        self.touched: set[int] = set()
        self.truths: dict[int, bool] = {}

    def find(self) -> None:
        """Find the words in the changed statements."""
        comparison = self._edited.comparison
        for change in comparison.changes:
            for statement in (change.old, change.new):
                if statement is None:
                    continue
                parts = statement.name.split(".")
                is_dunder = parts[-1][:2] == parts[-1][-2:] == "__"
                self.words |= {parts[0]} if is_dunder and len(parts) > 1 else {parts[-1]}
                if statement.kind != FUNCTION:
                    self.words.update(part for name in assigned_names(statement.node) for part in name.split("."))
                    self.words.update(names_bound_by(statement.node) if not statement.owner else ())
                    self.words.update(parts[:-1])
                elif len(parts) > 1 and (is_dunder or DECORATORS in change.parts):
                    self.words.add(parts[0])
                if statement.kind == CLASS or statement.owner:
                    self.words.update(self._related_classes(statement))
                if BASES in change.parts:
                    self.words.update(self._names_in_bases(statement))
                self.words.update(self._names_of_filled(statement))
                is_registered = statement.kind == CLASS and (change.old is None or change.new is None)
                if is_registered or statement.kind not in (FUNCTION, CLASS) or statement.node.decorator_list:
                    self.words.update(self._filled_names(statement.node, self.sources.text))
        for statement in comparison.moved:
            self.words.update(
                part
                for name in (statement.name, *assigned_names(statement.node))
                for part in (statement.owner + name).split(".")
            )
        self.words = {seed for seed in self.words if seed.isidentifier()}
        is_function_only = all(
            change.old and change.new and change.current_statement.kind == FUNCTION for change in comparison.changes
        )
        if self.words and (not is_function_only or "__dir__" in self.sources.text.space):
            self.words |= NAMESPACE_READERS
            if self._is_configuration():
                self.words.add(self.sources.name.rpartition(".")[2])

    def _is_configuration(self) -> bool:
        """Return whether another module may pass the edited module as a configuration to an application."""
        is_data = any(not change.current_statement.owner for change in self._edited.comparison.changes)
        return is_data and any(b"from_object" in (load.data or b"") for load in list(self.sources.loads.values()))

    def words_in_changes(self) -> set[str]:
        """Return the names of the changed statements, and the names and attributes in them."""
        found: set[str] = set()
        for change in self._edited.comparison.changes:
            for statement in (change.old, change.new):
                if statement is not None:
                    nodes = list(ast.walk(statement.node))
                    found.update(statement.name.split("."))
                    found.update(node.id for node in nodes if isinstance(node, ast.Name))
                    found.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
        return found

    @property
    def removed_names(self) -> list[str]:
        """Return the names of the functions and classes that the edited module no longer defines."""
        removed = [change.old for change in self._edited.comparison.changes if change.new is None]
        return [old.name for old in removed if old is not None and not old.owner and old.kind in (FUNCTION, CLASS)]

    @property
    def all_removed_names(self) -> set[str]:
        """Return the names that statements of the previous source have bound and no statement binds now."""
        removed = [change.old for change in self._edited.comparison.changes if change.old is not None]
        names = {name for old in removed if not old.owner for name in names_bound_by(old.node)}
        return names - {name for node in self.sources.text.body for name in names_bound_by(node)}

    def compare_values(self, deferred: set[str]) -> None:
        """Before the load, evaluate statements that may depend on it to find values that have been modified since.

        The previous values of the names in `deferred` can no longer be computed.
        """
        pairs = {new.top: old.top for old, new in self._edited.comparison.same if not new.owner}
        for top in self.sources.text.statements_mentioning(set(self.words)):
            node = self.sources.text.body[top]
            old = self.sources.old_text.body[pairs[top]] if top in pairs else None
            if old is None:
                continue
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                names = [name for name in assigned_names(node) if name.isidentifier()]
                if not deferred.isdisjoint(names):
                    continue
                if len(names) == 1 and is_registry_class(type(self.sources.text.space.get(names[0]))):
                    continue  # what it has registered is registered again
                effects = self.analysis.statement_effects(old, self.sources.text.space)
                is_pure = effects.effect is None and not effects.fills
                if len(names) == 1 and not (is_pure and self._gives_present_value(old, names[0])):
                    self.touched.add(top)
            elif isinstance(node, ast.If):
                effects = self.analysis.statement_effects(old.test, self.sources.text.space)
                value = (
                    self.code.evaluate_or_absent(self.sources.text, old.test)
                    if effects.effect is None and not effects.fills
                    else ABSENT
                )
                if value is not ABSENT:
                    self.truths[top] = bool(value)

    def _gives_present_value(self, old: Any, name: str) -> bool:
        """Return whether an assignment, run again, would give a name the value that it has.

        Collections are only changed to hide later entries if the value is different with them.
        """
        text = self.sources.text
        present = text.space.get(name, ABSENT)
        for hiding in (contextlib.nullcontext(), self.later.hidden(self.sources.old_text, old)):
            with hiding:
                value = self.code.evaluate_or_absent(text, old.value)
            if value is not ABSENT and (
                is_equal_without_caches(value, present) or _are_classes_of_same_name(value, present)
            ):
                return True
        return False

    def _related_classes(self, statement: Any) -> set[str]:
        """Return the names of a changed class's bases and metaclasses. Other code may use the class through them."""
        names = (
            [base.id for base in statement.node.bases if isinstance(base, ast.Name)] if statement.kind == CLASS else []
        )
        kinds = [self.sources.text.space.get(name) for name in names] + [
            self._edited.class_of(statement.owner) if statement.owner else None
        ]
        related = [each for kind in kinds if is_class(kind) for each in order_of(kind)]
        related += [type(each) for each in related]
        return {each.__name__ for each in related if self.registrations.is_of_project(each)}

    def _names_in_bases(self, statement: Any) -> set[str]:
        """Return the names of the attributes that a class inherits from the workspace, and of collections of classes.

        A statement that gets the class from such a collection may not contain its name.
        """
        space = self.sources.text.space
        values = [space.get(base.id) for base in statement.node.bases if isinstance(base, ast.Name)]
        kinds = {each for value in values if is_class(value) for each in order_of(value)}
        found = {name for kind in kinds if self.registrations.is_of_project(kind) for name in space_of(kind)}
        live = self._edited.class_of(statement.name + ".")
        for name, value in list(space.items()):
            entries = list(value.values() if type(value) is dict else value) if type(value) in REGISTRY_TYPES else []
            if any(entry is live for entry in entries):
                found.add(name)
        return {name for name in found if name[:2] != "__"}

    def names_filled_by_decorators(self, text: Text, words: set[str]) -> set[str]:
        """Return the names of objects filled by decorators that may depend on the names in `words`."""
        seen: set[int] = set()
        found: set[str] = set()
        is_growing = True
        while is_growing:
            is_growing = False
            for top in text.statements_mentioning({*words, *found}):
                node = text.body[top]
                if top not in seen and isinstance(node, (*FUNCTION_NODES, ast.ClassDef)) and node.decorator_list:
                    seen.add(top)
                    more = self._filled_names(node, text) - found
                    found |= more
                    is_growing = is_growing or bool(more)
        return found

    def _names_of_filled(self, statement: Statement) -> set[str]:
        """Return the names of collections that a function may fill, or of the Celery application of a task."""
        if statement.kind != FUNCTION:
            return set()
        names = {node.id for node in ast.walk(statement.node) if isinstance(node, ast.Name)}
        space = self.sources.text.space
        found = {name for name in names if type(space.get(name)) in REGISTRY_TYPES}
        task = find_task(space.get(statement.name))
        if task is not None:
            spaces = [module_dict(sys.modules[name]) for name in [*self.sources.loads] if name in sys.modules]
            found |= {name for each in spaces for name, value in list(each.items()) if value is task.app}
        return found

    def _filled_names(self, node: Any, text: Text) -> set[str]:
        """Return the names of the objects that a statement fills."""
        fills = self.analysis.statement_effects(node, text.space).fills
        return {name for name, value in text.space.items() if id(value) in fills}


def _are_classes_of_same_name(first: Any, other: Any) -> bool:
    """Return whether both objects are classes with the same name."""
    return is_class(first) and is_class(other) and qualified_name(first) == qualified_name(other)
