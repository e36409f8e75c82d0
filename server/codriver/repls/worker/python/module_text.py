"""The source of a loaded module, and the words, imports and functions in its top-level statements."""

from __future__ import annotations

import ast
import re

from .enum_members import names_of_member_attributes
from .statements import BLOCK_STATEMENTS, FUNCTION_NODES, SourceText, assigned_names, imported_names, line_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterator
    from typing import Any

WORD_PATTERN = re.compile(r"\w+")
INNER_IMPORT_PATTERN = re.compile(r"^\s+(?:from|import)\s+([\w.]+)")
DYNAMIC_IMPORT_PATTERN = re.compile(r"""(?:import_module|__import__)\(\s*["']([\w.]+)["']""")


ANY_WORD: frozenset[str] = frozenset(("*",))
"""Stands for any words, in place of the words on which a name may depend."""


class Text:
    """The source of a loaded module. Analyses of it are computed on first use."""

    def __init__(self, name: str, module: types.ModuleType, file: str, source: SourceText) -> None:
        self.name, self.module, self.file, self.source = name, module, file, source
        self.space: dict[str, Any] = module.__dict__
        self.body: list[Any] = source.tree.body
        self._words: list[frozenset[str]] | None = None
        self._functions: dict[tuple[str, int], Any] | None = None
        self._lambdas: dict[int, list[Any]] = {}
        self._imports: frozenset[str] | None = None

    @property
    def statement_words(self) -> list[frozenset[str]]:
        """Return the words in each top-level statement."""
        if self._words is None:
            lines = self.source.lines
            spans = [line_range(node) for node in self.body]
            self._words = [frozenset(WORD_PATTERN.findall("".join(lines[first - 1 : last]))) for first, last in spans]
        return self._words

    @property
    def imported_names(self) -> frozenset[str]:
        """Return the names of modules that the source may import, and names from packages, which may be modules."""
        if self._imports is None:
            found: set[str] = set()
            for source, name, _ in imported_names(self.source.tree, self.name, is_package=self.is_package):
                found.update((source, f"{source}.{name}"))
            waiting: list[Any] = list(self.body)
            while waiting:
                node = waiting.pop()
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        parts = alias.name.split(".")
                        found.update(".".join(parts[: number + 1]) for number in range(len(parts)))
                elif type(node) in BLOCK_STATEMENTS:
                    waiting += [
                        imported_node for imported_node in ast.walk(node) if isinstance(imported_node, ast.Import)
                    ]
            for line in self.source.lines:
                found.update(self._absolute(name) for name in INNER_IMPORT_PATTERN.findall(line))
                found.update(DYNAMIC_IMPORT_PATTERN.findall(line))
            self._imports = frozenset(found)
        return self._imports

    def _absolute(self, name: str) -> str:
        """Return the absolute name of a module that this module may import with a relative name."""
        plain = name.lstrip(".")
        level = len(name) - len(plain)
        parts = self.name.split(".")
        owner = parts[: len(parts) - level + self.is_package] if level else []
        return ".".join([*owner, *([plain] if plain else [])])

    @property
    def is_package(self) -> bool:
        """Return whether the module is a package."""
        return self.file.endswith("__init__.py")

    def function(self, code: types.CodeType) -> Any:
        """Return the syntax node of the function or lambda from which a code object was compiled, or None."""
        if self._functions is None:
            self._functions = {}
            for node in ast.walk(self.source.tree):
                if isinstance(node, FUNCTION_NODES):
                    self._functions[node.name, line_range(node)[0]] = node
                elif isinstance(node, ast.Lambda):
                    key = "<lambda>", node.lineno
                    self._lambdas.setdefault(node.lineno, []).append(node)
                    self._functions[key] = None if key in self._functions else node
        found = self._functions.get((code.co_name, code.co_firstlineno))
        if found is None and code.co_name == "<lambda>":
            return _lambda_at_columns(self._lambdas.get(code.co_firstlineno, []), code)
        return found

    def statements_mentioning(self, names: set[str]) -> list[int]:
        """Return the positions of statements that may have read one of the names, directly or through other names.

        Names bound by these statements are added to `names`.
        """
        found: set[int] = set()
        is_growing = True
        while is_growing:
            is_growing = False
            for number, words in enumerate(self.statement_words):
                if number not in found and not names.isdisjoint(words):
                    found.add(number)
                    more = set(self._bound_in(self.body[number], names))
                    is_growing = is_growing or not more <= names
                    names |= more
        return sorted(found)

    def _bound_in(self, node: Any, names: set[str]) -> Iterator[str]:  # noqa: C901, PLR0912  # one branch per kind
        """Yield the names that a statement binds, or whose objects it may change, based on `names`."""
        inner: Any
        if isinstance(node, FUNCTION_NODES):
            yield node.name
            yield from self._filled_by_decorators(node, names)
            if node.name == "__getattr__":  # it sets attributes of the module, which may have any name
                yield self.name.rpartition(".")[2]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (bound_name for words, bound_name in _names_imported_by(node) if not names.isdisjoint(words))
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from names_of_member_attributes(self.space.get(node.name))
            lines = self.source.lines
            for inner in node.body:
                first, last = line_range(inner)
                if not names.isdisjoint(WORD_PATTERN.findall("".join(lines[first - 1 : last]))):
                    yield from self._bound_in(inner, names)
        elif isinstance(node, BLOCK_STATEMENTS) or type(node).__name__ in ("Match", "match_case", "ExceptHandler"):
            for part in ast.walk(node):
                inner = part
                if isinstance(inner, (*FUNCTION_NODES, ast.ClassDef)):
                    yield inner.name
                elif isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                    yield inner.id
                elif (
                    isinstance(inner, (ast.Subscript, ast.Attribute)) and not isinstance(inner.ctx, ast.Load)
                ) or isinstance(inner, ast.Expr):
                    yield from (each.id for each in ast.walk(inner) if isinstance(each, ast.Name))
        else:
            for name in assigned_names(node):
                yield name.partition(".")[0]
            for part in ast.walk(node):
                inner = part
                if isinstance(inner, ast.NamedExpr):
                    yield inner.target.id
                elif isinstance(inner, (ast.Subscript, ast.Attribute)) and not isinstance(inner.ctx, ast.Load):
                    yield from (each.id for each in ast.walk(inner) if isinstance(each, ast.Name))
                elif isinstance(node, ast.Expr) and isinstance(inner, ast.Name):
                    yield inner.id  # a call may change the objects named in it

    def _filled_by_decorators(self, node: Any, names: set[str]) -> Iterator[str]:
        """Yield the names of objects in which decorators such as `app.get` register a function.

        Only names that the definition itself evaluates count, not those in the function's body.
        """
        called = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in node.decorator_list]
        values = [found.value for found in called if isinstance(found, ast.Attribute)]
        owners = [value.id for value in values if isinstance(value, ast.Name)]
        if owners:
            first, last = line_range(node)[0], node.body[0].lineno
            if not names.isdisjoint(WORD_PATTERN.findall("".join(self.source.lines[first - 1 : last - 1]))):
                yield from owners


def _lambda_at_columns(lambdas: list[Any], code: types.CodeType) -> Any:
    """Return the lambda at the columns of a code object, out of those on the same line, or None.

    Code objects have columns from Python 3.11 on.
    """
    positions: Any = getattr(code, "co_positions", tuple)()
    columns = [(start, end) for line, _, start, end in positions if line == code.co_firstlineno and start != end]
    if not columns or any(start is None for start, _ in columns):
        return None
    first, last = min(start for start, _ in columns), max(end for _, end in columns)
    found = [lambda_ for lambda_ in lambdas if lambda_.body.col_offset <= first and last <= lambda_.body.end_col_offset]
    # The code of an outer lambda includes the columns of the whole inner one.
    return max(found, key=lambda lambda_: lambda_.body.col_offset, default=None)


class Outline:
    """The names that a module's statements bind and mention, stored without the syntax tree to save memory.

    It tells whether a change of other names may affect the module. An import, or a function without decorators, default
    values and annotations, is quiet: it reads no other name when the module is imported.
    """

    __slots__ = ("_has_star", "_rows", "imports")

    def __init__(self, text: Text) -> None:
        self.imports = text.imported_names
        self._has_star = any(
            isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names) for node in text.body
        )
        self._rows = [
            (words, *_outline_statement(node, text.name)) for words, node in zip(text.statement_words, text.body)
        ]

    def may_be_affected(self, names: set[str]) -> bool:
        """Return whether a statement that is not quiet may have read one of the names, directly or through other names.

        Names bound by quiet statements that mention one are added to `names`.
        """
        if self._has_star:
            return True
        waiting, is_growing = list(self._rows), True
        while is_growing:
            is_growing = False
            left = []
            for row in waiting:
                words, is_quiet, bound = row
                if names.isdisjoint(words):
                    left.append(row)
                    continue
                if not is_quiet:
                    return True
                more = {
                    bound_name for source, bound_name in bound if source is ANY_WORD or not names.isdisjoint(source)
                } - names
                names |= more
                is_growing = is_growing or bool(more)
            waiting = left
        return False


def _outline_statement(node: Any, module: str) -> tuple[bool, list[tuple[frozenset[str], str]]]:
    """Return whether a statement is quiet, and each name that it binds with the words on which the name may depend."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return True, list(_names_imported_by(node))
    if not isinstance(node, FUNCTION_NODES):
        return False, []
    evaluated = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults), node.returns]
    arguments = [*getattr(node.args, "posonlyargs", []), *node.args.args, *node.args.kwonlyargs]
    evaluated += [
        argument.annotation for argument in (*arguments, node.args.vararg, node.args.kwarg) if argument is not None
    ]
    names = [node.name, *([module.rpartition(".")[2]] if node.name == "__getattr__" else [])]
    return not any(evaluated), [(ANY_WORD, name) for name in names]


def _names_imported_by(node: Any) -> Iterator[tuple[frozenset[str], str]]:
    """Yield each name that an import binds, with the words in the module's name and the imported name."""
    source = (getattr(node, "module", None) or "").split(".")
    for alias in node.names:
        yield frozenset((*source, *alias.name.split("."))), alias.asname or alias.name.partition(".")[0]
