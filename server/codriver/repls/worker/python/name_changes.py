"""Track which names in the workspace's modules have changed since a load began.

A name has changed if it is bound to a different object, or if its object was refilled or has new code.
"""

from __future__ import annotations

import collections
import functools
import gc
import sys
import types

from ..basics.definition_access import ABSENT, defining_module_name, is_class, order_of, qualified_name, space_of
from .enum_members import is_enum
from .equal_values import CONSTANT_IDS, is_alike
from .remembered_names import is_plain_value
from .stored_attributes import attribute_dict, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    from .effects.effects import Effects
    from .python_drift import Drift

    Spaces = Dict[str, Dict[str, Any]]

BUILT_IN_COLLECTIONS = (dict, list, tuple, set, frozenset, collections.deque, types.MappingProxyType)
LIBRARY_COLLECTIONS = (collections.ChainMap, collections.UserDict, collections.UserList)
"""Types of collections that store other collections as attributes."""
MAX_SEARCHED_PARTS = 100
"""Maximum number of parts of a collection that are searched for changed objects."""
METHOD_TYPES = (types.FunctionType, staticmethod, classmethod, property)
"""Types of methods in a class."""
CONTENT_COMPARED_TYPES = (list, tuple, dict, set, frozenset)
"""Types of class attributes that count as unchanged if the old and new values have equal contents."""
AUTOMATIC_CLASS_NAMES = ("__doc__", "__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__")
"""Names of attributes that Python adds to every class."""


class NameChanges:
    """The names that have changed since a module started to load.

    - `edited` contains the names bound by statements that differ between the sources.
    - `before` contains the previous names in each module.
    - `public_before` is the previous `__all__` of each module.
    - `updated` contains the names whose objects were changed in place.
    - `codes` contains the functions whose code changed.
    - `refilled` contains the ids of the objects whose contents changed, each with the names of the changed attributes,
      or None if these are unknown.
    - `reordered` contains the classes whose attributes are in a different order than after a fresh import.
    """

    def __init__(self, module: types.ModuleType, edited: set[str], drift: Drift) -> None:
        self._edited, self._drift = edited, drift
        self.before: Spaces = {module.__name__: dict(module.__dict__)}
        self.public_before: dict[str, object] = {module.__name__: copy_all_names(module.__dict__)}
        self.updated: set[tuple[str, str]] = set()
        self.codes: set[tuple[str, str]] = set()
        self.refilled: dict[int, set[str] | None] = {}
        self.reordered: set[tuple[str, str]] = set()
        self._filled: set[tuple[str, str]] = set()
        self._classes: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._subclasses: dict[int, set[int]] = {}
        self._members: dict[int, dict[str, dict[str, Any]]] = {}
        self.remember_classes(module)

    def close(self) -> None:
        """Drop all references to objects."""
        self.before.clear()
        self._classes.clear()

    def remember_classes(self, module: types.ModuleType) -> None:
        """Store the attributes of a module's classes before they change."""
        waiting = [
            value
            for value in module.__dict__.values()
            if is_class(value) and defining_module_name(value) == module.__name__
        ]
        while waiting:
            kind = waiting.pop()
            if id(kind) not in self._classes:
                space = dict(space_of(kind))
                self._classes[id(kind)] = kind, space
                self._subclasses[id(kind)] = {id(subclass) for subclass in type.__subclasses__(kind)}
                waiting += [
                    value
                    for value in space.values()
                    if is_class(value) and defining_module_name(value) == module.__name__
                ]
                if is_enum(kind):
                    space["_member_names_"] = list(space["_member_names_"])
                    members = space["_member_map_"].items()
                    self._members[id(kind)] = {name: attribute_dict(member) for name, member in members}

    def remember_module(self, name: str) -> None:
        """Store the names in another module before they change."""
        if name not in self.before:
            module = sys.modules[name]
            self.before[name] = dict(module_dict(module))
            self.public_before[name] = copy_all_names(self.before[name])
            self.remember_classes(module)

    def record_filled(self, fills: set[int]) -> None:
        """Record that objects have been filled again. The names of these objects count as changed."""
        for name in [*self._drift.sources.loads] if fills else ():
            module = sys.modules.get(name)
            for attribute, value in list(module_dict(module).items()) if module is not None else ():
                filled = []
                if is_class(value) and defining_module_name(value) == name:
                    filled = [part for part, inner in list(space_of(value).items()) if id(inner) in fills]
                    self._filled.update((name, f"{attribute}.{part}") for part in filled if part[:2] != "__")
                is_filled = id(value) in fills and id(value) not in CONSTANT_IDS and not filled
                if not is_class(value) and type(value).__module__ in self._drift.sources.loads:
                    is_filled = is_filled or any(id(inner) in fills for inner in attribute_dict(value).values())
                if is_filled:
                    self._filled.add((name, attribute))

    def record_attribute_changes(self, value: object, before: dict[str, Any], now: dict[str, Any]) -> None:
        """Record which attributes of an object have different values than before."""
        names = {*before, *now}
        changed = {name for name in names if not is_alike(before.get(name, ABSENT), now.get(name, ABSENT))}
        known = self.refilled.get(id(value), set())
        self.refilled[id(value)] = None if known is None else known | changed

    def record_update(self, module: str, name: str) -> None:
        """Record that the object to which a name refers was changed in place."""
        self.updated.add((module, name))

    def is_affected(self, effects: Effects) -> bool:
        """Return whether anything that a statement reads or calls has changed.

        This includes names that the statement may read because an object is unknown. If running the statement may have
        external effects, only guesses about attributes of any class are included.
        """
        if any(self.has_changed(*read) for read in effects.reads if not self._is_counter(read, effects)):
            return True
        if not effects.defaults.isdisjoint(self.refilled.keys()):
            return True
        if any(
            self._is_filled(*read) for read in effects.reads if not effects.fills or self._is_copied(*read, effects)
        ):
            return True
        guesses = effects.guesses
        if effects.effect is not None or effects.fills:
            guesses = {guess for guess in guesses if guess[1] != "**"}
        if effects.effect is not None:
            guesses = {guess for guess in guesses if guess[0] == "*" and guess[1][1:3] != "__"}
        return any(self._may_have_changed(*guess) for guess in guesses)

    def _is_filled(self, module: str, name: str) -> bool:
        """Return whether the object with this name, or the instance whose attribute is read, was filled again."""
        if (module, name) in self._filled:
            return True
        owner = name.partition(".")[0]
        return owner != name and (module, owner) in self._filled and self._is_instance(module, owner)

    @staticmethod
    def _is_copied(module: str, name: str, effects: Effects) -> bool:
        """Return whether a statement may copy the collection with this name into the objects that it fills."""
        value = module_dict(sys.modules[module]).get(name) if module in sys.modules else None
        return type(value) in (list, dict, set) and not effects.fills & {0, id(value)}

    @staticmethod
    def _is_instance(module: str, name: str) -> bool:
        """Return whether a name in a module refers to an object that is not a class."""
        space = module_dict(sys.modules[module]) if module in sys.modules else {}
        return name in space and not is_class(space[name])

    def _is_counter(self, read: tuple[str, str], effects: Effects) -> bool:
        """Return whether an attribute of a class is read only in order to change it, such as a counter of instances."""
        module, name = read
        owner, _, _ = name.rpartition(".")
        if not owner or name in self._edited or name[-1] in ")*+=":
            return False
        space = module_dict(sys.modules[module]) if module in sys.modules else {}
        return is_class(space.get(owner)) and id(space[owner]) in effects.fills

    def _may_have_changed(self, module: str, name: str) -> bool:
        """Return whether anything that a guess of the analysis may refer to has changed.

        The module `*` means an attribute of any class, the name `**` any name in the module, and a name that ends in
        `.%` any code in the class.
        """
        if module == "*":
            changed = (code_name for _, code_name in self.codes)
            if any(code_name.endswith(name + "()") for code_name in changed):
                return True
            return any(
                self._has_attribute_changed(kind, name[1:])
                or self._has_registered_function_changed(space_of(kind).get(name[1:]))
                for kind, space in list(self._classes.values())
                if name[1:] in space or name[1:] in space_of(kind) or id(kind) in self._members
            )
        if name == "**":
            return self.has_changed_names(module)
        if name[-2:] != ".%":
            return self.has_changed(module, name)
        start = name[:-1]
        return any(home == module and code_name.startswith(start) for home, code_name in self.codes)

    def has_changed_names(self, module: str) -> bool:
        """Return whether names were added to or removed from a module, or have changed."""
        before = self.before.get(module)
        now = module_dict(sys.modules[module]) if module in sys.modules else {}
        names = {attribute for attribute in {*(before or ()), *now} if attribute[:2] != "__"}
        return before is not None and any(
            (attribute in now) != (attribute in before) or self.has_changed(module, attribute) for attribute in names
        )

    def has_changed(self, module: str, name: str) -> bool:
        """Return whether a name in a module has changed. The name may have any form that `Effects` describes."""
        if (module, name) in self.codes or (module, name) in self.updated:
            return True
        if name.endswith(".__subclasses__()"):
            return self._has_subclasses(module, name.rpartition(".")[0])
        if name[-2:] in (".*", ".+", ".="):
            return self._has_class_changed(module, name[:-2], name[-1])
        first, _, rest = name.partition(".")
        before = self.before.get(module)
        if before is not None and name == "**":
            return any(self.has_changed(module, each) for each in self._data_names(module))
        if before is None or name.endswith(")"):
            return False
        now = module_dict(sys.modules[module]).get(first, ABSENT) if module in sys.modules else ABSENT
        old = before.get(first, ABSENT)
        if rest and now is not ABSENT and not is_class(now) and not is_class(old):
            return self._has_instance_changed(module, first, rest)
        if now is not old and rest and _are_classes_with_equal(old, now, rest):
            return False
        if now is not old:
            return not (is_plain_value(now) and type(now) is type(old) and repr(now) == repr(old))
        if rest and is_class(now):
            return self._has_attribute_changed(now, rest)
        return id(now) in self.refilled or self._contains_refilled(now)

    def _contains_refilled(self, value: Any) -> bool:
        """Return whether a collection contains an object whose contents have changed, directly or in a nested one."""
        level, seen = [value], {id(value)}
        while level and self.refilled:
            collection = level.pop()
            if type(collection) in BUILT_IN_COLLECTIONS:
                parts = gc.get_referents(collection)
            elif type(collection) in LIBRARY_COLLECTIONS:
                parts = list(attribute_dict(collection).values())
            else:
                continue
            if any(id(part) in self.refilled for part in parts):
                return True
            level += [part for part in parts if id(part) not in seen][:MAX_SEARCHED_PARTS]
            seen.update(map(id, parts))
        return False

    def _data_names(self, module: str) -> set[str]:
        """Return the names in a module that refer to data now or did before, rather than to code."""
        now = module_dict(sys.modules[module]) if module in sys.modules else {}
        code = (types.FunctionType, types.ModuleType)
        spaces = [self.before.get(module, {}), now]
        values = [(name, value) for space in spaces for name, value in space.items() if name[:2] != "__"]
        return {name for name, value in values if not is_class(value) and not issubclass(type(value), code)}

    def _has_instance_changed(self, module: str, name: str, attribute: str) -> bool:
        """Return whether an attribute of an object has changed because the object was replaced or filled again."""
        now, old = module_dict(sys.modules[module])[name], self.before[module].get(name, ABSENT)
        if now is not old:
            values = [attribute_dict(value).get(attribute, ABSENT) for value in (now, old)]
            return not (all(map(_is_data, values)) and is_alike(*values))
        if id(now) in self.refilled:
            changed = self.refilled[id(now)]
            return changed is None or attribute in changed
        return (module, name) in self.updated

    def _has_subclasses(self, module: str, name: str) -> bool:
        """Return whether the set of direct subclasses of a class has changed."""
        for kind, _ in list(self._classes.values()):
            if defining_module_name(kind) == module and qualified_name(kind) == name:
                return {id(subclass) for subclass in type.__subclasses__(kind)} != self._subclasses[id(kind)]
        return False

    def _has_class_changed(self, module: str, name: str, word: str) -> bool:
        """Return whether attributes of a class were added, removed or changed. The code of functions is ignored.

        `word` is `*` for all attributes, `+` for their names only, or `=` for those that are not methods.
        """
        if self.has_changed(module, name):
            return True
        for kind, before in list(self._classes.values()):
            if defining_module_name(kind) != module or qualified_name(kind) != name:
                continue
            now = space_of(kind)
            names = {attribute for attribute in {*before, *now} if attribute not in AUTOMATIC_CLASS_NAMES}
            if word == "=":
                names = {
                    attribute
                    for attribute in names
                    if type(now.get(attribute, before.get(attribute))) not in METHOD_TYPES
                }
            if any((attribute in now) != (attribute in before) for attribute in names):
                return True
            if is_enum(kind) and before["_member_names_"] != now["_member_names_"]:
                return True
            names.discard("_member_names_")
            return word != "+" and any(self._has_attribute_changed(kind, attribute) for attribute in names)
        return False

    def has_removed_attribute(self, effects: Effects) -> bool:
        """Return whether a statement reads all attributes of a class from which some were removed."""
        read = {(module, name[:-2]) for module, name in effects.reads if name[-2:] in (".*", ".+", ".=")}
        return any(
            (defining_module_name(kind), qualified_name(kind)) in read and not before.keys() <= space_of(kind).keys()
            for kind, before in list(self._classes.values())
        )

    def has_only_changed_classes(self, effects: Effects) -> bool:
        """Return whether each changed name that a statement reads refers to the same class, even if recreated."""
        changed = [(module, name.partition(".")[0]) for module, name in effects.reads if self.has_changed(module, name)]
        return bool(changed) and all(
            are_versions_of_class(self.before.get(module, {}).get(name), module_dict(sys.modules[module]).get(name))
            for module, name in changed
        )

    def _has_attribute_changed(self, kind: Any, name: str) -> bool:
        first, _, rest = name.partition(".")
        if id(kind) in self._members and self._has_member_changed(kind, first, rest):
            return True
        for base in order_of(kind):
            known = self._classes.get(id(base))
            if known is None:
                continue
            now, old = space_of(base).get(first, ABSENT), known[1].get(first, ABSENT)
            if now is not old:
                if type(now) in CONTENT_COMPARED_TYPES and not is_enum(base) and is_alike(old, now):
                    return False
                if type(now) is not types.FunctionType or type(old) is not types.FunctionType:
                    return True
                is_generated = now.__code__.co_filename != old.__code__.co_filename
                return is_generated or not is_alike(now.__dict__, old.__dict__)  # which decorators have set
            if id(now) in self.refilled:
                return True
            if now is not ABSENT:
                return bool(rest) and is_class(now) and self._has_attribute_changed(now, rest)
        return False

    def _has_registered_function_changed(self, value: object) -> bool:
        """Return whether a function that is registered with a `singledispatchmethod` has new code."""
        if type(value) is not functools.singledispatchmethod:
            return False
        registered = value.dispatcher.registry.values()
        return any((each.__module__, f"{each.__qualname__}()") in self.codes for each in registered)

    def _has_member_changed(self, kind: Any, name: str, attribute: str) -> bool:
        """Return whether an attribute of an enumeration's member has changed in place, or any if `attribute` is "".

        If no member has this name, it is the name of an attribute of any member.
        """
        before, members = self._members[id(kind)], space_of(kind)["_member_map_"]
        if name not in before and name not in members:
            return any(self._has_member_changed(kind, member, name) for member in before.keys() & members.keys())
        if name not in before or name not in members:
            return False
        old, now = before[name], attribute_dict(members[name])
        names = {attribute} if attribute else {*old, *now} - {"__objclass__", "_sort_order_"}
        return any(not is_alike(old.get(each, ABSENT), now.get(each, ABSENT)) for each in names)

    def has_stored_signature(self, effects: Effects) -> bool:
        """Return whether a value stores a function with a changed signature, which a library reads when it is used."""
        return any(name.endswith("(...)") and self.has_changed(module, name) for module, name in effects.reads)

    def cause(self, effects: Effects) -> str:
        """Return the name of a changed object that a statement reads, or "what" if none is known."""
        reads = effects.reads
        found = sorted(
            name for module, name in reads if self.has_changed(module, name) or (module, name) in self._filled
        )
        plain = [name for name in found if not name.endswith("()")]
        guessed = [name.strip(".%") for module, name in effects.guesses if self._may_have_changed(module, name)]
        cause = (plain or found or sorted(guessed) or ["what"])[0]
        return f"the function in line {cause[1:].partition(':')[0]}" if cause[0] == "<" else cause


def are_versions_of_class(old: Any, now: Any) -> bool:
    """Return whether both objects are classes with the same name."""
    return (
        is_class(old)
        and is_class(now)
        and (defining_module_name(old), qualified_name(old)) == (defining_module_name(now), qualified_name(now))
    )


def _are_classes_with_equal(old: Any, now: Any, name: str) -> bool:
    """Return whether both objects are classes in which the attribute `name` has equal plain data."""
    if not is_class(old) or not is_class(now):
        return False
    values = [space_of(kind).get(name, ABSENT) for kind in (old, now)]
    return all(map(_is_data, values)) and is_alike(*values)


def _is_data(value: object) -> bool:
    """Return whether a value is plain data or a collection, which may be replaced with equal contents."""
    return is_plain_value(value) or type(value) in CONTENT_COMPARED_TYPES


def copy_all_names(space: dict[str, Any]) -> object:
    """Return a copy of a module's `__all__`, or None if there is none. The original may be changed in place later."""
    names = space.get("__all__")
    return list(names) if isinstance(names, (list, tuple)) else None
