"""List names in a Hy REPL, and describe their values.

If a session is given, the definitions of that hy-nrepl session are included.
"""

from __future__ import annotations

import gc
import inspect
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

MAX_LISTED_NAMES = 50
"""Maximum number of names in an answer."""
MODULE_TYPE = type(sys)


def line(value: object) -> str:
    """Return the first non-empty line of a value's documentation, or ""."""
    text = value.__doc__ if isinstance(value, (type, MODULE_TYPE, type(len), type(line))) else ""
    return next((splitline.strip() for splitline in (text or "").splitlines() if splitline.strip()), "")


def name_row(name: str, value: object) -> dict[str, str]:
    """Describe a name: its kind, its arguments, and the first line of its documentation."""
    kind = "class" if isinstance(value, type) else "module" if isinstance(value, MODULE_TYPE) else ""
    try:
        parameters = inspect.signature(value).parameters.values() if callable(value) else None
        args = "(" + ", ".join(parameter.name for parameter in parameters) + ")" if parameters is not None else ""
    except (TypeError, ValueError):
        args = ""
    return {"name": name, "type": kind, "args": args, "doc": line(value)}


def public_definitions(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the public names that a module defines itself."""
    for name, value in sorted(vars(module).items(), key=lambda entry: str(entry[0])):
        home = getattr(value, "__module__", None) if isinstance(value, (type, type(line))) else module.__name__
        if not name.startswith("_") and not isinstance(value, MODULE_TYPE) and home == module.__name__:
            yield name, value


def session_module(session: str) -> ModuleType | None:
    """Return the module of a session. All objects in the process are searched, because no registry contains it."""
    modules = [candidate for candidate in gc.get_objects() if type(candidate) is MODULE_TYPE] if session else []
    return next((module for module in modules if vars(module).get("__name__") == "hy-nrepl-session-" + session), None)


def format_in_line(value: object, levels: int) -> str:
    """Format a value in one line.

    Plain values and short collections are printed. Other values are described by their type.
    """
    kind = type(value)
    if isinstance(value, (str, bytes)) and kind in (str, bytes) and len(value) > 60:
        return "<%s of %d>" % (kind.__name__, len(value))
    if kind is int and value.bit_length() > 200:  # type: ignore[attr-defined]  # the value is an int
        return "<int of %d bits>" % value.bit_length()  # type: ignore[attr-defined]  # the value is an int
    if kind in (str, bytes, int, float, complex, bool, type(None)):
        return repr(value)
    if kind not in (list, tuple, dict, set, frozenset) or not levels:
        return "<%s>" % kind.__qualname__
    return _collection(value, levels)


def _collection(value: object, levels: int) -> str:
    kind = type(value)
    brackets: dict[type, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")")}
    before, after = brackets.get(kind, ("{", "}"))
    items: list[object] = list(value)  # type: ignore[call-overload]  # the value is a collection
    first = items[:10]
    parts = [format_in_line(item, levels - 1) for item in first]
    if isinstance(value, dict):
        parts = [part + ": " + format_in_line(value[key], levels - 1) for part, key in zip(parts, first)]
    return before + ", ".join(parts + ["..."] * (len(items) > 10)) + after


def describe_value(name: str, session: str) -> dict[str, str]:
    """Describe the value of a name by its class, its size, and its text in one line.

    The result is empty for functions and classes.
    """
    import hy  # type: ignore[import-untyped]  # the REPL has it

    home, _, last = name.rpartition(".")
    module = sys.modules.get(hy.mangle(home)) if home else session_module(session)
    missing = object()
    value = vars(module).get(hy.mangle(last), missing) if module else missing
    if value is missing or isinstance(value, (type, MODULE_TYPE, type(len), type(line))):
        return {}
    kind = type(value)
    is_plain = kind.__module__ == "builtins" or kind.__module__.startswith("hy-nrepl-session-")
    full = kind.__qualname__ if is_plain else kind.__module__ + "." + kind.__qualname__
    fields = {"class": full, "value": format_in_line(value, 3)}
    if kind in (list, tuple, dict, set, frozenset):
        fields["count"] = str(len(value))  # type: ignore[arg-type]  # the value is a collection
    return fields


def answer(name: str, pattern: str, session: str) -> dict[str, object]:
    """Return the names in a module, or all names that match a pattern."""
    pattern = pattern.replace("\\-", "_")
    home_module = session_module(session)
    if not pattern:
        name = name.replace("-", "_")
        module = home_module if name in ("Hy", "__main__") else sys.modules.get(name)
        if module is None:
            return {}
        found = [name_row(name, value) for name, value in public_definitions(module)]
    else:
        found = list(_matching(pattern, home_module))
    return {"rows": found[:MAX_LISTED_NAMES], "omitted": max(0, len(found) - MAX_LISTED_NAMES)}


def _matching(pattern: str, home_module: ModuleType | None) -> Iterator[dict[str, str]]:
    hit = re.compile(pattern).fullmatch
    modules = [item for item in sorted(sys.modules.items()) if isinstance(item[1], MODULE_TYPE)]
    for home, module in [("", home_module), *modules] if home_module else modules:
        if home and home[0] != "_" and hit(home.lower()):
            yield name_row(home, module)
        for name, value in public_definitions(module) if home[:1] != "_" and module is not None else ():
            full = name if home in ("", "builtins") else home + "." + name
            if hit((full if "." in pattern.replace(".*", "") else name).lower()):
                yield name_row(full, value)
