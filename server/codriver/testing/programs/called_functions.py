"""Find the project's functions that a failed statement called.

One of them may have returned a wrong value. They are found by the names in the statement and in the statements that
assigned its variables or called something with them. No project code is called, because attributes are looked up
statically. If a recorder knows which functions ran, the others are left out, and functions that no name leads to are
added.
"""

from __future__ import annotations

import types

from .parsed_files import ParsedFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType, FrameType
    from typing import Any

    Values = dict[str, Any]

MAX_REPORTED_FUNCTIONS = 4
"""Maximum number of functions that are reported for one failure."""
MAX_PARSED_CHARACTERS = 2**19
"""Maximum length of a file's text for the file to be parsed."""
VALUE_NOT_FOUND = object()
"""Placeholder for a value that was not found."""
ARGUMENT_MARKER = ("",)
"""Placeholder for an argument of a call, in place of method names. If the argument is a function, it may be called."""
MAX_INSPECTED_FRAMES = 5
"""Maximum number of frames whose statements are inspected, because the innermost frames may belong to helpers."""
MAX_WRAPPERS = 10
"""Maximum number of decorators to follow for one function."""
REPRESENTATION_METHODS = ("__repr__", "__str__")
"""Methods that a test runner calls to describe a failure."""
CALL_MARKER = "()"
"""Placeholder for a call in a dotted name."""
METHODS_OF_BUILTINS = {
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
"""Methods that built-in functions call on their first argument. Only the first one that the class defines is called."""
OPERATOR_METHODS = {
    "Eq": "__eq__", "NotEq": "__ne__", "Lt": "__lt__", "LtE": "__le__", "Gt": "__gt__", "GtE": "__ge__",
    "Add": "__add__", "Sub": "__sub__", "Mult": "__mul__", "MatMult": "__matmul__", "Div": "__truediv__",
    "FloorDiv": "__floordiv__", "Mod": "__mod__", "Pow": "__pow__", "BitAnd": "__and__", "BitOr": "__or__",
    "BitXor": "__xor__", "LShift": "__lshift__", "RShift": "__rshift__", "UAdd": "__pos__", "USub": "__neg__",
    "Invert": "__invert__",
}  # fmt: skip
"""The method that each operator calls on its first operand, by the operator's class in `ast`."""


def called_function_locations(
    frames: Sequence[tuple[FrameType, int]],
    is_project_file: Callable[[str], bool],
    executed: Sequence[CodeType] | None = None,
    parsed: ParsedFiles | None = None,
) -> list[Values]:
    """Return the locations of the functions that a failed statement called, and of those that they call.

    The last called function comes first. `frames` contains frames with line numbers, innermost first. The first frame
    whose statement called functions is used. `is_project_file` returns whether a file belongs to the project and is not
    a test file. `executed` contains the functions that the test executed, last returned first, or is None if they were
    not recorded. `parsed` caches syntax trees.
    """
    parsed = parsed or ParsedFiles()
    ran = None if executed is None else [code for code in executed if is_project_file(code.co_filename)]
    codes: list[CodeType] = []
    for frame, line in frames[:MAX_INSPECTED_FRAMES]:
        space = {**frame.f_globals, **frame.f_locals}
        statements = _relevant_statements(frame, line, parsed)
        codes = (
            _functions_by_name(statements, space, is_project_file)
            if ran is None
            else _select_executed(ran, statements, space)
        )
        if codes:
            break
    if not codes and ran is not None:
        codes = [code for code in ran if code.co_name not in REPRESENTATION_METHODS]
    return [
        {"file": code.co_filename, "line": code.co_firstlineno, "function": code.co_name}
        for code in codes[:MAX_REPORTED_FUNCTIONS]
    ]


class Statement:
    """The names in a statement, and the expressions that it calls.

    Each called expression is a dotted name. If methods are listed with it, an operator or a built-in function calls the
    first of these methods that exists. `is_failed` is true for the statement that failed, and false for statements
    before it.
    """

    def __init__(self, *, is_failed: bool) -> None:
        self.called: list[tuple[list[str], tuple[str, ...]]] = []
        self.names: set[str] = set()
        self.is_failed = is_failed

    def functions(self, space: Values, *, by_operators: bool | None = None) -> Iterator[list[types.FunctionType]]:
        """Yield the functions to which each called name refers. A wrapper precedes the function that it decorates."""
        for path, methods in self.called:
            if by_operators is not None and by_operators != (methods not in ((), ARGUMENT_MARKER)):
                continue
            value = _resolve(path, space, methods)
            if methods != ARGUMENT_MARKER or type(value) in (types.FunctionType, types.MethodType):
                yield _unwrap(value)


def _functions_by_name(
    statements: list[Statement], space: Values, is_project_file: Callable[[str], bool]
) -> list[CodeType]:
    """Return the functions that statements call, without decorators, and the global functions that these refer to."""
    found: dict[CodeType, types.FunctionType] = {}

    def add(functions: list[types.FunctionType]) -> None:
        for function in [candidate for candidate in functions if is_project_file(candidate.__code__.co_filename)][-1:]:
            found.setdefault(function.__code__, function)

    for statement in statements:
        for functions in statement.functions(space, by_operators=None if statement.is_failed else False):
            add(functions)
    for function in list(found.values()):
        for name in _global_names(function.__code__):
            add(_unwrap(_resolve([name], function.__globals__)))
    for statement in statements:
        for functions in statement.functions(space, by_operators=True):
            add(functions)
    return list(found)


def _select_executed(ran: list[CodeType], statements: list[Statement], space: Values) -> list[CodeType]:
    """Return the executed functions that the statements probably called.

    Functions called by the first statement that called any come first. They are followed by functions called by other
    statements, by constructors, and by functions whose names are used in one of these functions. In both groups, the
    function that returned last comes first.
    """
    by_statement = []
    for statement in statements:
        codes = {function.__code__ for functions in statement.functions(space) for function in functions}
        named = {code for code in ran if code.co_name in statement.names or _constructed_class(code) in statement.names}
        by_statement.append((codes | named).intersection(ran))
    direct = next(filter(None, by_statement), set())
    direct = {code for code in direct if not _constructed_class(code)} or direct
    called = set().union(*by_statement)
    names = {name for code in called for name in _global_names(code)}
    names |= {name for code in called for name in code.co_freevars}
    others = called | {code for code in ran if code.co_name in names or _constructed_class(code) in names}
    return [code for code in ran if code in direct] + [code for code in ran if code in others and code not in direct]


def _constructed_class(code: CodeType) -> str:
    """Return the name of the class whose constructor the code belongs to, or an empty string for other code."""
    if code.co_name not in ("__init__", "__new__"):
        return ""
    return str(getattr(code, "co_qualname", "")).rpartition(".")[0].rpartition(".")[2]


def _relevant_statements(frame: FrameType, line: int, parsed: ParsedFiles) -> list[Statement]:
    """Return the statement at a line, followed by the statements that assigned its variables, last one first.

    Statements that assigned the variables of those statements are included, such as a generator whose items a `for`
    statement assigned.
    The statements in the body of a `with` statement precede it, because it may fail due to a call in its body.
    """
    import ast
    import linecache

    text = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    if len(text) > MAX_PARSED_CHARACTERS:
        return []
    try:
        statements = parsed.statements(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    # The last one is the innermost. A statement with a body is found by its header.
    failed: list[ast.stmt] = [
        statement for statement in statements if statement.lineno <= line <= _end_of_header(statement)
    ][-1:]
    if not failed:
        return []
    if isinstance(failed[0], (ast.With, ast.AsyncWith)):
        failed = [*reversed(_nested_statements(failed[0].body)), failed[0]]
    used = {child.id for part in failed for child in _walk_header(part) if isinstance(child, ast.Name)}
    first = frame.f_code.co_firstlineno
    before = [statement for statement in statements if first <= statement.lineno < line and statement not in failed]
    made = []
    for child in sorted(before, key=lambda statement: -statement.lineno):
        if used & _assigned_names(child):
            made.append(child)
            used |= {node.id for node in _walk_header(child) if isinstance(node, ast.Name)}
    changed = [child for child in before if _is_call(child) and used & _used_names(child)]
    sources = sorted([*made, *changed], key=lambda child: -child.lineno)
    return [
        *(_parse_statement(child, is_failed=True) for child in failed),
        *(_parse_statement(source) for source in sources),
    ]


def _assigned_names(statement: ast.stmt) -> set[str]:
    """Return the names that an assignment, or the header of a `for` statement, assigns."""
    import ast

    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        return set()
    return {
        part.id for part in _walk_header(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def _used_names(node: ast.AST) -> set[str]:
    """Return the names that a node reads."""
    import ast

    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _is_call(statement: ast.stmt) -> bool:
    """Return whether a statement is a call whose result is not used."""
    import ast

    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value.value if isinstance(value, ast.Await) else value, ast.Call)


def _parse_statement(node: ast.stmt, *, is_failed: bool = False) -> Statement:
    """Collect the names and calls in a statement, excluding those in its body."""
    import ast

    found = Statement(is_failed=is_failed)
    # Arguments are evaluated before the call, so the innermost returned first.
    for part in _walk_header(node):
        if isinstance(part, ast.Attribute):
            found.names.add(part.attr)
        elif isinstance(part, ast.Name):
            found.names.add(part.id)
        for value, methods in _iter_calls(part):
            path = _split_dotted_name(value)
            if path and (path, methods) not in found.called:
                found.called.append((path, methods))
    return found


def _end_of_header(statement: ast.stmt) -> int:
    """Return the last line of a statement before its body."""
    last = statement.end_lineno or statement.lineno
    body = getattr(statement, "body", None)
    return max(statement.lineno, body[0].lineno - 1) if body else last


def _nested_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements in a body and in nested bodies, in the order of their lines."""
    import ast

    found = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.stmt)]
    return sorted(found, key=lambda part: part.lineno)


def _walk_header(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, except the statements in its body."""
    import ast

    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop(0)
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _iter_calls(node: ast.AST) -> Iterator[tuple[ast.expr, tuple[str, ...]]]:
    """Yield the expressions that a node calls.

    Each expression is paired with the names of the methods that an operator or a built-in function calls on it.
    """
    import ast

    if isinstance(node, ast.Call):
        yield node.func, ()
        if isinstance(node.func, ast.Name) and node.func.id in METHODS_OF_BUILTINS and node.args:
            yield node.args[0], METHODS_OF_BUILTINS[node.func.id]
        for argument in node.args:
            yield argument, ARGUMENT_MARKER
    elif isinstance(node, ast.BinOp):
        yield node.left, (OPERATOR_METHODS[type(node.op).__name__],)
    elif isinstance(node, ast.UnaryOp) and type(node.op).__name__ in OPERATOR_METHODS:
        yield node.operand, (OPERATOR_METHODS[type(node.op).__name__],)
    elif isinstance(node, ast.Subscript):
        yield node.value, ("__getitem__",)
    elif isinstance(node, ast.Compare):
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators):
            if isinstance(operator, (ast.In, ast.NotIn)):
                yield right, ("__contains__", "__iter__")
            elif type(operator).__name__ in OPERATOR_METHODS:
                yield left, (OPERATOR_METHODS[type(operator).__name__],)


def _split_dotted_name(node: ast.expr) -> list[str]:
    """Split an expression such as `a.b.c` or `a().b` into names. Return an empty list for other expressions."""
    import ast

    names: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            names.insert(0, node.attr)
            node = node.value
        elif isinstance(node, ast.Call) and names:
            names.insert(0, CALL_MARKER)
            node = node.func
        else:
            return [node.id, *names] if isinstance(node, ast.Name) else []


def _resolve(path: list[str], space: Values, methods: tuple[str, ...] = ()) -> object:
    """Return the object that a dotted name refers to, or the first of `methods` that it has, without executing code.

    Return `VALUE_NOT_FOUND` if there is none. The result of a call is unknown unless it creates an instance, whose
    attributes are those of its class. A name that is not found otherwise is also looked up in the class, because
    methods often return the instance itself.
    """
    import inspect

    value: Any = space.get(path[0], VALUE_NOT_FOUND)
    instance_of: type | None = None
    try:
        for name in path[1:]:
            if name == CALL_MARKER:
                instance_of = value if isinstance(value, type) else instance_of
                value = value if isinstance(value, type) else VALUE_NOT_FOUND
            else:
                value = (
                    inspect.getattr_static(value, name, VALUE_NOT_FOUND)
                    if value is not VALUE_NOT_FOUND
                    else VALUE_NOT_FOUND
                )
        if value is VALUE_NOT_FOUND and instance_of is not None and path[-1] != CALL_MARKER:
            value = inspect.getattr_static(instance_of, path[-1], VALUE_NOT_FOUND)
    except Exception:  # a class may have a broken order of bases
        return VALUE_NOT_FOUND
    if methods and methods != ARGUMENT_MARKER and value is not VALUE_NOT_FOUND:
        return next(
            (found for name in methods if (found := _class_attribute(value, name)) is not VALUE_NOT_FOUND),
            VALUE_NOT_FOUND,
        )
    return value


def _unwrap(value: object) -> list[types.FunctionType]:
    """Return the functions that an object wraps. A wrapper precedes the function that it decorates."""
    import functools
    import inspect

    found: list[types.FunctionType] = []
    for _ in range(MAX_WRAPPERS):
        kind = type(value)
        if value is VALUE_NOT_FOUND:
            break
        if kind in (staticmethod, classmethod, types.MethodType):
            value = value.__func__  # type: ignore[attr-defined]
        elif kind is property:
            value = value.fget  # type: ignore[attr-defined]
        elif kind in (functools.partial, functools.partialmethod, functools.cached_property):
            value = value.func  # type: ignore[attr-defined]
        elif isinstance(value, type):
            value = type.__dict__["__dict__"].__get__(value).get("__init__", VALUE_NOT_FOUND)
        elif isinstance(value, types.FunctionType):
            found.append(value)
            value = _decorated_function(value)
        else:
            wrapped = inspect.getattr_static(value, "__wrapped__", VALUE_NOT_FOUND)
            value = _class_attribute(value, "__call__") if wrapped is VALUE_NOT_FOUND else wrapped
    return found


def _decorated_function(function: types.FunctionType) -> object:
    """Return the function that another function decorates, or `VALUE_NOT_FOUND`.

    This is its `__wrapped__`, or a function with the same name in its closure.
    """
    if "__wrapped__" in function.__dict__:
        return function.__dict__["__wrapped__"]
    for cell in function.__closure__ or ():
        try:
            inner = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if type(inner) is types.FunctionType and inner.__name__ == function.__name__ and inner is not function:
            return inner
    return VALUE_NOT_FOUND


def _class_attribute(value: object, name: str) -> object:
    """Return an attribute that is defined by the class of a value, or `VALUE_NOT_FOUND`."""
    for base in type.__dict__["__mro__"].__get__(type(value)):
        defined = type.__dict__["__dict__"].__get__(base)
        if name in defined:
            return defined[name]
    return VALUE_NOT_FOUND


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names used by a function and its inner functions, last used first."""
    for constant in reversed(code.co_consts):
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
    yield from reversed(code.co_names)
