"""Find classes and functions whose `__module__` was assigned after they were created.

Packages such as httpx and anyio assign their public name to the classes and functions of their private modules. While a
load is running, the `__module__` of these objects is the module that defines them, as if nothing had been assigned.
"""

from __future__ import annotations

import sys
import types

from ..basics.definition_access import defining_module_name, is_class, qualified_name, space_of
from .bound_names import DEFINITION
from .remembered_names import has_methods_of_module
from .stored_attributes import attribute_dict, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from .load_records import Load


class AssignedModules:
    """The classes and functions in the workspace's modules whose `__module__` was changed after their creation."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str, Any, object]] = []

    def reset(self, loads: Mapping[str, Load]) -> None:
        """Set the `__module__` of each of these objects to the module that defines it.

        Only top-level packages in which a module mentions `__module__` are searched.
        """
        every = list(loads.items())
        assigning = {home.partition(".")[0] for home, load in every if load.mentions_module}
        for home, load in every:
            if home.partition(".")[0] not in assigning:
                continue
            module = sys.modules.get(home)
            space = module_dict(module) if module is not None else {}
            for name, value in _named_after_package(space, home):
                assigned = defining_module_name(value)
                if _is_created_in(space, name, value):
                    _assign(value, home)
                elif not _is_definition(load, name):
                    continue
                self._found.append((home, name, value, assigned))

    def restore(self) -> None:
        """Restore the assigned module names, and also assign them to objects that have replaced the previous ones."""
        found, self._found = self._found, []
        for home, name, previous, assigned in found:
            now = module_dict(sys.modules[home]).get(name) if home in sys.modules else None
            for value in (previous, now):
                is_definition = type(value) is types.FunctionType or is_class(value)
                if is_definition and defining_module_name(value) == home:
                    _assign(value, assigned)


def _named_after_package(space: dict[str, Any], home: str) -> Iterator[tuple[str, Any]]:
    """Yield the classes and functions whose `__module__` is a package that contains their module, with their names."""
    parts = home.split(".")
    packages = {".".join(parts[:number]) for number in range(1, len(parts))}
    for name, value in list(space.items()) if packages else ():
        kind = type(value)
        if kind is types.FunctionType:
            assigned = value.__module__
        elif issubclass(kind, type):
            assigned = space_of(value).get("__module__")
        else:
            continue
        if type(assigned) is not str or assigned not in packages or qualified_name(value) != name:
            continue
        if kind is not types.FunctionType or (
            value.__globals__ is space and "__wrapped__" not in attribute_dict(value)
        ):
            yield name, value


def _is_created_in(space: dict[str, Any], name: str, value: Any) -> bool:
    """Return whether a class or function that a module calls `name` was created in this module."""
    return type(value) is types.FunctionType or has_methods_of_module(space, name, value)


def _is_definition(load: Load, name: str) -> bool:
    """Return whether the source of a module defines this name, rather than importing it."""
    bound = load.bound_names()
    return bound is not None and bound.kinds.get(name) == DEFINITION


def _assign(value: Any, module: object) -> None:
    """Assign `__module__` without calling the metaclass of a class."""
    if is_class(value):
        type.__setattr__(value, "__module__", module)
    else:
        value.__module__ = module
