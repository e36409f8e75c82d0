"""Find the names in modules that refer to an object, directly or through attributes and items."""

from __future__ import annotations

import gc
import os
import sys
import types

from ..basics.definition_access import defining_module_name, is_class, qualified_name, space_of
from .stored_attributes import instance_dict_of, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

MAX_REFERENCE_STEPS = 4
"""Maximum length of the chain of references from a name to the object."""
MAX_OBJECTS_PER_STEP = 200
"""Maximum number of objects whose referrers are searched at each step."""
MAX_REFERRER_DEPTH = 8
"""Maximum number of nested `TRANSPARENT_HOLDERS` that are searched for a use of the object in them."""
MAX_REPORTED_HOLDERS = 3
"""Maximum number of paths that are reported."""
CODRIVER_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The directory of the worker, whose own references are ignored."""
COLLECTION_TYPES = (list, tuple, set, frozenset)
TRANSPARENT_HOLDERS = (dict, list, tuple, types.CellType, classmethod, staticmethod, property)
"""Types whose objects count as using another object only if something uses them."""
KEY, KEY_END = "\0", "\1"
"""Delimiters of a dictionary key. If the dictionary belongs to an object, the key is an attribute name."""
ATTRIBUTES_STEP = "\2"
"""Marks the step from an object to the dictionary of its attributes."""


def find_holder_paths(objects: Iterable[object], most: int = MAX_REPORTED_HOLDERS) -> list[str]:
    """Return up to `most` paths from names in modules or classes to any of these objects, shortest first."""
    level = {id(item): (item, "") for item in objects}
    seen = set(level)
    modules = {id(module_dict(module)): name for name, module in list(sys.modules.items()) if _is_module(module)}
    found: dict[str, None] = {}
    for _ in range(MAX_REFERENCE_STEPS):
        if not level or len(found) >= most:
            break
        above: dict[int, tuple[Any, str]] = {}
        targets = [target for target, _ in list(level.values())[:MAX_OBJECTS_PER_STEP]]
        for holder in gc.get_referrers(*targets):
            if holder is targets or holder is level or id(holder) in seen:
                continue
            if _is_codrivers(holder) or _is_copy(holder):
                continue
            for target, step in _steps(holder, level):
                name, rest = modules.get(id(holder)), level[target][1]
                if step == ATTRIBUTES_STEP:
                    rest = rest.replace(KEY, ".", 1).replace(KEY_END, "", 1)
                else:
                    rest = rest.replace(KEY, "['").replace(KEY_END, "']")
                    rest = (step.replace(KEY, ".").replace(KEY_END, "") if name is not None else step) + rest
                if name is not None:
                    found.setdefault(f"{name}{rest}")
                elif is_class(holder):
                    found.setdefault(f"{defining_module_name(holder)}.{qualified_name(holder)}{rest}")
                else:
                    above.setdefault(id(holder), (holder, rest))
        seen |= above.keys()
        level = above
    return list(found)[:most]


def is_in_use(value: object, seen: set[int] | None = None, depth: int = 0, *, is_weak: bool = False) -> bool:
    """Return whether anything refers to an object, apart from frames and the worker's records of earlier objects.

    `is_weak` means that something refers to the object weakly, so it stays in use for as long as it exists. In that
    case, a copy of a module's names counts if it serves as the globals of functions, like the copies that attrs makes
    for generated methods.
    """
    seen = set() if seen is None else seen
    if depth >= MAX_REFERRER_DEPTH:
        return True
    seen.add(id(value))
    referrers = gc.get_referrers(value)
    seen.add(id(referrers))
    for referrer in referrers:
        if (
            id(referrer) in seen
            or _is_codrivers(referrer)
            or type(referrer).__name__.endswith("iterator")
            or (_is_copy(referrer) and not (is_weak and _is_globals(referrer)))
        ):
            continue
        if is_class(referrer) and _is_replaced(referrer):
            continue
        if type(referrer) not in TRANSPARENT_HOLDERS or (type(referrer) is dict and "__builtins__" in referrer):
            return True
        if is_in_use(referrer, seen, depth + 1, is_weak=is_weak):
            return True
    return False


def _is_replaced(kind: Any) -> bool:
    """Return whether a class has been replaced in its module and has no subclasses."""
    module = sys.modules.get(str(defining_module_name(kind)))
    named = module_dict(module).get(qualified_name(kind)) if module is not None else None
    return is_class(named) and named is not kind and not type.__subclasses__(kind)


def _is_globals(names: object) -> bool:
    """Return whether a dictionary contains the globals of a function."""
    users = gc.get_referrers(names)
    return any(type(user) is types.FunctionType and user.__globals__ is names for user in users)


def _is_copy(holder: object) -> bool:
    """Return whether a dictionary is a copy of a module's names, such as one made by the worker before a load."""
    if type(holder) is not dict or "__spec__" not in holder:
        return False
    module = sys.modules.get(str(holder.get("__name__")))
    return module is not None and module_dict(module) is not holder


def _is_module(value: object) -> bool:
    return issubclass(type(value), types.ModuleType)


def _is_codrivers(holder: object) -> bool:
    """Return whether a referrer is a frame or one of the worker's objects.

    These refer to other objects only temporarily.
    """
    if type(holder) is types.FrameType:
        return True
    if type(holder) is types.FunctionType:
        return holder.__code__.co_filename.startswith(CODRIVER_DIRECTORY)
    if type(holder) is types.GeneratorType:
        return holder.gi_code.co_filename.startswith(CODRIVER_DIRECTORY)
    home = sys.modules.get(str(space_of(type(holder)).get("__module__")))
    return home is not None and str(module_dict(home).get("__file__")).startswith(CODRIVER_DIRECTORY)


def _steps(holder: Any, level: dict[int, tuple[Any, str]]) -> Iterator[tuple[int, str]]:
    """Yield the objects in `level` to which `holder` refers, as ids with the suffix for the path."""
    kind = type(holder)
    if kind is dict:
        for key, value in list(dict.items(holder)):
            if id(value) in level:
                yield id(value), f"{KEY}{key}{KEY_END}" if type(key) is str else "[...]"
    elif kind in COLLECTION_TYPES or issubclass(kind, (*COLLECTION_TYPES, dict)):
        yield from ((id(referent), "[...]") for referent in gc.get_referents(holder) if id(referent) in level)
    else:
        space = instance_dict_of(holder)
        named: set[int] = set()
        for name, value in list(space.items()) if space is not None else ():
            if id(value) in level:
                named.add(id(value))
                yield id(value), f".{name}"
        for referent in gc.get_referents(holder):
            if id(referent) in level and id(referent) not in named:
                yield id(referent), ATTRIBUTES_STEP if referent is space else ""
