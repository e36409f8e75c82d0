"""Names in Python's modules: completed, looked up, listed by module and found by a pattern. No user code is run."""

from __future__ import annotations
import __future__

import builtins
import contextlib
import itertools
import keyword
import sys
import types

from ..basics.class_spaces import is_class
from ..basics.dialect import COMPLETIONS, LISTED, first_line, kind_of, matcher
from ..basics.previews import glimpse_of
from .definition_text import file_of, lines_that_define
from .shared_names import names_of, space_of_module
from .static_attributes import MISSING, attribute, classes_of, is_module, names_in, text_of

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


def complete(prefix: str, module: types.ModuleType) -> list[dict[str, str]]:
    """Names that begin with `prefix`; of `a.b` those of the value of `a`."""
    holder, dot, start = prefix.rpartition(".")
    names: dict[str, Any]
    if dot:
        owner = _resolve(holder, module)
        if owner is MISSING:
            return []
        exported = [name for name in _exported(owner) if type(name) is str] if is_module(owner) else []
        names = {name: attribute(owner, name) for name in [*names_in(owner), *exported]}
    else:
        names = {**dict.fromkeys(keyword.kwlist), **names_of(module)}
    is_private = start.startswith("_")
    found = sorted(name for name in names if name.startswith(start) and (is_private or not name.startswith("_")))
    return [{"candidate": holder + dot + name, "type": kind_of(names[name], name)} for name in found[:COMPLETIONS]]


def lookup(symbol: str, module: types.ModuleType, home: str) -> dict[str, Any] | None:
    """The description of a dotted name; None if it does not resolve. `home`: the module's name."""
    value = _resolve(symbol, module)
    if value is MISSING:
        return None
    info: dict[str, Any] = {"name": symbol.rpartition(".")[2], "type": kind_of(value, symbol)}
    owner = _resolve(symbol.rpartition(".")[0], module)
    info["ns"] = text_of(value, "__module__") or (space_of_module(owner).get("__name__") if is_module(owner) else home)
    info["doc"] = _doc_of(value)
    if info["type"] == "variable":
        if info["doc"] == _doc_of(type(value)):  # it tells of the class alone
            del info["doc"]
        # The program may change it meanwhile.
        with contextlib.suppress(Exception):
            info.update(glimpse_of(value))
    # The error about what cannot be called would ask it for its words.
    with contextlib.suppress(TypeError, ValueError):
        if callable(value):
            import inspect

            info["arglists-str"] = str(inspect.signature(value))
    info["file"] = file_of(value)
    lines, line = lines_that_define(value)
    if lines:
        info.update(line=line, column=len(lines[0]) - len(lines[0].lstrip()) + 1)
    return {key: item for key, item in info.items() if isinstance(item, (str, int))}


def _doc_of(value: object) -> str | None:
    """The documentation of a value; of a class that has none, that of the next one it inherits from."""
    import inspect

    if type(value) is types.FunctionType:
        return inspect.getdoc(value)
    kinds = [kind for kind in classes_of(value) if kind is not object] if is_class(value) else []
    docs = (text_of(one, "__doc__") for one in (value, *kinds))
    doc = next((doc for doc in docs if doc is not None), None)
    return None if doc is None else inspect.cleandoc(doc)


def find(symbol: str, module: types.ModuleType) -> tuple[object, types.ModuleType | None, str]:
    """The value of a dotted name, the module that it is in, and its name there; no module if it does not resolve."""
    value = _resolve(symbol, module)
    if value is MISSING:
        return None, None, symbol
    owner, _, rest = symbol.partition(".")
    home = _resolve(owner, module)
    while rest and is_module(home):
        module = home
        owner, _, rest = rest.partition(".")
        home = _resolve(owner, module)
    own = sys.modules.get(_module_of(value) or "") if issubclass(type(value), DEFINED) else None
    return value, own if own is not None and is_module(own) else module, (owner + "." + rest).rstrip(".")


def _resolve(dotted: str, module: types.ModuleType) -> Any:
    """The value of a dotted name, MISSING if there is none."""
    first, *rest = dotted.split(".")
    value: Any = names_of(module).get(first, sys.modules.get(first, MISSING))
    for name in rest:
        value = MISSING if value is MISSING else attribute(value, name)
        if type(value) in (staticmethod, classmethod):
            value = value.__func__
    return value


def names(wanted: str, here: types.ModuleType, home: types.ModuleType) -> tuple[list[dict[str, str]], int] | None:
    """The public names of the module `wanted` or, where there is a `*` in it, names that match.

    Names of `here` and of `home`, the first module, are told as they are used there: without the module.
    """
    if "*" in wanted:
        found = _matching(wanted, here, home)
    else:
        module: Any = home if wanted == "user" else _resolve(wanted, here)
        module = sys.modules.get(wanted) if module is MISSING else module
        if not is_module(module):
            return None
        found = ((name, value) for name, value in sorted(_own(module).items()) if _is_public(name, module))
    listed = list(itertools.islice(found, LISTED))
    return [_row(name, value) for name, value in listed], sum(1 for _ in found)


def _matching(pattern: str, here: types.ModuleType, home: types.ModuleType) -> Iterator[tuple[str, object]]:
    """Each module and each name, where it is defined, that matches; those nearest to the user's code first."""
    first, dot, rest = pattern.partition(".")
    if dot and "*" not in first and is_module(known_as := _resolve(first, here)):
        pattern = str(space_of_module(known_as).get("__name__")) + dot + rest
    is_match = matcher(pattern)
    is_qualified = "." in pattern
    with_private = any(part.startswith("_") for part in pattern.replace(".", "*").split("*"))
    seen = set()
    for name, module in _modules(here, home):
        is_bare = any(module is one for one in (here, home, builtins))
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
    rest = [(name, one) for name, one in list(sys.modules.items()) if is_module(one) and name.partition(".")[0] != OURS]
    apart = {id(one): (name, one) for name, one in reversed([*first, *sorted(rest, key=lambda one: one[0])])}
    return sorted(
        apart.values(), key=lambda one: (one[1] is not here and one[1] is not home, _distance(one[1]), one[0])
    )


def _distance(module: types.ModuleType) -> int:
    """The distance of a module from the user's code."""
    file = space_of_module(module).get("__file__")
    if not isinstance(file, str):
        return INSTALLED
    is_installed = file.startswith((sys.prefix, sys.base_prefix)) or "site-packages" in file
    return INSTALLED if is_installed else 1


def _own(module: types.ModuleType) -> dict[str, object]:
    """The names that a module defines, and its submodules; neither its imports nor the values of Python itself."""
    space = space_of_module(module)
    own = str(space.get("__name__"))
    found = {}
    for name, value in list(space.items()):
        if type(name) is not str or name[:2] == "__":
            continue
        kind = type(value)
        if issubclass(kind, types.ModuleType):
            is_own = space_of_module(value).get("__name__") == own + "." + name
        elif issubclass(kind, DEFINED):
            is_own = (str(_module_of(value)) + ".").startswith(own + ".")
        else:
            is_own = kind is not type(__future__.annotations)
        if is_own or name in _exported(module):
            found[name] = value
    return found


def _module_of(value: Any) -> str | None:
    """The name of the module that a class or a function is from; a class of the user's classes is not asked."""
    return value.__module__ if type(value) in DEFINED else text_of(value, "__module__")


def _exported(module: types.ModuleType) -> list[str]:
    exported = space_of_module(module).get("__all__")
    return exported if type(exported) is list else []


def _is_public(name: str, module: types.ModuleType) -> bool:
    return name in _exported(module) if _exported(module) else not name.startswith("_")


def _row(name: str, value: object) -> dict[str, str]:
    """A name in one line: its parameters or the class of its value, and the first line of its documentation."""
    kind = kind_of(value, "")
    row = {"name": name, "type": kind}
    if issubclass(type(value), DEFINED):
        row["args"] = _parameters(value)
    if issubclass(type(value), (*DEFINED, types.ModuleType)):
        row["doc"] = first_line(text_of(value, "__doc__"))
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
