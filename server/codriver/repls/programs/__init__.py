"""Programs that Codriver runs in REPLs, as files in the REPLs' languages. Each file is read on first use.

A Lisp file contains one form after a comment. In the form, `$name` is replaced by a literal with an argument, and a
placeholder in capitals by code that depends on the dialect. A Python file is an ordinary module. Several can be joined
to one program, each after the modules that it imports from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Union

_DIRECTORY: Final = Path(__file__).parent
_COMMENT: Final = re.compile(r"^[ \t]*;.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Program:
    """A Lisp program in a file. Placeholders in it are replaced by other code."""

    path: str
    placeholders: tuple[tuple[str, Code], ...] = ()
    """Pairs of a placeholder and the code, or the program, that replaces it."""

    def __str__(self) -> str:
        """Return the code without comments."""
        return _filled(self)


@dataclass(frozen=True, slots=True)
class GeneratedCode:
    """Code that a function generates on first use."""

    write: Callable[[], str]

    def __str__(self) -> str:
        """Return the generated code."""
        return _written(self)


@cache
def _written(code: GeneratedCode) -> str:
    return code.write()


Code = Union[str, Program, GeneratedCode]
"""Code, or an object whose `str` is code."""


def program(path: str, **placeholders: Code) -> Program:
    """Return the program in a file. Keyword arguments are the code for its placeholders."""
    return Program(path, tuple(placeholders.items()))


@cache
def _filled(program: Program) -> str:
    code = _COMMENT.sub("", _read(program.path)).strip()
    for placeholder, filling in program.placeholders:
        code = code.replace(placeholder, str(filling))
    return code


def _read(path: str) -> str:
    return (_DIRECTORY / path).read_text("utf-8")


class Programs(Mapping[str, str]):
    """A mapping from capabilities to the programs that provide them. A program is read when it is accessed."""

    def __init__(self, codes: Mapping[str, Code]) -> None:
        self._codes = dict(codes)

    def __getitem__(self, capability: str) -> str:
        """Return the code for a capability."""
        return str(self._codes[capability])

    def __contains__(self, capability: object) -> bool:
        """Return whether there is a program for a capability, without reading it."""
        return capability in self._codes

    def __iter__(self) -> Iterator[str]:
        """Yield the capabilities."""
        return iter(self._codes)

    def __len__(self) -> int:
        """Return the number of capabilities."""
        return len(self._codes)

    def without(self, capability: str) -> Programs:
        """Return a copy without the program for this capability."""
        return Programs({name: code for name, code in self._codes.items() if name != capability})


@cache
def join_python_modules(*paths: str) -> str:
    """Join Python modules to one program, in order, omitting the imports between them.

    The modules share one namespace, so no two of them may define the same name.
    """
    return "\n".join(["from __future__ import annotations\n", *[_body(_read(path)) for path in paths]])


def _body(text: str) -> str:
    """Return the source of a module without docstrings and without imports from its own package."""
    lines = text.splitlines(keepends=True)
    tree = ast.parse(text)
    left_out: list[ast.stmt] = [node for node in tree.body if _is_of_package(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            left_out += node.body[:1]
    for statement in left_out:
        end = statement.end_lineno or statement.lineno
        lines[statement.lineno - 1 : end] = [""] * (end - statement.lineno + 1)
    return "".join(lines).strip("\n") + "\n"


def _is_of_package(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.level > 0 or node.module == "__future__")
