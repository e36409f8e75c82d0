"""Find the lines that define a module, class, function or variable."""

from __future__ import annotations

import ast
import importlib.machinery
import linecache
import os
import sys
import types

from ..basics.definition_access import defining_module_name, is_class, qualified_name, unwrap_functions
from ..basics.source_files import source_lines
from .stored_attributes import is_module, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOURCELESS_SUFFIXES = (*importlib.machinery.EXTENSION_SUFFIXES, *importlib.machinery.BYTECODE_SUFFIXES)
MAX_SEARCHED_CHARACTERS = 2**20
"""Maximum number of characters in a source that is searched. Parsing a longer one would block for seconds."""


def find_definition(
    value: object, dotted: str, module: types.ModuleType, sources: Iterable[str]
) -> tuple[str, str, int] | None:
    """Return the source that defines a value, with its file and first line, or None if it is unknown.

    `dotted` is the name of the value in the module. If the value has no position of its own, the module's file and the
    evaluated `sources`, by name, are searched in order.
    """
    lines, line = lines_that_define(value)
    if lines:
        return "".join(lines), source_file(value) or "", line
    file = module_dict(module).get("__file__")
    for name in (*((file,) if isinstance(file, str) else ()), *sources):
        lines = source_lines(name)
        if not any(dotted.rpartition(".")[2] in entry for entry in lines):
            continue
        found = _find_lines("".join(lines), dotted)
        if found is not None:
            first, last = found
            return "".join(lines[first - 1 : last]), name, first
    return None


def source_file(value: object) -> str | None:
    """Return the source file of a module, class or function, or None. For evaluated code, this is a display name."""
    function = unwrap_function(value)
    module = sys.modules.get(str(defining_module_name(value))) if is_class(value) else value
    if function is not None:
        file: object = function.__code__.co_filename
    else:
        file = module_dict(module).get("__file__") if is_module(module) else None
    if not isinstance(file, str) or file.endswith(SOURCELESS_SUFFIXES):
        return None
    return file if file in linecache.cache or os.path.exists(file) else None


def unwrap_function(value: object) -> types.FunctionType | None:
    """Return the innermost function in a method or a decorated function with `__wrapped__`, or None."""
    functions = list(unwrap_functions(value.__func__ if type(value) is types.MethodType else value))
    return functions[-1] if functions else None


def lines_that_define(value: object) -> tuple[list[str], int]:
    """Return the lines that define a module, class or function in its file, and the number of the first line."""
    file, function = source_file(value), unwrap_function(value)
    lines = source_lines(file) if file else []
    if is_module(value):
        return lines, 1
    if function is not None:
        return _block(lines, function.__code__.co_firstlineno)
    found = _find_lines("".join(lines), str(qualified_name(value))) if lines and is_class(value) else None
    return (lines[found[0] - 1 : found[1]], found[0]) if found else ([], 1)


def _block(lines: list[str], first: int) -> tuple[list[str], int]:
    """Return the lines of the definition that starts on line `first`, and `first` itself."""
    import inspect
    import tokenize

    try:
        return (inspect.getblock(lines[first - 1 :]) if 0 < first <= len(lines) else []), first
    except (SyntaxError, tokenize.TokenError):
        return [], first


def _find_lines(text: str, dotted: str) -> tuple[int, int] | None:
    """Return the first and last line of the last statement that defines a name. The name may be in a class."""
    if len(text) > MAX_SEARCHED_CHARACTERS:
        return None
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    node = None
    for name in dotted.replace("<locals>.", "").split("."):
        node = next(
            (statement for statement in reversed([*_statements(body)]) if name in _defined_names(statement)), None
        )
        if node is None:
            return None
        body = getattr(node, "body", [])
    if node is None:
        return None
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    return first, getattr(node, "end_lineno", None) or node.lineno


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and the statements nested in them, but do not enter functions and classes."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from _statements(getattr(node, part, ()))


def _defined_names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = [entry for target in targets if target is not None for entry in ast.walk(target)]
    return [name.id for name in names if isinstance(name, ast.Name)]
