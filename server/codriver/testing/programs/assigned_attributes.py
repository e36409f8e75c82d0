"""Find the methods that assign the attribute behind an `AttributeError`.

The error is raised where the attribute is used, but the cause is usually where it should have been assigned, or where
it became None. No project code is called.
"""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any

    from .parsed_files import ParsedFiles

    Values = dict[str, Any]

MAX_REPORTED_METHODS = 2
"""Maximum number of methods that are reported for one failure."""
UNKNOWN_VALUE = object()
"""Placeholder for an unknown value."""


def assigning_methods(
    error: BaseException, frame: FrameType, line: int, is_project_file: Callable[[str], bool], parsed: ParsedFiles
) -> list[Values]:
    """Return the locations of the methods that assign the attribute named by an `AttributeError`.

    Constructors come first. `frame` and `line` are where the error was raised. If the attribute was accessed on None,
    the methods are those that assign the attribute whose value is None. Return an empty list before Python 3.10, where
    the error does not contain the object and the name.
    """
    value, name = getattr(error, "obj", UNKNOWN_VALUE), getattr(error, "name", None)
    if not isinstance(error, AttributeError) or value is UNKNOWN_VALUE or not isinstance(name, str):
        return []
    kind: type = type(value)
    if value is None:
        found = _attribute_with_none(name, frame, line, parsed)
        if found is None:
            return []
        kind, name = found
    codes = [
        code for code in _iter_methods(kind) if is_project_file(code.co_filename) and _assigns_attribute(code, name)
    ]
    codes.sort(key=lambda code: code.co_name not in ("__init__", "__new__"))
    return [
        {"file": code.co_filename, "line": code.co_firstlineno, "function": code.co_name}
        for code in dict.fromkeys(codes)
    ][:MAX_REPORTED_METHODS]


def _attribute_with_none(name: str, frame: FrameType, line: int, parsed: ParsedFiles) -> tuple[type, str] | None:
    """Return the class and the name of the attribute `b` in an expression `a.b.name` where `b` is None."""
    import ast
    import linecache

    text = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    for statement in parsed.statements(text):
        if not statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            continue
        for node in ast.walk(statement):
            inner = node.value if isinstance(node, ast.Attribute) and node.attr == name else None
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                owner = frame.f_locals.get(inner.value.id, UNKNOWN_VALUE)
                return None if owner is UNKNOWN_VALUE or owner is None else (type(owner), inner.attr)
    return None


def _iter_methods(kind: type) -> Iterator[CodeType]:
    """Yield the code of the methods and properties of a class, including inherited ones."""
    for base in type.__dict__["__mro__"].__get__(kind):
        for member in type.__dict__["__dict__"].__get__(base).values():
            function: Any = member
            for part in ("__func__", "fget", "func", "__wrapped__"):
                if not isinstance(function, types.FunctionType):
                    function = getattr(function, part, function)
            if isinstance(function, types.FunctionType):
                yield function.__code__


def _assigns_attribute(code: CodeType, name: str) -> bool:
    """Return whether code assigns an attribute with this name."""
    import dis

    if name not in code.co_names:
        return False
    return any(step.opname == "STORE_ATTR" and step.argval == name for step in dis.get_instructions(code))
