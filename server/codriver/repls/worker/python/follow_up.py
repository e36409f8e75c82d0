"""Update values that other statements have computed from something that a load changed.

These statements are checked in source order, each after the preceding ones have run. A statement is run again if that
has no external effects, and values that turn out to be equal keep their identity. Collections are changed in place, so
all references to them see the new contents. Statements that fill a recreated object run again after it. Anything else
is reported by name and line.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import copy
import functools
import gc
import sys
import types
import weakref

from ..basics.held_definitions import ABSENT, defining_module_name, is_class, order_of, qualified_name, space_of
from .bound_names import BoundNames
from .class_follow_up import ClassFollowUp
from .dependent_modules import DependentModules
from .edits.signature_updates import without_body
from .edits.statement_syntax import dotted_name
from .effects.analysis import Analysis
from .effects.effects import code_position_name
from .enum_members import is_enum
from .equal_values import (
    find_slots,
    has_only_attributes,
    is_alike,
    is_equal_without_caches,
    is_part_of,
    stores_more,
)
from .holders import is_in_use
from .live_functions import annotation_attribute, count_instances_with
from .module_text import Text
from .name_changes import NameChanges
from .python_names import attribute_dict, instance_dict_of, module_dict
from .rebuilds import Rebuilds, deleted_names, is_setattr, refers_to_function
from .registrations import REGISTRY_TYPES, Registrations
from .shared_registries import SharedRegistries
from .statements import (
    BLOCK_STATEMENTS,
    CLASS,
    FUNCTION,
    FUNCTION_NODES,
    PARSE_ERRORS,
    SourceText,
    assigned_names,
    comparable_dump,
    line_range,
    names_bound_by,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    from ..basics.held_definitions import UndoRecord
    from .edits.minimal_load import MinimalLoad
    from .effects.effects import Effects
    from .python_drift import Drift

    Spaces = Dict[str, Dict[str, Any]]

MAX_SEARCHED_FUNCTIONS = 20
"""Maximum number of functions reachable from a decorator that are searched for `SIGNATURE_NAMES`."""
SIGNATURE_NAMES = frozenset({
    "signature", "Signature", "getfullargspec", "get_annotations", "get_type_hints", "__defaults__", "__kwdefaults__",
    "__annotations__", "__code__", "inspect",
})  # fmt: skip
"""Names that occur in decorators that read the signature of the decorated function. Source: `inspect` documentation."""
ANNOTATION_NAMES = frozenset({"get_annotations", "get_type_hints", "__annotations__"})
"""The names in `SIGNATURE_NAMES` that do not read defaults."""
LIBRARIES_IGNORING_DEFAULTS = frozenset({"celery", "click", "flask"})
"""Libraries whose decorators do not read default values."""
ORDERLESS_FUNCTIONS = frozenset({"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"})
"""Built-in functions whose results do not depend on the order of what they are given."""
ORDERLESS_TYPES = (set, frozenset, int, float, bool, type(None))
"""Types of values that have no order."""
NAMESPACE_READERS = frozenset({"globals", "vars", "dir", "locals"})
"""Functions that return the names in a module."""
ADDING_METHODS = frozenset({"add", "append", "appendleft"})
"""Methods of collections that add an object without reading anything but its hash."""
ADDED_TO_TYPES = (list, set, collections.deque, weakref.WeakSet)
LRU_CACHE_TYPE: Any = type(functools.lru_cache(maxsize=1)(lambda: None))
"""The type of the functions that `lru_cache` returns."""


class Followers:
    """The statements to update after a load, in the loaded module and in modules that import it.

    `stays` has the module, name and reason for each part that could not be updated.
    """

    def __init__(self, minimal: MinimalLoad, drift: Drift, name: str, undo: UndoRecord) -> None:
        self._minimal, self.drift, self._undo, self.name = minimal, drift, undo, name
        self.stays: list[tuple[str, str, str]] = []
        self.lasting: list[tuple[str, str, str]] = []
        """Rows like those in `stays` that the load of another edited file cannot make obsolete."""
        self.evaluated: set[str] = set()
        """The names in the edited module that were computed again although their statements were not edited."""
        self.record_emptied: list[tuple[str, str, int]] = []
        self.module = minimal.edited.module
        self._sources: dict[str, Text | None] = {}
        self._old = Text(name, self.module, minimal.edited.file, minimal.edited.old)
        self.text = Text(name, self.module, minimal.edited.file, minimal.edited.new)
        self._is_old = True
        self._loads = {load.file: other for other, load in drift.sources.loads.items()}
        self.analysis = Analysis(self._find_source)
        self.changes = NameChanges(self.module, minimal.edited.edited_names, drift)
        self.rebuilds = Rebuilds(self, undo)
        self.registrations = Registrations(self.text, self.analysis, self.changes, drift, self.rebuilds.objects)
        self._dependents = DependentModules(
            self.text, drift.sources.loads, self.source_of_module, self._has_module_getattr
        )
        self._seeds: set[str] = set()
        self._is_touched: set[int] = set()
        self._truths: dict[int, bool] = {}
        self._lazy: set[str] = set()
        self._registered: list[tuple[str, Any, weakref.ref[Any], str]] = []
        self._live_by_node: dict[tuple[str, str, int], list[types.FunctionType]] | None = None
        self._minimals: dict[str, MinimalLoad] = {name: minimal}
        self._classes = ClassFollowUp(self, undo)
        self.shared_registries = SharedRegistries(self)

    # Sources

    def _find_source(self, function: Any) -> Any:
        """Return the syntax node of a workspace function or the source of a workspace file. Return None if unknown."""
        if type(function) is str:
            return self._find_file_source(function)
        code = function.__code__
        text = self._find_file_source(code.co_filename)
        return None if text is None else text.function(code)

    def _find_file_source(self, file: str) -> Text | None:
        """Return the loaded source of a file, or None if the file is not in the workspace."""
        if file == self.text.file:
            return self._old if self._is_old else self.text
        name = self._loads.get(file)
        return None if name is None else self.source_of_module(name)

    def source_of_module(self, name: str) -> Text | None:
        """Return the loaded source of a module, or None if it is unknown."""
        if name == self.name:
            return self.text
        if name not in self._sources:
            self._sources[name] = None
            load = self.drift.sources.loads.get(name)
            module = sys.modules.get(name)
            if load is not None and module is not None and load.module() is module and not load.is_rewritten:
                load.read()
                data = load.data
                if data is not None:
                    with contextlib.suppress(*PARSE_ERRORS):
                        self._sources[name] = Text(name, module, load.file, SourceText(data, load.file))
        return self._sources[name]

    def close(self) -> None:
        """Drop all references to objects, so that unused objects can be deleted."""
        for collection in (self._live_by_node or {}, self._minimals, self._sources):
            collection.clear()
        self._live_by_node = None
        self.changes.close()
        self._dependents.close()

    # Before anything changes

    def prepare(self) -> None:  # noqa: C901, PLR0912  # one branch for each kind of change
        """Before the load, evaluate statements that may depend on it to find values that have been modified since."""
        comparison = self._minimal.edited.comparison
        for change in comparison.changes:
            for statement in (change.old, change.new):
                if statement is None:
                    continue
                parts = statement.name.split(".")
                is_dunder = parts[-1][:2] == parts[-1][-2:] == "__"
                self._seeds |= {parts[0]} if is_dunder and len(parts) > 1 else {parts[-1]}
                if statement.kind != FUNCTION:
                    self._seeds.update(part for name in assigned_names(statement.node) for part in name.split("."))
                    self._seeds.update(names_bound_by(statement.node) if not statement.owner else ())
                    self._seeds.update(parts[:-1])
                elif is_dunder and len(parts) > 1:
                    self._seeds.add(parts[0])
                if statement.kind == CLASS or statement.owner:
                    self._seeds.update(self._related_classes(statement))
                if statement.kind not in (FUNCTION, CLASS) or statement.node.decorator_list:
                    self._seeds.update(self._filled_names(statement.node, self.text))
        for statement in comparison.moved:
            self._seeds.update(
                part
                for name in (statement.name, *assigned_names(statement.node))
                for part in (statement.owner + name).split(".")
            )
        self._seeds = {seed for seed in self._seeds if seed.isidentifier()}
        is_function_only = all(
            change.old and change.new and change.current_statement.kind == FUNCTION for change in comparison.changes
        )
        if self._seeds and (not is_function_only or "__dir__" in self.text.space):
            self._seeds |= NAMESPACE_READERS
        if not self._seeds:
            return
        self._seeds |= self.shared_registries.find(comparison.changes, self._old, self.text)
        self._dependents.roots = self.shared_registries.modules - {self.name}
        self._seeds |= self._names_filled_by_decorators(self._old, self._seeds)
        pairs = {new.top: old.top for old, new in comparison.same if not new.owner}
        deferred = self.drift.deferred.names_in(self.name)
        for top in self.text.statements_mentioning(set(self._seeds)):
            node = self.text.body[top]
            old = self._old.body[pairs[top]] if top in pairs else None
            if old is None:
                continue
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                names = [name for name in assigned_names(node) if name.isidentifier()]
                if not deferred.isdisjoint(names):  # its previous value cannot be computed any more
                    continue
                effects = self.analysis.statement_effects(old, self.text.space)
                is_pure = effects.effect is None and not effects.fills
                value = self._evaluate_or_absent(old.value) if names and is_pure else ABSENT
                present = self.text.space.get(names[0], ABSENT) if names else ABSENT
                if len(names) == 1 and (
                    value is ABSENT
                    or not (is_equal_without_caches(value, present) or _are_classes_of_same_name(value, present))
                ):
                    self._is_touched.add(top)
            elif isinstance(node, ast.If):
                effects = self.analysis.statement_effects(old.test, self.text.space)
                value = self._evaluate_or_absent(old.test) if effects.effect is None and not effects.fills else ABSENT
                if value is not ABSENT:
                    self._truths[top] = bool(value)

    def _related_classes(self, statement: Any) -> set[str]:
        """Return the names of a changed class's bases and metaclasses. Other code may use the class through them."""
        names = (
            [base.id for base in statement.node.bases if isinstance(base, ast.Name)] if statement.kind == CLASS else []
        )
        kinds = [self.text.space.get(name) for name in names] + [
            self._minimal.edited.class_of(statement.owner) if statement.owner else None
        ]
        related = [each for kind in kinds if is_class(kind) for each in order_of(kind)]
        related += [type(each) for each in related]
        return {each.__name__ for each in related if self.registrations.is_of_project(each)}

    def _names_filled_by_decorators(self, text: Text, words: set[str]) -> set[str]:
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

    def _filled_names(self, node: Any, text: Text) -> set[str]:
        """Return the names of the objects that a statement fills."""
        fills = self.analysis.statement_effects(node, text.space).fills
        return {name for name, value in text.space.items() if id(value) in fills}

    def _evaluate_or_absent(self, node: Any) -> Any:
        """Return the value of an expression, or ABSENT if evaluating it fails."""
        try:
            return eval(self._minimal.edited.compile(ast.Expression(node), "eval"), self.text.space)
        except (Exception, SystemExit):  # an error in user code is handled when the statement is followed up
            return ABSENT

    # The plan

    def find_changes(self) -> None:
        """Find the code that has changed. Call this after functions have been updated."""
        self._is_old = False
        for change in self._minimal.edited.comparison.changes:
            old, new = change.old, change.new
            if old is None or new is None:
                continue
            if "docstring" in change.parts:
                self.changes.updated.add((self.name, new.name + ".__doc__"))
            if not old.kind == new.kind == FUNCTION:
                continue
            if "signature" in change.parts or self._minimal.edited.changes_behaviour(old, new):
                self.changes.codes.add((self.name, new.name + "()"))
            if "signature" in change.parts or self._minimal.edited.changes_kind(old, new):
                self.changes.codes.add((self.name, new.name + "(...)"))
            known = {
                _text_without_bodies(node)
                for node in ast.walk(old.node)
                if isinstance(node, (*FUNCTION_NODES, ast.Lambda))
            }
            for node in ast.walk(new.node):
                if (
                    node is not new.node
                    and isinstance(node, (*FUNCTION_NODES, ast.Lambda))
                    and _text_without_bodies(node) not in known
                ):
                    self.changes.codes.add((self.name, code_position_name(node)))

    def affected_statements(self, text: Text, seeds: set[str]) -> list[int]:
        """Return the positions of statements that may depend on changes to the names in `seeds`."""
        return text.statements_mentioning(seeds) if seeds else []

    def plan_registries(self) -> None:
        """Plan to fill the registries again in which the edited module registers something."""
        self.shared_registries.plan(self._minimal.edited.comparison.changes)

    @property
    def old_text(self) -> Text:
        """Return the previous source of the edited module."""
        return self._old

    def find_sources_in_import_order(self) -> list[Text]:
        """Return the sources of the edited module and of those that may depend on it, with imported modules first."""
        others = self.find_importers()
        earlier = [text for text in others if text.name in self.earlier_modules]
        return [*earlier, self.text, *(text for text in others if text.name not in self.earlier_modules)]

    @property
    def earlier_modules(self) -> set[str]:
        """Return the names of the dependent modules that are imported before the edited one."""
        return self._dependents.earlier

    def importer_words(self) -> set[str]:
        """Return the names that may have changed in any module."""
        return {*self._seeds, *self._dependents.words}

    @property
    def seeds(self) -> set[str]:
        """Return the names changed by the edit, without their module or class."""
        return set(self._seeds)

    def effects(self, node: Any, text: Text) -> Effects:
        """Return the effects of a statement, based on the current values in its module."""
        return self.analysis.statement_effects(node, text.space)

    # What has changed

    # One statement

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
        elif _is_star(node):
            self._follow_star(text, node)
        elif isinstance(node, ast.Delete):
            for name in deleted_names(node):
                if (text.name, name) in self.rebuilds.revived and name in text.space:
                    del text.space[name]
        elif isinstance(node, ast.ImportFrom):
            self._follow_import(text, node)
        elif isinstance(node, (ast.Import, ast.Pass)):
            return
        else:
            self._follow_statement(text, top, node)

    def _follow_parts(self, text: Text, top: int, node: Any) -> None:
        """Update the defaults of a function or the body of a class before its decorators are applied again."""
        if isinstance(node, FUNCTION_NODES):
            self.follow_defaults(text, node, None)
            self._follow_annotations(text, node)
            self.clear_cache(text, text.space.get(node.name), node.name)
        elif isinstance(node, ast.ClassDef) and is_class(text.space.get(node.name)) and not self.has_run(text, top):
            self._classes.follow_body(text, node, text.space[node.name])

    def _follow_statement(self, text: Text, top: int, node: Any) -> None:  # noqa: C901, PLR0912  # one branch per kind
        effects = self.effects(node, text)
        if not self.changes.is_affected(effects):
            return
        names = [name for name in assigned_names(node) if name.isidentifier()]
        if self._depends_on_namespace(text, effects):
            if names and self._value_now(text, node) is not text.space.get(names[0], ABSENT):
                self.report_in_module(text, node, "the value was computed from the names in its module, which changed")
            return
        if isinstance(node, ast.If) and self._is_same_branch(text, top, node):
            return
        if self._has_added_same_objects(text, node):
            return
        if self._is_only_setter(text, node):
            self._run_or_report(text, node, effects)
            return
        if effects.effect is not None:
            self.report_in_module(
                text,
                node,
                f"the statement was evaluated with {self.changes.cause(effects)}, which changed,"
                " and running it again may affect other processes",
            )
            return
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and not names:
            if self._is_store(node, text):
                self.run(text, node)
            else:
                self.rebuilds.rebuild_filled(text, top, node, effects)
            return
        if isinstance(node, ast.Expr) and is_setattr(node.value):
            self.run(text, node)
            return
        if effects.fills and not self._only_counts(node, effects):
            self.rebuilds.rebuild_filled(text, top, node, effects)
            return
        if isinstance(node, ast.Expr):
            return
        if isinstance(node, ast.Assert):
            self._run_or_report(text, node, effects)
            return
        bound = names_bound_by(node)
        chains = [name for name in bound if len(self.rebuilds.statement_chain(text, name)) > 1]
        if chains:
            for name in chains:
                self.rebuilds.rebuild_name(text, name, text, top, effects)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and top in self._is_touched and text.name == self.name:
            if not any(self.changes.has_changed(*read) for read in effects.reads):
                return
            self.report_in_module(
                text,
                node,
                f"the value was computed from {self.changes.cause(effects)}, which changed, and has been used since",
            )
        elif isinstance(node, ast.While):
            self.report_in_module(text, node, f"the statement ran with {self.changes.cause(effects)}, which changed")
        else:
            self._run_or_report(text, node, effects)

    def _only_counts(self, node: Any, effects: Effects) -> bool:
        """Return whether an assignment only changes attributes of functions, such as a counter of calls."""
        is_assignment = isinstance(node, (ast.Assign, ast.AnnAssign))
        return is_assignment and len(self._filled_functions(effects)) == len(effects.fills)

    def _filled_functions(self, effects: Effects) -> list[types.FunctionType]:
        """Return the functions in the workspace's modules whose attributes a statement changes."""
        found: dict[int, types.FunctionType] = {}
        for name in [*self.drift.sources.loads] if effects.fills else ():
            for value in list(module_dict(sys.modules[name]).values()) if name in sys.modules else ():
                if id(value) in effects.fills and type(value) is types.FunctionType:
                    found[id(value)] = value
        return list(found.values())

    def _depends_on_namespace(self, text: Text, effects: Effects) -> bool:
        """Return whether a statement is only affected because it reads all names in its module.

        Such a statement is not run again, because names bound after it now exist.
        """
        guessed = {(text.name, "**")} & effects.guesses
        if not guessed:
            return False
        effects.guesses -= guessed
        is_affected = self.changes.is_affected(effects)
        effects.guesses |= guessed
        return not is_affected

    def _value_now(self, text: Text, node: Any) -> Any:
        """Return the value that a statement would bind to its first name now.

        If that equals the current value, the current object is returned. ABSENT means that the evaluation failed.
        """
        present = text.space.get(assigned_names(node)[0], ABSENT)
        try:
            value = eval(self.minimal_load_for(text).edited.compile(ast.Expression(node.value), "eval"), text.space)
        except Exception:  # an error in user code
            return ABSENT
        return present if is_alike(present, value) else value

    def _is_same_branch(self, text: Text, top: int, node: Any) -> bool:
        """Return whether the condition of an `if` still has the same result and its branch is not affected."""
        if text.name != self.name or top not in self._truths:
            return False
        effects = self.effects(node.test, text)
        if effects.effect is not None:
            return False
        try:
            value = bool(
                eval(self.minimal_load_for(text).edited.compile(ast.Expression(node.test), "eval"), text.space)
            )
        except Exception:  # an error in user code
            return False
        branch = node.body if value else node.orelse
        return value is self._truths[top] and not any(
            self.changes.is_affected(self.effects(statement, text)) for statement in branch
        )

    def _is_only_setter(self, text: Text, node: Any) -> bool:
        """Return whether a statement calls a setter such as `setLevel` that no other statement calls."""
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not _is_setter(call.func):
            return False
        given = self.effects(ast.Tuple([*call.args, *[keyword.value for keyword in call.keywords]], ast.Load()), text)
        target = comparable_dump([call.func])
        others = [
            statement for statement in text.body
            if statement is not node and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            and comparable_dump([statement.value.func]) == target
        ]  # fmt: skip
        return given.effect is None and not given.fills and not others

    def _has_added_same_objects(self, text: Text, node: Any) -> bool:
        """Return whether a statement added objects to a collection that are still the same objects."""
        call = node.value if isinstance(node, ast.Expr) else None
        function = call.func if isinstance(call, ast.Call) and not call.keywords else None
        if (
            not isinstance(call, ast.Call)
            or not isinstance(function, ast.Attribute)
            or function.attr not in ADDING_METHODS
        ):
            return False
        if not isinstance(function.value, ast.Name) or self.changes.is_affected(self.effects(function.value, text)):
            return False
        if type(text.space.get(function.value.id)) not in ADDED_TO_TYPES:
            return False
        before = self.changes.before.get(text.name, {})
        for argument in call.args:
            name = argument.id if isinstance(argument, ast.Name) else ""
            value = text.space.get(name, ABSENT)
            if value is ABSENT or value is not before.get(name, ABSENT) or not _is_hashed_by_identity(value):
                return False
        return True

    def _is_store(self, node: Any, text: Text) -> bool:
        """Return whether an assignment sets attributes or items of objects that are not affected."""
        assigned = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(
            isinstance(target, (ast.Attribute, ast.Subscript))
            and not self.changes.is_affected(self.effects(target, text))
            for target in assigned
        )

    def run(self, text: Text, node: Any) -> None:
        """Run a statement in its module."""
        exec(self.minimal_load_for(text).edited.compile(ast.Module([node], []), "exec"), text.space)

    def _run_or_report(self, text: Text, node: Any, effects: Effects) -> None:
        cause = self.changes.cause(effects)
        try:
            self._evaluate(text, node)
            self._report_order(text, node, effects)
        except Exception as error:  # an error in user code
            self.report_in_module(
                text,
                node,
                f"the statement was evaluated with {cause}, which changed, and fails now: {type(error).__name__}",
            )

    def _report_order(self, text: Text, node: Any, effects: Effects) -> None:
        """Report a statement that has read all attributes of a class in an order that is not that of a fresh import."""
        called = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        values = [text.space.get(name) for name in names_bound_by(node)]
        if called & ORDERLESS_FUNCTIONS or all(type(value) in ORDERLESS_TYPES for value in values):
            return
        for module, name in self.changes.reordered:
            if any((module, f"{name}.{word}") in effects.reads for word in "*+="):
                why = f"line {line_range(node)[0]}: the attributes of {name} come in another order"
                self.lasting.append((text.name, ", ".join(assigned_names(node)), why))

    def _evaluate(self, text: Text, node: Any) -> None:
        """Run a statement that only binds names. Previous objects that equal the new ones are retained."""
        names = names_bound_by(node)
        before = {name: text.space.get(name, ABSENT) for name in names}
        counted = self._filled_functions(self.effects(node, text))
        counters = [(function.__dict__, dict(function.__dict__)) for function in counted]
        if isinstance(node, BLOCK_STATEMENTS):
            for name in names:
                if before[name] is not ABSENT and not self._is_bound_again(text, node, name):
                    del text.space[name]
        try:
            self.run(text, node)
        except BaseException:
            for name, value in before.items():
                if value is not ABSENT:
                    text.space[name] = value
            raise
        finally:
            for attributes, values in counters:
                _refill(attributes, values)
        if text.name == self.name:
            self.evaluated.update(names)
        for name, old in before.items():
            self._restore_identity(text, name, old, node)
            if old is ABSENT:
                self.rebuilds.revived.add((text.name, name))

    def _follow_import(self, text: Text, node: Any) -> None:
        """Import names again if the `__getattr__` of a module has created their values or would create them now."""
        module = sys.modules.get(_source_of_import(node, text))
        before = self.changes.before.get(module.__name__) if module is not None else None
        if module is None or before is None:
            return
        for alias in node.names:
            bound_name, value = alias.asname or alias.name, text.space.get(alias.asname or alias.name, ABSENT)
            if (alias.name in before and alias.name not in self._lazy) or self._is_bound_again(text, node, bound_name):
                continue
            getter = before.get("__getattr__")
            if alias.name not in module.__dict__:
                effects = self.analysis.call(getter) if type(getter) is types.FunctionType else None
                if effects is None or not self.changes.is_affected(effects):
                    continue
                if effects.effect is not None:
                    self.report_in_module(
                        text,
                        node,
                        f"the name was imported with {self.changes.cause(effects)}, which changed",
                        bound_name,
                    )
                    continue
            try:
                text.space[bound_name] = getattr(module, alias.name)
            except Exception as error:  # an error in user code
                self.report_in_module(text, node, f"the import fails now: {type(error).__name__}", bound_name)
                continue
            self._restore_identity(text, bound_name, value)

    def _restore_identity(self, text: Text, name: str, old: Any, node: Any = None) -> None:
        """Restore the previous object of a name if it is equal to the new one or can receive its contents.

        `node` is the statement that binds the name.
        """
        space = text.space
        new = space.get(name, ABSENT)
        is_cached = isinstance(node, ast.Assign) and self._calls_cache(text, node.value)
        if new is not old and old is not ABSENT and new is not ABSENT and not is_cached:
            if self._adopt_class(old, new):
                self.changes.updated.add((text.name, name))
            if is_alike(old, new):
                space[name] = old
            elif not self.is_selection(text, node, (old, new)) and self.move_contents(old, new):
                space[name] = old
                self.changes.updated.add((text.name, name))
        if text.name != self.name and space.get(name, ABSENT) is not old:
            self._undo.record_key(f"{text.name}.{name}", space, name, old)

    @staticmethod
    def _calls_cache(text: Text, node: Any) -> bool:
        """Return whether an expression calls a cached function, which returns the same object to other callers."""
        function = node.func if isinstance(node, ast.Call) else None
        return isinstance(function, ast.Name) and type(text.space.get(function.id)) is LRU_CACHE_TYPE

    def is_selection(self, text: Text, node: Any, values: tuple[object, ...], kind: Any = None) -> bool:
        """Return whether any of the values is part of an object that a statement reads, and was not created by it.

        `kind` is the class whose body contains the statement.
        """
        if node is None or all(type(value) not in REGISTRY_TYPES and not instance_dict_of(value) for value in values):
            return False
        effects = self.analysis.body_effects([node], text.space, kind) if kind is not None else self.effects(node, text)
        return any(is_part_of(value, effects.objects.values()) for value in values)

    def _adopt_class(self, old: Any, new: Any) -> bool:
        """Give an object the class of its replacement if that class was re-created.

        Return whether its class was changed.
        """
        before, now = type(old), type(new)
        if before is now or defining_module_name(before) not in self._loads.values() or is_enum(before):
            return False
        if (defining_module_name(before), qualified_name(before)) != (defining_module_name(now), qualified_name(now)):
            return False
        try:
            object.__setattr__(old, "__class__", now)
        except TypeError:  # the memory layouts differ
            return False
        self._undo.record_change("", lambda: True, lambda: object.__setattr__(old, "__class__", before))
        return True

    def move_contents(self, old: Any, new: Any) -> bool:
        """Replace the contents of a collection or workspace object with those of another.

        Return whether that was possible.
        """
        if type(old) is not type(new):
            return False
        if type(old) in REGISTRY_TYPES:
            self.replace_contents(old, new)
            return True
        kind = type(old)
        bases = order_of(kind)
        if (
            defining_module_name(kind) not in self._loads.values()
            or is_enum(kind)
            or any(base in REGISTRY_TYPES for base in bases)
        ):
            return False
        slots = find_slots(kind)
        attributes, fresh = instance_dict_of(old), instance_dict_of(new)
        if stores_more(base for base in bases if defining_module_name(base) not in self._loads.values()):
            return False
        if not slots and not attributes and not has_only_attributes(old):
            return False
        if refers_to_function(fresh or [_slot_value(slot, new) for _, slot in slots], new):
            return False  # its attributes include bound methods or other references to itself
        values = {name: (slot, _slot_value(slot, old), _slot_value(slot, new)) for name, slot in slots}
        before = {**(attributes or {}), **{name: value[1] for name, value in values.items()}}
        now = {**(fresh or {}), **{name: value[2] for name, value in values.items()}}
        self.changes.record_attribute_changes(old, before, now)
        for slot, previous, value in values.values():
            self._undo.record_change("", lambda: True, functools.partial(_set_slot, slot, old, previous))
            _set_slot(slot, old, value)
        if type(attributes) is dict and type(fresh) is dict:
            self._undo.record_change("", lambda: True, functools.partial(_refill, attributes, dict(attributes)))
            _refill(attributes, fresh)
        return True

    def replace_contents(self, old: Any, new: Any) -> None:
        """Replace the contents of a list, dict or set by those of another."""
        before = old.copy()
        self.changes.refilled[id(old)] = None
        self._undo.record_change("", lambda: True, lambda: _refill(old, before))
        _refill(old, new)

    def _is_bound_again(self, text: Text, node: Any, name: str) -> bool:
        return any(other is not node and name in names_bound_by(other) for other in text.body)

    # Functions

    def _follow_function(self, text: Text, top: int, node: Any) -> None:
        has_defaults = self.follow_defaults(text, node, None)
        self.clear_cache(text, text.space.get(node.name), node.name)
        has_new_types = self._follow_annotations(text, node) or has_defaults
        if node.decorator_list and not has_new_types and self.analysis.reads_signatures(node, text.space):
            has_new_types = self.changes.is_affected(
                self.analysis.annotation_reads(node, text.space, with_signatures=True)
            )
        if node.decorator_list:
            self._follow_decorators(text, top, node, is_affected=has_new_types)

    def _follow_annotations(self, text: Text, node: Any) -> bool:
        """Update the annotations of a function. Return whether they depend on a change."""
        effects = self.analysis.annotation_reads(node, text.space)
        if not self.changes.is_affected(effects):
            return False
        stub = without_body(node)
        space: dict[str, Any] = {}
        try:
            exec(self.minimal_load_for(text).edited.compile(ast.Module([stub], []), "exec"), text.space, space)
            made = annotation_attribute(space[node.name])
        except Exception:  # an error in user code
            return True
        for function in self.existing_functions(text.file, node):
            before = annotation_attribute(function)
            self._minimal.signatures.annotate(function, made, text.space.get(node.name))
            self._undo.record_change("", lambda: True, functools.partial(setattr, function, *before))
        return True

    def follow_defaults(self, text: Text, node: Any, kind: Any) -> bool:
        """Update the default values of a function, and return whether any have changed."""
        has_changed = False
        assigned = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
        for position in assigned:
            effects = self.analysis.body_effects([position], text.space, kind)
            if not self.changes.is_affected(effects):
                continue
            if effects.effect is not None or effects.fills:
                self.report_in_module(
                    text, node, f"a default was computed from {self.changes.cause(effects)}, which changed"
                )
                continue
            try:
                code = self.minimal_load_for(text).edited.compile(ast.Expression(position), "eval")
                value = eval(code, text.space, dict(space_of(kind)) if kind is not None else {})
            except Exception as error:  # an error in user code
                self.report_in_module(text, node, f"a default fails now: {type(error).__name__}")
                continue
            for function in self.existing_functions(text.file, node):
                if self._set_default(function, node, position, value):
                    has_changed = True
                    self.changes.codes.add((text.name, function.__qualname__ + "()"))
        return has_changed

    def clear_cache(self, text: Text, value: Any, name: str, kind: Any = None) -> None:
        """Clear the cache of a function if its results would now be different. `kind` is the class of a method."""
        information = getattr(value, "cache_info", None) if type(value) is LRU_CACHE_TYPE else None
        wrapped = attribute_dict(value).get("__wrapped__") if information is not None else None
        if information is None or type(wrapped) is not types.FunctionType or not information().currsize:
            return
        if self.changes.is_affected(self.analysis.call(wrapped, kind)):
            self.record_emptied.append((text.name, name, information().currsize))
            value.cache_clear()

    def report_cached(self, text: Text, statement: Any, owner: Any) -> None:
        """Report the number of instances with a cached value that would now be different."""
        value = space_of(owner).get(statement.node.name)
        function = getattr(value, "func", None) if type(value) is functools.cached_property else None
        if type(function) is not types.FunctionType or not self.changes.is_affected(
            self.analysis.call(function, owner)
        ):
            return
        count = count_instances_with(owner, statement.node.name)
        name = dotted_name(statement)
        if count and (text.name, name + "()") not in self.changes.codes:
            self.report_in_module(text, statement.node, f"{count} instances keep the value that they have cached", name)

    def _set_default(self, function: Any, node: Any, position: Any, value: Any) -> bool:
        """Set the default value of a parameter, and return whether it has changed.

        `node` is the definition of the function, and `position` is the expression for the default value.
        """
        before = function.__defaults__, function.__kwdefaults__

        def undo() -> None:
            function.__defaults__, function.__kwdefaults__ = before

        if position in node.args.defaults:
            number = node.args.defaults.index(position)
            given = list(function.__defaults__ or ())
            if number >= len(given) or is_alike(given[number], value):
                return False
            given[number] = value
            function.__defaults__ = tuple(given)
        else:
            name = node.args.kwonlyargs[node.args.kw_defaults.index(position)].arg
            words = dict(function.__kwdefaults__ or {})
            if name in words and is_alike(words[name], value):
                return False
            function.__kwdefaults__ = {**words, name: value}
        self._undo.record_change("", lambda: True, undo)
        return True

    def _follow_decorators(self, text: Text, top: int, node: Any, *, is_affected: bool) -> None:
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
        if effects.effect is not None:
            self.report_in_module(
                text,
                node,
                f"the decorators ran with {self.changes.cause(effects)}, which changed, and they may affect other "
                "processes",
            )
        elif effects.fills and not self._fills_only_itself(text, node, effects):
            self.rebuilds.rebuild_filled(text, top, node, effects)
        elif not self.apply_decorators_again(text, node):
            self.report_in_module(text, node, f"the decorators ran with {self.changes.cause(effects)}, which changed")

    def _fills_only_itself(self, text: Text, node: Any, effects: Effects) -> bool:
        """Return whether the decorators of a definition fill no objects other than the definition itself."""
        bound_name = {id(text.space.get(node.name))} | {
            id(function) for function in self.existing_functions(text.file, node)
        }
        return effects.fills <= bound_name

    def apply_decorators_again(self, text: Text, node: Any) -> bool:
        """Apply the decorators in a statement to the existing function or class again.

        Returns False if the function or class is unknown.
        """
        before = text.space.get(node.name, ABSENT)
        if isinstance(node, ast.ClassDef):
            if not is_class(before):
                return False
            if not self._undo_decorators(text, node, before):
                return self._classes.make_again(text, node, before)
            value: Any = before
        else:
            functions = self.existing_functions(text.file, node)
            if not functions:  # nothing refers to the function that was decorated
                self.run(text, node)
                return True
            if len(functions) > 1:
                functions = [function for function in functions if refers_to_function(before, function)]
            if len(functions) != 1:
                return False
            value = functions[0]
            if value.__dict__:  # its decorators would add to the attributes that they have set
                self.run(text, node)
                return True
        minimal = self.minimal_load_for(text)
        made = [
            eval(minimal.edited.compile(ast.Expression(decorator), "eval"), text.space)
            for decorator in node.decorator_list
        ]
        for decorate in reversed(made):
            value = decorate(value)
        text.space[node.name] = value
        if text.name != self.name and value is not before:
            self._undo.record_key(f"{text.name}.{node.name}", text.space, node.name, before)
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
            self._undo.record_attribute("", kind, name, before)
        return True

    def has_run(self, text: Text, top: int) -> bool:
        """Return whether the load has run a statement because it was edited, or has created its class again."""
        is_edited = text.name == self.name and self._minimal.runs_top(top)
        return is_edited or (text.name, top) in self._classes.remade

    def existing_functions(self, file: str, node: Any) -> list[Any]:
        """Return the existing functions defined by a statement."""
        if self._live_by_node is None:
            self._live_by_node = {}
            for candidate in gc.get_objects():
                if type(candidate) is types.FunctionType:
                    code = candidate.__code__
                    key = code.co_filename, code.co_name, code.co_firstlineno
                    self._live_by_node.setdefault(key, []).append(candidate)
        return self._live_by_node.get((file, node.name, line_range(node)[0]), [])

    # Classes

    def are_decorators_of_libraries(self, node: Any) -> bool:
        """Return whether all decorators of a definition come from known libraries that retain the function itself."""
        called = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in node.decorator_list]
        homes = {self.analysis.library_name(decorator, self.text.space) for decorator in called}
        return homes.isdisjoint({"", *(name.partition(".")[0] for name in self._loads.values())})

    def report_if_used(self, name: str, node: Any, value: object, why: str) -> None:
        """Report a part of the edited module unless its previous function is no longer in use after the load.

        Libraries such as Django and blinker hold only weak references to the functions that they register.
        """
        if type(value) is types.FunctionType:
            self._registered.append((name, node, weakref.ref(value), why))
        else:
            self.report_not_updated(name, node, why)

    def report_grown(self) -> None:
        """Report edited definitions that are now registered twice, or whose previous version is still registered."""
        registered, self._registered = self._registered, []
        for name, node, reference, why in registered:
            function = reference()
            if function is not None and is_in_use(function, is_weak=True):
                self.report_not_updated(name, node, why)
        for name, node in self.registrations.registered_twice():
            self.report_in_module(self.text, node, "what the decorators registered before is not undone", name)

    def report_replaced_members(self) -> None:
        """Report enumeration members in other modules that were replaced and are still in use."""
        for name, minimal in list(self._minimals.items()):
            if minimal is not self._minimal:
                minimal.members.report_replaced_members(self.drift, self.name)
                self.stays += [(name, *row) for row in minimal.pop_not_updated()]

    # Objects that statements fill

    def effects_of_decorators(self, node: Any, text: Text) -> Effects:
        """Return the effects of a definition's decorators."""
        return self.analysis.decorator_effects(node, text.space)

    # Other modules

    def find_importers(self) -> list[Text]:
        """Return the sources of modules that depend on the edited one, with imported modules first."""
        return self._dependents.find_importers(self._seeds)

    def forget_lazy_names(self) -> None:
        """Remove names that the module's `__getattr__` has added to it, if it would now create different values."""
        getter = self.text.space.get("__getattr__", self.changes.before[self.name].get("__getattr__"))
        if type(getter) is not types.FunctionType or self._find_source(getter) is None:
            return
        effects = self.analysis.call(getter)
        if id(self.text.space) not in effects.fills or not self.changes.is_affected(effects):
            return
        written = set(BoundNames(self.text.source.tree).kinds)
        for name, value in list(self.text.space.items()):
            if name[:2] != "__" and name not in written and name not in self.drift.rebound_names(self.name):
                self._lazy.add(name)
                del self.text.space[name]
                self._undo.record_key(f"{self.name}.{name}", self.text.space, name, value)

    def _has_module_getattr(self) -> bool:
        """Return whether the edited module has a `__getattr__` that creates names when they are looked up."""
        return "__getattr__" in self.changes.before[self.name] or "__getattr__" in self.text.space

    def other_sources(self) -> list[Text]:
        """Return the sources of other modules that may depend on the load, with imported modules first."""
        if not self._seeds:
            return []
        found = self.find_importers()
        for name in self._dependents.reached:
            self.changes.remember_module(name)
        return found

    def dependent_statements(self, text: Text) -> list[int]:
        """Return the positions of statements in another module that may depend on the load."""
        forced = {top for owner, top in self.rebuilds.forced if owner == text.name}
        stars = {top for top, node in enumerate(text.body) if _is_star(node)}
        self._seeds |= self._import_aliases(text)
        for top, node in enumerate(text.body) if self._has_module_getattr() else ():
            before = (
                self.changes.before.get(_source_of_import(node, text)) if isinstance(node, ast.ImportFrom) else None
            )
            made = (
                {
                    alias.asname or alias.name
                    for alias in node.names
                    if alias.name not in before or alias.name in self._lazy
                }
                if before is not None
                else ()
            )
            self._seeds |= set(made)
            stars |= {top} if made else set()
        words = {*self._seeds, *self._dependents.words}
        return sorted(
            {*text.statements_mentioning({*words, *self._names_filled_by_decorators(text, words)}), *forced, *stars}
        )

    def _import_aliases(self, text: Text) -> set[str]:
        """Return the aliases under which a module imports names that may have changed."""
        found = set()
        for node in text.body:
            for name in node.names if isinstance(node, ast.ImportFrom) else ():
                if name.asname and name.name in self._seeds:
                    found.add(name.asname)
        return found

    def _follow_star(self, text: Text, node: Any) -> None:
        """Update the names that `from … import *` has imported."""
        source = _source_of_import(node, text)
        module, before = sys.modules.get(source), self.changes.before.get(source)
        if module is None or before is None:
            return
        names = self.changes.public_before.get(source)
        old, new = _star_imported_names({**before, "__all__": names}), _star_imported_names(module_dict(module))
        for name, value in new.items():
            if name not in text.space or (name in old and text.space[name] is old[name] and value is not old[name]):
                current = text.space.get(name, ABSENT)
                text.space[name] = value
                self._undo.record_key(f"{text.name}.{name}", text.space, name, current)
        for name, value in old.items():
            if name not in new and text.space.get(name, ABSENT) is value and not self._is_bound_again(text, node, name):
                del text.space[name]
                self._undo.record_key(f"{text.name}.{name}", text.space, name, value)

    def update_late_dependents(self, others: list[Text]) -> None:
        """Update statements that ran before something they depend on, as with forward references."""
        ordered = self.find_sources_in_import_order() if others else [self.text]
        positions = {text.name: position for position, text in enumerate(ordered)}
        late: set[tuple[str, str]] = set()
        for text in ordered:
            circle = {name for name in text.imported_names if positions.get(name, 0) > positions[text.name]}
            for top in text.statements_mentioning(set(self._seeds)):
                node = text.body[top]
                is_class_ = isinstance(node, ast.ClassDef)
                is_run = text is self.text and self._minimal.runs_top(top)
                if is_run or (text.name, top) in self.shared_registries.chain:
                    continue
                if (text.name, top) in self._classes.remade or (not is_class_ and not circle and not late):
                    continue
                changed = {read for read in self.effects(node, text).reads if self.changes.has_changed(*read)}
                is_late = is_class_ or any(read in late or read[0] in circle for read in changed)
                if not changed or not is_late:
                    continue
                before = {name: text.space.get(name, ABSENT) for name in names_bound_by(node)}
                self.rebuilds.done.discard((text.name, top))
                self.follow(text, top)
                late |= {
                    (text.name, name) for name, old in before.items()
                    if text.space.get(name, ABSENT) is not old or (text.name, name) in self.changes.updated
                }  # fmt: skip

    def minimal_load_for(self, text: Text) -> MinimalLoad:
        """Return an object that can run statements in a module, creating it on first use."""
        if text.name not in self._minimals:
            self._minimals[text.name] = self._minimal.for_other_module(text)
        return self._minimals[text.name]

    # Reports

    def report_in_module(self, text: Text, node: Any, why: str, name: str = "") -> None:
        """Report a part of a module that was not updated. `why` is the reason."""
        label = name or getattr(node, "name", "") or ", ".join(assigned_names(node)) or text.source.summary(node)
        row = text.name, label, f"line {line_range(node)[0]}: {why}"
        if row not in self.stays:
            self.stays.append(row)

    def reads_signature(self, decorator: Any, *, only_defaults: bool) -> bool:
        """Return whether a decorator may read the signature of its function.

        With `only_defaults`, decorators that only read other parts of a signature do not count.
        """
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        live: Any = self._evaluate_or_absent(called) if isinstance(called, ast.Name) else ABSENT
        if type(live) is not types.FunctionType or self._find_source(live) is None:
            return not (
                only_defaults and self.analysis.library_name(called, self.text.space) in LIBRARIES_IGNORING_DEFAULTS
            )
        reached = [live]
        for function in reached:
            source = self._find_source(function)
            words = {each.id for each in ast.walk(source) if isinstance(each, ast.Name)}
            words |= {each.attr for each in ast.walk(source) if isinstance(each, ast.Attribute)}
            if not words.isdisjoint(SIGNATURE_NAMES - ANNOTATION_NAMES if only_defaults else SIGNATURE_NAMES):
                return True
            named = [function.__globals__.get(word) for word in words]
            known = [each for each in named if type(each) is types.FunctionType and self._find_source(each) is not None]
            reached += [each for each in known if each not in reached and len(reached) < MAX_SEARCHED_FUNCTIONS]
        return False

    def report_not_updated(self, name: str, node: Any, why: str) -> None:
        """Report a part of the edited module that was not updated."""
        self.report_in_module(self.text, node, why, name)


class _WithoutBodies(ast.NodeTransformer):
    """A transformer that removes the bodies of functions."""

    def visit_FunctionDef(self, node: Any) -> Any:  # the name of the node
        made = type(node)(**{name: getattr(node, name, None) for name in node._fields})
        made.body = []
        return made

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: Any) -> Any:
        return ast.Lambda(node.args, ast.Constant(None))


def _text_without_bodies(node: Any) -> str:
    """Return the text of a function or lambda without the bodies of the functions within it."""
    parts = node.body if isinstance(node.body, list) else [node.body]
    return comparable_dump([node.args, *[_WithoutBodies().visit(copy.deepcopy(part)) for part in parts]]) + getattr(
        node, "name", ""
    )


def _is_star(node: Any) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)


def _source_of_import(node: Any, text: Text) -> str:
    """Return the name of the module from which a statement imports."""
    parts = text.name.split(".")
    owner = parts[: len(parts) - node.level + text.is_package] if node.level else []
    return ".".join([*owner, *([node.module] if node.module else [])])


def _star_imported_names(space: dict[str, Any]) -> dict[str, Any]:
    """Return the names that `import *` imports from a module, with their values."""
    names = space.get("__all__")
    if isinstance(names, (list, tuple)):
        return {name: space[name] for name in names if name in space}
    return {name: value for name, value in space.items() if name[:1] != "_"}


def _are_classes_of_same_name(first: Any, other: Any) -> bool:
    """Return whether both objects are classes with the same name."""
    return is_class(first) and is_class(other) and qualified_name(first) == qualified_name(other)


def _is_setter(node: Any) -> bool:
    """Return whether an expression names a setter in the style of `logging`, such as `setLevel`."""
    return isinstance(node, ast.Attribute) and node.attr[:3] == "set" and node.attr[3:4].isupper()


def _is_hashed_by_identity(value: object) -> bool:
    """Return whether the hash of an object is independent of its contents. This includes unhashable objects."""
    found = next(space_of(base)["__hash__"] for base in order_of(type(value)) if "__hash__" in space_of(base))
    return found is None or found is object.__hash__


def _slot_value(slot: Any, owner: object) -> Any:
    """Return the value in a slot of an object, or ABSENT if the slot is empty."""
    try:
        return slot.__get__(owner)
    except AttributeError:
        return ABSENT


def _set_slot(slot: Any, owner: object, value: object) -> None:
    """Set a slot of an object, or empty it if the value is ABSENT. This does not call `__setattr__`."""
    if value is not ABSENT:
        slot.__set__(owner, value)
    elif _slot_value(slot, owner) is not ABSENT:
        slot.__delete__(owner)


def _refill(old: Any, new: Any) -> None:
    """Replace the contents of a list, dict or set by those of another."""
    if type(old) is list:
        old[:] = new
    else:
        value = new.copy()
        old.clear()
        old.update(value)
