"""Find the project's functions that a failed statement called, one of which may have returned a wrong value.

Functions are found by name, in the statement and in those that assigned its variables. No code of the project runs:
attributes are read as they are stored.
"""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any

    Values = dict[str, Any]

MOST = 4
"""Maximum number of functions that are reported."""
MOST_CHARACTERS = 2**19
"""Maximum size of a file that is parsed."""
MISSING = object()


def called_by(frame: FrameType, line: int, is_project_file: Callable[[str], bool]) -> list[Values]:
    """Return the location of each function that a statement of a frame called, last call first.

    The functions that these call in turn follow. `is_own` returns whether a file belongs to the project and is not a
    test file.
    """
    found: dict[CodeType, types.FunctionType] = {}
    for path in _names_called(frame, line):
        _add(_resolved(path, {**frame.f_globals, **frame.f_locals}), found, is_project_file)
    for function in list(found.values()):
        for name in _names_in(function.__code__):
            _add(_resolved([name], function.__globals__), found, is_project_file)
    return [
        {"file": code.co_filename, "line": code.co_firstlineno, "function": code.co_name} for code in list(found)[:MOST]
    ]


def _names_called(frame: FrameType, line: int) -> list[list[str]]:
    """Return the dotted names that a statement called, and then those in assignments of its variables."""
    import ast
    import linecache

    text = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    if len(text) > MOST_CHARACTERS:
        return []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    statements = [one for one in ast.walk(tree) if isinstance(one, ast.stmt) and not hasattr(one, "body")]
    failed = [one for one in statements if one.lineno <= line <= (one.end_lineno or one.lineno)]
    if not failed:
        return []
    used = {one.id for one in ast.walk(failed[-1]) if isinstance(one, ast.Name)}
    first = frame.f_code.co_firstlineno
    made = [
        one
        for one in statements
        if first <= one.lineno < line
        and isinstance(one, (ast.Assign, ast.AnnAssign, ast.AugAssign))
        and used & {name.id for name in ast.walk(one) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    ]
    names: list[list[str]] = []
    for statement in (failed[-1], *reversed(made)):
        calls = [one for one in ast.walk(statement) if isinstance(one, ast.Call)]
        # Arguments are evaluated before the call, so the innermost call returned first.
        for call in calls:
            path = _dotted(call.func)
            if path and path not in names:
                names.append(path)
    return names


def _dotted(node: ast.expr) -> list[str]:
    """Return the names in `a.b.c`, or an empty list for any other expression."""
    import ast

    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _resolved(path: list[str], space: Values) -> object:
    """Return the stored value of a dotted name, or `MISSING`."""
    import inspect

    value: Any = space.get(path[0], MISSING)
    for name in path[1:]:
        if value is MISSING:
            break
        try:
            value = inspect.getattr_static(value, name, MISSING)
        except Exception:  # a class may have a broken method resolution order
            return MISSING
    return value


def _add(value: object, found: dict[CodeType, types.FunctionType], is_project_file: Callable[[str], bool]) -> None:
    for _ in range(10):
        if type(value) in (staticmethod, classmethod, types.MethodType):
            value = value.__func__  # type: ignore[attr-defined]
        elif type(value) is property:
            value = value.fget
        elif isinstance(value, type):
            value = type.__dict__["__dict__"].__get__(value).get("__init__", MISSING)
        elif type(value) is types.FunctionType and "__wrapped__" in value.__dict__:
            value = value.__dict__["__wrapped__"]
        else:
            break
    if type(value) is types.FunctionType and is_project_file(value.__code__.co_filename):
        found.setdefault(value.__code__, value)


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function uses, including its inner functions, last use first."""
    for constant in reversed(code.co_consts):
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)
    yield from reversed(code.co_names)
