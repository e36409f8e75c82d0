"""The text of a Python file: its lines, its definitions by their dotted names, its indentation."""

from __future__ import annotations

import ast
import difflib
import re
import sys
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from codriver.lisp.targeting import Problem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_MARGIN: Final = re.compile(r"[ \t\f]*")
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MAX_NAMED: Final = 8
"""Definitions or lines that a refusal names."""

Definer = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def margin_of(line: str) -> str:
    """The white space that a line begins with."""
    found = _MARGIN.match(line)
    return found[0] if found else ""


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends, as Python counts them: no other character ends one."""
    return _LINE.findall(text)


def parsed(text: str, *, compiles: bool = True) -> ast.Module:
    """The syntax tree of a text that, unless it is a piece of one, compiles as a module.

    Raises:
        SyntaxError: it does not, also for what a parser of another kind says otherwise.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about the user's code, and no reason to refuse it
            tree = ast.parse(text)
            if compiles:
                compile(tree, "<edited>", "exec", dont_inherit=True)
    except (ValueError, RecursionError, MemoryError) as error:
        words = "it holds a null character" if isinstance(error, ValueError) else "it is nested too deep to be read"
        raise SyntaxError(words) from error
    return tree


def words_of(error: SyntaxError) -> str:
    """Why a text does not parse, with the line, and the Python that says so, as another may know more."""
    at = "" if error.lineno is None else f" at line {error.lineno}"
    shown = f": {error.text.strip()[:200]}" if error.text and error.text.strip() else ""
    return f"does not parse{at} (Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}){shown}"


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, method or class: its first line, that of its first decorator, and its last, counted from 1."""

    name: str
    node: Definer
    first: int
    last: int
    margin: str

    @property
    def gap(self) -> int:
        """The empty lines between it and another one beside it."""
        return 1 if self.margin else 2


class PythonSource:
    """A Python text that parses and, unless that does not matter, compiles; else it raises `SyntaxError`."""

    def __init__(self, text: str, *, compiles: bool = True) -> None:
        self.text = text
        self.lines = lines_of(text)
        self.tree = parsed(text, compiles=compiles)

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """All definitions, also those that a branch makes and those within others, in their order."""
        return tuple(self._within(self.tree, ""))

    @property
    def ending(self) -> str:
        """The line ending of the text: that of its first line."""
        first = self.lines[0] if self.lines else ""
        return first[len(first.rstrip("\r\n")) :] or "\n"

    @cached_property
    def step(self) -> str:
        """One level of indentation, by the first body that is deeper than what it is in; empty where there is none."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body:
                outer = margin_of(self.lines[node.lineno - 1])
                inner = margin_of(self.lines[body[0].lineno - 1])
                if inner.startswith(outer) and inner != outer:
                    return inner[len(outer) :]
        return ""

    def find(self, name: str, line: int | None) -> Definition:
        """The definition of that name; with `line` the one of several that has this line.

        Raises:
            ProblemError: there is none, or there are several.
        """
        found = [one for one in self.definitions if one.name == name]
        if not found:
            raise ProblemError(Problem(self._none(name)))
        meant = [one for one in found if line is None or one.first <= line <= one.last]
        if len(meant) == 1:
            return meant[0]
        places = ", ".join(str(one.node.lineno) for one in found[:MAX_NAMED])
        if line is not None and not meant:
            raise ProblemError(Problem(f"{name} is not defined at line {line}; it is at {places}"))
        raise ProblemError(Problem(f"{name} is defined more than once, at lines {places}: say which by line"))

    def _none(self, name: str) -> str:
        """The words that there is no such definition; of a name that is bound otherwise, the way to edit it."""
        if any(name in _names_bound(node) for node in ast.walk(self.tree)):
            return f"{name} is no function or class: assignments and imports are for your own editor, as text"
        return f"there is no function or class {name}{self._near(name)}"

    def _near(self, name: str) -> str:
        names = list(dict.fromkeys(one.name for one in self.definitions))
        last = name.rpartition(".")[2]
        near = [one for one in names if one.rpartition(".")[2] == last] or difflib.get_close_matches(name, names)
        shown = near or names
        return f"; there is {', '.join(shown[:MAX_NAMED])}" if shown else "; the file defines none"

    def _within(self, owner: ast.AST, prefix: str) -> Iterator[Definition]:
        for node in ast.iter_child_nodes(owner):
            if isinstance(node, _DEFINES):
                name = prefix + node.name
                first, last = self.span(node)
                yield Definition(name, node, first, last, margin_of(self.lines[first - 1]))
                yield from self._within(node, f"{name}.")
            elif not isinstance(node, ast.expr):
                yield from self._within(node, prefix)

    def span(self, node: ast.stmt) -> tuple[int, int]:
        """The first line of a statement with its decorators, and its last one."""
        first = node.lineno
        for decorator in getattr(node, "decorator_list", ()):
            first = min(first, decorator.lineno)
            while first > 1 and not self.lines[first - 1].lstrip().startswith("@"):
                first -= 1  # the sign stands before a bracket that the decorator is in
        return first, node.end_lineno or node.lineno


def _names_bound(node: ast.AST) -> tuple[str, ...]:
    """The name that a node of an assignment or import binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return (node.id,)
    return (node.asname or node.name.partition(".")[0],) if isinstance(node, ast.alias) else ()
