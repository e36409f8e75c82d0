"""The project's functions that a failed statement called: a wrong value was made in one of them.

They are found by their names, in the statement and in those that assigned its variables. Nothing is called, and no code
of the project runs: attributes are looked up as they are stored.
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
"""The most functions that are reported."""
MOST_CHARACTERS = 2**19
"""The longest file that is parsed."""
MISSING = object()


def called_by(frame: FrameType, line: int, is_own: Callable[[str], bool]) -> list[Values]:
    """Return the place of each function that the statement at a line of a frame called, the last called first.

    The functions that these call in turn follow. `is_own`: whether a file is the project's, and no test's.
    """
    found: dict[CodeType, types.FunctionType] = {}
    for path in _names_called(frame, line):
        _add(_resolved(path, {**frame.f_globals, **frame.f_locals}), found, is_own)
    for function in list(found.values()):
        for name in _names_in(function.__code__):
            _add(_resolved([name], function.__globals__), found, is_own)
    return [
        {"file": code.co_filename, "line": code.co_firstlineno, "function": code.co_name} for code in list(found)[:MOST]
    ]


def _names_called(frame: FrameType, line: int) -> list[list[str]]:
    """Return the dotted names of what a statement called, then of what made its variables."""
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
        # Arguments are evaluated before the call, so the innermost returned first.
        for call in calls:
            path = _dotted(call.func)
            if path and path not in names:
                names.append(path)
    return names


def _dotted(node: ast.expr) -> list[str]:
    """Return the names of `a.b.c`; empty for any other expression."""
    import ast

    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _resolved(path: list[str], space: Values) -> object:
    """Return the value of a dotted name as it is stored, `MISSING` without one."""
    import inspect

    value: Any = space.get(path[0], MISSING)
    for name in path[1:]:
        if value is MISSING:
            break
        try:
            value = inspect.getattr_static(value, name, MISSING)
        except Exception:  # a class may have a broken order of bases
            return MISSING
    return value


def _add(value: object, found: dict[CodeType, types.FunctionType], is_own: Callable[[str], bool]) -> None:
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
    if type(value) is types.FunctionType and is_own(value.__code__.co_filename):
        found.setdefault(value.__code__, value)


def _names_in(code: CodeType) -> Iterator[str]:
    """Return the global names that a function uses, those in its inner functions too, the last used first."""
    for constant in reversed(code.co_consts):
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)
    yield from reversed(code.co_names)
