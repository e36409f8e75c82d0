"""Find the functions of the project that a failed statement called.

One of them may have returned a wrong value. They are found by the names in the statement and in the statements that
assigned its variables. No code of the project is called: attributes are looked up as they are stored.
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
"""Maximum size of a file that is parsed, in characters."""
MISSING = object()
CALLED = "()"
"""Stands for a call in a dotted name."""
BUILTINS = {
    "str": ("__str__", "__repr__"),
    "repr": ("__repr__",),
    "len": ("__len__",),
    "bool": ("__bool__", "__len__"),
    "hash": ("__hash__",),
    "iter": ("__iter__",),
    "next": ("__next__",),
    "list": ("__iter__",),
    "tuple": ("__iter__",),
    "set": ("__iter__",),
    "dict": ("__iter__",),
    "sorted": ("__iter__",),
    "reversed": ("__reversed__",),
    "int": ("__int__",),
    "float": ("__float__",),
    "bytes": ("__bytes__",),
    "abs": ("__abs__",),
    "round": ("__round__",),
    "format": ("__format__",),
}
"""Methods that a built-in function calls on its first argument. The first one that the class defines is called."""
OPERATORS = {
    "Eq": "__eq__", "NotEq": "__ne__", "Lt": "__lt__", "LtE": "__le__", "Gt": "__gt__", "GtE": "__ge__",
    "Add": "__add__", "Sub": "__sub__", "Mult": "__mul__", "MatMult": "__matmul__", "Div": "__truediv__",
    "FloorDiv": "__floordiv__", "Mod": "__mod__", "Pow": "__pow__", "BitAnd": "__and__", "BitOr": "__or__",
    "BitXor": "__xor__", "LShift": "__lshift__", "RShift": "__rshift__", "UAdd": "__pos__", "USub": "__neg__",
    "Invert": "__invert__",
}  # fmt: skip
"""Methods that an operator calls on its left operand."""


def called_by(frame: FrameType, line: int, is_project_file: Callable[[str], bool]) -> list[Values]:
    """Return the location of each function that a statement of a frame called, last call first.

    The functions that these call in turn follow. `is_project_file` returns whether a file belongs to the project and is
    not a test file.
    """
    found: dict[CodeType, types.FunctionType] = {}
    space = {**frame.f_globals, **frame.f_locals}
    for path, methods in _names_called(frame, line):
        _add(_resolved(path, space, methods), found, is_project_file)
    for function in list(found.values()):
        for name in _names_in(function.__code__):
            _add(_resolved([name], function.__globals__), found, is_project_file)
    return [
        {"file": code.co_filename, "line": code.co_firstlineno, "function": code.co_name} for code in list(found)[:MOST]
    ]


def _names_called(frame: FrameType, line: int) -> list[tuple[list[str], tuple[str, ...]]]:
    """Return the dotted names that a statement called, followed by those that produced its variables.

    A name with methods is a value on which Python called one of these methods.
    """
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
    names: list[tuple[list[str], tuple[str, ...]]] = []
    for statement in (failed[-1], *reversed(made)):
        # Arguments are evaluated before the call, so the innermost returned first.
        for node in ast.walk(statement):
            for value, methods in _calls_in(node):
                path = _dotted(value)
                if path and (path, methods) not in names:
                    names.append((path, methods))
    return names


def _calls_in(node: ast.AST) -> Iterator[tuple[ast.expr, tuple[str, ...]]]:
    """Return the names that a node calls: its expression, and the methods called by operators and built-ins."""
    import ast

    if isinstance(node, ast.Call):
        yield node.func, ()
        if isinstance(node.func, ast.Name) and node.func.id in BUILTINS and node.args:
            yield node.args[0], BUILTINS[node.func.id]
    elif isinstance(node, ast.BinOp):
        yield node.left, (OPERATORS[type(node.op).__name__],)
    elif isinstance(node, ast.UnaryOp) and type(node.op).__name__ in OPERATORS:
        yield node.operand, (OPERATORS[type(node.op).__name__],)
    elif isinstance(node, ast.Subscript):
        yield node.value, ("__getitem__",)
    elif isinstance(node, ast.Compare):
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators):
            if isinstance(operator, (ast.In, ast.NotIn)):
                yield right, ("__contains__", "__iter__")
            elif type(operator).__name__ in OPERATORS:
                yield left, (OPERATORS[type(operator).__name__],)


def _dotted(node: ast.expr) -> list[str]:
    """Return the names of `a.b.c`, and of `a().b` for an instance of a class; empty for any other expression."""
    import ast

    names: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            names.insert(0, node.attr)
            node = node.value
        elif isinstance(node, ast.Call) and names:
            names.insert(0, CALLED)
            node = node.func
        else:
            return [node.id, *names] if isinstance(node, ast.Name) else []


def _resolved(path: list[str], space: Values, methods: tuple[str, ...] = ()) -> object:
    """Return the stored value of a dotted name, or the first of `methods` that it has; `MISSING` if there is none.

    The value of a call is unknown, unless it creates an instance, whose attributes are those of the class. Because
    methods often return the instance itself, a name that is not found otherwise is looked up in the class.
    """
    import inspect

    value: Any = space.get(path[0], MISSING)
    instance_of: type | None = None
    try:
        for name in path[1:]:
            if name == CALLED:
                instance_of = value if isinstance(value, type) else instance_of
                value = value if isinstance(value, type) else MISSING
            else:
                value = inspect.getattr_static(value, name, MISSING) if value is not MISSING else MISSING
        if value is MISSING and instance_of is not None and path[-1] != CALLED:
            value = inspect.getattr_static(instance_of, path[-1], MISSING)
    except Exception:  # a class may have a broken order of bases
        return MISSING
    if methods and value is not MISSING:
        return next((found for name in methods if (found := _of_class(value, name)) is not MISSING), MISSING)
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
        elif type(value) is not types.FunctionType and value is not MISSING:
            value = _of_class(value, "__call__")
        else:
            break
    if type(value) is types.FunctionType and is_project_file(value.__code__.co_filename):
        found.setdefault(value.__code__, value)


def _of_class(value: object, name: str) -> object:
    """Return the attribute that the class of a value defines, or `MISSING`."""
    for one in type.__dict__["__mro__"].__get__(type(value)):
        defined = type.__dict__["__dict__"].__get__(one)
        if name in defined:
            return defined[name]
    return MISSING


def _names_in(code: CodeType) -> Iterator[str]:
    """Return the global names that a function uses, those in its inner functions too, the last used first."""
    for constant in reversed(code.co_consts):
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)
    yield from reversed(code.co_names)
