"""The definitions in a Python file, read without running it: codes by name, plain values, defaults."""

from __future__ import annotations

import ast
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN = (int, float, complex, bool, str, bytes, type(None))
ABSENT = object()
"""In the place of a value that is not plain."""


class Written:
    """The definitions in a file: the code of each function by its dotted name, and the other names with their values.

    A name that a branch or a second statement defines again has several codes, and any of them will do.
    """

    def __init__(self, text: str, file: str) -> None:
        tree = ast.parse(text, file)
        self.codes: dict[str, list[types.CodeType]] = {}
        self.classes: set[str] = set()
        self.values: dict[str, object] = {}
        self.sure: set[str] = set()
        """The names of functions and classes that the file defines wherever it is loaded."""
        self._add(compile(tree, file, "exec", dont_inherit=True), "")
        self._read(tree.body)
        self.names = assigned(tree)
        self.removed = set(_removed(tree.body, ""))
        """The dotted names that a `del` of the file takes away again."""
        self.sure -= self.removed
        self.defaults: dict[str, list[object]] = {}
        """The plain values of a function's defaults, ABSENT for those that are not plain; of one that stands once."""
        self._read_defaults(tree.body, "")
        for node in ast.walk(tree):
            if isinstance(node, ast.Global):
                for name in node.names:
                    self.values.pop(name, None)

    def _add(self, code: types.CodeType, within: str) -> None:
        for one in code.co_consts:
            if isinstance(one, types.CodeType) and not one.co_name.startswith("<"):
                self.codes.setdefault(within + one.co_name, []).append(one)
                self._add(one, within + one.co_name + ".")

    def _read_defaults(self, body: list[ast.stmt], within: str) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = [one for one in [*node.args.defaults, *node.args.kw_defaults] if one is not None]
                self.defaults[within + node.name] = [_literal(one) for one in given]
            elif isinstance(node, ast.ClassDef):
                self._read_defaults(node.body, within + node.name + ".")

    def _read(self, body: list[ast.stmt]) -> None:
        seen: set[str] = set()
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.sure.add(node.name)
                if isinstance(node, ast.ClassDef):
                    self.classes.add(node.name)
            for name in assigned(node):
                again = name in seen
                seen.add(name)
                self.values.pop(name, None)
                if not again and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                    self._keep(node, name, node.value)

    def _keep(self, node: ast.Assign | ast.AnnAssign, name: str, value: ast.expr) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        literal = _literal(value)
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and literal is not ABSENT:
            self.values[name] = literal


def _removed(body: list[ast.stmt], within: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _removed(node.body, within + node.name + ".")
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for one in ast.walk(node):
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Del):
                    yield within + one.id


def _literal(node: ast.expr) -> object:
    """The plain value that an expression is written as; ABSENT of any other."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ABSENT
    return value if is_plain(value) else ABSENT


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


def is_plain(value: object) -> bool:
    """Whether a value is a number, a text, a flag, None, or a tuple of such."""
    return type(value) in PLAIN or (type(value) is tuple and all(map(is_plain, value)))


def is_future(node: ast.stmt) -> bool:
    """Whether a statement says how the others are to be compiled."""
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
