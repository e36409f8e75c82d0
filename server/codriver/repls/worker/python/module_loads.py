"""Load files as modules: find the module for a file, and update objects from the previous load."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import sys
import types

from ..basics.definition_access import ABSENT, defining_module_name, is_class
from ..basics.sensitive_texts import SEAM_PACKAGE, SEAM_RELATIVE_FILE
from ..basics.undo_records import Snapshot, UndoRecord
from .admin_models import renew_admin_models
from .assigned_modules import AssignedModules
from .bound_names import DEFINITION, BoundNames
from .class_renewal import clear_subclass_caches, update_abstract_methods
from .django_settings import outdated_applications, outdated_settings
from .edits.enum_updates import PREVIOUS_MEMBER_REASON
from .edits.load_steps import LoadStep
from .edits.minimal_load import MinimalLoad
from .effects.pure_calls import is_immutable_kind
from .enum_members import is_enum
from .follow_failures import Reporting, explain_unfollowed_change
from .follow_up.followers import Followers
from .holders import find_holder_paths, is_in_use
from .library_caches import (
    clear_kinds_of_dependencies,
    clear_openapi_schemas,
    clear_url_caches,
    renew_celery_applications,
)
from .load_records import MAX_PARSED_BYTES
from .name_changes import are_versions_of_class
from .receiver_order import sort_receivers
from .renewal import remove_previous_definitions, update_remaining_objects
from .signal_senders import renew_senders
from .statements import PARSE_ERRORS, SourceText, imported_names, names_bound_by
from .stored_attributes import instance_dict_of, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .module_text import Text
    from .python_drift import Drift
    from .remembered_names import RememberedValue


AUTOMATIC_MODULE_NAMES = frozenset({
    "__name__", "__doc__", "__package__", "__loader__", "__spec__", "__file__", "__cached__", "__builtins__",
    "__path__", "__annotations__", "__annotate__", "__conditional_annotations__", "__warningregistry__", "__all__",
})  # fmt: skip
"""Names that every module has without binding them."""


MAX_CHECKED_REMOVALS = 5
"""Maximum number of removed functions and classes whose references are searched for."""


def module_name(path: str, roots: list[str]) -> str | None:
    """Return the dotted name under which a file can be imported from `roots` or `sys.path`, or None."""
    if not path.endswith(".py"):
        return None
    try:
        entries = [os.path.abspath(entry) for entry in sys.path]
    except OSError:  # the working directory was deleted, and an entry is relative to it
        entries = [entry for entry in sys.path if os.path.isabs(entry)]
    for root in sorted({*roots, *entries}, key=len, reverse=True):
        if path.startswith(root.rstrip(os.sep) + os.sep):
            parts = path[len(root.rstrip(os.sep)) + 1 : -3].split(os.sep)
            if parts[-1] == "__init__" and len(parts) > 1:
                parts.pop()
            if all(part.isidentifier() for part in parts):
                return ".".join(parts)
    # The seam, which a client may copy into a process whose project does not include it.
    return SEAM_PACKAGE if path.endswith(os.sep + SEAM_RELATIVE_FILE) else None


def is_loaded(name: str | None, path: str) -> bool:
    """Return whether a module with this name has been loaded from this file."""
    module = sys.modules.get(name) if name else None
    return module is not None and os.path.abspath(getattr(module, "__file__", None) or "") == path


class ModuleLoad:
    """Loads a file into its module. If `module` is None, the file runs in the module `home`.

    A new module that fails to load is removed. After a successful load, references to objects from the previous load
    are updated and reported in `renewed`. All changes are recorded in `undo`, even if the load fails.
    """

    module: types.ModuleType | None = None

    def __init__(
        self, name: str | None, path: str, text: str, undo: UndoRecord, drift: Drift, *, home: types.ModuleType
    ) -> None:
        self.renewed: list[dict[str, str]] = []
        """Rows about objects that were updated, emptied, removed or left unchanged, in the form of
        `Drift.find_differences`.
        """
        self._name, self._path, self._text, self._undo = name, path, text, undo
        self._drift, self._sources = drift, drift.sources
        self._home = home
        self._standing: dict[str, RememberedValue | None] = {}
        self._minimal: MinimalLoad | None = None
        self._followers: Followers | None = None
        self._is_followed = False
        self._before: object = ABSENT
        self._snapshot: Snapshot | None = None
        self._assigned = AssignedModules()

    @property
    def code(self) -> types.CodeType | None:
        """Return the compiled source, or None if only parts of it were compiled."""
        return None if self._minimal is None else self._minimal.edited.codes[1].code

    def prepare(self) -> None:
        """Find the loaded module, or create a new module."""
        name = self._name
        self._undo.begin_load()
        self._assigned.reset(self._sources.loads)
        if name is None:
            self._snapshot = Snapshot(self._home)
        else:
            if "." in name:
                importlib.import_module(name.rpartition(".")[0])
            self._before = sys.modules.get(name, ABSENT)
            if is_loaded(name, self._path):
                self.module = sys.modules[name]
                self._snapshot = Snapshot(self.module)
            else:
                self.module = self._new(name)

    def _new(self, name: str) -> types.ModuleType:
        """Create a module and register it in `sys.modules`."""
        spec = importlib.util.spec_from_file_location(name, self._path)
        if spec is None:
            raise ImportError("no loader is known for " + self._path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        return module

    def plan_steps(self) -> list[LoadStep] | None:
        """Plan the steps of the load, and update existing functions with their new code.

        Returns None if the whole module must run, because its previous source is unknown.
        """
        module, name = self.module, self._name
        load = self._sources.find_load(name) if name is not None and module is self._before else None
        data = load.data if load is not None else None
        if module is None or name is None or load is None or data is None or load.is_rewritten:
            return None
        if max(len(self._text), len(data)) > MAX_PARSED_BYTES:
            return None
        standing, bound = self._drift.rebound_names(name), load.bound_names()
        definitions = {
            attribute for attribute in standing if bound is not None and bound.kinds.get(attribute) == DEFINITION
        }
        try:
            sources = SourceText(data, self._path), SourceText(self._text, self._path)
            minimal = MinimalLoad(module, sources, self._path, self._undo, definitions)
        except PARSE_ERRORS:
            return None
        except Exception as error:
            self.report_failure(explain_unfollowed_change(error) + "; the whole file ran")
            return None
        if not minimal.edited.has_same_future_features:
            return None
        self._minimal = minimal
        # Values bound to names in the module at run time are its state.
        left = {*standing} - definitions - minimal.edited.edited_names
        self._standing = {attribute: standing[attribute] for attribute in left}
        self._followers = Followers(minimal, self._drift, name, self._undo)
        try:
            steps = minimal.update_functions(self._followers)
            clear_kinds_of_dependencies()
        except Exception as error:
            self.report_failure(explain_unfollowed_change(error) + "; the whole file ran")
            self._minimal = self._followers = None
            return None
        if minimal.edited.changes_classes:
            clear_subclass_caches(self._sources.loads)
        last = ast.parse("pass").body[0]
        return [*steps, LoadStep(last, self._follow, is_conditional=True)]

    def _follow(self) -> object:
        """Update other modules and references after the module itself has changed."""
        module, name, followers = self.module, self._name, self._followers
        if module is None or name is None or followers is None or self._snapshot is None:
            return ABSENT
        self._is_followed = True
        with Reporting(self.report_failure):
            followers.run_left_statements()
        followers.shared_registries.release()
        others: list[Text] = []
        with Reporting(self.report_failure):
            followers.registrations.find_leftovers()
        with Reporting(self.report_failure):
            followers.imports.forget_lazy_names()
        with Reporting(self.report_failure):
            others = followers.other_sources()
        with Reporting(self.report_failure):
            self._renew(module, name, self._snapshot)
        renewed = [(module, name, dict(module_dict(module)))]
        for text in others:
            before = followers.shared_registries.spaces.get(text.name) or dict(text.space)
            standing = followers.shared_registries.standing.get(text.name)
            if standing is None:
                standing = self._drift.rebound_names(text.name)
            with Reporting(functools.partial(self.report_failure, text=text)):
                for top in followers.dependent_statements(text):
                    with Reporting(functools.partial(followers.reports.report, text, text.body[top])):
                        followers.follow(text, top)
            with Reporting(functools.partial(self.report_failure, text=text)):
                self.renewed += update_remaining_objects(text.module, before, self._undo, self._drift.closures)
                self._renew_senders(text.module, before)
                self.renewed += self._renew_importers(text.module, text.name, before)
                self._sources.record_changed_names(text.name, standing)
            renewed.append((text.module, text.name, dict(text.space)))
        with Reporting(self.report_failure):
            followers.update_late_dependents(others)
        for complete in (
            followers.restore_orders,
            functools.partial(followers.update_readers, others),
            followers.run_time_entries.settle,
        ):  # collections that were filled again, and what was computed from them
            with Reporting(self.report_failure):
                complete()
        with Reporting(self.report_failure):
            for find_outdated in (outdated_settings, outdated_applications):
                followers.reports.lasting += find_outdated(followers.changes.has_changed)
        with Reporting(self.report_failure):
            for changed, source, before in renewed:  # what dependents have bound again after its importers were updated
                self.renewed += self._renew_importers(changed, source, before)
        with Reporting(self.report_failure):
            followers.reports.report_grown(followers.registrations)
        with Reporting(self.report_failure):
            self._sort_receivers(name)
        with Reporting(self.report_failure):
            clear_url_caches([name, *(text.name for text in others)], followers.changes.has_changed)
            clear_openapi_schemas([*self._sources.loads])
            for owner, task, setting in renew_celery_applications():
                self.renewed.append(_stays_row(owner, task, f"its previous annotation {setting} is not removed"))
            kinds = [
                value for value in module.__dict__.values() if is_class(value) and defining_module_name(value) == name
            ]
            update_abstract_methods(kinds, self._undo.record_change)
            if self._minimal is not None and self._minimal.edited.changes_classes:
                clear_subclass_caches(self._sources.loads)
        return ABSENT

    def _renew_senders(self, module: types.ModuleType, before: dict[str, Any]) -> None:
        """Connect receivers of signals and admin sites to the classes that replace those in `before`."""
        renewed = {
            id(old): now
            for name, old in before.items()
            if is_class(old) and (now := module.__dict__.get(name)) is not old and are_versions_of_class(old, now)
        }
        renew_senders(renewed, self._sources.loads, self._undo)
        renew_admin_models(renewed, self._undo)

    def _sort_receivers(self, name: str) -> None:
        """Restore the order of the functions that signals call, if one of them was connected by this load."""
        if self._minimal is None:
            return
        names = self._minimal.edited.connected_names
        if names:
            for module, function in sort_receivers(self._sources.loads, name, names, self._undo):
                why = "its signal calls it after functions that a fresh import would connect later"
                self.renewed.append(_stays_row(module, function, why))

    def report_failure(self, why: str, text: Text | None = None) -> None:
        """Report that dependents of the edit were not updated. `why` is the reason.

        The dependents are in this module, or in the module of `text`.
        """
        name = text.name if text is not None else self._name or self._home.__name__
        label = self._minimal.edited.label if self._minimal is not None else os.path.basename(self._path)
        self.renewed.append(_stays_row(name, label, why))

    def _renew(self, module: types.ModuleType, name: str, snapshot: Snapshot) -> None:
        """Remove names that the source no longer binds, and update references to objects from the previous load."""
        names = snapshot.names
        removed = list(self._forget(module) if self._minimal is None else self._minimal.removals.remove_names())
        gone = [(attribute, names.get(attribute)) for attribute in removed]
        for index, (attribute, value) in enumerate(gone):
            row = {"module": name, "name": attribute, "kind": "removed"}
            is_shared = index < MAX_CHECKED_REMOVALS and (type(value) is types.FunctionType or is_class(value))
            undo = (
                [
                    other
                    for other in find_holder_paths([value], MAX_CHECKED_REMOVALS)
                    if not _is_import(other, attribute)
                ]
                if is_shared
                else []
            )
            self.renewed.append({**row, "held": ", ".join(undo)} if undo else row)
        snapshot.record_changes(self._undo)
        self.renewed += update_remaining_objects(module, names, self._undo, self._drift.closures)
        self._renew_senders(module, names)
        self.renewed += self._renew_importers(module, name, names)

    def finish(self, *, has_failed: bool) -> None:
        """Finish the load: update other modules and record the changes."""
        module, name = self.module, self._name
        self._undo.end_load(name or self._home.__name__)
        if module is None or name is None:
            self._assigned.restore()
            if self._snapshot is not None:
                self._snapshot.record_changes(self._undo)
            return
        loads, before = self._sources.loads, self._sources.loads.get(name)
        if has_failed and self._followers is not None and not self._is_followed:
            self._followers.shared_registries.restore()
        with Reporting(self.report_failure):
            self._change(module, name, has_failed=has_failed)
        self._assigned.restore()
        if not has_failed:
            self._sources.record_load(name, module, self._path, self._text, self._standing)
        elif before is not None:
            loads[name] = before.with_present_names()
        if self._followers is not None:
            self._followers.run_time_entries.update_records()
            self._followers.close()
        if self._minimal is not None:
            self._minimal.close()
        for row in self.renewed:
            if row["kind"] == "renewed" and "of" not in row:
                undo = self._sources.record_rebinding(row["module"], row["name"])
                if undo is not None:
                    self._undo.record_undo(undo)
        if name in loads:
            self._undo.record_key("", loads, name, ABSENT if before is None else before)

    def _change(self, module: types.ModuleType, name: str, *, has_failed: bool) -> None:
        """Record the changes made by the load, and update what depends on them."""
        if module is not self._before:
            self._end_new_module(module, name, has_failed=has_failed)
            if not has_failed and self._before is ABSENT:
                self.renewed += list(self._failed_import_rows(name))
        elif self._snapshot is not None:
            if has_failed and not self._is_followed:
                self._snapshot.record_changes(self._undo)
            if not has_failed:
                if not self._is_followed:
                    self._renew(module, name, self._snapshot)
                self.renewed += self._report_rows(module, name, self._snapshot.names)

    def _forget(self, module: types.ModuleType) -> list[str]:
        """Remove functions and classes that the file no longer defines, and return their names."""
        if len(self._text) > MAX_PARSED_BYTES:  # parsing would take longer than everything else
            written = set(compile(self._text, self._path, "exec", dont_inherit=True).co_names)
        else:
            written = set(BoundNames(SourceText(self._text, self._path).tree).kinds)
        return (
            remove_previous_definitions(module, self._snapshot.names, self._path, written)
            if self._snapshot is not None
            else []
        )

    def _renew_importers(self, module: types.ModuleType, name: str, before: dict[str, Any]) -> Iterator[dict[str, str]]:
        """Update names that other modules have imported from this module and that still refer to previous objects.

        Functions and classes are also updated elsewhere, but this updates all kinds of objects. Modules that import a
        name indirectly, from an updated module, are included.
        """
        space = module.__dict__
        changed = {
            item
            for item in space
            if space[item] is not before.get(item, ABSENT) and (item[:2] != "__" or item not in AUTOMATIC_MODULE_NAMES)
        }
        previous = [(attribute, reference()) for home, attribute, reference in self._sources.previous if home == name]
        pairs: dict[str, tuple[list[object], object]] = {}
        for changed_name in changed:
            # The name was removed by an earlier load and has been defined again.
            olds = (
                [before[changed_name]]
                if changed_name in before
                else [value for attribute, value in previous if attribute == changed_name]
            )
            pairs[changed_name] = olds, space[changed_name]
        waiting = [(name, pairs)]
        while waiting:
            source, pairs = waiting.pop()
            others: dict[str, dict[str, tuple[list[object], object]]] = {}
            for other, attribute, changed_name in self._drift.find_importers(source, pairs.keys()) if pairs else ():
                names, (olds, new) = sys.modules[other].__dict__, pairs[changed_name]
                undo = names.get(attribute, ABSENT)
                if undo is not ABSENT and undo is not new and any(undo is old for old in olds):
                    names[attribute] = new
                    self._undo.record_key(other + "." + attribute, names, attribute, undo)
                    others.setdefault(other, {})[attribute] = [undo], new
                    yield {"module": other, "name": attribute, "kind": "renewed"}
            waiting += others.items()

    def _report_rows(self, module: types.ModuleType, name: str, before: dict[str, Any]) -> Iterator[dict[str, str]]:
        """Yield rows for caches emptied by the load, and for names that were left unchanged or replaced."""
        minimal = self._minimal
        if minimal is None:
            yield from self._replaced_rows(module, name, before)
            return
        if minimal.is_idle:
            yield {"module": name, "name": os.path.basename(self._path), "kind": "unchanged"}
        emptied = [(name, *row) for row in minimal.cleared_caches]
        for other, part, count in [
            *emptied,
            *(self._followers.functions.cleared_caches if self._followers is not None else ()),
        ]:
            yield {"module": other, "name": part, "kind": "emptied", "of": str(count)}
        for part, function in minimal.functions.left:
            if is_in_use(function):
                self._drift.closures.add(name, part, function)
        for other, part, count in self._followers.run_time_entries.lost if self._followers is not None else ():
            yield {"module": other, "name": part, "kind": "lost", "of": str(count)}
        minimal.functions.report_running(before)
        minimal.members.report_replaced_members(self._drift, name)
        if self._followers is not None:
            self._followers.reports.report_replaced_members(self._followers.code, self._drift)
        for part, why in dict.fromkeys(minimal.plan.stays):
            yield _stays_row(name, part, why)
        yield from self._deferred_rows(module, name, minimal)
        for other, part, why in dict.fromkeys(self._followers.reports.lasting if self._followers is not None else ()):
            yield _stays_row(other, part, why)
        for other, part, why in dict.fromkeys(self._followers.reports.stays if self._followers is not None else ()):
            space = module_dict(sys.modules[other])
            is_deferred = other != name and self._drift.is_edited(other)
            if not is_deferred or not self._drift.deferred.defer(other, part, why, space.get(part, ABSENT)):
                yield _stays_row(other, part, why)

    def _deferred_rows(self, module: types.ModuleType, name: str, minimal: MinimalLoad) -> Iterator[dict[str, str]]:
        """Yield rows for parts that earlier loads could not update and that this load has not updated either."""
        deferred = self._drift.deferred
        evaluated = self._followers.statements.evaluated if self._followers is not None else set()
        for part, why in deferred.pop(name, module.__dict__, minimal.edited.comparison.changes, evaluated):
            yield _stays_row(name, part, why)
        for other, part in deferred.pop_members() if not self._drift.is_another_edited(name) else ():
            yield _stays_row(other, part, PREVIOUS_MEMBER_REASON)

    @staticmethod
    def _replaced_rows(module: types.ModuleType, name: str, before: dict[str, Any]) -> Iterator[dict[str, str]]:
        """Yield rows for objects that were replaced by running the whole module and are still in use elsewhere."""
        space = module.__dict__
        for attribute in sorted(
            attribute for attribute, old in before.items() if attribute in space and space[attribute] is not old
        ):
            if is_enum(before[attribute]):
                yield _stays_row(
                    name,
                    attribute,
                    "the members are new objects, and are not equal to the members that are referenced elsewhere",
                )
            elif type(before[attribute]) is object:
                yield _stays_row(
                    name, attribute, "the value is a new object, but other references still refer to the previous one"
                )
            elif _is_shared(before[attribute]):
                holders = find_holder_paths([before[attribute]])
                if holders:
                    kind = type(before[attribute]).__name__
                    yield _stays_row(
                        name, attribute, f"the previous {kind} is still referenced by {', '.join(holders)}"
                    )

    def _failed_import_rows(self, name: str) -> Iterator[dict[str, str]]:
        """Yield rows for `try` statements in other modules that previously failed to import this new module."""
        last = name.rpartition(".")[2].encode()
        for other, load in list(self._sources.loads.items()):
            data = b"" if load.is_rewritten or other not in sys.modules else load.data or b""
            if other == name or last not in data or b"try:" not in data or len(data) > MAX_PARSED_BYTES:
                continue
            try:
                tree = SourceText(data, load.file).tree
            except PARSE_ERRORS:
                continue
            for node in tree.body:
                if isinstance(node, ast.Try) and name in _modules_imported_by(node, other, load.file):
                    bound = [part for part in names_bound_by(node) if part in sys.modules[other].__dict__]
                    why = f"line {node.lineno}: its import of {name} failed before, and would succeed now"
                    yield _stays_row(other, ", ".join(bound) or name, why)

    def _end_new_module(self, module: types.ModuleType, name: str, *, has_failed: bool) -> None:
        """Add a new module to its package, or remove it if its load has failed."""
        modules: dict[str, Any] = sys.modules
        if has_failed:
            modules.pop(name, None)
            if self._before is not ABSENT:
                modules[name] = self._before
            return
        if self._before is ABSENT:  # otherwise the snapshot covers this value
            self._undo.record_key(name, modules, name, self._before)
        parent, _, child = name.rpartition(".")
        if parent:
            space = modules[parent].__dict__
            before = space.get(child, ABSENT)
            setattr(modules[parent], child, module)
            self._undo.record_key(name, space, child, before)


def _modules_imported_by(node: ast.Try, module: str, file: str) -> set[str]:
    """Return the names of the modules that a `try` statement may import, including names that may not be modules."""
    is_package = os.path.basename(file) == "__init__.py"
    found = {alias.name for child in node.body if isinstance(child, ast.Import) for alias in child.names}
    for source, name, _ in imported_names(ast.Module(node.body, []), module, is_package=is_package):
        found.update((source, f"{source}.{name}"))
    return found


def _is_import(path: str, name: str) -> bool:
    """Return whether a path is the same name in another module, which must have imported it."""
    module, _, last = path.rpartition(".")
    return last == name and module in sys.modules and module != "__main__"


def _is_shared(value: object) -> bool:
    """Return whether a value is a mutable collection or an object with attributes, which other code may share."""
    kind = type(value)
    if is_class(value) or kind in (types.FunctionType, types.ModuleType):
        return False
    return kind in (list, dict, set) or (instance_dict_of(value) is not None and not is_immutable_kind(kind))


def _stays_row(module: str, name: str, why: str) -> dict[str, str]:
    """Create the row for a part that was not updated."""
    return {"module": module, "name": name, "kind": "stays", "of": why}
