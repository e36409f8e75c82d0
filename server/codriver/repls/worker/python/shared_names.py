"""Names that a module reads of another one, as a session apart does of the first, and keeps its own from."""

from __future__ import annotations

import builtins
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Names = dict[str, Any]
else:
    Names = dict


SPACE_OF_MODULE: Any = vars(types.ModuleType)["__dict__"]
"""Asked for it, a module of the user's own kind may run what it likes."""


class SharedNames(Names):
    """The `__builtins__` of a module that reads the names of another one, `home`, wherever it has none of its own.

    Python asks them for every name that is neither local nor the module's, at the top, in functions, classes and
    comprehensions alike, and by `__missing__` too, as this is no plain dict. What is assigned, declared `global` or
    deleted stays with the module, whose own `__dict__` is the plain one of any module. Dunder names, and those of which
    `is_hidden` says so, are not shared. Source: CPython 3.8 to 3.13, `LOAD_NAME` and `LOAD_GLOBAL`.
    """

    def __init__(self, home: dict[str, Any], is_hidden: Callable[[str], bool]) -> None:
        super().__init__()
        self._home = home
        self._is_hidden = is_hidden
        self.refresh()

    def refresh(self) -> None:
        """Hold Python's own builtins, as some are taken without asking, but those that `home` has another thing for."""
        held = {name: value for name, value in vars(builtins).items() if not self._shares(name)}
        for name in set(self).difference(held):
            del self[name]
        self.update(held)

    def shared(self) -> dict[str, Any]:
        """The names of `home` that are read here, and what they are."""
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
        return f"<the builtins, and {len(self.shared())} shared names>"


def space_of_module(module: Any) -> dict[str, Any]:
    """The names of a module: one that is to be loaded when it is used is not."""
    # IPython's class of first modules has the names in another place, as have objects in the place of a module.
    made_in = type.__dict__["__module__"].__get__(type(module))
    is_module = issubclass(type(module), types.ModuleType) and made_in != "IPython.core.interactiveshell"
    space: dict[str, Any] = SPACE_OF_MODULE.__get__(module) if is_module else module.__dict__
    return space


def names_of(module: types.ModuleType) -> dict[str, Any]:
    """Every name that code in a module can use, and what it is."""
    own = space_of_module(module)
    names = own.get("__builtins__")
    shared = names.shared() if type(names) is SharedNames else {}
    return {**vars(builtins), **shared, **own}
