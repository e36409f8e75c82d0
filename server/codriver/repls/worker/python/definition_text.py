"""Definitions in Python: the text that defines a function, a class or a value, from a file or as it was evaluated."""

from __future__ import annotations

import ast
import importlib.machinery
import linecache
import os
import sys
import types

from ..basics.class_spaces import home_of, is_class, qualname_of, unwrapped
from ..basics.source_files import lines_of
from .shared_names import space_of_module
from .static_attributes import is_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NO_SOURCE = (*importlib.machinery.EXTENSION_SUFFIXES, *importlib.machinery.BYTECODE_SUFFIXES)
MOST_TEXT = 2**20
"""Characters in which a class or a value is looked for: a syntax tree of more takes seconds, in which nothing runs."""


def definition_of(
    value: object, dotted: str, module: types.ModuleType, texts: Iterable[str]
) -> tuple[str, str, int] | None:
    """The text that defines a value, the file it is in and the line where it begins there; None if it is not known.

    `dotted` is its name in the module, whose file is looked through for what cannot say where it is from, and the
    evaluated `texts`, by name, in their order.
    """
    lines, line = lines_that_define(value)
    if lines:
        return "".join(lines), file_of(value) or "", line
    file = space_of_module(module).get("__file__")
    for name in (*((file,) if isinstance(file, str) else ()), *texts):
        lines = lines_of(name)
        if not any(dotted.rpartition(".")[2] in one for one in lines):
            continue
        found = _within("".join(lines), dotted)
        if found is not None:
            first, last = found
            return "".join(lines[first - 1 : last]), name, first
    return None


def file_of(value: object) -> str | None:
    """The source file of a module, class or function, or the name of its evaluated text; None where there is none."""
    function = function_of(value)
    module = sys.modules.get(str(home_of(value))) if is_class(value) else value
    if function is not None:
        file: object = function.__code__.co_filename
    else:
        file = space_of_module(module).get("__file__") if is_module(module) else None
    if not isinstance(file, str) or file.endswith(NO_SOURCE):
        return None
    return file if file in linecache.cache or os.path.exists(file) else None


def function_of(value: object) -> types.FunctionType | None:
    """The function that a value is, or that it was made of by decorators that tell so."""
    functions = list(unwrapped(value.__func__ if type(value) is types.MethodType else value))
    return functions[-1] if functions else None


def lines_that_define(value: object) -> tuple[list[str], int]:
    """The lines that define a module, class or function where it says that it is from, and the first one's number."""
    file, function = file_of(value), function_of(value)
    lines = lines_of(file) if file else []
    if is_module(value):
        return lines, 1
    if function is not None:
        return _block(lines, function.__code__.co_firstlineno)
    found = _within("".join(lines), str(qualname_of(value))) if lines and is_class(value) else None
    return (lines[found[0] - 1 : found[1]], found[0]) if found else ([], 1)


def _block(lines: list[str], first: int) -> tuple[list[str], int]:
    import inspect
    import tokenize

    try:
        return (inspect.getblock(lines[first - 1 :]) if 0 < first <= len(lines) else []), first
    except (SyntaxError, tokenize.TokenError):
        return [], first


def _within(text: str, dotted: str) -> tuple[int, int] | None:
    """The first and last line of the last statement in the text that defines the name, also one in a class."""
    if len(text) > MOST_TEXT:
        return None
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    node = None
    for name in dotted.replace("<locals>.", "").split("."):
        node = next((one for one in reversed([*_statements(body)]) if name in _defined(one)), None)
        if node is None:
            return None
        body = getattr(node, "body", [])
    if node is None:
        return None
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    return first, getattr(node, "end_lineno", None) or node.lineno


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements and those within them, but for what is in functions and classes."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from _statements(getattr(node, part, ()))


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = [one for target in targets if target is not None for one in ast.walk(target)]
    return [one.id for one in names if isinstance(one, ast.Name)]
