"""Find what decorators, class hooks and statements register in collections and objects in the workspace."""

from __future__ import annotations

import ast
import sys
import types

from ..basics.definition_access import ABSENT, defining_module_name, is_class, order_of, qualified_name, space_of
from .class_renewal import PLAIN_METACLASSES, classes_with_hooks
from .effects.static_attributes import function_in
from .hook_reads import CREATING_METHODS, may_read_name
from .statements import FUNCTION_NODES, names_bound_by
from .stored_attributes import attribute_dict, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .effects.analysis import Analysis
    from .effects.effects import Effects
    from .module_text import Text
    from .name_changes import NameChanges
    from .python_drift import Drift
    from .statements import Statement

EMPTY_CELL = types.CellType()
"""An empty cell, as for an unbound name. Reading its contents raises an error."""
REGISTRY_TYPES = (list, dict, set)
"""Types of collection in which objects may be registered."""
REPLACING_LIBRARIES = ("click", "typer")
"""Libraries whose registries replace any existing entry with the same name.

Source: `Group.add_command` of click stores commands in a dictionary by name. Typer builds its groups with click.
"""


class Registrations:
    """Finds the objects in which an edited module registers something, and checks whether it would be registered twice.

    `rebuilt` contains the ids of objects that the load creates and fills again.
    """

    def __init__(self, text: Text, analysis: Analysis, changes: NameChanges, drift: Drift, rebuilt: set[int]) -> None:
        self._text, self._analysis, self._changes, self._drift = text, analysis, changes, drift
        self._rebuilt = rebuilt
        self._watched: list[tuple[str, Any, Any, int]] = []
        self._left: list[tuple[str, Any]] = []

    def registers_again(self, kind: Any, text: Text) -> bool:
        """Return whether creating a class again would make a workspace hook register it a second time."""
        effects = self._creation_effects(kind, text)
        return effects is not None and (
            effects.effect is not None or bool(effects.fills & self.named_objects() - {id(kind)} - self._rebuilt)
        )

    def _creation_effects(self, kind: Any, text: Text) -> Effects | None:
        """Return the effects of the hooks that run when a class is created.

        Returns None if none of these hooks belong to the workspace.
        """
        hooked = [base for base in order_of(kind)[1:-1] if "__init_subclass__" in space_of(base)]
        metas = [base for base in order_of(type(kind)) if base is not type]
        if not any(self.is_of_project(owner) for owner in (*hooked, *metas)):
            return None
        node = next(
            (
                statement
                for statement in text.body
                if isinstance(statement, ast.ClassDef) and statement.name == qualified_name(kind)
            ),
            None,
        )
        return None if node is None else self._analysis.class_creation_effects(node, text.space)

    def is_listed_by_base(self, kind: Any) -> bool:
        """Return whether a module lists the subclasses of a base class. If so, a removed class is still included."""
        if not is_class(kind) or not any(self.is_of_project(base) for base in order_of(kind)[1:]):
            return False
        return any(b"__subclasses__" in (load.data or b"") for load in list(self._drift.sources.loads.values()))

    def has_registered(self, name: str, node: ast.ClassDef) -> bool:
        """Return whether hooks of the workspace registered a class when the previous source created it."""
        kind = self._changes.before[self._text.name].get(name)
        if not is_class(kind):
            return False
        effects = self._analysis.class_creation_effects(node, self._changes.before[self._text.name])
        return not effects.fills.isdisjoint(self._registries().keys() - self._rebuilt)

    def is_no_longer_registered(self, old: Statement, new: Statement) -> bool:
        """Return whether workspace hooks registered the previous class but do not register the new class."""
        before = (
            self._analysis.class_creation_effects(old.node, self._changes.before[self._text.name]).fills
            & self._registries().keys()
        ) - self._rebuilt
        return not before <= self._analysis.class_creation_effects(new.node, self._text.space).fills

    def _registries(self) -> dict[int, Any]:
        """Return the collections in the workspace's modules, in their classes and in their objects, by id."""
        found: dict[int, Any] = {}
        for name in [*self._drift.sources.loads]:
            module = sys.modules.get(name)
            for value in list(module_dict(module).values()) if module is not None else ():
                current = [value]
                if is_class(value):
                    current = list(space_of(value).values()) if defining_module_name(value) == name else []
                elif not issubclass(type(value), types.ModuleType):
                    current += attribute_dict(value).values()
                found.update((id(value), value) for value in current if issubclass(type(value), REGISTRY_TYPES))
        return found

    def watch_sizes(self, name: str, old: Any, new: Any) -> None:
        """Store the sizes of the collections in which an edited definition is registered."""
        self.watch_filled(name, new, self._filled_ids(old, self._changes.before[self._text.name]))

    def watch_filled(self, name: str, new: Any, fills: set[int]) -> None:
        """Store the sizes of the collections among these objects, in which an edited definition is registered."""
        self._watched += [
            (name, new, registry, _count_entries(registry))
            for key, registry in (self._targets_of_registrations().items() if fills else ())
            if key in fills and key not in self._rebuilt
        ]

    def count_entries(self, fills: set[int]) -> int:
        """Return the number of entries in the collections among these objects."""
        found = self._targets_of_registrations().items() if fills else ()
        return sum(_count_entries(registry) for key, registry in found if key in fills)

    def _filled_ids(self, node: Any, space: dict[str, Any]) -> set[int]:
        """Return the ids of objects that a statement in the previous source filled but did not bind."""
        if isinstance(node, FUNCTION_NODES):
            return set(self._analysis.decorator_effects(node, space).fills)
        if isinstance(node, ast.ClassDef):
            fills = (
                self._analysis.decorator_effects(node, space).fills
                | self._analysis.class_creation_effects(node, space).fills
            )
        else:
            fills = self._analysis.statement_effects(node, space).fills
        return fills - {id(space.get(name, ABSENT)) for name in names_bound_by(node)}

    def has_filled(self, node: Any) -> bool:
        """Return whether a statement in the previous source filled an object that still exists."""
        fills = self._filled_ids(node, self._changes.before[self._text.name])
        return not fills.isdisjoint(self._targets_of_registrations().keys() - self._rebuilt)

    def names_filled_in_class(self, node: Any, kind: Any) -> list[str]:
        """Return the names of objects outside a class that are filled by a statement in its body."""
        fills = self._analysis.body_effects([node], self._text.space, kind).fills - {id(kind)}
        found = self._targets_of_registrations()
        return sorted(
            name for name, value in self._text.space.items() if id(value) in fills and id(value) in found
        )  # fmt: skip

    def fills_class_collection(self, node: Any, kind: Any) -> bool:
        """Return whether a statement in a class body adds something to a collection of the class."""
        within = {id(value) for value in space_of(kind).values() if issubclass(type(value), REGISTRY_TYPES)} | {
            id(kind)
        }
        return not self._analysis.body_effects([node], self._text.space, kind).fills.isdisjoint(within)

    def _targets_of_registrations(self) -> dict[int, Any]:
        """Return the collections, classes and objects in the workspace's modules, by id."""
        found = self._registries()
        for name in [*self._drift.sources.loads]:
            module = sys.modules.get(name)
            for value in list(module_dict(module).values()) if module is not None else ():
                if defining_module_name(value) == name if is_class(value) else self._is_of_project_or_replaces(value):
                    found[id(value)] = value
        return found

    def _is_of_project_or_replaces(self, value: object) -> bool:
        return type(value).__module__ in self._drift.sources.loads or _is_replacing_registry(value)

    def was_named_by_hook(self, kind: Any, name: str) -> bool:
        """Return whether a `__set_name__` method in the workspace was called for an attribute of a class."""
        hook = space_of(type(space_of(kind).get(name))).get("__set_name__")
        return type(hook) is types.FunctionType and self._analysis.source(hook) is not None

    def can_change_in_place(self, kind: Any, names: Iterable[str], text: Text) -> bool:
        """Return whether the workspace hooks that registered a class did not read these names from it."""
        effects = self._creation_effects(kind, text) if self.registers_again(kind, text) else None
        space = space_of(kind)
        if effects is None or "__dataclass_fields__" in space or "__attrs_attrs__" in space:
            return False
        read = {name.rpartition(".")[2] for _, name in effects.reads}
        if not read.isdisjoint({*names, "*", "+", "="}):
            return False
        return not any(self._may_read(hook, set(names)) for hook in self._creation_hooks(kind))

    @staticmethod
    def _creation_hooks(kind: Any) -> Iterator[Any]:
        """Yield the functions that were called when a class was created."""
        for meta in order_of(type(kind))[:-1]:
            if (meta.__module__, meta.__name__) not in PLAIN_METACLASSES:
                yield from (space_of(meta)[name] for name in CREATING_METHODS if name in space_of(meta))
        for base in classes_with_hooks(kind):
            yield space_of(base)["__init_subclass__"]

    def _may_read(self, hook: Any, names: set[str]) -> bool:
        """Return whether a hook may read one of these names of a class. Hooks of libraries may read any name."""
        function = function_in(hook)
        source = self._analysis.source(function) if type(function) is types.FunctionType else None
        return source is None or may_read_name(source, names)

    def registry_ids(self) -> set[int]:
        """Return the ids of the named objects, and of the collections in their attributes."""
        return self.named_objects() | self.collection_ids()

    def collection_ids(self) -> set[int]:
        """Return the ids of the collections in the workspace's modules, in their classes and in their objects."""
        return set(self._registries())

    def are_watched(self, keys: set[int]) -> bool:
        """Return whether any of these ids belong to collections.

        Also return True if all of them belong to objects in which registering a name replaces an earlier one.
        """
        found = self._targets_of_registrations()
        known = [found[key] for key in keys if key in found]
        return not keys.isdisjoint(self._registries()) or bool(known and all(map(_is_replacing_registry, known)))

    def named_objects(self) -> set[int]:
        """Return the ids of objects that have names in workspace modules, and 0 for unknown objects."""
        found = {0}
        for name in [*self._drift.sources.loads]:
            module = sys.modules.get(name)
            found.update(map(id, module_dict(module).values()) if module is not None else ())
        for name in ("sys", "os", "builtins"):
            found.update((id(sys.modules[name].__dict__), *map(id, sys.modules[name].__dict__.values())))
        return found

    def is_of_project(self, kind: Any) -> bool:
        """Return whether a class is defined in a workspace module."""
        return defining_module_name(kind) in self._drift.sources.loads

    def find_leftovers(self) -> None:
        """Find the edited definitions whose previous version is still registered under a key that is no longer used.

        Call this before references to previous objects are updated.
        """
        for name, node, registry, _ in self._watched:
            before = self._changes.before[self._text.name].get(name, ABSENT)
            is_replaced = before is not ABSENT and self._text.space.get(name, ABSENT) is not before
            if is_replaced and isinstance(registry, dict):
                olds = [before, *_functions_within(before)]
                entries = [value for entry in list(registry.values()) for value in (entry, *_functions_within(entry))]
                if any(entry is old for entry in entries for old in olds):
                    self._left.append((name, node))

    def registered_twice(self) -> Iterator[tuple[str, Any]]:
        """Yield each edited definition that is now registered twice, or whose previous version still is."""
        yield from self._left
        watched, self._watched = self._watched, []
        for name, node, registry, size in watched:
            if _count_entries(registry) > size:
                yield name, node


def _functions_within(value: Any) -> list[Any]:
    """Return the items in a collection, or the functions in a function's closure or `__wrapped__` attribute."""
    if type(value) in (list, tuple, set):
        return list(value)
    if type(value) is not types.FunctionType:
        return []
    cells = [cell.cell_contents for cell in value.__closure__ or () if cell != EMPTY_CELL]
    return [each for each in (*cells, value.__dict__.get("__wrapped__")) if type(each) is types.FunctionType]


def _count_entries(value: Any) -> int:
    """Return the number of entries in a collection, including those in nested collections.

    For an object, this is the number of its attributes.
    """
    if is_class(value):
        return len(space_of(value))
    if not issubclass(type(value), REGISTRY_TYPES):
        return _count_entries(dict(attribute_dict(value)))
    inner = dict.values(value) if issubclass(type(value), dict) else value
    return len(value) + sum(len(collection) for collection in inner if issubclass(type(collection), REGISTRY_TYPES))


def _is_replacing_registry(value: object) -> bool:
    """Return whether registering a name a second time in this object replaces the first registration."""
    return any(
        str(defining_module_name(base)).partition(".")[0] in REPLACING_LIBRARIES for base in order_of(type(value))
    )
