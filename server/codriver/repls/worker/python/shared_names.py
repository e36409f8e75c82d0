"""Let a module read the names in another one while its own names stay separate.

An additional session uses this to read the first session's names.
"""

from __future__ import annotations

import builtins

from .stored_attributes import module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from typing import Any

    Names = dict[str, Any]
else:
    Names = dict


class SharedNames(Names):
    """A `__builtins__` mapping that lets a module's code also read the names in another module, `home`.

    Python looks up each name that is neither local nor global in the builtins, at module level as well as in functions,
    classes and comprehensions. Because this is not a plain dict, Python uses `__missing__`. Assignments, `global`
    declarations and deletions only affect the module itself, which has a plain `__dict__`.

    Dunder names, and names for which `is_hidden` returns True, are not shared. Source: CPython 3.8 to 3.13, `LOAD_NAME`
    and `LOAD_GLOBAL`.
    """

    def __init__(self, home: dict[str, Any], is_hidden: Callable[[str], bool]) -> None:
        super().__init__()
        self._home = home
        self._is_hidden = is_hidden
        self.refresh()

    def refresh(self) -> None:
        """Copy Python's builtins, except those that `home` redefines, because some are read without `__missing__`."""
        shared = {name: value for name, value in vars(builtins).items() if not self._shares(name)}
        for name in set(self).difference(shared):
            del self[name]
        self.update(shared)

    def shared_names(self) -> dict[str, Any]:
        """Return the names in `home` that can be read through this object, with their values."""
        return {name: value for name, value in list(self._home.items()) if self._shares(name)}

    def _shares(self, name: object) -> bool:
        if not isinstance(name, str) or (name[:2] == name[-2:] == "__"):
            return False
        return name in self._home and not self._is_hidden(name)

    def __missing__(self, name: str) -> Any:
        if self._shares(name):
            return self._home[name]
        return vars(builtins)[name]

    def __repr__(self) -> str:
        return f"<the builtins, and {len(self.shared_names())} shared names>"


def usable_names(module: types.ModuleType) -> dict[str, Any]:
    """Return all names that code in a module can use, with their values."""
    space_name = module_dict(module)
    names = space_name.get("__builtins__")
    shared = names.shared_names() if type(names) is SharedNames else {}
    return {**vars(builtins), **shared, **space_name}
