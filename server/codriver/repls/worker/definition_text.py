"""Definitions in Python: the text that defines a function, a class or a value, from a file or as it was evaluated."""

from __future__ import annotations

import ast
import linecache

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterable


def definition_of(
    value: object, dotted: str, module: types.ModuleType, texts: Iterable[str]
) -> tuple[str, str, int] | None:
    """The text that defines a value, the file it is in and the line where it begins there; None if it is not known.

    `dotted` is its name in the module, whose file is looked through for what cannot say where it is from, and the
    evaluated `texts`, by name, in their order.
    """
    import inspect

    try:
        lines, line = inspect.getsourcelines(value)  # type: ignore[arg-type]  # it raises TypeError where it cannot
        return "".join(lines), inspect.getsourcefile(value) or "", line or 1  # type: ignore[arg-type]  # the same
    except (TypeError, OSError, IndexError, SyntaxError):
        pass
    file = module.__dict__.get("__file__")
    for name in (*((file,) if isinstance(file, str) else ()), *texts):
        lines = linecache.getlines(name)
        if not any(dotted.rpartition(".")[2] in one for one in lines):
            continue
        found = _within("".join(lines), dotted)
        if found is not None:
            first, last = found
            return "".join(lines[first - 1 : last]), name, first
    return None


def _within(text: str, dotted: str) -> tuple[int, int] | None:
    """The first and last line of the last statement in the text that defines the name, also one in a class."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    node = None
    for name in dotted.split("."):
        node = next((one for one in reversed(body) if name in _defined(one)), None)
        if node is None:
            return None
        body = getattr(node, "body", [])
    if node is None:
        return None
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    return first, getattr(node, "end_lineno", None) or node.lineno


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = [one for target in targets if target is not None for one in ast.walk(target)]
    return [one.id for one in names if isinstance(one, ast.Name)]
