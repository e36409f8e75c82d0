"""Changed statements and functions of a Python file that was edited, told by code and not by text.

A statement that changed has to run again. Of functions it is told which changed in their bodies alone, and whether more
changed.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codriver.editing.python_edits import PythonSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def changed_statements(before: bytes, after: bytes) -> tuple[str, tuple[tuple[int, str], ...] | None]:
    """The text of a file as it is now, and its top-level statements that were not there before.

    Each by its line, which is not that of a decorator, and its text. Comments and layout do not count; None where
    nothing else changed.

    Raises:
        SyntaxError, ValueError: the file cannot be read.
    """
    text = decoded(after)
    source = PythonSource(text, compiles=False)
    now = [ast.dump(node) for node in source.tree.body]
    was = _dumped(before)
    if was == now:
        return text, None
    left = Counter(was)
    found = []
    for node, dumped in zip(source.tree.body, now, strict=True):
        left[dumped] -= 1
        if left[dumped] < 0:
            first, last = source.span(node)
            found.append((node.lineno, "".join(source.lines[first - 1 : last])))
    return text, tuple(found)


def imported_names(text: str) -> Iterator[str]:
    """The last parts of the modules that a text may import, at any place."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.rpartition(".")[2]


def decoded(data: bytes) -> str:
    """The text of a Python file, in the encoding that it declares, without its mark."""
    encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    return data.decode(encoding)


def _dumped(data: bytes) -> list[str]:
    """The statements that a file had; none for an unreadable file."""
    try:
        return [ast.dump(node) for node in PythonSource(decoded(data), compiles=False).tree.body]
    except (SyntaxError, ValueError):
        return []


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
