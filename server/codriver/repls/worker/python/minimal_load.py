"""Apply the changes in a file whose previous source is known, and run nothing else.

New code is put into the existing functions. If that is not enough, the smallest possible part is run: a default value,
a class attribute, a definition with its decorators, a statement in the module, or a class. Parts that cannot be updated
are reported.
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import sys
import types

from ..basics.held_definitions import ABSENT, defining_module_name, is_class, order_of, qualified_name, space_of
from .bound_names import BoundNames
from .class_renewal import can_be_created_again, is_plain_class
from .effects.pure_calls import REGISTERING_DECORATORS
from .enum_members import is_enum, update_members, update_other_attributes
from .follow_failures import Reporting
from .holders import find_holder_paths, is_in_use
from .live_functions import FileCodes, LiveCode, annotation_attribute, count_instances_with, match_codes
from .python_names import attribute_dict
from .rebuilds import refers_to_function
from .renewal import is_same_function_code
from .statements import (
    BASES,
    BODY,
    CLASS,
    DECORATORS,
    DOCSTRING,
    FUNCTION,
    FUNCTION_NODES,
    GUARD,
    IMPORT,
    OTHER,
    SIGNATURE,
    VALUE,
    SourceText,
    assigned_names,
    comparable_dump,
    compare,
    line_range,
    makes_new_object,
    names_bound_by,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ..basics.held_definitions import UndoRecord
    from .python_drift import Drift
    from .statements import Change, Statement

FUTURE_FLAGS = 0
"""The compiler flags of all `__future__` features."""
for _name in __future__.all_feature_names:
    FUTURE_FLAGS |= getattr(__future__, _name).compiler_flag
FUNCTION_KIND_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""The code flags that distinguish generators and asynchronous functions from other functions."""
MAX_UPDATED_WRAPPERS = 20
"""Maximum number of nested wrappers whose docstrings are updated."""
MAX_NAMED_EDITS = 3
"""Maximum number of edited names mentioned in a report about a whole edit."""
TRANSPARENT_DECORATORS = (
    "property", "staticmethod", "classmethod", "setter", "getter", "deleter", "abstractmethod", "override", "overload",
    "final", "cached_property", "cache", "lru_cache", "wraps", "contextmanager", "singledispatch",
    "singledispatchmethod", "asynccontextmanager",
)  # fmt: skip
"""Decorators that do not read the signature of the decorated function."""
MEMBER_CREATION_METHODS = ("_generate_next_value_", "__init__", "__new__")
"""Enumeration methods that affect how members are created."""
COLUMN_FUNCTIONS = ("mapped_column", "Column")
"""SQLAlchemy functions that create columns.

A table has its columns in the order of their creation. Source: `sort_order` of `mapped_column` in the documentation.
"""
CLASS_CREATION_NAMES = frozenset({"__slots__", "__init_subclass__", "__class_getitem__", "_fields", "__match_args__"})
"""Names in a class body that only have an effect while the class is created."""


LATE_SPECIAL_METHODS = frozenset(
    f"__{prefix}{word}__"
    for word in (
        "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "xor",
        "or",
    )
    for prefix in ("", "r", "i")
) | {
    "__call__", "__contains__", "__delitem__", "__enter__", "__exit__", "__ge__", "__getitem__", "__gt__", "__invert__",
    "__iter__", "__le__", "__len__", "__lt__", "__ne__", "__neg__", "__next__", "__pos__", "__repr__", "__setitem__",
    "__str__",
}  # fmt: skip
"""Special methods that are looked up when needed, and not when a class is created. Source: the data model."""


class Step:
    """An action to take at the position of a statement. `act` returns its value, or ABSENT if it has none.

    If `is_conditional` is set, the action only has an effect if something that the statement depends on has changed.
    """

    def __init__(self, node: Any, act: Callable[[], object], *, is_conditional: bool = False) -> None:
        self.node, self.line, self.act = node, line_range(node)[0], act
        self.is_conditional = is_conditional
        self.order = (line_range(node)[1] if is_conditional else self.line), is_conditional


class MinimalLoad:
    """Replaces the source of a loaded module with a new one, running as little as possible.

    `again` are dotted names that were rebound at run time and are bound to the file's definition again.
    """

    def __init__(
        self,
        module: types.ModuleType,
        sources: tuple[SourceText, SourceText],
        file: str,
        undo: UndoRecord,
        again: Iterable[str] = (),
    ) -> None:
        self._module, self._space, self._file, self._undo = module, module.__dict__, file, undo
        self._old, self._new = sources
        self.comparison = compare(*sources)
        self._codes = FileCodes(self._old, file), FileCodes(self._new, file)
        self._statements: list[Statement] | None = None
        self._bound_names: BoundNames | None = None
        self._followers: Any | None = None
        self._live: LiveCode | None = None
        self._tops: set[int] = set()
        self._defined: dict[int, Statement] = {}
        self._previous: dict[int, Statement] = {}
        self._members: dict[str, set[str]] = {}
        self._attributes: dict[int, tuple[str, Statement]] = {}
        self.stays: list[tuple[str, str]] = []
        """Names with parts that were not updated, each with the reason."""
        self.left: list[tuple[str, types.FunctionType]] = []
        """Functions whose free variables differ from those of the new code, by the name of their creating function."""
        self.record_emptied: list[tuple[str, int]] = []
        """Cached functions whose caches were cleared, with the number of entries."""
        self._touched: list[types.FunctionType] = []
        self._running: list[tuple[str, str, weakref.ref[Any]]] = []
        self._removed: list[str] = []
        self._detached: list[str] = []
        self._replaced_members: list[tuple[str, Any]] = []
        self._again = list(again)

    @property
    def _all(self) -> list[Statement]:
        """Return the statements in the new source."""
        if self._statements is None:
            self._statements = self._new.statements()
        return self._statements

    @property
    def _bound(self) -> BoundNames:
        if self._bound_names is None:
            self._bound_names = BoundNames(self._new.tree)
        return self._bound_names

    def close(self) -> None:
        """Drop all references to updated functions, so that unused functions can be deleted."""
        self._followers = self._live = None
        for collection in (self.left, self._touched):
            collection.clear()

    def report_running(self, before: dict[str, Any]) -> None:
        """After the load, report the generators and coroutines still running the previous code.

        `before` has the previous values of the module's names. Generators to which only such a name referred no longer
        exist.
        """
        for name, word, reference in self._running:
            running = reference()
            is_replaced = any(
                self._space.get(attribute) is not value and refers_to_function(value, running)
                for attribute, value in before.items()
                if running is not None
            )
            if running is not None and not (is_replaced and not find_holder_paths([running])):
                self.stays.append((name, f"a {word} still runs the previous code"))

    def report_replaced_members(self, drift: Drift, loaded: str) -> None:
        """After the load, report the enumeration members that were replaced and are still in use.

        If files of modules other than `loaded` were edited, too, these may refer to a member until they are loaded.
        """
        waiting, self._replaced_members = self._replaced_members, []
        while waiting:
            name, member = waiting.pop(0)
            if is_in_use(member):
                is_deferred = drift.is_another_edited(loaded) and drift.deferred.defer_member(
                    self._module.__name__, name, member
                )
                if not is_deferred:
                    self.stays.append((name, PREVIOUS_MEMBER_REASON))

    # Used by the code that handles what depends on the changes

    @property
    def module(self) -> types.ModuleType:
        """Return the module being loaded."""
        return self._module

    @property
    def file(self) -> str:
        """Return the file of the module."""
        return self._file

    @property
    def old(self) -> SourceText:
        """Return the previous source."""
        return self._old

    @property
    def code(self) -> types.CodeType:
        """Return the compiled source to load."""
        return self._codes[1].code

    @property
    def new(self) -> SourceText:
        """Return the source to load."""
        return self._new

    def for_other_module(self, text: Any) -> MinimalLoad:
        """Return a load that can run statements in another module whose source has not changed."""
        return MinimalLoad(text.module, (text.source, text.source), text.file, self._undo)

    def compile_node(self, node: Any, mode: str) -> types.CodeType:
        """Compile a statement or expression in the source."""
        return self._compile(node, mode)

    def changes_behaviour(self, old: Statement, new: Statement) -> bool:
        """Return whether a function behaves differently now. Nested functions are ignored."""
        before, now = self._codes[0].code_of_statement(old.node), self._codes[1].code_of_statement(new.node)
        return before is None or now is None or not is_same_function_code(before, now)

    def changes_kind(self, old: Statement, new: Statement) -> bool:
        """Return whether a function has changed between plain, generator and asynchronous.

        Decorators and libraries may treat each kind differently.
        """
        kinds = [codes.code_of_statement(statement.node) for codes, statement in zip(self._codes, (old, new))]
        flags = [code.co_flags & FUNCTION_KIND_FLAGS for code in kinds if code is not None]
        return len(set(flags)) > 1

    def nested_statements(self, node: ast.AST) -> list[Statement]:
        """Return the statements inside a top-level class in the new source."""
        return [
            statement
            for statement in self._all
            if self._new.tree.body[statement.top] is node and statement.node is not node
        ]

    def find_class(self, owner: str) -> Any:
        """Return the class for a scope such as `C.` or `C.Inner.`, or None if there is none."""
        return self._class(owner)

    def runs_top(self, top: int) -> bool:
        """Return whether this load runs a whole top-level statement because the statement was edited."""
        return top in self._tops

    @staticmethod
    def dotted_name(statement: Statement) -> str:
        """Return the dotted name of a statement."""
        return statement.owner + (", ".join(assigned_names(statement.node)) or statement.name[len(statement.owner) :])

    @staticmethod
    def accepts_methods(kind: Any, node: Any) -> bool:
        """Return whether setting a method on an existing class has the same effect as in its body."""
        return _is_open(kind, node)

    def can_set_attributes(self, kind: Any, statement: Statement) -> bool:
        """Return whether setting an attribute on an existing class has the same effect as in its body."""
        return self._can_set_attributes(kind, statement)

    def make_definition(self, statement: Statement) -> Callable[[], object]:
        """Return a function that defines a top-level function or a method, including its decorators."""
        return self._make_definer(statement)

    def make_attribute_assignment(self, statement: Statement) -> Callable[[], object]:
        """Return a function that assigns an attribute of a class."""
        return self._make_assigner(statement.owner, statement)

    def make_member_update(self, owner: str, names: set[str], node: ast.stmt) -> Callable[[], object]:
        """Return a function that updates members of an enumeration."""
        return self._member_updater(owner, names, node)

    def pop_not_updated(self) -> list[tuple[str, str]]:
        """Return and clear the list of parts that were not updated."""
        drained, self.stays[:] = list(self.stays), []
        return drained

    @property
    def is_possible(self) -> bool:
        """Return whether both sources use the same `__future__` features."""
        old, new = self._codes
        return old.code.co_flags & FUTURE_FLAGS == new.code.co_flags & FUTURE_FLAGS

    @property
    def names(self) -> set[str]:
        """Return the dotted names bound by statements that differ between the sources."""
        changed = [change.current_statement for change in self.comparison.changes]
        return {statement.owner + name for statement in changed for name in assigned_names(statement.node)}

    @property
    def changes_classes(self) -> bool:
        """Return whether a class has changed in ways other than the code of its methods."""
        return any(
            (change.current_statement.owner or change.current_statement.kind == CLASS)
            and not (
                change.old
                and change.new
                and change.current_statement.kind == FUNCTION
                and change.current_statement.node.name != "__subclasshook__"
            )
            for change in self.comparison.changes
        )

    @property
    def is_idle(self) -> bool:
        """Return whether there is nothing to do."""
        return not (self.comparison.changes or self.comparison.moved or self._again)

    # Without running user code

    def update_functions(self, followers: Any | None = None) -> list[Step]:
        """Give existing functions their new code, and return the remaining steps in source order."""
        self._followers = followers
        if followers is not None:
            with self._reporting_all():
                followers.prepare()
        functions = [(change.old, change.new) for change in self.comparison.changes if change.old and change.new]
        functions = [pair for pair in functions if pair[0].kind == pair[1].kind == FUNCTION]
        self._previous = {id(new.node): old for old, new in functions}
        left: dict[int, types.FunctionType] = {}
        with self._reporting_all():
            live = LiveCode(self._file, self._codes[0], self._space)
            codes = match_codes(*self._codes, self.comparison.same, functions)
            left = {id(function): function for function in live.update_functions(codes, self._undo.record_change)}
            self._live = live  # without it, the edited functions are defined again
        if followers is not None:
            with self._reporting_all():
                followers.find_changes()
                followers.plan_registries()
        for change in self.comparison.changes:
            with self._reporting(change.current_statement):
                self._plan(change, left)
        with self._reporting_all():
            for name in self._again:
                self._plan_restored_name(name)
            self._follow_decorators()
            self._plan_dispatchers()
        with self._reporting_all():
            self.record_emptied += self._live.clear_caches(self._touched) if self._live is not None else []
        with self._reporting_all():
            self._detached = list(self._remove_attributes())
        if followers is not None:
            with self._reporting_all():
                self._plan_chains(followers)
        return self._steps()

    def _reporting(self, statement: Statement) -> Reporting:
        """Return a context manager that reports an error about a statement and continues."""
        line = line_range(statement.node)[0]
        return Reporting(lambda why: self.stays.append((self.dotted_name(statement), f"line {line}: {why}")))

    def _reporting_all(self) -> Reporting:
        """Return a context manager that reports an error about the edited names and continues."""
        return Reporting(lambda why: self.stays.append((self.label, why)))

    @property
    def label(self) -> str:
        """Return a text with the names changed by the edit, at most three of them."""
        names = sorted({self.dotted_name(change.current_statement) for change in self.comparison.changes})
        return ", ".join(names[:MAX_NAMED_EDITS]) + (" …" if len(names) > MAX_NAMED_EDITS else "")

    def _plan_chains(self, followers: Any) -> None:
        """Plan to refill objects that edited statements create or no longer fill."""
        changes: dict[str, list[Change]] = {}
        for change in self.comparison.changes:
            for name in self._affected_names(change, followers):
                changes.setdefault(name, []).append(change)
        for change in self.comparison.changes:
            if change.new is not None and self._runs(change.new):
                fills = [
                    followers.rebuilds.filled_object_ids(statement.node, followers.text)
                    for statement in (change.old, change.new)
                    if statement
                ]
                followers.changes.record_filled(set().union(*fills))
        for name, bindings in changes.items():
            self._plan_refill(bindings, name, followers.text, followers)
        for change in self.comparison.changes:
            self._plan_removed(change, followers)
            self._watch(change, followers)
        for statement in self.comparison.moved:
            self._plan_moved(statement, followers)

    def _runs(self, statement: Statement) -> bool:
        """Return whether this load runs a statement in the new source."""
        return (
            not statement.owner
            and statement.kind not in (IMPORT, DOCSTRING)
            and (statement.top in self._tops or id(statement.node) in self._defined)
        )

    def _plan_moved(self, statement: Statement, followers: Any) -> None:
        """Plan to create an object again because the order of its statements changed. Report it if not possible."""
        kind = self._class(statement.owner) if statement.owner else None
        if statement.kind == VALUE and is_enum(kind):
            self._members.setdefault(statement.owner, set())
        elif statement.kind == VALUE and kind is not None and not is_plain_class(kind):
            self._remake(statement.owner, statement)
        if (
            statement.owner
            or statement.guard
            or statement.kind in (IMPORT, DOCSTRING)
            or (statement.kind in (FUNCTION, CLASS) and not statement.node.decorator_list)
        ):
            return
        fills = (
            followers.rebuilds.filled_object_ids(statement.node, followers.text)
            & followers.registrations.named_objects()
        )
        names = [name for name in self._space if id(self._space[name]) in fills or name in _top_names(statement.node)]
        for name in names:
            chain = followers.rebuilds.statement_chain(followers.text, name)
            if len(chain) < 2 or id(self._space[name]) in followers.rebuilds.objects:
                continue
            planned = frozenset(top for owner, top in chain if owner is followers.text and top in self._tops)
            obstacle = followers.rebuilds.rebuild_obstacle(followers.text, name, chain, planned)
            if obstacle:
                why = f"line {line_range(statement.node)[0]}: the order of this statement has changed, and {obstacle}"
                self.stays.append((name, why))
            else:
                self._plan_whole_chain([], name, chain, followers)

    def _watch(self, change: Change, followers: Any) -> None:
        """Prepare to detect whether an edited class, function or statement registers something a second time."""
        old, new = change.old, change.new
        if old is None or new is None or old.owner or old.guard or old.kind not in (FUNCTION, CLASS, VALUE, OTHER):
            return
        is_value = old.kind in (VALUE, OTHER)
        fills = (
            followers.rebuilds.filled_object_ids(old.node, followers.text)
            if is_value
            else followers.effects_of_decorators(old.node, followers.text).fills
        )
        if not fills.isdisjoint(followers.rebuilds.objects):
            return
        if old.kind in (VALUE, OTHER):
            followers.registrations.watch_sizes(old.name, old.node, new.node)
        elif DECORATORS in change.parts and any(
            _called_name(decorator) in REGISTERING_DECORATORS for decorator in old.node.decorator_list
        ):
            why = "what the decorators did before is not undone"
            is_weak = followers.are_decorators_of_libraries(old.node) and not _has_registration_id(old.node)
            value = self._space.get(old.name) if is_weak else None
            followers.report_if_used(new.name, new.node, value, why)
        elif BASES in change.parts and followers.registrations.is_no_longer_registered(old, new):
            followers.report_not_updated(new.name, new.node, "what creating the class registered before is not undone")
        elif DECORATORS in change.parts or BASES in change.parts or self._is_decorated_otherwise(change):
            followers.registrations.watch_sizes(old.name, old.node, new.node)

    def _plan_removed(self, change: Change, followers: Any) -> None:
        """Report the effects of a removed function or class that have not been undone."""
        old = change.old
        if change.new is None and old is not None and old.kind == VALUE and not old.owner and not old.guard:
            if self._removes(old) and followers.registrations.has_filled(old.node):
                self.stays.append((old.name, NOT_UNDONE_REASON))
            return
        if change.new is not None or old is None or old.kind not in (FUNCTION, CLASS) or old.owner or old.guard:
            return
        if old.kind == CLASS and followers.registrations.is_listed_by_base(self._value(old.name)):
            self.stays.append((old.name, "the class is still listed by `__subclasses__()` of its base"))
            return
        if old.kind == CLASS and followers.registrations.has_registered(old.name, old.node):
            self.stays.append((old.name, "what creating the class registered is not undone"))
            return
        effects = followers.effects_of_decorators(old.node, followers.text)
        fills = effects.fills & followers.registrations.registry_ids() - followers.rebuilds.objects
        is_undone = not effects.fills.isdisjoint(followers.rebuilds.objects)
        if old.node.decorator_list and (effects.effect is not None or fills) and not is_undone:
            why = "what the decorators did is not undone"
            names = {_called_name(decorator) for decorator in old.node.decorator_list}
            added = [new.node for new in _added_statements(self.comparison.changes) if new.kind == FUNCTION]
            is_refused = _has_registration_id(old.node) and any(map(_has_registration_id, added))
            is_weak = followers.are_decorators_of_libraries(old.node) and not is_refused
            if names <= REGISTERING_DECORATORS and is_weak:
                followers.report_if_used(old.name, old.node, self._space.get(old.name), why)
            else:
                self.stays.append((old.name, why))

    def _affected_names(self, change: Change, followers: Any) -> list[str]:
        """Return the names in the module whose objects are created or filled by an edited statement."""
        old, new = change.old, change.new
        if change.current_statement.owner or change.current_statement.kind in (IMPORT, DOCSTRING):
            return []
        if (
            change.current_statement.kind == FUNCTION
            and (new is None or id(new.node) not in self._defined)
            and not (new is None and old is not None and old.node.decorator_list)
        ):
            return []
        if change.current_statement.kind == CLASS and not (
            change.current_statement.node.decorator_list
            or (old is not None and getattr(old.node, "decorator_list", None))
        ):
            return []
        found: dict[str, None] = {}
        fills: set[int] = set()
        for statement in (old, new):
            if statement is None:
                continue
            if not (statement.kind == FUNCTION and new is None):
                found.update(dict.fromkeys(_top_names(statement.node)))
            fills |= followers.rebuilds.filled_object_ids(statement.node, followers.text)
        for name, value in list(self._space.items()):
            if id(value) in fills and followers.rebuilds.binds_name(followers.text, name):
                found[name] = None
        return [name for name in found if name in self._space]

    def _plan_refill(self, changes: list[Change], name: str, text: Any, followers: Any) -> None:
        """Decide whether to create an object again by running all statements that fill it."""
        chain = followers.rebuilds.statement_chain(text, name)
        if not chain or chain[0][0] is not text:
            return
        body = self._new.tree.body
        base = chain[0][1]
        planned = frozenset(
            top for owner, top in chain if owner is text and (top in self._tops or id(body[top]) in self._defined)
        )
        obstacle = followers.rebuilds.rebuild_obstacle(text, name, chain, planned)
        if isinstance(body[base], (ast.Import, ast.ImportFrom)) and any(
            id(self._space[name]) in followers.rebuilds.filled_object_ids(statement.node, text)
            for change in changes
            for statement in (change.old, change.new)
            if statement is not None
        ):
            obstacle = "another module creates the object"
        bindings = [top for owner, top in chain if owner is text]
        if base in planned:
            if obstacle:
                self._tops.discard(base)
                self._defined.pop(id(body[base]), None)
                why = f"line {line_range(body[base])[0]}: the change was not applied, since {obstacle}"
                self.stays.append((name, why))
            elif len(chain) > 1:
                self._plan_whole_chain(changes, name, chain, followers)
        elif all(change.old is None for change in changes) and bindings[len(bindings) - len(planned) :] == sorted(
            planned
        ):
            return  # only statements at the end were added
        elif not obstacle:
            self._plan_whole_chain(changes, name, chain, followers)
        else:
            for change in changes:
                statement = change.current_statement
                if change.old is not None and change.new is not None and self._has_registered(change, followers):
                    self.stays.append(
                        (
                            statement.name,
                            (f"line {line_range(statement.node)[0]}: what the statement did before is not undone"),
                        )
                    )

    @staticmethod
    def _has_registered(change: Change, followers: Any) -> bool:
        """Return whether the previous statement had an effect that the new statement does not replace."""
        old, new = change.old, change.new
        if old is None or new is None:
            return False
        fills = followers.rebuilds.filled_object_ids(new.node, followers.text)
        if new.kind in (FUNCTION, CLASS) and followers.registrations.are_watched(fills):
            return False  # whether they have grown is checked after the load
        if isinstance(old.node, ast.Assign) and isinstance(new.node, ast.Assign) and _is_set_again(old.node, new.node):
            return False
        if _top_names(new.node) and fills & followers.registrations.named_objects():
            return True
        return not (
            isinstance(old.node, ast.Assign)
            and assigned_names(old.node) == assigned_names(new.node)
            and assigned_names(new.node)
        )

    def _plan_whole_chain(self, changes: list[Change], name: str, chain: list[tuple[Any, int]], followers: Any) -> None:
        """Plan to run all statements that create and fill an object, rather than only the edited ones."""
        text = followers.text
        followers.rebuilds.objects.add(id(self._space.get(name)))
        body = self._new.tree.body
        planned = {
            top for owner, top in chain if owner is text and (top in self._tops or id(body[top]) in self._defined)
        }
        followers.rebuilds.forced.update(
            (owner.name, top) for owner, top in chain if owner is not text or top not in planned
        )
        changed = {change.current_statement.name for change in changes if change.new is None}
        self.stays[:] = [row for row in self.stays if not (row[0] in changed and row[1] == NOT_UNDONE_REASON)]

    def _plan(self, change: Change, left: dict[int, types.FunctionType]) -> None:
        """Plan the steps for one difference between the sources."""
        statement, old, new = change.current_statement, change.old, change.new
        is_function = old is not None and new is not None and old.kind == new.kind == FUNCTION
        has_code = is_function and old is not None and self._has_code(old, left)
        if statement.guard or statement.kind == GUARD:
            self._plan_guarded(change, has_code=has_code)
        elif new is None:
            self._remove(statement)
            is_undone = self._removes(statement) or self._is_replaced(statement) or self._is_filled_again(statement)
            if not is_undone and not _has_no_effect(statement.node):
                self.stays.append((statement.name, NOT_UNDONE_REASON))
        elif statement.owner:
            self._plan_in_class(change, new, has_code=has_code)
        elif statement.kind == FUNCTION:
            if not (has_code and self._needs_only_update(change)):
                self._defined[id(new.node)] = new
        elif statement.kind == DOCSTRING:
            self._document(self._space, None, new.node)
        elif statement.kind == CLASS and change.parts == (DOCSTRING,):
            self._document(
                self._space, self._space.get(statement.name), new.node.body[0] if new.parts[DOCSTRING] else None
            )
        elif not _has_no_effect(statement.node):
            self._tops.add(new.top)
            if old is not None and old.kind == new.kind == VALUE:  # it may no longer have an assignment expression
                self._removed += [name for name in names_bound_by(old.node) if name not in names_bound_by(new.node)]

    def _is_filled_again(self, statement: Statement) -> bool:
        """Return whether the objects that a removed statement has filled are emptied and filled again."""
        followers = self._followers
        if followers is None or not followers.shared_registries.is_planned or statement.owner:
            return False
        fills = followers.rebuilds.filled_object_ids(statement.node, followers.text)
        return not fills.isdisjoint(followers.rebuilds.objects)

    def _remove(self, statement: Statement) -> None:
        """Plan to remove the names bound by a removed statement."""
        kind = self._class(statement.owner) if statement.owner else None
        if statement.owner and is_enum(kind) and statement.kind == VALUE:
            self._members.setdefault(statement.owner, set()).update(assigned_names(statement.node))
        elif kind is not None and self._had_effect_at_creation(kind, statement):
            self._remake(statement.owner, statement)
        else:
            self._removed += [statement.owner + name for name in _names_bound(statement.node)]
            if statement.owner and statement.kind == FUNCTION:
                # The getter of a property without its setter, or the function that a deleted one had replaced.
                others = [each for each in self._all if each.kind == FUNCTION and each.name == statement.name]
                self._defined.update((id(each.node), each) for each in others if not each.guard)

    def _had_effect_at_creation(self, kind: Any, statement: Statement) -> bool:
        """Return whether a removed statement had an effect when its class was created."""
        if _has_no_effect(statement.node):
            return False
        if statement.kind == FUNCTION:
            return not _is_open(kind, statement.node)
        followers = self._followers
        if followers is not None and any(
            followers.registrations.was_named_by_hook(kind, name) for name in assigned_names(statement.node)
        ):
            return True
        return statement.kind in (VALUE, OTHER, GUARD) and not self._can_set_attributes(kind, statement)

    def _remake(self, owner: str, statement: Statement) -> None:
        """Plan to create a class again, unless that would register it a second time."""
        kind = self._class(owner)
        followers = self._followers
        found = [each for each in self._all if each.kind == CLASS and each.name + "." == owner]
        if kind is not None and followers is not None and followers.registrations.registers_again(kind, followers.text):
            self.stays.append(
                (self.dotted_name(statement), f"creating {owner[:-1]} again would register it a second time")
            )
        elif kind is not None and not can_be_created_again(kind):
            self.stays.append(
                (
                    self.dotted_name(statement),
                    f"a library read this name when it created {owner[:-1]}, which it does only once",
                )
            )
        elif found:
            self._tops.add(found[-1].top)
            self._report_double_fills(owner, kind)

    def _report_double_fills(self, owner: str, kind: Any) -> None:
        """Report objects that would be filled a second time by values in a class body, such as a counter of fields."""
        followers = self._followers
        if followers is None or kind is None:
            return
        values = [statement.node for statement in self._all if statement.owner == owner and statement.kind == VALUE]
        filled = sorted({name for node in values for name in followers.registrations.names_filled_in_class(node, kind)})
        if filled:
            self.stays.append((owner[:-1], f"creating the class again changes {', '.join(filled)} again"))

    def _removes(self, statement: Statement) -> bool:
        """Return whether removing its names undoes all effects of a removed statement."""
        names = assigned_names(statement.node)
        dotted = [name for name in names if "." in name]
        for name in dotted if not statement.owner else ():
            owner, _, last = name.rpartition(".")
            kind = self._class(owner + ".")
            is_defined_by_class = kind is not None and last in space_of(kind) and self._binds_once(owner, last)
            if not is_defined_by_class:
                return False
            self._removed.append(name)
        return bool(names) and not isinstance(statement.node, ast.AugAssign)

    def _is_replaced(self, statement: Statement) -> bool:
        """Return whether exactly one other statement now sets what a removed statement used to set."""
        target = self._setter_target(statement.node)
        added = [self._setter_target(new.node) for new in _added_statements(self.comparison.changes)]
        return (
            bool(target)
            and target in added
            and [self._setter_target(other.node) for other in self._all].count(target) == 1
        )

    def _setter_target(self, node: Any) -> str:
        """Return a text that identifies what a statement sets or registers, or "" for other statements."""
        call = node.value if isinstance(node, ast.Expr) else None
        function = call.func if isinstance(call, ast.Call) and len(call.args) == 2 and not call.keywords else None
        if isinstance(call, ast.Call) and isinstance(function, ast.Attribute) and function.attr == "register":
            live = self._space.get(function.value.id) if isinstance(function.value, ast.Name) else None
            if type(live) is types.FunctionType and type(live.__dict__.get("registry")) is types.MappingProxyType:
                return comparable_dump([function, call.args[0]])
        return _setter_target(node)

    def _binds_once(self, owner: str, name: str) -> bool:
        """Return whether a class attribute is not bound anywhere else."""
        return f"{owner}.{name}" not in self._bound.kinds

    def _plan_guarded(self, change: Change, *, has_code: bool) -> None:
        """Plan the steps for a difference inside an `if`, `try` or other guard."""
        statement, new = change.current_statement, change.new
        if new is None:
            self._remove(statement)
        elif not (has_code and set(change.parts) <= {BODY, DOCSTRING}):
            is_moved = statement.kind == FUNCTION and change.old is not None and self._value(statement.name) is ABSENT
            if not is_moved:
                if not statement.owner and statement.kind in (IMPORT, VALUE, FUNCTION, CLASS):
                    self._forget_moved(change)
                self._tops.add(new.top)

    def _plan_in_class(self, change: Change, new: Statement, *, has_code: bool) -> None:
        """Plan the steps for a new or changed statement in the body of a class."""
        kind = self._class(new.owner)
        is_made = change.old is None and any(
            candidate.kind == CLASS and candidate.name + "." == new.owner
            for candidate in _added_statements(self.comparison.changes)
        )
        if _has_no_effect(new.node) or is_made:
            return
        if kind is None or new.kind == CLASS:
            self._tops.add(new.top)
        elif new.kind == VALUE and self._outer_reader(new.owner):
            self._remake(self._outer_reader(new.owner), new)
        elif new.kind == FUNCTION:
            self._plan_method(change, new, kind, has_code=has_code)
        elif is_enum(kind) and new.kind == VALUE:
            self._members.setdefault(new.owner, set()).update(assigned_names(new.node))
        elif self._registers_in_class(kind, new):
            self._remake(new.owner, new)
        elif self._can_set_attributes(kind, new):
            self._attributes[id(new.node)] = new.owner, new
            self._note_order(kind, new)
            if change.old is None and not is_plain_class(kind) and self._precedes_other_columns(kind, new):
                self.stays.append((self.dotted_name(new), "the column comes after the other columns of the class"))
        else:
            self._remake(new.owner, new)

    def _note_order(self, kind: Any, statement: Statement) -> None:
        """Record that attributes will come after others of their class that a fresh import would create later."""
        values = [each for each in self._all if each.owner == statement.owner and each.kind == VALUE]
        names = [name for each in values for name in assigned_names(each.node)]
        existing = [name in space_of(kind) for name in names]
        is_new = any(name not in space_of(kind) for name in assigned_names(statement.node))
        if is_new and existing != sorted(existing, reverse=True) and self._followers is not None:
            self._followers.changes.reordered.add((self._module.__name__, statement.owner[:-1]))

    def _plan_method(self, change: Change, new: Statement, kind: Any, *, has_code: bool) -> None:
        """Plan the steps for a new or changed method of a class."""
        is_done = has_code and self._needs_only_update(change)
        if is_enum(kind) and new.node.name in MEMBER_CREATION_METHODS:
            self._members.setdefault(new.owner, set()).update(space_of(kind)["_member_map_"])
        if is_done:
            return
        is_open = all(_is_open(kind, statement.node) for statement in (change.old, new) if statement is not None)
        if is_open or self._is_unread(kind, [new.node.name]):
            self._defined[id(new.node)] = new
        else:
            self._remake(new.owner, new)

    def _outer_reader(self, owner: str) -> str:
        """Return the scope of the outermost class whose creation may have read a nested class such as `Meta`, or ""."""
        parts = owner[:-1].split(".")[:-1]
        outer = (".".join(parts[: number + 1]) + "." for number in range(len(parts)))
        kinds = ((scope, self._class(scope)) for scope in outer)
        return next((scope for scope, kind in kinds if kind is not None and not is_plain_class(kind)), "")

    def _precedes_other_columns(self, kind: Any, statement: Statement) -> bool:
        """Return whether a fresh import would create other columns of a class after a new column."""
        value = getattr(statement.node, "value", None)
        if not isinstance(value, ast.Call) or _called_name(value) not in COLUMN_FUNCTIONS:
            return False
        line = line_range(statement.node)[0]
        later = [each for each in self._all if each.owner == statement.owner and each.kind == VALUE]
        mixins = [each for each in order_of(kind)[1:] if type(each) is type and each is not object]
        return any(line_range(each.node)[0] > line for each in later) or any(
            space_of(each).get("__annotations__") and not str(defining_module_name(each)).startswith("sqlalchemy")
            for each in mixins
        )

    def _registers_in_class(self, kind: Any, statement: Statement) -> bool:
        """Return whether a value in a class body adds itself to the class. Report anything else that it fills again."""
        followers = self._followers
        if followers is None or statement.kind != VALUE:
            return False
        filled = followers.registrations.names_filled_in_class(statement.node, kind)
        line = line_range(statement.node)[0]
        later = [
            each.node
            for each in self._all
            if each.owner == statement.owner and each.kind == VALUE and line_range(each.node)[0] > line
        ]
        edited = {id(change.new.node) for change in self.comparison.changes if change.old and change.new}
        is_counted_twice = id(statement.node) in edited or any(
            followers.registrations.names_filled_in_class(each, kind) for each in later
        )
        if filled and is_counted_twice:
            self.stays.append(
                (self.dotted_name(statement), f"creating the class again changes {', '.join(filled)} again")
            )
        is_added: bool = followers.registrations.fills_class_collection(statement.node, kind)
        return is_added

    def _is_unread(self, kind: Any, names: list[str]) -> bool:
        """Return whether the hooks that registered a class did not read these names from its body."""
        followers = self._followers
        return followers is not None and followers.registrations.can_change_in_place(kind, names, followers.text)

    def _plan_restored_name(self, name: str) -> None:
        """Plan to restore the file's definition of a name that was rebound at run time."""
        found = [
            statement
            for statement in self._all
            if name in [statement.owner + bindings for bindings in assigned_names(statement.node)]
            or statement.name == name
        ]
        for statement in found[-1:]:
            if statement.guard or (statement.kind == CLASS and statement.owner):
                self._tops.add(statement.top)
            elif statement.kind == FUNCTION:
                self._defined[id(statement.node)] = statement
            elif statement.owner:
                self._attributes[id(statement.node)] = statement.owner, statement
            else:
                self._tops.add(statement.top)

    def _forget_moved(self, change: Change) -> None:
        """Remove names bound by a statement that moved to a different guard, unless another statement binds them."""
        if change.old is None or change.old.guard == change.current_statement.guard:
            return
        for name in (
            _names_bound(change.current_statement.node)
            if change.old.kind == IMPORT
            else [change.current_statement.name]
        ):
            others = [
                statement
                for statement in self._all
                if statement.node is not change.current_statement.node
                and not statement.owner
                and name in assigned_names(statement.node)
            ]
            if not others and name in self._space:
                del self._space[name]

    def _has_code(self, old: Statement, left: dict[int, types.FunctionType]) -> bool:
        """Return whether functions with the code of a statement exist and have all been updated."""
        live = self._live
        code = self._codes[0].code_of_statement(old.node)
        if live is None or code is None:
            return False
        functions = live.functions_with_code(code)
        inner = [function for nested in _iter_codes(code) for function in live.functions_with_code(nested)]
        stale = [function for function in (*functions, *inner) if id(function) in left]
        self._touched += [function for function in (*functions, *inner) if id(function) not in left]
        self.left += [(old.name, function) for function in stale]
        self._running += [
            (old.name, *found)
            for code_object in (code, *_iter_codes(code))
            for found in live.running_generators(code_object)
        ]
        return bool(functions) and not any(function in stale for function in functions)

    def _needs_only_update(self, change: Change) -> bool:
        """Return whether a function only needs new code, a new docstring and new default values.

        If so, plan to update the docstring and the default values, which are evaluated in a later step.
        """
        new = change.new
        if new is None or DECORATORS in change.parts or self._is_decorated_otherwise(change):
            return False
        if (
            DOCSTRING in change.parts
            and new.node.decorator_list
            and not new.owner
            and not _is_documented(self._value(new.name))
        ):
            return False  # its decorators may have read the docstring
        if SIGNATURE in change.parts:
            self._attributes[id(new.node)] = new.owner, new
            if self._has_read_signature(change):
                self.stays.append((new.name, SIGNATURE_USED_REASON))
        self._report_cached(new)
        if DOCSTRING in change.parts:
            self._document_wrappers(change)
        return True

    def _is_decorated_otherwise(self, change: Change) -> bool:
        """Return whether decorators may treat a function differently because its kind has changed."""
        old, new = change.old, change.new
        if old is None or new is None or not old.kind == new.kind == FUNCTION:
            return False
        is_opaque = any(_called_name(decorator) not in TRANSPARENT_DECORATORS for decorator in new.node.decorator_list)
        return is_opaque and self.changes_kind(old, new)

    def _has_read_signature(self, change: Change) -> bool:
        """Return whether the decorators of a function may have read the changed part of its signature."""
        old, new, followers = change.old, change.new, self._followers
        opaque = (
            [
                decorator
                for decorator in new.node.decorator_list
                if _called_name(decorator) not in TRANSPARENT_DECORATORS
            ]
            if new
            else []
        )
        if old is None or new is None or followers is None:
            return bool(opaque)
        arguments = [
            [
                argument.arg
                for argument in (*each.args.args, *each.args.kwonlyargs, *getattr(each.args, "posonlyargs", []))
            ]
            + [len(each.args.defaults), sum(default is not None for default in each.args.kw_defaults)]
            + [comparable_dump([each.returns, *_annotations_of(each.args)])]
            for each in (old.node, new.node)
        ]
        only_defaults = arguments[0] == arguments[1]
        return any(followers.reads_signature(decorator, only_defaults=only_defaults) for decorator in opaque)

    def _document_wrappers(self, change: Change) -> None:
        """Update the docstrings of wrappers and properties that were copied from a function."""
        old, new = change.old, change.new
        if old is None or new is None:
            return
        before, now = ast.get_docstring(old.node, clean=False), ast.get_docstring(new.node, clean=False)
        for value in _wrappers_in(self._value(new.name)):
            self._set_doc_if_copied(value, before, now)

    def _set_doc_if_copied(self, value: Any, before: str | None, now: str | None) -> None:
        """Set the docstring of an object to `now` if it equals `before` and was therefore probably copied."""
        found = value.__doc__ if type(value) is property else attribute_dict(value).get("__doc__", value.__doc__)
        if type(found) in (str, type(None)) and _normalize_docstring(found) == _normalize_docstring(before):
            try:
                value.__doc__ = now
            except (AttributeError, TypeError):  # its docstring cannot be set
                return
            self._undo.record_change("", lambda: True, lambda: setattr(value, "__doc__", found))

    def _report_cached(self, new: Statement) -> None:
        """Report the number of instances with a value that a changed cached property has computed."""
        kind = self._class(new.owner) if new.owner else None
        bindings = new.name.rpartition(".")[2]
        value = space_of(kind).get(bindings) if kind is not None else None
        if kind is not None and type(value).__name__ == "cached_property":
            count = count_instances_with(kind, bindings)
            if count:
                self.stays.append((new.name, f"{count} instances keep the value that they have cached"))

    def _follow_decorators(self) -> None:
        """Plan to redefine functions whose decorators use a redefined function, such as a property's setter."""
        names = {statement.name for statement in self._defined.values()}
        for statement in self._all if names else ():
            if statement.kind == FUNCTION and not statement.guard and statement.name in names:
                read = (node for decorator in statement.node.decorator_list for node in ast.walk(decorator))
                if any(isinstance(node, ast.Name) and node.id == statement.node.name for node in read):
                    self._defined[id(statement.node)] = statement

    def _plan_dispatchers(self) -> None:
        """Plan to define a `singledispatchmethod` and all its implementations again if their types have changed."""
        found: dict[tuple[str, str], None] = {}
        for change in self.comparison.changes:
            if change.old is None or change.new is None or {DECORATORS, SIGNATURE} & set(change.parts):
                for statement in (change.old, change.new):
                    name = self._find_dispatcher(statement) if statement is not None else ""
                    if statement is not None and name:
                        found[statement.owner, name] = None
        for owner, name in found:
            for statement in self._all:
                if (
                    statement.owner == owner
                    and not statement.guard
                    and (statement.name == owner + name or self._find_dispatcher(statement) == name)
                ):
                    self._attributes.pop(id(statement.node), None)
                    self._defined[id(statement.node)] = statement
                    self.stays[:] = [row for row in self.stays if row != (statement.name, SIGNATURE_USED_REASON)]
            if self._followers is not None:
                self._followers.changes.record_update(self._module.__name__, owner + name)

    def _find_dispatcher(self, statement: Statement) -> str:
        """Return the name of the `singledispatchmethod` with which a method is registered, or ""."""
        kind = self._class(statement.owner) if statement.kind == FUNCTION and statement.owner else None
        for decorator in _decorators(statement) if kind is not None else ():
            inner = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(inner, ast.Attribute) and inner.attr == "register" and isinstance(inner.value, ast.Name):
                name = inner.value.id
                if type(space_of(kind).get(name)) is functools.singledispatchmethod:
                    return name
        return ""

    def _can_set_attributes(self, kind: Any, statement: Statement) -> bool:
        """Return whether setting an attribute on an existing class has the same effect as in its body."""
        names = assigned_names(statement.node)
        if not names or any(name in CLASS_CREATION_NAMES or _is_dunder_of_class(kind, name) for name in names):
            return False
        is_new = getattr(statement.node, "value", None) is not None and not any(
            name in space_of(kind) for name in names
        )
        is_plain = is_plain_class(kind) or (is_new and type(kind) is not type and _overrides_setattr(type(kind)))
        return is_plain or self._is_unread(kind, names)

    def _class(self, owner: str) -> Any:
        """Return the module's class for a scope such as `C.` or `C.Inner.`, or None if there is none."""
        found: Any = self._value(owner[:-1])
        is_of_module = is_class(found) and (defining_module_name(found), qualified_name(found)) == (
            self._module.__name__,
            owner[:-1],
        )
        return found if is_of_module else None

    def _value(self, name: str) -> Any:
        """Return the value of a dotted name, or ABSENT if there is none."""
        space: Any = self._space
        value: Any = ABSENT
        for part in name.split("."):
            value = space.get(part, ABSENT)
            space = space_of(value) if is_class(value) else {}
        return value

    def _document(self, space: dict[str, Any], kind: Any, node: Any) -> None:
        """Set the docstring of the module, or of the class `kind`, to the one in a syntax node."""
        text = node.value.value if node is not None else None
        if kind is None:
            self._undo.record_key("", space, "__doc__", space.get("__doc__"))
            space["__doc__"] = text
        elif is_class(kind):
            before = space_of(kind).get("__doc__")
            type.__setattr__(kind, "__doc__", text)
            self._undo.record_attribute("", kind, "__doc__", before)

    # Steps that run user code

    def _steps(self) -> list[Step]:
        body = self._new.tree.body
        steps = [Step(body[top], self._runner_of_top(body[top])) for top in self._tops]
        spans = [line_range(body[top]) for top in self._tops]
        if self._followers is not None:
            steps += self._conditional_steps(self._followers)

        def add(node: Any, act: Callable[[], object]) -> None:
            if not any(first <= line_range(node)[0] <= last for first, last in spans):
                steps.append(Step(node, act))

        for statement in self._defined.values():
            add(statement.node, self._make_definer(statement))
        for owner, statement in self._attributes.values():
            add(statement.node, self._make_assigner(owner, statement))
        for owner, names in self._members.items():
            node = next(
                statement.node for statement in self._all if statement.kind == CLASS and statement.name + "." == owner
            )
            add(node, self._member_updater(owner, names, node))
        # Steps that follow from other changes come after the change of the statement itself.
        steps.sort(key=lambda step: step.order)
        if self._followers is not None and self._followers.shared_registries.is_planned and body:
            steps.insert(0, Step(body[0], self._followers.shared_registries.reset))
        return [self._guard(step) for step in steps]

    def _guard(self, step: Step) -> Step:
        """Wrap a step to report errors in the worker. If the step only follows a change, report all errors."""
        act = step.act

        def guarded_act() -> object:
            with Reporting(report, only_internal=not step.is_conditional):
                return act()
            return ABSENT

        def report(why: str) -> None:
            name = (
                getattr(step.node, "name", "") or ", ".join(assigned_names(step.node)) or self._new.summary(step.node)
            )
            self.stays.append((name, f"line {step.line}: {why}"))

        step.act = guarded_act
        return step

    def _conditional_steps(self, followers: Any) -> Iterator[Step]:
        """Yield steps for statements that may depend on something that has changed."""
        text, body = followers.text, self._new.tree.body
        forced = {top for owner, top in followers.rebuilds.forced if owner == followers.name}
        for top in sorted({*followers.affected_statements(text, followers.seeds), *forced} - self._tops):
            if id(body[top]) not in self._defined:
                yield Step(body[top], _make_follow_step(followers, text, top), is_conditional=True)

    def remove_names(self) -> Iterator[str]:
        """Remove the names that the source no longer binds. Yield these and the removed class attributes."""
        yield from self._detached
        for name in self._names_to_remove():
            if "." not in name and name in self._space:
                del self._space[name]
                yield name

    def _remove_attributes(self) -> Iterator[str]:
        """Remove and yield class attributes that a fresh import would not create.

        This happens before any statement runs.
        """
        removed = set(self._removed)
        for name in self._names_to_remove():
            owner, _, last = name.rpartition(".")
            kind = self._class(owner + ".") if owner and owner not in removed else None
            if kind is None or last not in space_of(kind):
                continue
            type.__delattr__(kind, last)
            is_hash_derived = last == "__eq__" and space_of(kind).get("__hash__", ABSENT) is None
            if is_hash_derived and f"{owner}.__hash__" not in self._bound.kinds:
                type.__delattr__(kind, "__hash__")
            yield name

    def _names_to_remove(self) -> Iterator[str]:
        """Yield the names that the source no longer binds, except for those rebound at run time."""
        for name in self._removed:
            if name not in self._bound.kinds and name.rpartition(".")[2] not in self._bound.rebound:
                yield name

    def _runner_of_top(self, node: ast.stmt) -> Callable[[], object]:
        """Return a function that runs a top-level statement."""
        if isinstance(node, ast.Expr):
            code = self._compile(ast.Expression(node.value), "eval")
            is_last = node is self._new.tree.body[-1]

            def value() -> object:
                try:
                    found: object = eval(code, self._space)
                except Exception as error:
                    if not self._report_conflict(node, error):
                        raise
                    return ABSENT
                return found if is_last else ABSENT

            return value
        run_node = self._runner(self._compile(ast.Module([node], []), "exec"), self._space)
        followers = self._followers
        bound = names_bound_by(node)

        def run() -> object:
            if followers is not None:
                followers.rebuilds.forget_names_set_by_globals(followers.text, node)
                home = self._module.__name__
                followers.rebuilds.revived.update((home, name) for name in bound if name not in self._space)
            if type(node).__name__ == "Match":  # only one of its cases binds names
                for name in names_bound_by(node):
                    if not any(
                        name in names_bound_by(statement) for statement in self._new.tree.body if statement is not node
                    ):
                        self._space.pop(name, None)
            return run_node()

        return self._wrap_preserving_identity(node, run) if isinstance(node, (ast.Assign, ast.AnnAssign)) else run

    def _report_conflict(self, node: ast.Expr, error: Exception) -> bool:
        """Report that a statement fails because its previous version has already added something to a parser.

        Returns False for other errors.
        """
        kind = getattr(sys.modules.get("argparse"), "ArgumentError", None)
        call = node.value
        if not isinstance(call, ast.Call) or kind is None or type(error) is not kind:
            return False
        before = [change.old.node for change in self.comparison.changes if change.old is not None]
        previous = [
            statement.value.func
            for statement in before
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        ]
        if comparable_dump([call.func]) not in [comparable_dump([called]) for called in previous]:
            return False
        why = (
            f"line {line_range(node)[0]}: the statement was not applied, because its previous version still is: {error}"
        )
        self.stays.append((self._new.summary(node), why))
        return True

    def _wrap_preserving_identity(self, node: Any, run: Callable[[], object]) -> Callable[[], object]:
        """Wrap a function that assigns a new collection.

        The existing collection gets the contents of the new one instead.
        """
        followers = self._followers
        names = [name for name in assigned_names(node) if name.isidentifier()]
        olds = [change.old for change in self.comparison.changes if change.new is not None and change.new.node is node]
        is_fresh = (
            len(names) == 1
            and olds
            and olds[0] is not None
            and makes_new_object(node)
            and makes_new_object(olds[0].node)
        )
        if followers is None or not is_fresh:
            return run

        def assign() -> object:
            before = self._space.get(names[0], ABSENT)
            found = run()
            if names[0] not in self._bound.rebound:
                followers.rebuilds.preserve_identity(followers.text, names[0], before)
            return found

        return assign

    def _make_definer(self, statement: Statement) -> Callable[[], object]:
        """Return a function that defines a top-level function or a method, including its decorators."""
        code = self._codes[1].code_of_statement(statement.node)
        if not statement.owner:
            return self._runner_of_top(statement.node)
        kind = self._class(statement.owner)
        if code is None or set(code.co_freevars) - {"__class__"}:
            return self._runner_of_top(self._new.tree.body[statement.top])

        def define() -> object:
            space = dict(space_of(kind))
            value: Any = self._function(statement.node, code, kind, space)
            made = [
                eval(self._compile(ast.Expression(decorator), "eval"), self._space, space)
                for decorator in _decorators(statement)
            ]
            for decorate in reversed(made):
                value = decorate(value)
            type.__setattr__(kind, statement.node.name, value)
            if statement.node.name == "__eq__" and "__hash__" not in space_of(kind):
                type.__setattr__(kind, "__hash__", None)
            name_it = getattr(type(value), "__set_name__", None)
            if name_it is not None:
                name_it(value, kind, statement.node.name)
            return ABSENT

        return define

    def _function(self, node: Any, code: types.CodeType, kind: Any, space: dict[str, Any]) -> types.FunctionType:
        """Create the function for a method definition, which may use `super()`."""
        closure = tuple(types.CellType(kind) for _ in code.co_freevars)
        made = types.FunctionType(code, self._space, node.name, None, closure)
        made.__qualname__ = qualified_name(kind) + "." + node.name
        self._set_signature([made], node, space)
        return made

    def _make_assigner(self, owner: str, statement: Statement) -> Callable[[], object]:
        """Return a function that assigns an attribute of a class."""
        kind = self._class(owner) if owner else None
        if statement.kind == FUNCTION:
            code = self._codes[1].code_of_statement(statement.node)
            space = dict(space_of(kind)) if kind is not None else {}

            def sign() -> object:
                functions = [function for function in self._touched if function.__code__ is code]
                self._set_signature(functions, statement.node, space, self._value(statement.name))
                return ABSENT

            return sign
        is_lazy = isinstance(statement.node, ast.AnnAssign) and sys.version_info >= (3, 14)
        code = self._compile(
            ast.Module([_without_annotation(statement.node)] if is_lazy else [statement.node], []), "exec"
        )

        def assign() -> object:
            if is_lazy:
                self._annotate_class(kind, owner)
            before = dict(space_of(kind))
            space = {**before, "__annotations__": dict(before.get("__annotations__") or {})}
            exec(code, self._space, space)
            for name in _changed_bindings(space, before):
                setattr(kind, name, space[name])
                name_it = getattr(type(space[name]), "__set_name__", None)
                if name_it is not None and is_plain_class(kind):
                    name_it(space[name], kind, name)
            return ABSENT

        return assign

    def _annotate_class(self, kind: Any, owner: str) -> None:
        """Update the annotations of a class from the source. From Python 3.14 on, they are evaluated lazily."""
        node: Any = next(
            statement.node for statement in self._all if statement.kind == CLASS and statement.name + "." == owner
        )
        body: list[ast.stmt] = [
            ast.copy_location(ast.AnnAssign(child.target, child.annotation, None, child.simple), child)
            for child in node.body
            if isinstance(child, ast.AnnAssign) and child.simple
        ]
        stub = type(node)(**{name: getattr(node, name, None) for name in node._fields})
        stub.bases, stub.keywords, stub.decorator_list, stub.body = [], [], [], body or [ast.Pass()]
        ast.copy_location(stub, node)
        ast.fix_missing_locations(stub)
        space: dict[str, Any] = {}
        exec(self._compile(ast.Module([stub], []), "exec"), self._space, space)
        annotate = space[node.name].__annotate__
        if annotate is not None and "__classdict__" in annotate.__code__.co_freevars:
            annotate.__closure__[annotate.__code__.co_freevars.index("__classdict__")].cell_contents = space_of(kind)
        before = kind.__annotate__
        self._undo.record_change("", lambda: True, lambda: setattr(kind, "__annotate__", before))
        kind.__annotate__ = annotate

    def _set_signature(
        self, functions: list[types.FunctionType], node: Any, space: dict[str, Any], value: Any = ABSENT
    ) -> None:
        """Update the default values and annotations of functions. Defaults with unchanged source keep their value."""
        stub = self.copy_without_body(node)
        locals_ = dict(space)
        exec(self._compile(ast.Module([stub], []), "exec"), self._space, locals_)
        made = locals_[node.name]
        old = self._previous.get(id(node))
        for function in functions:
            self._note_signature(function)
            written = _default_values(old.node.args, function) if old is not None else {}
            fresh = _default_values(node.args, made)
            values = {
                name: written[name][1] if name in written and written[name][0] == text else value
                for name, (text, value) in fresh.items()
            }
            plain = [parameter.arg for parameter in (*getattr(node.args, "posonlyargs", []), *node.args.args)]
            function.__defaults__ = tuple(values[name] for name in plain if name in values) or None
            function.__kwdefaults__ = {
                kwonlyarg.arg: values[kwonlyarg.arg] for kwonlyarg in node.args.kwonlyargs if kwonlyarg.arg in values
            } or None
            self.annotate(function, annotation_attribute(made), value)

    def annotate(self, function: Any, now: tuple[str, Any], value: Any) -> None:
        """Update the annotations of a function, and of the wrappers in `value` that have copied them."""
        before = annotation_attribute(function)
        for wrapper in _wrappers_in(value):
            found = annotation_attribute(wrapper) if type(wrapper) is types.FunctionType else None
            if found is not None and (found[1] is before[1] or not (found[1] or before[1])):
                setattr(wrapper, *now)
                self._undo.record_change("", lambda: True, functools.partial(setattr, wrapper, *found))
        setattr(function, *now)

    @staticmethod
    def copy_without_body(node: Any) -> Any:
        """Return a copy of a function's syntax node without its decorators and body."""
        stub = type(node)(**{name: getattr(node, name, None) for name in node._fields})
        stub.decorator_list, stub.body = [], [ast.Pass()]
        ast.copy_location(stub, node)
        stub.lineno, stub.end_lineno = node.lineno, node.end_lineno
        ast.copy_location(stub.body[0], node)
        return stub

    def _note_signature(self, function: types.FunctionType) -> None:
        """Record how to restore the default values and annotations of a function."""
        before, annotations = (function.__defaults__, function.__kwdefaults__), annotation_attribute(function)

        def undo() -> None:
            function.__defaults__, function.__kwdefaults__ = before
            setattr(function, *annotations)

        self._undo.record_change("", lambda: True, undo)

    def _member_updater(self, owner: str, names: set[str], node: ast.stmt) -> Callable[[], object]:
        """Return a function that updates members of an enumeration."""
        kind, code = self._class(owner), self._compile(ast.Module([node], []), "exec")

        def graft() -> object:
            space: dict[str, Any] = {}
            exec(code, self._space, space)
            made = space[owner[:-1].rpartition(".")[2]]
            members = dict(space_of(kind)["_member_map_"])
            changed = update_members(kind, made, names, self._undo.record_change)
            update_other_attributes(kind, made, names - members.keys(), self._undo.record_attribute)
            self._replaced_members += [(owner + name, members[name]) for name in changed]
            return ABSENT

        return graft

    def _compile(self, node: Any, mode: str) -> types.CodeType:
        flags = self._codes[1].code.co_flags & FUTURE_FLAGS
        code: types.CodeType = compile(node, self._file, mode, flags, dont_inherit=True)
        return code

    @staticmethod
    def _runner(code: types.CodeType, space: dict[str, Any]) -> Callable[[], object]:
        """Return a function that runs code in a namespace."""

        def run() -> object:
            exec(code, space)
            return ABSENT

        return run


NOT_UNDONE_REASON = "what the statement did is not undone"
PREVIOUS_MEMBER_REASON = "references to the previous member now differ from it"
SIGNATURE_USED_REASON = "the decorators have used the previous signature"


def _make_follow_step(followers: Any, text: Any, top: int) -> Callable[[], object]:
    def follow() -> object:
        followers.follow(text, top)
        return ABSENT

    return follow


def _wrappers_in(value: Any) -> Iterator[Any]:
    """Yield a decorated function, property or method, and everything that it wraps."""
    value = value.__func__ if type(value) in (staticmethod, classmethod) else value
    for _ in range(MAX_UPDATED_WRAPPERS):
        if type(value) is property or hasattr(type(value), "__wrapped__") or "__wrapped__" in attribute_dict(value):
            yield value
        value = value.fget if type(value) is property else attribute_dict(value).get("__wrapped__")
        if value is None:
            return


def _is_documented(value: Any) -> bool:
    """Return whether a value has its own docstring: a function, a class, or a wrapper with a copied one."""
    return type(value) is types.FunctionType or "__wrapped__" in attribute_dict(value) or is_class(value)


def _normalize_docstring(text: str | None) -> str | None:
    """Normalize the whitespace in a docstring, because Python 3.13 removes indentation."""
    return None if text is None else " ".join(text.split())


def _setter_target(node: Any) -> str:
    """Return a text for the attribute or item set by a statement or the setter called by it, or ""."""
    if isinstance(node, ast.Assign) and all(
        isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets
    ):
        return comparable_dump(list(node.targets))
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr[:3] == "set":
        return comparable_dump([call.func, *call.args[:-1]]) + repr([keyword.arg for keyword in call.keywords])
    is_setattr = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "setattr"
    return comparable_dump(list(call.args[:2])) if is_setattr and isinstance(call, ast.Call) else ""


def _is_set_again(old: ast.Assign, new: ast.Assign) -> bool:
    """Return whether two assignments call the same setter and bind its result to the same names."""
    target = _setter_target(ast.Expr(old.value))
    return bool(target) and target == _setter_target(ast.Expr(new.value)) and assigned_names(old) == assigned_names(new)


def _annotations_of(arguments: Any) -> list[Any]:
    """Return the annotation of each parameter, or None for a parameter without one."""
    every = [*getattr(arguments, "posonlyargs", []), *arguments.args, *arguments.kwonlyargs]
    return [each.annotation for each in (*every, arguments.vararg, arguments.kwarg) if each is not None]


def _top_names(node: Any) -> list[str]:
    """Return the undotted names that a top-level statement binds."""
    return [name for name in assigned_names(node) if name.isidentifier()]


def _without_annotation(node: Any) -> ast.stmt:
    """Convert an annotated assignment to a plain one, or to `pass` if it has no value."""
    made: ast.stmt = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
    return ast.fix_missing_locations(ast.copy_location(made, node))


def _added_statements(changes: Iterable[Change]) -> Iterator[Statement]:
    """Return the statements that only exist in the new source."""
    return (change.new for change in changes if change.old is None and change.new is not None)


def _iter_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield constant
            yield from _iter_codes(constant)


def _has_no_effect(node: Any) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _names_bound(node: Any) -> list[str]:
    """Return the undotted names that a statement binds in its scope."""
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    return [name for name in assigned_names(node) if "." not in name]


def _decorators(statement: Statement) -> list[ast.expr]:
    found: list[ast.expr] = statement.node.decorator_list
    return found


def _has_registration_id(node: Any) -> bool:
    """Return whether a definition is registered under an id, in which case a library refuses another one with that id.

    Source: `dispatch_uid` of Django's signals.
    """
    calls = [decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return any(keyword.arg == "dispatch_uid" for call in calls for keyword in call.keywords)


def _called_name(node: ast.expr) -> str:
    inner = node.func if isinstance(node, ast.Call) else node
    return str(getattr(inner, "attr", None) or getattr(inner, "id", ""))


def _is_open(kind: Any, node: Any) -> bool:
    """Return whether setting a method on an existing class has the same effect as in its body."""
    if not CLASS_CREATION_NAMES.isdisjoint(assigned_names(node)) or space_of(kind).get("_is_protocol"):
        return False
    return is_plain_class(kind) or (
        isinstance(node, FUNCTION_NODES)
        and all(_called_name(decorator) in TRANSPARENT_DECORATORS for decorator in node.decorator_list)
    )


def _is_dunder_of_class(kind: Any, name: str) -> bool:
    """Return whether a name with double underscores may have been read when a class was created."""
    is_operator = is_plain_class(kind) and name in LATE_SPECIAL_METHODS
    return name[:2] == name[-2:] == "__" and not is_operator


def _overrides_setattr(kind: type) -> bool:
    return any(
        "__setattr__" in space_of(base) for base in type.__dict__["__mro__"].__get__(kind) if base not in (type, object)
    )


def _changed_bindings(space: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Return the names whose values differ from the previous ones."""
    found = [
        name for name, value in space.items() if name != "__annotations__" and before.get(name, ABSENT) is not value
    ]
    return [*found, *(["__annotations__"] if space["__annotations__"] != (before.get("__annotations__") or {}) else [])]


def _default_values(arguments: Any, function: types.FunctionType) -> dict[str, tuple[str, Any]]:
    """Return the source and value of each parameter's default value, by the name of the parameter."""
    plain = [parameter.arg for parameter in (*getattr(arguments, "posonlyargs", []), *arguments.args)]
    given = function.__defaults__ or ()
    sources = [comparable_dump(default) for default in arguments.defaults]
    found: dict[str, tuple[str, Any]] = {}
    if len(given) == len(sources):
        found.update(zip(plain[len(plain) - len(sources) :], zip(sources, given)))
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        if default is not None and parameter.arg in (function.__kwdefaults__ or {}):
            found[parameter.arg] = comparable_dump(default), (function.__kwdefaults__ or {})[parameter.arg]
    return found
