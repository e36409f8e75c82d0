"""Names of Python: completed and looked up without running user code."""

from __future__ import annotations

import builtins
import contextlib
import itertools
import keyword
import sys
import types

from .dialect import COMPLETIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MISSING = object()


def complete(prefix: str, module: types.ModuleType) -> list[dict[str, str]]:
    """Names that begin with `prefix`; of `a.b` those of the value of `a`."""
    import inspect

    holder, dot, start = prefix.rpartition(".")
    names: dict[str, Any]
    if dot:
        owner = _resolve(holder, module)
        if owner is MISSING:
            return []
        names = {name: inspect.getattr_static(owner, name, None) for name in _names_in(owner)}
    else:
        names = {**dict.fromkeys(keyword.kwlist), **vars(builtins), **vars(module)}
    is_private = start.startswith("_")
    found = sorted(name for name in names if name.startswith(start) and (is_private or not name.startswith("_")))
    return [{"candidate": holder + dot + name, "type": kind_of(names[name], name)} for name in found[:COMPLETIONS]]


def lookup(symbol: str, module: types.ModuleType, home: str) -> dict[str, Any] | None:
    """What is known of a dotted name; None if it does not resolve. `home`: what the module is called."""
    import inspect

    value = _resolve(symbol, module)
    if value is MISSING:
        return None
    info: dict[str, Any] = {"name": symbol.rpartition(".")[2], "type": kind_of(value, symbol)}
    info["ns"] = getattr(value, "__module__", None) or home
    info["doc"] = inspect.getdoc(value)
    with contextlib.suppress(TypeError, ValueError):
        info["arglists-str"] = str(inspect.signature(value))
    with contextlib.suppress(TypeError, OSError):
        info["file"] = inspect.getsourcefile(value)
        lines, line = inspect.getsourcelines(value)
        info.update(line=line or 1, column=len(lines[0]) - len(lines[0].lstrip()) + 1 if lines else 1)
    return {key: item for key, item in info.items() if isinstance(item, (str, int))}


def kind_of(value: object, name: str) -> str:
    """The word that completion and lookup have for a value."""
    if name in keyword.kwlist:
        return "keyword"
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    return "function" if callable(value) or isinstance(value, (staticmethod, classmethod)) else "variable"


def _resolve(dotted: str, module: types.ModuleType) -> Any:
    """The value of a dotted name, MISSING if there is none."""
    import inspect

    first, *rest = dotted.split(".")
    value: Any = module.__dict__.get(first, getattr(builtins, first, sys.modules.get(first, MISSING)))
    for name in rest:
        if isinstance(value, types.ModuleType):
            value = getattr(value, name, MISSING)
            continue
        value = inspect.getattr_static(value, name, MISSING)
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
    return value


def _names_in(thing: object) -> list[str]:
    """The names in a thing and its classes; of a module those it says it has."""
    if isinstance(thing, (types.ModuleType, type)):
        return dir(thing)
    # `dir` would run a `__dir__` of the user's.
    own = getattr(thing, "__dict__", None) if hasattr(type(thing), "__dict__") else None
    return [*(own or ()), *itertools.chain.from_iterable(vars(kind) for kind in type(thing).__mro__)]
