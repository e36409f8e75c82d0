"""Hide what later statements have added to a collection from a statement that runs again.

A statement may read a registry that is filled further down in its module, or by a module that is imported later. When
an import ran the statement, these entries did not exist.
"""

from __future__ import annotations

import ast
import contextlib
import sys

from ...basics.definition_access import ABSENT, is_class, space_of
from ..registrations import REGISTRY_TYPES
from ..shared_registries import COLLECTION_TYPES, MAX_ENTRIES, definition_key, definitions_in, unwrap
from ..statements import FUNCTION_NODES, names_bound_by
from ..stored_attributes import attribute_dict, module_dict
from .retained_objects import refill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..effects.analysis import Analysis
    from ..effects.effects import Effects
    from ..module_text import Text
    from .module_sources import ModuleSources

DYNAMIC_IMPORT_WORDS = frozenset({
    "import_module", "__import__", "iter_modules", "walk_packages", "entry_points", "import_string",
})  # fmt: skip
"""Names of functions that import modules whose names the source may not contain."""


class LaterEntries:
    """Finds the entries of collections that an import adds after a statement has run."""

    def __init__(self, sources: ModuleSources, analysis: Analysis) -> None:
        self._sources, self._analysis = sources, analysis

    @contextlib.contextmanager
    def hidden(self, text: Text, node: Any) -> Iterator[None]:
        """Remove these entries from the collections that a statement reads, and restore them at the end."""
        hidden: list[tuple[Any, tuple[Any, Any]]] = []
        with contextlib.suppress(Exception):  # the statement then reads the whole collections, as it did before
            hidden = list(self._find(text, node))
        try:
            for value, (earlier, _) in hidden:
                refill(value, earlier)
            yield
        finally:
            for value, (earlier, whole) in hidden:
                if value == earlier:  # the statement has not changed it
                    refill(value, whole)
                else:
                    _add_missing(value, whole)

    def _find(self, text: Text, node: Any) -> Iterator[tuple[Any, tuple[Any, Any]]]:
        """Yield each such collection with copies of it, without later entries and with them."""
        top = next((number for number, statement in enumerate(text.body) if statement is node), None)
        if top is None or isinstance(node, (*FUNCTION_NODES, ast.ClassDef, ast.Import, ast.ImportFrom)):
            return
        effects = self._analysis.statement_effects(node, text.space)
        bound = [text.space.get(name, ABSENT) for name in names_bound_by(node)]
        for value in self.collections_read(effects):
            if any(value is each for each in bound):
                continue
            later = self._later_entries(text, top, value, [*_parts_of(bound)])
            if later:
                yield value, (_without(value, later), value.copy())

    def collections_read(self, effects: Effects) -> list[Any]:
        """Return the collections in the workspace that a statement reads but does not fill."""
        found: dict[int, Any] = {}
        for module, name in effects.reads:
            space = module_dict(sys.modules[module]) if module in sys.modules else {}
            first, _, rest = name.partition(".")
            value = space.get(first, ABSENT)
            values = [value]
            if is_class(value):
                values = [space_of(value).get(rest)] if rest else []
            elif type(value).__module__ in self._sources.loads:
                values = list(attribute_dict(value).values())
            found.update((id(each), each) for each in values if type(each) in COLLECTION_TYPES)
        return [value for key, value in found.items() if key not in effects.fills and len(value) <= MAX_ENTRIES]

    def _later_entries(self, text: Text, top: int, value: Any, seen: list[Any]) -> list[Any]:
        """Return the keys or items of a collection that are added later. `seen` are parts of the statement's values."""
        words = self._later_words(text, top, value)
        rows = list(value.items()) if isinstance(value, dict) else [(item, item) for item in list(value)]
        found = []
        for key, item in rows:
            parts = [item, *_parts_of([item])]
            has_read = any(part is each for part in parts for each in seen if not _is_shared(part))
            if has_read or (type(key) is str and any(type(each) is str and each == key for each in seen)):
                continue  # the statement has read it before
            definitions = [unwrapped for each in definitions_in(item) for unwrapped in unwrap(each)]
            names = {key, *(definition_key(each)[1] for each in definitions)} if type(key) is str else set()
            if not names.isdisjoint(words) or any(self._is_later(text, top, each) for each in definitions):
                found.append(key)
        return found

    def _later_words(self, text: Text, top: int, value: Any) -> set[str]:
        """Return the words that only later statements of the module contain, of those that fill a collection."""
        names = {name for name, each in text.space.items() if each is value}
        found: dict[bool, set[str]] = {False: set(), True: set()}
        for number, (statement, words) in enumerate(zip(text.body, text.statement_words)):
            is_definition = isinstance(statement, (*FUNCTION_NODES, ast.ClassDef))
            if number < top:
                found[False].update(words)
            if number <= top or is_definition or names.isdisjoint(words):
                continue
            if id(value) in self._analysis.statement_effects(statement, text.space).fills:
                found[True].update(words - _words_read(statement))
        return found[True] - found[False]

    def _is_later(self, text: Text, top: int, definition: Any) -> bool:
        """Return whether a function or class is defined after a statement has run."""
        module, name = definition_key(definition)
        first = name.partition(".")[0]
        if module == text.name:
            tops = [number for number, node in enumerate(text.body) if first in names_bound_by(node)]
            return bool(tops) and min(tops) > top
        return module in self._sources.loads and self._is_imported_later(text, top, module)

    def _is_imported_later(self, text: Text, top: int, module: str) -> bool:
        """Return whether another module is imported after a statement has run."""
        order = [name for name in sys.modules if name in (module, text.name)]  # a finished import moves to the end
        reached = [number for number, node in enumerate(text.body) if self._imports(text, node, module)]
        if order == [text.name, module]:
            return not reached and text.name not in self._reach(module) and not self._imports_dynamically(module)
        if reached:
            return min(reached) > top
        calls = _dynamic_imports(text)
        return bool(calls) and min(calls) > top

    def is_reached(self, text: Text, top: int, module: str) -> bool:
        """Return whether statements before a position import a module, directly or through other modules."""
        return any(self._imports(text, node, module) for node in text.body[:top])

    def _imports_dynamically(self, module: str) -> bool:
        """Return whether a module may import modules whose names its source does not contain."""
        text = self._sources.source_of_module(module)
        return text is None or bool(_dynamic_imports(text))

    def _imports(self, text: Text, node: Any, module: str) -> bool:
        """Return whether a statement imports a module, directly or through other modules."""
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            return False
        names = {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            parts = text.name.split(".")
            owner = parts[: len(parts) - node.level + text.is_package] if node.level else []
            source = ".".join([*owner, *([node.module] if node.module else [])])
            names = {source, *(f"{source}.{name}" for name in names)}
        return any(module in self._reach(name) for name in names)

    def _reach(self, module: str) -> set[str]:
        """Return the names of the workspace modules that the import of a module has imported, and its own."""
        found: set[str] = set()
        waiting = [module]
        while waiting:
            name = waiting.pop()
            while name and name not in found:
                if name in self._sources.loads:
                    found.add(name)
                    text = self._sources.source_of_module(name)
                    waiting += text.imported_names if text is not None else ()
                name = name.rpartition(".")[0]
        return found


def _dynamic_imports(text: Text) -> list[int]:
    """Return the positions of statements that may import modules whose names they do not contain."""
    found = [number for number, words in enumerate(text.statement_words) if words & DYNAMIC_IMPORT_WORDS]
    without_imports = (ast.Import, ast.ImportFrom, ast.ClassDef, *FUNCTION_NODES)
    return [number for number in found if not isinstance(text.body[number], without_imports)]


def _words_read(statement: ast.stmt) -> set[str]:
    """Return the words in the keys that a statement only reads, such as in `X["k"]` or `X.get("k")`."""
    found: set[str] = set()
    for node in ast.walk(statement):
        keys: list[ast.expr] = []
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            keys = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "index"):
            keys = node.args[:1]
        for part in (part for key in keys for part in ast.walk(key)):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                found.add(part.value)
    return found


def _parts_of(values: list[Any]) -> Iterator[Any]:
    """Yield the items in collections."""
    for value in values:
        if type(value) in (*REGISTRY_TYPES, *COLLECTION_TYPES, tuple, frozenset):
            yield from [*value, *value.values()] if isinstance(value, dict) else value


def _is_shared(value: object) -> bool:
    """Return whether a value may be the same object in other entries."""
    return type(value) in (str, bytes, int, float, bool, type(None))


def _without(value: Any, later: list[Any]) -> Any:
    """Return a copy of a collection without some keys or items."""
    found = value.copy()
    if isinstance(found, dict):
        for key in later:
            del found[key]
    elif isinstance(found, set):
        found.difference_update(later)
    else:
        found[:] = [item for item in found if not any(item is each for each in later)]
    return found


def _add_missing(value: Any, whole: Any) -> None:
    """Add the entries of a copy to a collection if they are missing."""
    if isinstance(value, dict):
        for key, item in whole.items():
            value.setdefault(key, item)
    elif isinstance(value, set):
        value |= whole
    else:
        value += [item for item in whole if not any(item is each for each in value)]
