"""Complete names in Python modules, look up their definitions, and list them by module or pattern.

Attributes are read as stored, without running user code.
"""

from __future__ import annotations
import __future__

import builtins
import contextlib
import itertools
import keyword
import sys
import types

from ..basics.definition_access import is_class, space_of
from ..basics.dialect import MAX_COMPLETIONS, MAX_LISTED_NAMES, first_doc_line, name_matcher, value_kind
from ..basics.plain_values import PYTHON_PRINTER, SECRET_NAME_PATTERN
from ..basics.previews import describe_value
from .definition_sources import lines_that_define, source_file, unwrap_function
from .shared_names import usable_names
from .stored_attributes import MISSING, attribute_names, is_module, module_dict, stored_attribute, string_attribute
from .unimported_names import describe_unimported, unimported_members
from .workspace_definitions import workspace_definitions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Names = dict[str, Any]
else:
    Names = dict

WORKER_PACKAGE = __name__.partition(".")[0]
"""The top-level package of the worker, which is excluded from results."""
INSTALLED_RANK = 2
"""The sort rank of installed modules, which come after the user's."""
DISPLAYED_DEFAULT_TYPES = (int, float, bool, str, bytes, type(None))
"""Types of the parameter defaults that are displayed. Printing other values might run user code."""
DEFINITION_TYPES = (type, types.FunctionType, types.BuiltinFunctionType)
"""Types of objects that store the name of the module in which they were defined."""
MAX_VALUE_CHARACTERS = 60
"""Maximum number of characters in the value of a listed variable."""


def complete_name(prefix: str, module: types.ModuleType) -> list[dict[str, str]]:
    """Return the names that start with a prefix. For `a.b`, these are attributes of the value of `a`."""
    holder, dot, start = prefix.rpartition(".")
    names: dict[str, Any]
    if dot:
        owner = _resolve(holder, module)
        if owner is MISSING:
            return []
        exported = [name for name in _declared_exports(owner) if type(name) is str] if is_module(owner) else []
        names = {name: stored_attribute(owner, name) for name in [*attribute_names(owner), *exported]}
    else:
        names = {**dict.fromkeys(keyword.kwlist), **usable_names(module)}
    is_private = start.startswith("_")
    found = sorted(name for name in names if name.startswith(start) and (is_private or not name.startswith("_")))
    return [
        {"candidate": holder + dot + name, "type": value_kind(names[name], name)} for name in found[:MAX_COMPLETIONS]
    ]


def describe_name(symbol: str, module: types.ModuleType, home: str) -> dict[str, Any] | None:
    """Return a description of a dotted name, or None if it cannot be resolved. `home` is the module's display name."""
    value = _resolve(symbol, module)
    if value is MISSING:
        return describe_unimported(symbol)
    info: dict[str, Any] = {"name": symbol.rpartition(".")[2], "type": value_kind(value, symbol)}
    owner = _resolve(symbol.rpartition(".")[0], module)
    info["ns"] = string_attribute(value, "__module__") or (
        module_dict(owner).get("__name__") if is_module(owner) else home
    )
    info["doc"] = _docstring(value)
    if info["type"] == "variable":
        if string_attribute(type(value), "__module__") == "builtins":  # it only describes the built-in class
            del info["doc"]
        # The program may change the value at the same time.
        with contextlib.suppress(Exception):
            info.update(describe_value(value))
    # If the value cannot be called, the error message would include its `repr`, which may run user code.
    with contextlib.suppress(TypeError, ValueError):
        if callable(value):
            import inspect

            info["arglists-str"] = str(inspect.signature(value))
    info["file"] = source_file(value)
    lines, line = lines_that_define(value)
    if lines:
        info.update(line=line, column=len(lines[0]) - len(lines[0].lstrip()) + 1)
    return {key: item for key, item in info.items() if isinstance(item, (str, int))}


def _docstring(value: object) -> str | None:
    """Return the docstring of a value itself, ignoring those of base classes."""
    import inspect

    if type(value) is types.FunctionType:
        return inspect.getdoc(value)
    doc = space_of(value).get("__doc__") if is_class(value) else string_attribute(value, "__doc__")
    return inspect.cleandoc(doc) if type(doc) is str else None


def resolve_name(symbol: str, module: types.ModuleType) -> tuple[object, types.ModuleType | None, str]:
    """Return the value of a dotted name, the module that defines the value, and its name in that module.

    The module is None if the name cannot be resolved.
    """
    value = _resolve(symbol, module)
    if value is MISSING:
        return None, None, symbol
    owner, _, rest = symbol.partition(".")
    home = _resolve(owner, module)
    while rest and is_module(home):
        module = home
        owner, _, rest = rest.partition(".")
        home = _resolve(owner, module)
    space_name = sys.modules.get(_module_name(value) or "") if issubclass(type(value), DEFINITION_TYPES) else None
    return (
        value,
        space_name if space_name is not None and is_module(space_name) else module,
        (owner + "." + rest).rstrip("."),
    )


def _resolve(dotted: str, module: types.ModuleType) -> Any:
    """Return the value of a dotted name, or MISSING if it cannot be resolved."""
    first, *rest = dotted.split(".")
    value: Any = usable_names(module).get(first, sys.modules.get(first, MISSING))
    for name in rest:
        value = MISSING if value is MISSING else stored_attribute(value, name)
        if type(value) in (staticmethod, classmethod):
            value = value.__func__
    return value


def list_names(name_or_pattern: str, current: types.ModuleType, home: types.ModuleType) -> dict[str, Any] | None:
    """Return the public names in a module, the members of a class, or all names that match a pattern.

    For a name that is none of these, the functions and classes of that name in the working directory are returned. See
    `Dialect.names` for the result. Names in `current` and in `home`, the first module, are not qualified, because code
    there can use them directly. A pattern after the name of a class, as in `Class.pr*`, matches members of that class.
    """
    private = 0
    if "*" in name_or_pattern:
        owner, _, pattern = name_or_pattern.rpartition(".")
        rows = _find_members(owner, current) if owner and "*" not in owner else None
        if rows is not None:
            is_match, with_private = name_matcher(pattern), pattern.startswith("_")
            rows = [row for row in rows if is_match(row["name"]) and (with_private or not _is_private(row["name"]))]
            return _limit_rows([{**row, "name": owner + "." + row["name"]} for row in rows])
        loaded = list(_iter_matches(name_or_pattern, current, home))
        rows = [{**_row(name, value), **_line(value)} for name, value in loaded[:MAX_LISTED_NAMES]]
        return _limit_rows(
            [*rows, *_unimported_matches(name_or_pattern)], omitted=max(0, len(loaded) - MAX_LISTED_NAMES)
        )
    module: Any = home if name_or_pattern == "user" else _resolve(name_or_pattern, current)
    module = sys.modules.get(name_or_pattern) if module is MISSING else module
    if not is_module(module):
        rows = _members(module) if is_class(module) else unimported_members(name_or_pattern)
        if rows is None and name_or_pattern.isidentifier():
            suffix = "." + name_or_pattern
            rows = workspace_definitions(name_or_pattern, lambda name: name.endswith(suffix)) or None
            return None if rows is None else _limit_rows(rows)
        public = [row for row in rows or () if not _is_private(row["name"])]
        return None if rows is None else _limit_rows(public, private=len(rows) - len(public))
    defined = _public_names(module)
    found = ((name, value) for name, value in sorted(defined.items()) if _is_public(name, module))
    if module is not current and module is not home:
        private = sum(name.startswith("_") and not _is_public(name, module) for name in defined)
    listed = list(itertools.islice(found, MAX_LISTED_NAMES))
    return _limit_rows([_row(name, value) for name, value in listed], omitted=sum(1 for _ in found), private=private)


def _limit_rows(rows: list[dict[str, str]], *, omitted: int = 0, private: int = 0) -> dict[str, Any]:
    """Return at most `MAX_LISTED_NAMES` rows, and the numbers of names that are not included."""
    listed = {"rows": rows[:MAX_LISTED_NAMES], "omitted": omitted + max(0, len(rows) - MAX_LISTED_NAMES)}
    return {**listed, "private": private} if private else listed


def _is_private(name: str) -> bool:
    return name.startswith("_") and name != "__init__"


def _find_members(owner: str, module: types.ModuleType) -> list[dict[str, str]] | None:
    """Return the members of a class, or of a module that was not imported. Return None for anything else."""
    value = _resolve(owner, module)
    return _members(value) if is_class(value) else unimported_members(owner)


def _members(kind: type) -> list[dict[str, str]]:
    """Return the members that a class itself defines, in source order, with their lines.

    Special methods that no source defines are omitted, except `__init__`.
    """
    rows = []
    for name, stored in list(space_of(kind).items()):
        if type(name) is not str:
            continue
        value: Any = stored.fget if type(stored) is property else stored
        value = value.__func__ if type(value) in (staticmethod, classmethod) else value
        row = _row(name, value)
        function = unwrap_function(value)
        if name[:2] == name[-2:] == "__" and (function is None or function.__code__.co_filename == "<string>"):
            if name != "__init__":
                continue  # created by Python or decorators such as `dataclass`
            function = None
        if function is not None:
            row["line"] = str(function.__code__.co_firstlineno)
        if type(stored) is property:
            row.update(type="property", args="")
        rows.append({key: text for key, text in row.items() if text})
    rows.sort(key=lambda row: int(row.get("line", 0)))
    return rows


def _iter_matches(pattern: str, current: types.ModuleType, home: types.ModuleType) -> Iterator[tuple[str, object]]:
    """Yield each matching module, and each matching name in its defining module. The user's code comes first."""
    first, dot, rest = pattern.partition(".")
    if dot and "*" not in first and is_module(known_as := _resolve(first, current)):
        pattern = str(module_dict(known_as).get("__name__")) + dot + rest
    is_match = name_matcher(pattern)
    is_qualified = "." in pattern
    with_private = any(part.startswith("_") for part in pattern.replace(".", "*").split("*"))
    seen = set()
    for name, module in _modules(current, home):
        is_bare = any(module is entry for entry in (current, home, builtins))
        if not is_bare and name[:1] == "_" and not with_private and _sort_rank(module) == INSTALLED_RANK:
            continue
        last = (name.rpartition(".")[2], id(module))
        # A module in a package is also one of the names in the package.
        if not is_bare and is_match(name) and last not in seen:
            seen.add(last)
            yield name, module
        for space_name, value in sorted(_public_names(module).items()):
            if space_name[:1] == "_" and not with_private:
                continue
            full = space_name if is_bare else name + "." + space_name
            if is_match(full if is_qualified else space_name) and (space_name, id(value)) not in seen:
                seen.add((space_name, id(value)))
                yield full, value


def _unimported_matches(pattern: str) -> list[dict[str, str]]:
    """Return rows for matching functions and classes in files below the working directory that were not imported."""
    is_match, is_qualified = name_matcher(pattern), "." in pattern
    with_private = any(part.startswith("_") for part in pattern.replace(".", "*").split("*"))
    fragment = max(pattern.rpartition(".")[2].split("*"), key=len)

    def is_listed(qualified: str) -> bool:
        module, _, name = qualified.rpartition(".")
        if module in sys.modules or (name.startswith("_") and not with_private):
            return False
        return bool(is_match(qualified if is_qualified else name))

    return workspace_definitions(fragment, is_listed) if fragment else []


def _modules(module: types.ModuleType, home: types.ModuleType) -> list[tuple[str, types.ModuleType]]:
    """Return the loaded modules by name: modules used by evaluations first, then the project's, then installed ones."""
    first = [(entry.__name__, entry) for entry in (module, home)]
    rest = [
        (name, entry)
        for name, entry in list(sys.modules.items())
        if is_module(entry) and name.partition(".")[0] != WORKER_PACKAGE
    ]
    apart = {id(entry): (name, entry) for name, entry in reversed([*first, *sorted(rest, key=lambda entry: entry[0])])}
    return sorted(
        apart.values(),
        key=lambda entry: (entry[1] is not module and entry[1] is not home, _sort_rank(entry[1]), entry[0]),
    )


def _sort_rank(module: types.ModuleType) -> int:
    """Return the rank of a module for sorting. Installed modules have a higher rank."""
    file = module_dict(module).get("__file__")
    if not isinstance(file, str):
        return INSTALLED_RANK
    is_installed = file.startswith((sys.prefix, sys.base_prefix)) or "site-packages" in file
    return INSTALLED_RANK if is_installed else 1


def _public_names(module: types.ModuleType) -> dict[str, object]:
    """Return the names that a module defines, and its submodules, without names that it imports."""
    space = module_dict(module)
    space_name = str(space.get("__name__"))
    found = {}
    for name, value in list(space.items()):
        if type(name) is not str or name[:2] == "__":
            continue
        kind = type(value)
        if issubclass(kind, types.ModuleType):
            is_submodule = module_dict(value).get("__name__") == space_name + "." + name
        elif issubclass(kind, DEFINITION_TYPES):
            is_submodule = (str(_module_name(value)) + ".").startswith(space_name + ".")
        else:
            is_submodule = kind is not type(__future__.annotations)
        if is_submodule or name in _declared_exports(module):
            found[name] = value
    return found


def _module_name(value: Any) -> str | None:
    """Return the module name of a class or function without using its metaclass."""
    return value.__module__ if type(value) in DEFINITION_TYPES else string_attribute(value, "__module__")


def _declared_exports(module: types.ModuleType) -> list[str]:
    exported = module_dict(module).get("__all__")
    return exported if type(exported) is list else []


def _is_public(name: str, module: types.ModuleType) -> bool:
    return name in _declared_exports(module) if _declared_exports(module) else not name.startswith("_")


def _row(name: str, value: object) -> dict[str, str]:
    """Return a row for a name with its parameters or the class of its value, and a summary of its docstring."""
    kind = value_kind(value, "")
    row = {"name": name, "type": kind}
    if issubclass(type(value), DEFINITION_TYPES):
        row["args"] = _parameters(value)
    if issubclass(type(value), (*DEFINITION_TYPES, types.ModuleType)):
        row["doc"] = first_doc_line(string_attribute(value, "__doc__"))
    elif kind == "variable":
        row["args"] = ": " + _describe_variable(name, value)
    return {key: text for key, text in row.items() if text}


def _describe_variable(name: str, value: Any) -> str:
    """Describe the value of a variable by its type and, if it is short and printed without user code, its text.

    The text is complete or omitted, because a part of a secret would not be recognized as secret.
    """
    kind = type(value).__name__
    if SECRET_NAME_PATTERN.search(name):
        return kind
    if type(value) in (str, bytes) and len(value) > MAX_VALUE_CHARACTERS:
        return f"{kind} of {len(value)}"
    text = PYTHON_PRINTER.text(value, MAX_VALUE_CHARACTERS)
    if text.startswith(kind + " "):  # a size or shape
        return text
    return kind if text.startswith("<") or len(text) > MAX_VALUE_CHARACTERS else f"{kind} = {text}"


def _line(value: object) -> dict[str, str]:
    """Return the field of a row with the first line of a function in a file, or nothing for other values."""
    function = unwrap_function(value)
    if function is None or function.__code__.co_filename.startswith("<"):
        return {}
    return {"line": str(function.__code__.co_firstlineno)}


def _parameters(value: Any) -> str:
    """Format the parameters of a function or class without annotations. No user code runs."""
    import inspect

    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parts = []
    for parameter in signature.parameters.values():
        default = parameter.default
        if default is not parameter.empty and type(default) not in DISPLAYED_DEFAULT_TYPES:
            parameter = parameter.replace(default=_Dots())  # noqa: PLW2901  # as it is shown
        parts.append(parameter.replace(annotation=parameter.empty))
    return str(signature.replace(parameters=parts, return_annotation=signature.empty))


class _Dots:
    """A placeholder for a default value that is displayed as `...`."""

    def __repr__(self) -> str:
        return "..."
