"""Update what a statement computed by running it again, or report that it is out of date."""

from __future__ import annotations

import ast
import collections
import os
import sys
import types
import weakref

from ...basics.definition_access import ABSENT, is_class, order_of, qualified_name, space_of
from ..admin_models import registers_model
from ..effects.static_attributes import unbound_attribute
from ..equal_values import is_alike, is_equal_without_caches
from ..rebuilds import is_setattr
from ..signal_senders import SIGNAL_LIBRARIES, connects_receiver
from ..statements import BLOCK_STATEMENTS, assigned_names, comparable_dump, line_range, names_bound_by
from ..stored_attributes import is_module, module_dict
from .changed_words import NAMESPACE_READERS
from .import_syntax import is_bound_again
from .retained_objects import refill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..effects.analysis import Analysis
    from ..effects.effects import Effects
    from ..module_text import Text
    from ..name_changes import NameChanges
    from ..rebuilds import Rebuilds
    from .changed_words import ChangedWords
    from .module_code import ModuleCode
    from .module_sources import ModuleSources
    from .reports import Reports
    from .retained_objects import RetainedObjects

ORDERLESS_FUNCTIONS = frozenset({"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"})
"""Built-in functions whose results do not depend on the order of the elements in their argument."""
ORDERLESS_TYPES = (set, frozenset, int, float, bool, type(None))
"""Types of values that have no order."""
ADDING_METHODS = frozenset({"add", "append", "appendleft"})
"""Methods of collections that add an object and read nothing except its hash."""
CONFIGURING_FUNCTION = "dictConfig"
"""The function of `logging.config` that replaces the whole configuration."""
COPIED_TYPES = (dict, list, set, tuple, frozenset)
ADDED_TO_TYPES = (list, set, collections.deque, weakref.WeakSet)


class StatementFollowUp:
    """Updates statements that are neither definitions nor imports.

    `evaluated` contains the names in the edited module that were computed again although their statements were not
    edited.
    `evaluated_tops` contains the statements that ran again, by module and position.
    """

    def __init__(
        self,
        sources: ModuleSources,
        analysis: Analysis,
        changes: NameChanges,
        code: ModuleCode,
        reports: Reports,
        rebuilds: Rebuilds,
        objects: RetainedObjects,
        names: ChangedWords,
    ) -> None:
        self.sources, self.analysis, self.changes, self.code = sources, analysis, changes, code
        self.reports, self.rebuilds, self.objects, self.names = reports, rebuilds, objects, names
        self.evaluated: set[str] = set()
        self.evaluated_tops: set[tuple[str, int]] = set()

    def follow(self, text: Text, top: int, node: Any) -> None:  # noqa: C901, PLR0912  # one branch per kind
        """Run a statement again if it depends on a change and has no external effects. Report it otherwise."""
        effects = self.analysis.statement_effects(node, text.space)
        if not self.changes.is_affected(effects) and not self._reads_removed_names(text, effects):
            self._report_incomplete(text, node, effects)
            return
        names = [name for name in assigned_names(node) if name.isidentifier()]
        if self._depends_on_namespace(text, effects):
            if names and not self._evaluate_namespace(text, top, node, names):
                self.reports.report(
                    text, node, "the value was computed from the names in its module, which have changed"
                )
            return
        if isinstance(node, ast.If) and self._is_same_branch(text, top, node):
            return
        if self._has_added_same_objects(text, node):
            return
        if self._is_only_setter(text, node):
            self._run_or_report(text, top, node, effects)
            return
        if self._connects_receiver(text, node) and self.changes.has_only_changed_classes(effects):
            return  # signals and admin sites are updated when the load is complete
        if effects.effect is not None:
            self.reports.report(
                text,
                node,
                f"the statement used {self.changes.cause(effects)}, which has changed, and running it again may "
                "affect other processes",
            )
            return
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and not names:
            if self._is_store(node, text):
                self.code.run(text, node)
            else:
                self.rebuilds.rebuild_filled(text, top, node, effects)
            return
        if isinstance(node, ast.Expr) and is_setattr(node.value):
            self.code.run(text, node)
            return
        is_repeatable = self._only_sets_attributes(effects)
        if self._gives_equal_value(text, node, effects):
            return
        if effects.fills and not is_repeatable and not self._only_counts(node, effects):
            self.rebuilds.rebuild_filled(text, top, node, effects)
            return
        if isinstance(node, ast.Expr) and not is_repeatable:
            return
        if isinstance(node, (ast.Assert, ast.Expr)):
            self._run_or_report(text, top, node, effects)
            return
        bound = names_bound_by(node)
        chains = [name for name in bound if len(self.rebuilds.statement_chain(text, name)) > 1]
        if chains:
            for name in chains:
                self.rebuilds.rebuild_name(text, name, text, top, effects)
        elif (
            isinstance(node, (ast.Assign, ast.AnnAssign))
            and top in self.names.touched
            and text.name == self.sources.name
        ):
            if not any(self.changes.has_changed(*read) for read in effects.reads):
                return
            self.reports.report(
                text,
                node,
                f"the value was computed from {self.changes.cause(effects)}, which has changed, and the value has "
                "been modified since",
            )
        elif isinstance(node, ast.While):
            self.reports.report(text, node, f"the statement used {self.changes.cause(effects)}, which has changed")
        else:
            self._run_or_report(text, top, node, effects)

    def _only_counts(self, node: Any, effects: Effects) -> bool:
        """Return whether an assignment only changes attributes of functions, such as a counter of calls."""
        is_assignment = isinstance(node, (ast.Assign, ast.AnnAssign))
        return is_assignment and len(self._filled_functions(effects)) == len(effects.fills)

    def _gives_equal_value(self, text: Text, node: Any, effects: Effects) -> bool:
        """Return whether repeating an assignment would give its names equal values, even if it increments a counter.

        The counter may be a class attribute that counts instances, for example. It is restored before the statement is
        evaluated again, so that nothing is counted twice, unless the edit concerns the attribute or the class.
        """
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not effects.fills or not effects.accumulated:
            return False
        names = [name for name in assigned_names(node) if name.isidentifier()]
        counters = self._counters(effects)
        if len(names) != 1 or len(names) != len(assigned_names(node)) or not counters:
            return False
        words = self.names.words_in_changes()
        if any(name in words or qualified_name(kind).rpartition(".")[2] in words for kind, name, _ in counters):
            return False
        try:
            value = self._value_now(text, node)
        finally:
            for kind, name, before in counters:
                if before is not ABSENT:
                    type.__setattr__(kind, name, before)
                elif name in space_of(kind):
                    type.__delattr__(kind, name)
        return value is not ABSENT and is_equal_without_caches(text.space.get(names[0], ABSENT), value)

    def _counters(self, effects: Effects) -> list[tuple[Any, str, Any]]:
        """Return the attributes of classes that a statement changes, with their values, if all of them are numbers.

        Each row contains the class and the name and value of the attribute. The value is ABSENT if it is inherited.
        """
        kinds = {key: effects.objects.get(key) for key in effects.fills}
        if {key for key, _ in effects.attributes if key in kinds} != kinds.keys():
            return []
        found = []
        for key, name in effects.attributes:
            kind = kinds.get(key)
            present = unbound_attribute(kind, name) if is_class(kind) else None
            if key in kinds and type(present) is not int:
                return []
            if key in kinds:
                found.append((kind, name, space_of(kind).get(name, ABSENT)))
        return found

    def _connects_receiver(self, text: Text, node: Any) -> bool:
        """Return whether a statement connects a receiver to a signal, or registers a model with an admin site."""
        return (
            isinstance(node, ast.Expr)
            and (connects_receiver(node.value) or registers_model(node.value))
            and self.analysis.library_name(node.value.func, text.space) in SIGNAL_LIBRARIES  # type: ignore[attr-defined]
        )

    def _only_sets_attributes(self, effects: Effects) -> bool:
        """Return whether a statement only sets attributes of existing objects, so that it can run a second time.

        If the names of some attributes are unknown, they may depend on attributes that were removed from a class.
        """
        if not effects.fills or effects.accumulated:
            return False
        is_known = all(name != "*" for _, name in effects.attributes)
        return is_known or not self.changes.has_removed_attribute(effects)

    def _filled_functions(self, effects: Effects) -> list[types.FunctionType]:
        """Return the functions in the workspace's modules whose attributes a statement changes."""
        found: dict[int, types.FunctionType] = {}
        for name in [*self.sources.loads] if effects.fills else ():
            for value in list(module_dict(sys.modules[name]).values()) if name in sys.modules else ():
                if id(value) in effects.fills and type(value) is types.FunctionType:
                    found[id(value)] = value
        return list(found.values())

    def _depends_on_namespace(self, text: Text, effects: Effects) -> bool:
        """Return whether a statement is only affected because it reads all names in its module.

        Such a statement is not simply run again, because names bound after it now exist.
        """
        guessed = {(text.name, "**")} & effects.guesses
        if not guessed:
            return False
        effects.guesses -= guessed
        is_affected = self.changes.is_affected(effects)
        effects.guesses |= guessed
        return not is_affected

    def _report_incomplete(self, text: Text, node: Any, effects: Effects) -> None:
        """Report an augmented assignment that reads all names in its module, if it would now add different values.

        Names that were removed from the source are still in the module at this point.
        """
        if not isinstance(node, ast.AugAssign) or not isinstance(node.target, ast.Name) or effects.effect is not None:
            return
        removed = [text.space.get(name) for name in self.names.removed_names] if text is self.sources.text else []
        has_changed = bool(removed) or self.changes.has_changed_names(text.name)
        if not has_changed or (text.name, "**") not in effects.guesses:
            return
        present: Any = text.space.get(node.target.id)
        value = self.code.evaluate_or_absent(text, node.value)
        entries = list(present.values() if type(present) is dict else present) if type(present) in COPIED_TYPES else []
        if not _contains_all(present, value) or any(entry is old for entry in entries for old in removed):
            self.reports.report(text, node, "the value was computed from the names in its module, which have changed")

    def _value_now(self, text: Text, node: Any) -> Any:
        """Return the value that a statement would bind to its first name now.

        If that equals the current value, the current object is returned. ABSENT means that the evaluation failed.
        """
        present = text.space.get(assigned_names(node)[0], ABSENT)
        try:
            with self.names.later.hidden(text, node):
                value = eval(self.code.compile(text, ast.Expression(node.value), "eval"), text.space)
        except Exception:  # an error in user code
            return ABSENT
        return present if is_alike(present, value) else value

    def _reads_removed_names(self, text: Text, effects: Effects) -> bool:
        """Return whether a statement reads all names in its module, some of which will be removed."""
        is_reader = (text.name, "**") in effects.guesses and effects.effect is None and not effects.fills
        return is_reader and text is self.sources.text and bool(self.names.all_removed_names)

    def _evaluate_namespace(self, text: Text, top: int, node: Any, names: list[str]) -> bool:
        """Compute a value from the names that an import has bound when it evaluates the statement.

        Return whether that was possible, or the value is up to date.
        """
        present = text.space.get(names[0], ABSENT)
        parts = list(ast.walk(node.value))
        readers = [
            part for part in parts
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and not part.args
            and part.func.id in NAMESPACE_READERS
        ]  # fmt: skip
        if not readers or len(names) != 1:
            return self._value_now(text, node) is present
        space = {name: value for name, value in text.space.items() if name not in self._names_bound_later(text, top)}
        try:
            with self.names.later.hidden(text, node):
                value = eval(self.code.compile(text, ast.Expression(node.value), "eval"), space)
        except Exception:  # an error in user code
            return False
        if is_alike(present, value):
            return True
        if any(isinstance(part, (ast.Lambda, ast.Yield)) for part in parts) or type(value) not in COPIED_TYPES:
            return False  # its functions would not see changes to the names of the module
        text.space[names[0]] = value
        self.objects.restore_identity(text, names[0], present, node)
        self.changes.record_update(text.name, names[0])
        if text.name == self.sources.name:
            self.evaluated.add(names[0])
        return True

    def _names_bound_later(self, text: Text, top: int) -> set[str]:
        """Return the names that only statements from a position on bind, and those that the edit has removed."""
        earlier = {name for node in text.body[:top] for name in names_bound_by(node)}
        later = {name for node in text.body[top:] for name in names_bound_by(node)} - earlier
        written = earlier | later
        for name, value in text.space.items():
            submodule = f"{text.name}.{name}"
            if name not in written and is_module(value) and module_dict(value).get("__name__") == submodule:
                is_deleted = not os.path.exists(str(module_dict(value).get("__file__")))
                if is_deleted or not self.names.later.is_reached(text, top, submodule):
                    later.add(name)
        return later | (self.names.all_removed_names - written if text.name == self.sources.name else set())

    def _is_same_branch(self, text: Text, top: int, node: Any) -> bool:
        """Return whether the condition of an `if` still has the same result and its branch is not affected."""
        if text.name != self.sources.name or top not in self.names.truths:
            return False
        effects = self.analysis.statement_effects(node.test, text.space)
        if effects.effect is not None:
            return False
        try:
            value = bool(eval(self.code.compile(text, ast.Expression(node.test), "eval"), text.space))
        except Exception:  # an error in user code
            return False
        branch = node.body if value else node.orelse
        return value is self.names.truths[top] and not any(
            self.changes.is_affected(self.analysis.statement_effects(statement, text.space)) for statement in branch
        )

    def _is_only_setter(self, text: Text, node: Any) -> bool:
        """Return whether a statement calls a setter such as `setLevel` that no other statement calls."""
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not _is_setter(call.func):
            return False
        if any(_overwrites_file(text.space.get(value.id)) for value in call.args if isinstance(value, ast.Name)):
            return False
        given = self.analysis.statement_effects(
            ast.Tuple([*call.args, *[keyword.value for keyword in call.keywords]], ast.Load()), text.space
        )
        target = comparable_dump([call.func])
        others = [
            statement for statement in text.body
            if statement is not node and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            and comparable_dump([statement.value.func]) == target
        ]  # fmt: skip
        return given.effect is None and not given.fills and not others

    def _has_added_same_objects(self, text: Text, node: Any) -> bool:
        """Return whether the objects that a statement added to a collection are still the same objects."""
        call = node.value if isinstance(node, ast.Expr) else None
        function = call.func if isinstance(call, ast.Call) and not call.keywords else None
        if (
            not isinstance(call, ast.Call)
            or not isinstance(function, ast.Attribute)
            or function.attr not in ADDING_METHODS
        ):
            return False
        if not isinstance(function.value, ast.Name) or self.changes.is_affected(
            self.analysis.statement_effects(function.value, text.space)
        ):
            return False
        if type(text.space.get(function.value.id)) not in ADDED_TO_TYPES:
            return False
        before = self.changes.before.get(text.name, {})
        for expression in call.args:
            name = expression.id if isinstance(expression, ast.Name) else ""
            value = text.space.get(name, ABSENT)
            if value is ABSENT or value is not before.get(name, ABSENT) or not _is_hashed_by_identity(value):
                return False
        return True

    def _is_store(self, node: Any, text: Text) -> bool:
        """Return whether an assignment sets attributes or items of objects that are not affected."""
        assigned = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(
            isinstance(target, (ast.Attribute, ast.Subscript))
            and not self.changes.is_affected(self.analysis.statement_effects(target, text.space))
            for target in assigned
        )

    def _run_or_report(self, text: Text, top: int, node: Any, effects: Effects) -> None:
        cause = self.changes.cause(effects)
        self.evaluated_tops.add((text.name, top))
        try:
            self.evaluate(text, node)
            self._report_order(text, node, effects)
        except Exception as error:  # an error in user code
            self.reports.report(
                text,
                node,
                f"the statement used {cause}, which has changed, and running it again raised {type(error).__name__}",
            )

    def _report_order(self, text: Text, node: Any, effects: Effects) -> None:
        """Report a statement that has read all attributes of a class in a different order than after a fresh import."""
        called = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        values = [text.space.get(name) for name in names_bound_by(node)]
        if called & ORDERLESS_FUNCTIONS or all(type(value) in ORDERLESS_TYPES for value in values):
            return
        for module, name in self.changes.reordered:
            if any((module, f"{name}.{word}") in effects.reads for word in "*+="):
                why = f"line {line_range(node)[0]}: the attributes of {name} are in a different order"
                self.reports.lasting.append((text.name, ", ".join(assigned_names(node)), why))

    def evaluate(self, text: Text, node: Any) -> None:
        """Run a statement that only binds names. Previous objects that equal the new objects are retained."""
        names = names_bound_by(node)
        before = {name: text.space.get(name, ABSENT) for name in names}
        effects = self.analysis.statement_effects(node, text.space)
        counted = self._filled_functions(effects)
        counters = [(function.__dict__, dict(function.__dict__)) for function in counted]
        if isinstance(node, BLOCK_STATEMENTS):
            for name in names:
                if before[name] is not ABSENT and not is_bound_again(text, node, name):
                    del text.space[name]
        try:
            with self.names.later.hidden(text, node):
                self.code.run(text, node)
        except BaseException:
            for name, value in before.items():
                if value is not ABSENT:
                    text.space[name] = value
            raise
        finally:
            for attributes, values in counters:
                refill(attributes, values)
        if text.name == self.sources.name:
            self.evaluated.update(names)
        for name, old in before.items():
            self.objects.restore_identity(text, name, old, node)
            if name in text.space and self.changes.has_stored_signature(effects):
                self.changes.refilled[id(text.space[name])] = None
            if old is ABSENT:
                self.rebuilds.revived.add((text.name, name))


def _contains_all(present: Any, added: Any) -> bool:
    """Return whether a collection contains all entries of another."""
    if type(present) is dict and type(added) is dict:
        return all(key in present and is_alike(present[key], value) for key, value in added.items())
    are_known = type(present) in COPIED_TYPES and type(added) in COPIED_TYPES
    return are_known and all(entry in present for entry in added)


def _is_setter(node: Any) -> bool:
    """Return whether an expression names a setter in the style of `logging`, such as `setLevel`, or `dictConfig`."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    is_set = isinstance(node, ast.Attribute) and name[:3] == "set" and name[3:4].isupper()
    return is_set or name == CONFIGURING_FUNCTION


def _overwrites_file(value: object) -> bool:
    """Return whether a configuration of `logging` opens a file for writing from its beginning."""
    if type(value) is dict:
        return value.get("mode") == "w" or any(map(_overwrites_file, value.values()))
    return False


def _is_hashed_by_identity(value: object) -> bool:
    """Return whether the hash of an object is independent of its contents. This includes unhashable objects."""
    found = next(space_of(base)["__hash__"] for base in order_of(type(value)) if "__hash__" in space_of(base))
    return found is None or found is object.__hash__
