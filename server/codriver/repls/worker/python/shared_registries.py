"""Refill the registries of other modules and of classes when an edited module changes what it registers in them.

A decorator or a hook such as `__init_subclass__` may add a definition to a collection that another module or a class
has created. After an edit, such a collection is emptied, and everything that an import would add to it is added again,
in the order of a fresh import. This happens only if nothing else has been added to it since.
"""

from __future__ import annotations

import ast
import collections
import functools
import sys
import types

from ..basics.definition_access import defining_module_name, is_class, qualified_name, space_of
from .enum_members import is_enum
from .equal_values import is_alike
from .registrations import EMPTY_CELL, REGISTRY_TYPES
from .statements import BODY, DOCSTRING, FUNCTION, FUNCTION_NODES, assigned_names, names_bound_by
from .stored_attributes import attribute_dict, instance_dict_of, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .effects.effects import Effects
    from .module_text import Text
    from .statements import Change

COLLECTION_TYPES = (*REGISTRY_TYPES, collections.defaultdict, collections.OrderedDict)
"""Types of collections that can be emptied and filled again."""
IMPORT_NODES = (ast.Import, ast.ImportFrom)
"""The syntax nodes of imports."""
MAX_ENTRIES = 2_000
"""Maximum number of entries in the registries that are filled again."""
MAX_STATEMENTS = 200
"""Maximum number of statements that are run again. More would delay the load by more than half a second."""
MAX_NESTING = 4
"""Maximum nesting of the collections and wrappers in an entry that are searched for definitions."""


class Registry:
    """A collection or an object that an import fills, with the statement that creates it.

    `name` is a name in the module of `text`, or the dotted name of a class attribute.
    """

    def __init__(self, text: Text, name: str, value: Any) -> None:
        self.text, self.name, self.value = text, name, value
        self.backup: Any = None

    @property
    def owner(self) -> Any:
        """Return the class that has the registry as an attribute, or None."""
        first, _, last = self.name.partition(".")
        return self.text.space[first] if last else None

    def find_creation(self) -> tuple[int, Any]:
        """Return the position of the statement that creates the registry, and the expression for its value.

        The position is -1 if there is no such statement, or more than one.
        """
        first, _, last = self.name.partition(".")
        nodes = [(top, node) for top, node in enumerate(self.text.body) if first in assigned_names(node)]
        if last:
            nodes = [(top, node) for top, node in enumerate(self.text.body) if getattr(node, "name", "") == first]
            nodes = [(top, inner) for top, node in nodes for inner in node.body if last in assigned_names(inner)]
        if len(nodes) != 1 or not isinstance(nodes[0][1], (ast.Assign, ast.AnnAssign)):
            return -1, None
        top, node = nodes[0]
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        is_single = len(targets) == 1 and isinstance(targets[0], ast.Name) and node.value is not None
        return (top, node.value) if is_single else (-1, None)


class SharedRegistries:
    """The registries that a load fills again.

    `chain` contains the statements that fill these registries, by module and position. `spaces` contains the names in
    other modules before statements in these modules were run again, and `standing` contains those that had been
    rebound.
    """

    def __init__(self, followers: Any) -> None:
        self._followers = followers
        self._found: dict[int, Registry] = {}
        self._earlier: list[tuple[Text, int]] = []
        self.chain: set[tuple[str, int]] = set()
        self._is_planned = False
        self._is_registered_otherwise = False
        self.spaces: dict[str, dict[str, Any]] = {}
        self.standing: dict[str, Any] = {}

    def find(self, changes: Iterable[Change], old: Text, new: Text) -> set[str]:
        """Find the registries that changed statements fill. Return their names and those of their attributes."""
        fills: set[int] = set()
        every = list(changes)
        changes = [change for change in every if not _changes_only_body(change)]
        nodes: dict[int, tuple[Any, Text, bool]] = {}
        hooks = {id(change): change for change in every if _changes_only_body(change) and _is_hook(change)}
        for change in hooks.values():
            found = self._fills_of_hook(change, new)
            fills |= found
            self._is_registered_otherwise = self._is_registered_otherwise or bool(found)
        for change in changes:
            for statement, text in ((change.old, old), (change.new, new)):
                if statement is not None and not statement.guard:
                    node = text.body[statement.top]
                    is_whole = not statement.owner or (id(node) in nodes and nodes[id(node)][2])
                    nodes[id(node)] = node, text, is_whole
        for node, text, is_whole in nodes.values():
            found = self._fills(node, text)
            fills |= found
            self._is_registered_otherwise = self._is_registered_otherwise or bool(found and is_whole)
        bound = {name for node in new.body if not isinstance(node, IMPORT_NODES) for name in names_bound_by(node)}
        fills -= {0, *(id(new.space[name]) for name in bound & new.space.keys())}
        if fills:
            self._add(fills)
        return {part for registry in self._found.values() for part in registry.name.split(".")}

    def _fills_of_hook(self, change: Change, text: Text) -> set[int]:
        """Return the ids of the objects that a changed `__init_subclass__` fills."""
        kind = text.space.get(change.current_statement.owner[:-1])
        hook = getattr(space_of(kind).get("__init_subclass__"), "__func__", None) if is_class(kind) else None
        return set(self._followers.analysis.call(hook).fills) if type(hook) is types.FunctionType else set()

    def _fills(self, node: Any, text: Text) -> set[int]:
        """Return the ids of the objects that a statement fills, except for objects to which no definition is added."""
        is_definition = isinstance(node, (*FUNCTION_NODES, ast.ClassDef))
        if is_definition and not node.decorator_list and not getattr(node, "bases", ()):
            return set()
        return set() if isinstance(node, IMPORT_NODES) else set(self._followers.effects(node, text).fills)

    def _add(self, fills: set[int]) -> bool:
        """Add the registries with these ids. Return whether any were added."""
        size = len(self._found)
        for module in [*self._followers.drift.sources.loads]:
            for name, value in list(module_dict(sys.modules[module]).items()) if module in sys.modules else ():
                if is_class(value):
                    if (defining_module_name(value), qualified_name(value)) == (module, name):
                        for attribute, inner in list(space_of(value).items()):
                            if id(inner) in fills and type(inner) in COLLECTION_TYPES:
                                self._add_registry(module, f"{name}.{attribute}", inner)
                elif module != self._followers.name and self._is_filled(value, fills):
                    self._add_registry(module, name, value)
        return len(self._found) > size

    def _add_registry(self, module: str, name: str, value: Any) -> None:
        text = self._followers.sources.source_of_module(module)
        if text is not None and ("." in name or self._followers.rebuilds.binds_name(text, name)):
            self._found.setdefault(id(value), Registry(text, name, value))

    def _is_filled(self, value: Any, fills: set[int]) -> bool:
        if type(value) in COLLECTION_TYPES:
            return id(value) in fills
        if type(value).__module__ not in self._followers.drift.sources.loads:
            return False
        return id(value) in fills or any(id(inner) in fills for inner in attribute_dict(value).values())

    @property
    def modules(self) -> set[str]:
        """Return the names of the modules that create the registries."""
        return {registry.text.name for registry in self._found.values()}

    @property
    def module_sources(self) -> list[Text]:
        """Return the sources of the modules that create the registries."""
        return list({registry.text.name: registry.text for registry in self._found.values()}.values())

    @property
    def ids(self) -> set[int]:
        """Return the ids of the registries, and of the collections in their attributes."""
        found = set(self._found)
        for registry in self._found.values():
            if type(registry.value) not in COLLECTION_TYPES:
                values = attribute_dict(registry.value).values()
                found.update(id(value) for value in values if type(value) in COLLECTION_TYPES)
        return found

    # The plan

    def plan(self, changes: Iterable[Change]) -> None:
        """Plan to refill the registries if that is possible. Otherwise, plan to run only the edited statements."""
        if not self._found or not self._is_registered_otherwise:
            return
        followers = self._followers
        changes = [change for change in changes if not _changes_only_body(change)]
        changed = {change.new.top for change in changes if change.new is not None and not change.new.owner}
        chain = self._find_chain(changed)
        edited = {change.new.top for change in changes if change.new is not None}
        if chain is None or not self._can_create(edited) or not all(self._is_explained(chain)):
            return
        last = [text.name == followers.name and top in changed for text, top in chain]
        if changes and all(change.old is None for change in changes) and last == sorted(last):
            return  # only statements at the end were added
        self._is_planned = True
        followers.rebuilds.objects |= self.ids
        followers.changes.record_filled(self.ids)
        for text, top in chain:
            followers.changes.remember_module(text.name)
            followers.run_time_entries.remember_module(text.name)
            self.chain.add((text.name, top))
            if text.name not in followers.earlier_modules:
                followers.rebuilds.forced.add((text.name, top))
            else:
                self._earlier.append((text, top))

    def _find_chain(self, changed: set[int]) -> list[tuple[Text, int]] | None:
        """Return the statements that fill the registries, in the order of their imports.

        Returns None if some of them cannot run again.
        """
        followers = self._followers
        words = {part for registry in self._found.values() for part in registry.name.split(".")}
        sources = followers.find_sources_in_import_order()
        is_growing = True
        chain: list[tuple[Text, int]] = []
        named: set[int] = followers.registrations.named_objects()
        while is_growing:
            is_growing, chain, ids = False, [], self.ids
            for text in sources:
                for top in text.statements_mentioning({*words, *followers.importer_words()}):
                    node = text.body[top]
                    if isinstance(node, IMPORT_NODES):
                        continue
                    effects = followers.effects(node, text)
                    if effects.fills.isdisjoint(ids):
                        continue
                    chain.append((text, top))
                    if len(chain) > MAX_STATEMENTS:
                        return None
                    if text.name == followers.name and top in changed:
                        continue
                    others = self._other_ids(text, node, ids, effects)
                    others = None if others is None else others & named
                    if others is None:
                        return None
                    if others:
                        if not self._add(others) or not others <= self.ids:
                            return None
                        is_growing = True
        return chain

    def _other_ids(self, text: Text, node: Any, ids: set[int], effects: Effects) -> set[int] | None:
        """Return the ids of other objects that a statement fills. Return None if it cannot run again."""
        followers = self._followers
        fills: set[int] = set(effects.fills)
        bound = {id(text.space.get(name)) for name in assigned_names(node) if name in text.space}
        if isinstance(node, FUNCTION_NODES):
            functions = followers.existing.find(text.file, node)
            if len(functions) != 1 or functions[0].__dict__:
                return None
            bound |= {id(functions[0])}
        elif isinstance(node, ast.ClassDef):
            kind = text.space.get(node.name)
            creation = followers.analysis.class_creation_effects(node, text.space)
            decorators = followers.analysis.decorator_effects(node, text.space)
            if not is_class(kind) or (fills & ids) - creation.fills - decorators.fills:
                return None
            if creation.fills & ids and not self.has_plain_hook(node, kind, creation):
                return None
            owners = {id(registry.owner) for registry in self._found.values()} - {id(None)}
            if any(key in owners and key != id(kind) for key, _ in creation.attributes | decorators.attributes):
                return None
            bound |= {id(kind), *owners}
            fills = creation.fills | decorators.fills
            effects = creation if creation.effect is not None else decorators
        elif not isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign)) or bound:
            return None
        return None if effects.effect is not None else fills - ids - bound

    def has_plain_hook(self, node: ast.ClassDef, kind: Any, creation: Any) -> bool:
        """Return whether only `__init_subclass__` registers a class, so that it can be called again."""
        names = {name for key, name in creation.attributes if key == id(kind)}
        is_known = "*" not in names and all(keyword.arg is not None for keyword in node.keywords)
        return is_known and not any(self._followers.registrations.is_of_project(base) for base in type(kind).__mro__)

    def _can_create(self, edited: set[int]) -> bool:
        """Return whether the registries can be created again. `edited` contains the positions of edited statements."""
        followers = self._followers
        for registry in self._found.values():
            top, value = registry.find_creation()
            if top < 0:
                return False
            effects = followers.analysis.body_effects([value], registry.text.space, registry.owner)
            if effects.effect is not None or effects.fills:
                return False
            if registry.text.name == followers.name and top in edited:
                return False
            if type(registry.value) in COLLECTION_TYPES:
                continue
            attributes, fresh = instance_dict_of(registry.value), instance_dict_of(self._create(registry))
            if attributes is None or fresh is None or attributes.keys() != fresh.keys():
                return False
            for name, current in attributes.items():
                is_collection = type(current) in COLLECTION_TYPES and type(current) is type(fresh[name])
                if not is_collection and not is_alike(current, fresh[name]):
                    return False
        return True

    def _create(self, registry: Registry) -> Any:
        """Return a new object for a registry."""
        minimal = self._followers.code.load_for(registry.text)
        _, value = registry.find_creation()
        owner = registry.owner
        space = {} if owner is None else dict(space_of(owner))
        return eval(minimal.edited.compile(ast.Expression(value), "eval"), registry.text.space, space)

    def _is_explained(self, chain: list[tuple[Text, int]]) -> Iterator[bool]:
        """Yield for each entry in the registries whether an import adds it. Other entries were added at run time."""
        definitions: set[tuple[str, str]] = set()
        words: set[Any] = set()
        old = [(self._followers.sources.old_text, top) for top in range(len(self._followers.sources.old_text.body))]
        for text, top in [*chain, *old]:
            node = text.body[top]
            name = getattr(node, "name", "")
            definitions.add((text.name, name))
            words.add(name)
            if not isinstance(node, FUNCTION_NODES):
                words.update(part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
            for decorator in getattr(node, "decorator_list", ()):
                words.update(part.value for part in ast.walk(decorator) if isinstance(part, ast.Constant))
        entries = [entry for registry in self._found.values() for entry in _entries_of(registry.value)]
        if len(entries) > MAX_ENTRIES:
            yield False
            return
        for entry in entries:
            functions = list(definitions_in(entry[1]))
            if functions:
                yield all(any(definition_key(each) in definitions for each in unwrap(part)) for part in functions)
            else:
                yield any(type(part) is str and (part in words or part.lower() in words) for part in _flatten(entry))

    # The load

    def reset(self) -> object:
        """Empty the registries, and run the statements in modules that an import would run before the edited module."""
        followers = self._followers
        for registry in self._found.values() if self._is_planned else ():
            value = self._create(registry)
            if type(registry.value) in COLLECTION_TYPES:
                registry.backup = registry.value.copy()
                followers.objects.replace_contents(registry.value, value)
            else:
                registry.backup = dict(instance_dict_of(registry.value) or {})
                followers.objects.move_contents(registry.value, value)
            followers.rebuilds.objects |= self.ids
        for text, top in self._earlier:
            if text.name not in self.spaces:
                self.spaces[text.name] = dict(text.space)
                self.standing[text.name] = followers.drift.rebound_names(text.name)
            followers.rebuilds.rerun(text, top)
        return None

    def restore(self) -> None:
        """Restore the contents of the registries after a failed load."""
        for registry in self._found.values():
            if registry.backup is None:
                continue
            if type(registry.value) in COLLECTION_TYPES:
                self._followers.objects.replace_contents(registry.value, registry.backup)
            else:
                attributes = instance_dict_of(registry.value)
                if attributes is not None:
                    attributes.clear()
                    attributes.update(registry.backup)
            registry.backup = None

    def release(self) -> None:
        """Drop the previous contents of the registries after a successful load."""
        for registry in self._found.values():
            registry.backup = None

    @property
    def is_planned(self) -> bool:
        """Return whether the load fills registries again."""
        return self._is_planned


def _changes_only_body(change: Change) -> bool:
    """Return whether only the body or the docstring of a function has changed."""
    is_function = change.old is not None and change.new is not None and change.new.kind == FUNCTION
    return is_function and set(change.parts) <= {BODY, DOCSTRING}


def _is_hook(change: Change) -> bool:
    """Return whether the changed method is `__init_subclass__`, which is called when a subclass is created."""
    return change.current_statement.name.endswith(".__init_subclass__")


def _entries_of(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the entries in a collection or in the collections of an object, including those in nested collections."""
    if type(value) not in COLLECTION_TYPES:
        for inner in list(attribute_dict(value).values()) if depth == 0 else ():
            if type(inner) in COLLECTION_TYPES:
                yield from _entries_of(inner, 1)
        return
    rows = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    for key, item in rows:
        if type(item) in COLLECTION_TYPES and depth < MAX_NESTING:
            yield from _entries_of(item, depth + 1)
        else:
            yield key, item


def _flatten(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the parts of an entry that are not collections."""
    if depth > MAX_NESTING:
        return
    if type(value) in (tuple, list, set, frozenset, dict):
        for part in [*value, *(value.values() if type(value) is dict else ())]:
            yield from _flatten(part, depth + 1)
    elif type(value) is functools.partial:
        yield from _flatten((value.func, value.args, value.keywords), depth + 1)
    else:
        yield value


def definitions_in(value: Any) -> Iterator[Any]:
    """Yield the functions, classes and methods in a value."""
    for part in _flatten(value):
        if is_class(part) or type(part) in (types.FunctionType, types.MethodType) or hasattr(type(part), "__wrapped__"):
            yield part
        elif not isinstance(part, (str, bytes, int, float, type(None))) and not is_enum(type(part)):
            yield from (each for each in _flatten(list(attribute_dict(part).values())) if _is_definition(each))


def _is_definition(value: Any) -> bool:
    return is_class(value) or type(value) is types.FunctionType


def unwrap(value: Any) -> Iterator[Any]:
    """Yield a definition, and the functions that it wraps."""
    waiting, count = [value], 0
    while waiting and count < MAX_ENTRIES:
        found = waiting.pop()
        count += 1
        yield found
        wrapped = attribute_dict(found).get("__wrapped__")
        waiting += [wrapped] if wrapped is not None else []
        if type(found) is types.FunctionType:
            cells = [cell.cell_contents for cell in found.__closure__ or () if cell != EMPTY_CELL]
            waiting += [each for each in cells if type(each) is types.FunctionType]


def definition_key(value: Any) -> tuple[str, str]:
    """Return the module and the qualified name of a definition."""
    if is_class(value):
        return str(defining_module_name(value)), str(qualified_name(value))
    return str(getattr(value, "__module__", "")), str(getattr(value, "__qualname__", ""))
