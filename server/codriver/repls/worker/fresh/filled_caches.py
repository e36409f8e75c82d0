"""Search filled caches (`lru_cache`, `cached_property`) for results that are out of date because a function changed.

The functions that a cached function uses are found by following the names in its code. No user code runs.
"""

from __future__ import annotations

import functools
import types
import weakref

from .code_texts import nested_codes
from .collected_objects import collected_objects
from .leaves import full_name, instance_descriptors, is_class, module_and_name, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Any, Tuple

    Name = Tuple[str, str]
    """A module, and a name in it."""

_LRU_CACHE_TYPE: Any = type(functools.lru_cache(maxsize=1)(lambda: None))
"""The type of the functions that `lru_cache` returns."""
MAX_FOLLOWED_FUNCTIONS = 300
"""Maximum number of functions that are followed from one cache."""
_space_of: Any = type.__dict__["__dict__"].__get__


class FilledCache:
    """A function cache that had results when a module was loaded. The cache is referenced weakly."""

    def __init__(self, cache: Any, function: types.FunctionType, count: int) -> None:
        self.function = function
        self.count = count
        self._cache = weakref.ref(cache)
        self._misses = cache.cache_info().misses

    @property
    def is_filled(self) -> bool:
        """Return whether the cache may still contain results from before the load."""
        cache = self._cache()
        if cache is None:
            return False
        information = cache.cache_info()
        return bool(information.currsize and information.misses >= self._misses)


class FilledProperties:
    """The instances whose `cached_property` already had a value when a module was loaded."""

    def __init__(self, function: types.FunctionType, count: int) -> None:
        self.function = function
        self.count = count
        self.is_filled = True


def find_filled_caches(
    is_project: Callable[[object], bool], is_idle: Callable[[], bool]
) -> list[FilledCache | FilledProperties]:
    """Return the filled caches of functions in project files, or [] if the process is no longer idle."""
    found: list[FilledCache | FilledProperties] = []
    properties: dict[int, dict[str, types.FunctionType]] = {}
    for thing in collected_objects(is_idle):
        if type(thing) is _LRU_CACHE_TYPE:
            function = _wrapped_function(thing)
            count = thing.cache_info().currsize if function is not None else 0
            if function is not None and count and is_project(function.__code__.co_filename):
                found.append(FilledCache(thing, function, count))
        elif is_class(thing) and (cached := dict(_cached_properties(thing, is_project))):
            properties[id(thing)] = cached
    counts: dict[int, tuple[types.FunctionType, int]] = {}
    for item in collected_objects(is_idle) if properties else ():
        for name, function in properties.get(id(type(item)), {}).items():
            if name in _instance_space(item):
                counts[id(function)] = function, counts.get(id(function), (function, 0))[1] + 1
    found += (FilledProperties(function, count) for function, count in counts.values())
    return found if is_idle() else []


def _cached_properties(kind: object, is_project: Callable[[object], bool]) -> Iterator[tuple[str, types.FunctionType]]:
    """Yield the name and function of each `cached_property` in a class that is defined in a project file."""
    for name, part in list(_space_of(kind).items()):
        if type(part) is functools.cached_property:
            function: Any = part.func
            if type(function) is types.FunctionType and is_project(function.__code__.co_filename):
                yield name, function


def outdated_caches(
    caches: Collection[FilledCache | FilledProperties], changed: Collection[Name]
) -> Iterator[tuple[str, str, int]]:
    """Yield the filled caches that use a changed name.

    Each item has the full name of the cached function, the changed name, and the number of results.
    """
    names = frozenset(changed)
    for cache in caches:
        callee = _changed_callee(cache.function, names)
        if callee is not None and cache.is_filled:
            yield full_name(cache.function), ".".join(callee), cache.count


def _changed_callee(function: types.FunctionType, changed: frozenset[Name]) -> Name | None:
    """Return the first changed name that a function uses, directly or through other functions, or None.

    The function's own name does not count.
    """
    properties = module_and_name(function)
    waiting, seen = [function], {id(function.__code__)}
    for item in waiting:  # this list grows
        if len(waiting) > MAX_FOLLOWED_FUNCTIONS:
            return None
        module = item.__globals__.get("__name__")
        names = {name for code in nested_codes(item.__code__) for name in code.co_names}
        for name in sorted(names):
            if (module, name) in changed and (module, name) != properties:
                return module, name  # type: ignore[return-value]  # it is a text, as it is in `changed`
            value = item.__globals__.get(name)
            if issubclass(type(value), types.ModuleType):
                space = module_dict(value)  # type: ignore[arg-type]  # it is a module
                for other in sorted(names):
                    if (space.get("__name__"), other) in changed:
                        return space["__name__"], other
                    _follow(space.get(other), names, waiting, seen)
            elif type(value) is types.FunctionType or is_class(value):
                if module_and_name(value) in changed and module_and_name(value) != properties:
                    return module_and_name(value)
                _follow(value, names, waiting, seen)
    return None


def _follow(value: object, names: set[str], waiting: list[types.FunctionType], seen: set[int]) -> None:
    """Add to `waiting` the functions that may be called when a value is used.

    For a class, `names` are the attributes that are used.
    """
    functions = [value]
    if is_class(value):
        functions = [part for name, part in _space_of(value).items() if name in names or name == "__init__"]
    for function in functions:
        if type(function) is types.FunctionType and id(function.__code__) not in seen:
            seen.add(id(function.__code__))
            waiting.append(function)


def _wrapped_function(cache: Any) -> types.FunctionType | None:
    """Return the function whose results a cache contains, or None if unknown."""
    found = cache.__dict__.get("__wrapped__")
    return found if type(found) is types.FunctionType else None


def _instance_space(thing: object) -> dict[str, object]:
    """Return the attribute dictionary of an instance, without running properties."""
    for name, descriptor in instance_descriptors(type(thing)):
        if name == "__dict__":
            found = descriptor.__get__(thing)
            return found if type(found) is dict else {}
    return {}


def make_project_file_check(roots: Collection[str]) -> Callable[[object], bool]:
    """Return a function that checks whether a file is in one of the directories and not in an installed package."""
    beginnings = tuple(root.rstrip("/\\") + sep for root in roots for sep in ("/", "\\"))

    def check(file: object) -> bool:
        return type(file) is str and file.startswith(beginnings) and "-packages" not in file

    return check
