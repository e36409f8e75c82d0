"""Registries: containers in one module that imports of other modules add entries to.

A hidden module must not leave an entry behind, or a run that does not import it would see it registered. A module's
containers are copied after its import. Containers that have changed by the end are watched during the next start of the
warm process, to find out whose import changed them. Entries that an import added are removed when modules are hidden,
and added again when the module is revealed. A module that changed a container in another way is not preloaded.

The containers are those in a module, in its classes and in its module-level objects, and containers nested in these.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Containers = dict[str, tuple[Any, Any]]
    """Containers and copies of them, by path."""

CONTAINER_TYPES = (dict, list, set)
"""Types of containers to compare."""
CONTAINER_NAMES = frozenset({"OrderedDict", "defaultdict", "deque"})
"""Names of the container types in the module `collections`, which may not be loaded."""
MAX_COPIED_ENTRIES = 2000
"""Maximum number of entries in a container that is copied. Larger containers are assumed to be tables of data."""
INTERNAL_MODULES = frozenset({
    "__main__", "sys", "builtins", "os", "io", "abc", "_abc", "_collections_abc", "_weakrefset", "re", "sre_compile",
    "sre_parse", "enum", "typing", "functools", "linecache", "tokenize", "weakref", "threading", "_threading_local",
    "atexit", "gc", "signal", "warnings", "logging", "copyreg", "codecs", "zipimport", "encodings", "importlib",
    "inspect", "traceback", "contextvars", "collections", "operator", "types", "random", "ctypes", "locale", "site",
    "_pytest", "pluggy",
})  # fmt: skip
"""Modules whose containers are internal to Python or pytest or are handled by other code."""


def is_container(value: Any) -> bool:
    """Return whether a value is a container to compare."""
    kind = type(value)
    return kind in CONTAINER_TYPES or (kind.__name__ in CONTAINER_NAMES and kind.__module__ == "collections")


def copy_of(container: Any) -> Any:
    """Return a dict, list or set with the entries of a container."""
    if isinstance(container, dict):
        return dict(container)
    return set(container) if type(container) is set else list(container)


def copy_containers(module: Any, others: set[int]) -> Containers:
    """Return the containers in a module by path, each with a copy.

    `others` contains the ids of the containers in other modules, which are not copied again. The ids of the containers
    in this module are added to it.
    """
    name = getattr(module, "__name__", "")
    if not isinstance(name, str) or name.partition(".")[0] in INTERNAL_MODULES:
        return {}
    found: Containers = {}
    for key, value in list(getattr(module, "__dict__", {}).items()):
        if not key.startswith("__"):
            for path, registry in find_containers(key, value, name):
                if "cache" not in path.lower() and len(registry) <= MAX_COPIED_ENTRIES and id(registry) not in others:
                    others.add(id(registry))
                    found[path] = registry, copy_of(registry)
    return found


def find_containers(path: str, value: Any, module: str) -> Iterator[tuple[str, Any]]:
    """Yield the containers in an attribute of a module, each with its path.

    These are the attribute itself, or the attributes of a class or an object, or those that a function encloses, such
    as the registry of `functools.singledispatch`.
    """
    kind = type(value)
    if is_container(value):
        yield path, value
    if is_container(value) or kind is tuple:
        yield from nested_containers(path, value)
        return
    is_class = issubclass(kind, type)
    if is_class and value.__module__ != module:
        return
    if kind is FUNCTION_TYPE:
        functions = {"": value, **{name: other for name, other in vars(value).items() if type(other) is FUNCTION_TYPE}}
        for name, function in functions.items():
            for index, cell in enumerate(function.__closure__ or ()):
                for content in closure_cell_contents(cell):
                    if is_container(content):
                        yield f"{path}.{name}<{index}>", content
    holder = type.__dict__["__dict__"].__get__(value) if is_class else instance_attributes(value)
    for name, registry in list(holder.items()):
        if isinstance(name, str) and not name.startswith("__"):
            if is_container(registry):
                yield f"{path}.{name}", registry
            yield from nested_containers(f"{path}.{name}", registry)


def nested_containers(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the containers that are values of a dict or items of a tuple, each with its path."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(value, dict) and is_container(value) and len(value) <= MAX_COPIED_ENTRIES:
        entries = [(key, registry) for key, registry in list(value.items()) if type(key) is str]
    elif type(value) is tuple and len(value) <= MAX_COPIED_ENTRIES:
        entries = list(enumerate(value))
    for key, registry in entries:
        if is_container(registry):
            yield f"{path}[{key!r}]", registry


def closure_cell_contents(cell: Any) -> list[Any]:
    """Return a list with the content of a closure cell. The list is empty for an empty cell."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


FUNCTION_TYPE = type(closure_cell_contents)
"""The type of Python functions."""


def instance_attributes(value: Any) -> dict[str, Any]:
    """Return the `__dict__` of an object, or an empty dict for modules and built-in types."""
    kind = type(value)
    if kind.__module__ == "builtins" or issubclass(kind, type(sys)):
        return {}
    try:
        found = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return found if type(found) is dict else {}


def is_changed(present: Any, copy: Any) -> bool:
    """Return whether the entries of a container differ from those of its copy. Entries are compared by identity."""
    if len(present) != len(copy):
        return True
    if type(copy) is dict:
        pairs = zip(present.items(), copy.items(), strict=True)
        return any(a is not c or b is not d for (a, b), (c, d) in pairs)
    if type(copy) is list:
        return any(a is not b for a, b in zip(present, copy, strict=True))
    return {id(item) for item in present} != {id(item) for item in copy}


def find_added_entries(present: Any, copy: Any) -> Any:
    """Return the entries added to a container since it was copied, or None if it was changed in another way."""
    if type(copy) is dict:
        entries = list(present.items())
        pairs = zip(entries, copy.items(), strict=False)
        is_same = len(entries) >= len(copy) and all(a is c and b is d for (a, b), (c, d) in pairs)
        return dict(entries[len(copy) :]) if is_same else None
    if type(copy) is list:
        is_same = len(present) >= len(copy) and all(a is b for a, b in zip(present, copy, strict=False))
        return list(present)[len(copy) :] if is_same else None
    known = {id(item) for item in present}
    is_same = all(id(item) in known for item in copy)
    known_ids = {id(item) for item in copy}
    return [item for item in present if id(item) not in known_ids] if is_same else None


def remove_entries(container: Any, entries: Any) -> None:
    """Remove entries that an import added to a container."""
    if isinstance(container, dict):
        for key, value in entries.items():
            if container.get(key) is value:
                del container[key]
    elif type(container) is not set:
        for entry in reversed(entries):
            for index in range(len(container) - 1, -1, -1):
                if container[index] is entry:
                    del container[index]
                    break
    else:
        container.difference_update(entries)


def add_entries(container: Any, entries: Any) -> None:
    """Add entries from an import to a container again."""
    if isinstance(container, (dict, set)):
        container.update(entries)
    else:
        container.extend(entries)


class Registries:
    """Detects changes to containers in preloaded modules by comparing them with copies.

    `watched` maps modules to the paths of containers that imports of other modules are known to change.
    """

    def __init__(self, watched: dict[str, list[str]]) -> None:
        self.watched = watched
        self._known: dict[str, Containers] = {}
        self._copied: set[int] = set()
        self.effects: list[tuple[str, str, str, Any, Any]] = []
        """Additions by imports, in order: the importing module, the owner, the path, the container and the entries."""
        self.changers: dict[str, str] = {}
        """Modules that changed a container other than by adding entries, with the container."""

    def copy_after_import(self, name: str, module: Any) -> None:
        """Record what an import added to watched containers, and copy the containers of the imported module."""
        for owner, paths in self.watched.items():
            known = self._known.get(owner, {})
            for path in paths:
                if path in known and is_changed(*known[path]):
                    container, copy = known[path]
                    entries = find_added_entries(container, copy)
                    if entries is None:
                        self.changers.setdefault(name, f"{owner}.{path}")
                    else:
                        self.effects.append((name, owner, path, container, entries))
                    known[path] = container, copy_of(container)
        self._known[name] = copy_containers(module, self._copied)

    def unwatched_changes(self) -> dict[str, list[str]]:
        """Return containers that were changed after their module was imported and that are not watched yet."""
        found = {}
        for name, known in self._known.items():
            paths = [
                path for path, pair in known.items() if path not in self.watched.get(name, ()) and is_changed(*pair)
            ]
            if paths:
                found[name] = paths
        return found

    def discard_copies(self) -> None:
        """Discard the copies of the containers to free memory."""
        self._known.clear()
        self._copied.clear()
