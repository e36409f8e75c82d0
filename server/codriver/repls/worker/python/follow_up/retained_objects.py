"""Preserve the identity of objects that statements create again, so that references to them see the new contents."""

from __future__ import annotations

import ast
import collections
import sys

from ...basics.definition_access import ABSENT, defining_module_name, order_of, qualified_name
from ..enum_members import is_enum
from ..equal_values import find_slots, has_only_attributes, is_alike, is_part_of, stores_more
from ..live_functions import LRU_CACHE_TYPE
from ..rebuilds import refers_to_function
from ..registrations import REGISTRY_TYPES
from ..shared_registries import definition_key, definitions_in, unwrap
from ..stored_attributes import attribute_dict, instance_dict_of, module_dict
from ..successors import share_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...basics.undo_records import UndoRecord
    from ..effects.analysis import Analysis
    from ..module_text import Text
    from ..name_changes import NameChanges
    from .module_sources import ModuleSources
    from .run_time_entries import RunTimeEntries

REFILLED_TYPES = (
    *REGISTRY_TYPES,
    collections.Counter,
    collections.OrderedDict,
    collections.defaultdict,
    collections.deque,
)
"""Types of collections that stay the same object when their contents are replaced."""


class RetainedObjects:
    """Replaces the contents of previous objects with those of the new ones."""

    def __init__(self, sources: ModuleSources, analysis: Analysis, changes: NameChanges, undo: UndoRecord) -> None:
        self.sources, self.analysis, self.changes, self.undo = sources, analysis, changes, undo
        self._orders: dict[int, tuple[dict[Any, Any], list[tuple[str, object]]]] = {}
        self.refilled_dictionaries: set[int] = set()
        """The ids of the dictionaries that were filled again."""
        self.run_time_entries: RunTimeEntries | None = None

    def restore_identity(self, text: Text, name: str, old: Any, node: Any = None) -> None:
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
            elif (
                not self.is_selection(text, node, (old, new))
                and not self._had_other_name(text, name, old)
                and self.move_contents(old, new)
            ):
                space[name] = old
                self.changes.updated.add((text.name, name))
        if text.name != self.sources.name and space.get(name, ABSENT) is not old:
            self.undo.record_key(f"{text.name}.{name}", space, name, old)

    def _had_other_name(self, text: Text, name: str, old: Any) -> bool:
        """Return whether an object had another name as well, which now refers to a different object."""
        return any(
            value is old and (home, other) != (text.name, name) and self._value_now(home, other) is not old
            for home, names in self.changes.before.items()
            for other, value in names.items()
        )

    @staticmethod
    def _value_now(module: str, name: str) -> Any:
        return module_dict(sys.modules[module]).get(name, ABSENT) if module in sys.modules else ABSENT

    def is_selection(self, text: Text, node: Any, values: tuple[object, ...], kind: Any = None) -> bool:
        """Return whether any of a statement's values is part of an object that it reads, rather than created by it.

        `kind` is the class whose body contains the statement.
        """
        if node is None or all(type(value) not in REFILLED_TYPES and not instance_dict_of(value) for value in values):
            return False
        effects = (
            self.analysis.body_effects([node], text.space, kind)
            if kind is not None
            else self.analysis.statement_effects(node, text.space)
        )
        return any(is_part_of(value, effects.objects.values()) for value in values)

    def move_contents(self, old: Any, new: Any) -> bool:
        """Replace the contents of a collection or workspace object with those of another.

        Return whether that was possible.
        """
        if type(old) is not type(new):
            return False
        if type(old) in REFILLED_TYPES:
            if getattr(old, "maxlen", None) != getattr(new, "maxlen", None):
                return False
            self.replace_contents(old, new)
            return True
        if self.share(old, new):
            return True
        kind = type(old)
        bases = order_of(kind)
        if (
            defining_module_name(kind) not in self.sources.module_names
            or is_enum(kind)
            or any(base in REGISTRY_TYPES for base in bases)
        ):
            return False
        slots = find_slots(kind)
        attributes, fresh = instance_dict_of(old), instance_dict_of(new)
        if stores_more(base for base in bases if defining_module_name(base) not in self.sources.module_names):
            return False
        if not slots and not attributes and not has_only_attributes(old):
            return False
        if refers_to_function(fresh or [_slot_value(slot, new) for _, slot in slots], new):
            return False  # its attributes include bound methods or other references to itself
        values = {name: (slot, _slot_value(slot, old), _slot_value(slot, new)) for name, slot in slots}
        before = {**(attributes or {}), **{name: value[1] for name, value in values.items()}}
        now = {**(fresh or {}), **{name: value[2] for name, value in values.items()}}
        self.changes.record_attribute_changes(old, before, now)
        self._record_entries(old, before)
        for slot, previous, value in values.values():
            self.undo.record_undo(_set_slot, slot, old, previous)
            _set_slot(slot, old, value)
        if type(attributes) is dict and type(fresh) is dict:
            self.undo.record_undo(refill, attributes, dict(attributes))
            refill(attributes, fresh)
        return True

    def share(self, old: Any, new: Any) -> bool:
        """Let an application object share the attributes of another. Return whether that was possible."""
        before = attribute_dict(old)
        is_shared = share_attributes(old, new, self.undo)
        if is_shared:
            self._record_entries(old, before)
            self.changes.refilled[id(old)] = None
        return is_shared

    def _record_entries(self, owner: Any, collections_before: dict[str, Any]) -> None:
        """Record the contents of the collections in an object before they are replaced."""
        for attribute, value in collections_before.items():
            if self.run_time_entries is not None and type(attribute) is str:
                self.run_time_entries.record(owner, attribute, value)

    def replace_contents(self, old: Any, new: Any) -> None:
        """Replace the contents of a collection with those of another."""
        before = old.copy()
        self._record_entries(old, {"": before})
        if isinstance(old, dict):
            self.refilled_dictionaries.add(id(old))
            if not new:  # other statements and modules fill it again
                self._orders.setdefault(id(old), (old, [_source_of_entry(key, item) for key, item in before.items()]))
        self.changes.refilled[id(old)] = None
        self.undo.record_undo(refill, old, before)
        refill(old, new)

    def restore_orders(self) -> None:
        """Restore the previous order of the entries in dictionaries that several modules have filled again.

        Modules that import one another in their middle fill a dictionary in turns, but are updated one after the other.
        A new entry stays after the entry that it follows.
        """
        for value, before in self._orders.values():
            entries = {key: _source_of_entry(key, item) for key, item in value.items()}
            positions = {entry: position for position, entry in enumerate(before)}
            known = [key for key, entry in entries.items() if entry in positions]
            if len({entries[key][0] for key in known}) < 2 or len(known) != len({entries[key] for key in known}):
                continue
            followers: dict[Any, list[Any]] = {}
            previous: Any = ABSENT
            for key, entry in entries.items():
                if entry in positions:
                    previous = key
                else:
                    followers.setdefault(previous, []).append(key)
            ordered = [key for _, key in sorted((positions[entries[key]], number) for number, key in enumerate(known))]
            if ordered != [*range(len(known))]:
                keys = [ABSENT, *(known[number] for number in ordered)]
                groups = [[key, *followers.get(key, ())] for key in keys]
                whole, again = value.copy(), value.copy()  # the copies have the same type
                again.clear()
                again.update((key, whole[key]) for group in groups for key in group if key is not ABSENT)
                refill(value, again)

    def _adopt_class(self, old: Any, new: Any) -> bool:
        """Give an object the class of its replacement if that class was re-created.

        Return whether its class was changed.
        """
        before, now = type(old), type(new)
        if before is now or defining_module_name(before) not in self.sources.module_names or is_enum(before):
            return False
        if (defining_module_name(before), qualified_name(before)) != (defining_module_name(now), qualified_name(now)):
            return False
        try:
            object.__setattr__(old, "__class__", now)
        except TypeError:  # the memory layouts differ
            return False
        self.undo.record_undo(object.__setattr__, old, "__class__", before)
        return True

    @staticmethod
    def _calls_cache(text: Text, node: Any) -> bool:
        """Return whether an expression calls a cached function, which returns the same object to other callers."""
        function = node.func if isinstance(node, ast.Call) else None
        return isinstance(function, ast.Name) and type(text.space.get(function.id)) is LRU_CACHE_TYPE


def _source_of_entry(key: object, value: Any) -> tuple[str, object]:
    """Return the module and the name of the first definition in an entry, or its key if it has none."""
    found = next(((each for part in definitions_in(value) for each in unwrap(part))), None)
    return ("", id(key)) if found is None else definition_key(found)


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


def refill(old: Any, new: Any) -> None:
    """Replace the contents of a collection with those of another."""
    if type(old) is list:
        old[:] = new
        return
    value = new.copy()
    old.clear()
    if type(old) is collections.deque:
        old.extend(value)
        return
    old.update(value)
    if type(old) is collections.defaultdict:
        old.default_factory = new.default_factory
