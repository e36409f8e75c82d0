"""Changed functions: those of a Python file of which an edit changed the bodies alone, and whether more changed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver.editing.changed_statements import decoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class ChangedFunctions:
    """The functions, by qualified name, whose code is another. `is_more`: the file runs otherwise when it is loaded."""

    names: tuple[str, ...]
    is_more: bool


def changed_functions(before: bytes, after: bytes) -> ChangedFunctions:
    """The functions that differ between two texts of a file; a text that cannot be read differs in all."""
    try:
        old, new = ast.parse(decoded(before)), ast.parse(decoded(after))
    except (SyntaxError, ValueError):
        return ChangedFunctions((), is_more=True)
    was, now = dict(_bodies(old.body, "")), dict(_bodies(new.body, ""))
    names = tuple(name for name, body in was.items() if name in now and now[name] != body)
    return ChangedFunctions(names, _around(old) != _around(new))


def _bodies(statements: Sequence[ast.stmt], owner: str) -> Iterator[tuple[str, str]]:
    """The qualified name and the body of each function, outside of functions; of one name the last."""
    for node in statements:
        if isinstance(node, Function):
            yield owner + node.name, "".join(map(ast.dump, node.body))
        elif isinstance(node, ast.ClassDef):
            yield from _bodies(node.body, f"{owner}{node.name}.")
        else:
            for inner in ("body", "orelse", "finalbody"):
                yield from _bodies(getattr(node, inner, []), owner)


def _around(tree: ast.Module) -> str:
    """All that runs when a file is loaded: the text without the bodies of functions."""

    class Emptied(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # the name that is called
            return self._emptied(node)

        def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:  # as above
            return self._emptied(node)

        @staticmethod
        def _emptied(node: Function) -> Function:
            node.body = [ast.Pass()]
            return node

    return ast.dump(Emptied().visit(tree))
