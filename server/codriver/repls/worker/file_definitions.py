"""The names that the statements of a Python text bind, read without running it."""

from __future__ import annotations

import ast


def assigned(node: ast.AST) -> set[str]:
    """The names that a statement, or a module, gives to something, outside the functions in it."""
    names: set[str] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(one.name)
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            names.add(one.id)
        elif isinstance(one, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in one.names)
        elif not isinstance(one, ast.Lambda):
            waiting += ast.iter_child_nodes(one)
    return names


def is_future(node: ast.stmt) -> bool:
    """Whether a statement says how the others are to be compiled."""
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
