"""Update values that other statements computed from something that a load has changed.

These statements are checked in source order, each after the preceding ones have run. A statement is run again if that
has no external effects, and values that turn out to be equal keep their identity. Collections are changed in place, so
all references to them see the new contents. Statements that fill a recreated object run again after it. Anything else
is reported by name and line.
"""

from __future__ import annotations

import ast

from ...basics.definition_access import ABSENT, is_class
from ..dependent_modules import DependentModules
from ..effects.analysis import Analysis
from ..name_changes import NameChanges
from ..rebuilds import Rebuilds, deleted_names
from ..registrations import Registrations
from ..shared_registries import SharedRegistries
from ..statements import FUNCTION_NODES, IMPORT, names_bound_by
from .changed_code import record_changed_code
from .changed_words import ChangedWords
from .class_follow_up import ClassFollowUp
from .decorator_follow_up import DecoratorFollowUp
from .existing_functions import ExistingFunctions
from .function_follow_up import FunctionFollowUp
from .import_follow_up import ImportFollowUp, has_module_getattr
from .import_syntax import is_star
from .later_entries import LaterEntries
from .module_code import ModuleCode
from .module_sources import ModuleSources
from .reports import Reports
from .retained_objects import RetainedObjects
from .run_time_entries import RunTimeEntries
from .signature_readers import SignatureReaders
from .statement_follow_up import StatementFollowUp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ...basics.undo_records import UndoRecord
    from ..edits.minimal_load import MinimalLoad
    from ..effects.effects import Effects
    from ..module_text import Text
    from ..python_drift import Drift
    from ..statements import Change


class Followers:
    """The statements to update after a load, in the loaded module and in modules that import it."""

    def __init__(self, minimal: MinimalLoad, drift: Drift, name: str, undo: UndoRecord) -> None:
        self._minimal, self.drift, self.name = minimal, drift, name
        edited = minimal.edited
        self.sources = sources = ModuleSources(name, edited, drift)
        self.text = sources.text
        self.reports = reports = Reports(sources)
        self.code = code = ModuleCode(name, minimal)
        self.analysis = analysis = Analysis(sources.find)
        self.changes = changes = NameChanges(edited.module, edited.edited_names, drift)
        self.rebuilds = Rebuilds(self, undo)
        self.registrations = Registrations(self.text, analysis, changes, drift, self.rebuilds.objects)
        self._dependents = DependentModules(
            self.text,
            drift.sources.loads,
            sources.source_of_module,
            lambda: has_module_getattr(sources, changes),
        )
        self.existing = ExistingFunctions()
        self.objects = RetainedObjects(sources, analysis, changes, undo)
        self._has_moved = bool(edited.comparison.moved) or any(
            change.current_statement.kind == IMPORT for change in edited.comparison.changes
        )
        self.later = LaterEntries(sources, analysis)
        self.names = ChangedWords(edited, sources, analysis, self.registrations, code, self.later)
        self.signatures = SignatureReaders(sources, analysis, code)
        self.functions = FunctionFollowUp(analysis, changes, code, reports, self.existing, minimal.signatures, undo)
        self._classes = ClassFollowUp(self, undo)
        self.decorators = DecoratorFollowUp(
            analysis, changes, code, reports, self.existing, self.rebuilds, self._classes, undo
        )
        self.imports = ImportFollowUp(sources, analysis, changes, reports, self.objects, self.names, drift, undo)
        self.statements = StatementFollowUp(
            sources, analysis, changes, code, reports, self.rebuilds, self.objects, self.names
        )
        self.shared_registries = SharedRegistries(self)
        self.run_time_entries = RunTimeEntries(self)
        self.objects.run_time_entries = self.run_time_entries

    def close(self) -> None:
        """Drop all references to objects, so that unused objects can be deleted."""
        for part in (self.existing, self.code, self.sources, self.changes, self._dependents):
            part.close()

    @property
    def changed_statements(self) -> list[Change]:
        """Return the differences between the sources of the edited module."""
        return self._minimal.edited.comparison.changes

    @property
    def edited_names(self) -> set[str]:
        """Return the dotted names bound by statements that differ between the sources."""
        return self._minimal.edited.edited_names

    # Before anything changes

    def prepare(self) -> None:
        """Before the load, evaluate statements that may depend on it to find values that have been modified since."""
        self.run_time_entries.remember_module(self.name)
        self.names.find()
        words = self.names.words
        if not words:
            return
        words |= self.shared_registries.find(self._minimal.edited.comparison.changes, self.sources.old_text, self.text)
        self._dependents.roots = self.shared_registries.modules - {self.name}
        for text in self.shared_registries.module_sources:
            text.statements_mentioning(words)  # adds the functions that read a registry
        words |= self.names.names_filled_by_decorators(self.sources.old_text, words)
        self.names.compare_values(self.drift.deferred.names_in(self.name))

    # The plan

    def find_changes(self) -> None:
        """Find the code that has changed. Call this after functions have been updated."""
        self.sources.is_old = False
        record_changed_code(self.name, self._minimal.edited, self.changes)

    def plan_registries(self) -> None:
        """Plan to fill again the registries in which the edited module registers something."""
        self.shared_registries.plan(self._minimal.edited.comparison.changes)

    def affected_statements(self) -> list[int]:
        """Return the positions of statements in the edited module that may depend on the changes."""
        return self.text.statements_mentioning(set(self.names.words)) if self.names.words else []

    def effects(self, node: Any, text: Text) -> Effects:
        """Return the effects of a statement, based on the current values in its module."""
        return self.analysis.statement_effects(node, text.space)

    # Statements

    def follow(self, text: Text, top: int) -> None:
        """Update what a statement in a module has computed if it depends on a change. `top` is its position."""
        if (text.name, top) in self.rebuilds.done:
            return
        node = text.body[top]
        if (text.name, top) in self.rebuilds.forced:
            self._follow_parts(text, top, node)
            self.rebuilds.rerun(text, top)
            return
        if isinstance(node, FUNCTION_NODES):
            self._follow_function(text, top, node)
        elif isinstance(node, ast.ClassDef):
            self._classes.follow(text, top, node)
        elif is_star(node):
            self.imports.follow_star(text, node)
        elif isinstance(node, ast.Delete):
            for name in deleted_names(node):
                if (text.name, name) in self.rebuilds.revived and name in text.space:
                    del text.space[name]
        elif isinstance(node, ast.ImportFrom):
            self.imports.follow(text, node)
        elif isinstance(node, (ast.Import, ast.Pass)):
            return
        else:
            self.statements.follow(text, top, node)

    def _follow_parts(self, text: Text, top: int, node: Any) -> None:
        """Update the defaults of a function or the body of a class before its decorators are applied again."""
        if isinstance(node, FUNCTION_NODES):
            self.functions.follow_defaults(text, node, None)
            self.functions.follow_annotations(text, node)
            self.functions.clear_cache(text, text.space.get(node.name), node.name)
        elif isinstance(node, ast.ClassDef) and is_class(text.space.get(node.name)) and not self.has_run(text, top):
            self._classes.follow_body(text, node, text.space[node.name])

    def _follow_function(self, text: Text, top: int, node: Any) -> None:
        has_defaults = self.functions.follow_defaults(text, node, None)
        self.functions.clear_cache(text, text.space.get(node.name), node.name)
        has_new_types = self.functions.follow_annotations(text, node) or has_defaults
        if node.decorator_list and not has_new_types and self.analysis.reads_signatures(node, text.space):
            has_new_types = self.changes.is_affected(
                self.analysis.annotation_reads(node, text.space, with_signatures=True)
            )
        if node.decorator_list:
            self.decorators.follow(text, top, node, is_affected=has_new_types)

    def run_left_statements(self) -> None:
        """Run the other statements of the edited module that must run, although they do not mention what was edited."""
        plan, body = self._minimal.plan, self.text.body
        left = sorted(top for name, top in self.rebuilds.forced - self.rebuilds.done if name == self.name)
        for top in left:
            if not self._minimal.runs_top(top) and id(body[top]) not in plan.defined:
                self.follow(self.text, top)

    def restore_orders(self) -> None:
        """Restore the order of the entries in dictionaries that were filled again, unless the edit moves statements."""
        if not self._has_moved:
            self.objects.restore_orders()

    def update_readers(self, others: list[Text]) -> None:
        """Evaluate statements again that have read a dictionary before all modules had filled it again."""
        refilled = self.objects.refilled_dictionaries
        evaluated = self.statements.evaluated_tops
        for text in [self.text, *others] if refilled else ():
            for top in sorted(top for name, top in evaluated if name == text.name):
                node = text.body[top]
                effects = self.effects(node, text)
                is_assignment = isinstance(node, (ast.Assign, ast.AnnAssign))
                is_pure = is_assignment and effects.effect is None and not effects.fills
                if is_pure and any(id(value) in refilled for value in self.later.collections_read(effects)):
                    self.statements.evaluate(text, node)

    def has_run(self, text: Text, top: int) -> bool:
        """Return whether the load has run a statement because it was edited, or has created its class again."""
        is_edited = text.name == self.name and self._minimal.runs_top(top)
        return is_edited or (text.name, top) in self._classes.remade

    # Other modules

    def find_importers(self) -> list[Text]:
        """Return the sources of modules that depend on the edited module, with imported modules first."""
        return self._dependents.find_importers(self.names.words)

    def find_sources_in_import_order(self) -> list[Text]:
        """Return the sources of the edited module and of those that may depend on it, with imported modules first."""
        others = self.find_importers()
        earlier = [text for text in others if text.name in self.earlier_modules]
        return [*earlier, self.text, *(text for text in others if text.name not in self.earlier_modules)]

    @property
    def earlier_modules(self) -> set[str]:
        """Return the names of the dependent modules that are imported before the edited module."""
        return self._dependents.earlier

    def importer_words(self) -> set[str]:
        """Return the names that may have changed in any module."""
        return {*self.names.words, *self._dependents.words}

    def other_sources(self) -> list[Text]:
        """Return the sources of other modules that may depend on the load, with imported modules first."""
        if not self.names.words:
            return []
        found = self.find_importers()
        for name in self._dependents.reached:
            self.changes.remember_module(name)
            self.run_time_entries.remember_module(name)
        return found

    def dependent_statements(self, text: Text) -> Iterator[int]:
        """Yield the positions of statements in another module that may depend on the load.

        Following one of them may cause later statements to run again.
        """
        imports = self.imports.affected_imports(text)
        words = self.importer_words()
        filled = self.names.names_filled_by_decorators(text, words)
        found = {*text.statements_mentioning({*words, *filled}), *imports}
        last = -1
        while True:
            forced = {top for owner, top in self.rebuilds.forced if owner == text.name}
            left = [top for top in found | forced if top > last]
            if not left:
                return
            last = min(left)
            yield last

    def update_late_dependents(self, others: list[Text]) -> None:
        """Update statements that ran before something that they depend on, as with forward references."""
        ordered = self.find_sources_in_import_order() if others else [self.text]
        positions = {text.name: position for position, text in enumerate(ordered)}
        late: set[tuple[str, str]] = set()
        for text in ordered:
            circle = {name for name in text.imported_names if positions.get(name, 0) > positions[text.name]}
            standing: Any = None
            for top in text.statements_mentioning(set(self.names.words)):
                node = text.body[top]
                is_class_ = isinstance(node, ast.ClassDef)
                is_run = text is self.text and self._minimal.runs_top(top)
                if is_run or (text.name, top) in self.shared_registries.chain:
                    continue
                if (text.name, top) in self.rebuilds.forced or (is_class_ and (text.name, top) in self.rebuilds.done):
                    continue  # running it once more would register something twice
                if (text.name, top) in self._classes.remade or (not is_class_ and not circle and not late):
                    continue
                changed = {read for read in self.effects(node, text).reads if self.changes.has_changed(*read)}
                is_late = is_class_ or any(read in late or read[0] in circle for read in changed)
                if not changed or not is_late:
                    continue
                if standing is None and text is not self.text:
                    standing = self.drift.rebound_names(text.name)
                before = {name: text.space.get(name, ABSENT) for name in names_bound_by(node)}
                self.rebuilds.done.discard((text.name, top))
                self.follow(text, top)
                late |= {
                    (text.name, name) for name, old in before.items()
                    if text.space.get(name, ABSENT) is not old or (text.name, name) in self.changes.updated
                }  # fmt: skip
            if standing is not None:
                self.drift.sources.record_changed_names(text.name, standing)
