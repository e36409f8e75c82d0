"""Names in Python's modules: completed, looked up, listed by module and found by a pattern. No user code is run."""

from __future__ import annotations
import __future__

import builtins
import contextlib
import itertools
import keyword
import sys
import types

from .dialect import COMPLETIONS, LISTED, first_line, kind_of, matcher
from .previews import glimpse_of
from .shared_names import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

OURS = __name__.partition(".")[0]
"""The worker's own package, which is none of the user's business."""
INSTALLED = 2
"""How far installed modules are from the user's code."""
PLAIN = (int, float, bool, str, bytes, type(None))
"""Defaults of parameters that are shown; what others print is their class's own."""
DEFINED = (type, types.FunctionType, types.BuiltinFunctionType)
"""Values that know their module."""

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
        names = {**dict.fromkeys(keyword.kwlist), **names_of(module)}
    is_private = start.startswith("_")
    found = sorted(name for name in names if name.startswith(start) and (is_private or not name.startswith("_")))
    return [{"candidate": holder + dot + name, "type": kind_of(names[name], name)} for name in found[:COMPLETIONS]]


def lookup(symbol: str, module: types.ModuleType, home: str) -> dict[str, Any] | None:
    """The description of a dotted name; None if it does not resolve. `home`: the module's name."""
    import inspect

    value = _resolve(symbol, module)
    if value is MISSING:
        return None
    info: dict[str, Any] = {"name": symbol.rpartition(".")[2], "type": kind_of(value, symbol)}
    info["ns"] = getattr(value, "__module__", None) or home
    info["doc"] = inspect.getdoc(value)
    if info["type"] == "variable":
        # The program may change it meanwhile.
        with contextlib.suppress(Exception):
            info.update(glimpse_of(value))
    # The error about what cannot be called would ask it for its words.
    with contextlib.suppress(TypeError, ValueError):
        if callable(value):
            info["arglists-str"] = str(inspect.signature(value))
    with contextlib.suppress(TypeError, OSError):
        info["file"] = inspect.getsourcefile(value)
        lines, line = inspect.getsourcelines(value)
        info.update(line=line or 1, column=len(lines[0]) - len(lines[0].lstrip()) + 1 if lines else 1)
    return {key: item for key, item in info.items() if isinstance(item, (str, int))}


def find(symbol: str, module: types.ModuleType) -> tuple[object, types.ModuleType | None, str]:
    """The value of a dotted name, the module that it is in, and its name there; no module if it does not resolve."""
    value = _resolve(symbol, module)
    if value is MISSING:
        return None, None, symbol
    owner, _, rest = symbol.partition(".")
    home = _resolve(owner, module)
    while rest and isinstance(home, types.ModuleType):
        module = home
        owner, _, rest = rest.partition(".")
        home = _resolve(owner, module)
    own = sys.modules.get(getattr(value, "__module__", None) or "") if isinstance(value, DEFINED) else None
    return value, own or module, (owner + "." + rest).rstrip(".")


def _resolve(dotted: str, module: types.ModuleType) -> Any:
    """The value of a dotted name, MISSING if there is none."""
    import inspect

    first, *rest = dotted.split(".")
    value: Any = names_of(module).get(first, sys.modules.get(first, MISSING))
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


def names(wanted: str, here: types.ModuleType, home: types.ModuleType) -> tuple[list[dict[str, str]], int] | None:
    """The public names of the module `wanted` or, where there is a `*` in it, names that match. See `Dialect`.

    Names of `here` and of `home`, the first module, are told as they are used there: without the module.
    """
    if "*" in wanted:
        found = _matching(wanted, here, home)
    else:
        module: Any = home if wanted == "user" else _resolve(wanted, here)
        module = sys.modules.get(wanted) if module is MISSING else module
        if not isinstance(module, types.ModuleType):
            return None
        found = ((name, value) for name, value in sorted(_own(module).items()) if _is_public(name, module))
    listed = list(itertools.islice(found, LISTED))
    return [_row(name, value) for name, value in listed], sum(1 for _ in found)


def _matching(pattern: str, here: types.ModuleType, home: types.ModuleType) -> Iterator[tuple[str, object]]:
    """Each module and each name, where it is defined, that matches; those nearest to the user's code first."""
    is_match = matcher(pattern)
    is_qualified = "." in pattern
    with_private = any(part.startswith("_") for part in pattern.replace(".", "*").split("*"))
    seen = set()
    for name, module in _modules(here, home):
        is_bare = module in (here, home, builtins)
        if not is_bare and name[:1] == "_" and not with_private and _distance(module) == INSTALLED:
            continue
        last = (name.rpartition(".")[2], id(module))
        # A module in a package is among the names of the package, too.
        if not is_bare and is_match(name) and last not in seen:
            seen.add(last)
            yield name, module
        for own, value in sorted(_own(module).items()):
            if own[:1] == "_" and not with_private:
                continue
            full = own if is_bare else name + "." + own
            if is_match(full if is_qualified else own) and (own, id(value)) not in seen:
                seen.add((own, id(value)))
                yield full, value


def _modules(here: types.ModuleType, home: types.ModuleType) -> list[tuple[str, types.ModuleType]]:
    """The loaded modules by name: those that are evaluated in, the project's own, those that are installed."""
    first = [(one.__name__, one) for one in (here, home)]
    rest = [
        (name, one)
        for name, one in list(sys.modules.items())
        if isinstance(one, types.ModuleType) and name.partition(".")[0] != OURS
    ]
    apart = {id(one): (name, one) for name, one in reversed([*first, *sorted(rest, key=lambda one: one[0])])}
    return sorted(apart.values(), key=lambda one: (one[1] not in (here, home), _distance(one[1]), one[0]))


def _distance(module: types.ModuleType) -> int:
    """The distance of a module from the user's code."""
    file = module.__dict__.get("__file__")
    if not isinstance(file, str):
        return INSTALLED
    is_installed = file.startswith((sys.prefix, sys.base_prefix)) or "site-packages" in file
    return INSTALLED if is_installed else 1


def _own(module: types.ModuleType) -> dict[str, object]:
    """The names that a module defines, and its submodules; neither its imports nor the values of Python itself."""
    own = module.__name__
    found = {}
    for name, value in list(module.__dict__.items()):
        if name[:2] == "__" or not isinstance(name, str):
            continue
        if isinstance(value, types.ModuleType):
            is_own = value.__name__ == own + "." + name
        elif isinstance(value, DEFINED):
            is_own = (str(value.__module__) + ".").startswith(own + ".")
        else:
            is_own = not isinstance(value, type(__future__.annotations))
        if is_own or name in _exported(module):
            found[name] = value
    return found


def _exported(module: types.ModuleType) -> list[str]:
    exported = module.__dict__.get("__all__")
    return exported if isinstance(exported, list) else []


def _is_public(name: str, module: types.ModuleType) -> bool:
    return name in _exported(module) if _exported(module) else not name.startswith("_")


def _row(name: str, value: object) -> dict[str, str]:
    """A name in one line: its parameters or the class of its value, and the first line of its documentation."""
    kind = kind_of(value, "")
    row = {"name": name, "type": kind}
    if isinstance(value, DEFINED):
        row["args"] = _parameters(value)
    if isinstance(value, (*DEFINED, types.ModuleType)):
        row["doc"] = first_line(value.__doc__)
    elif kind == "variable":
        row["args"] = ": " + type(value).__name__
    return {key: text for key, text in row.items() if text}


def _parameters(value: Any) -> str:
    """The parameters of a function or class, without annotations; no `repr` but Python's own is asked."""
    import inspect

    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown = []
    for one in signature.parameters.values():
        default = one.default
        if default is not one.empty and type(default) not in PLAIN:
            one = one.replace(default=_Dots())  # noqa: PLW2901  # the parameter as it is shown
        shown.append(one.replace(annotation=one.empty))
    return str(signature.replace(parameters=shown, return_annotation=signature.empty))


class _Dots:
    """A value in whose place dots are shown."""

    def __repr__(self) -> str:
        return "..."
