"""Programs for REPLs: files in the REPLs' own languages, each read at its first use.

A file of a Lisp is one form behind a comment. In the form, `$name` is a literal that the question fills in, and a word
in capitals a hole that the dialect fills in with code. A file of Python is an ordinary module; several are sent as one
text, each after the modules that it imports from.
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
    """A form of a Lisp: the file below this folder, and the code for its holes."""

    path: str
    holes: tuple[tuple[str, Code], ...] = ()
    """Code, or a program with the code, by the hole's word."""

    def __str__(self) -> str:
        """The code, without comments."""
        return _filled(self)


@dataclass(frozen=True, slots=True)
class Written:
    """Code that is composed at its first use."""

    write: Callable[[], str]

    def __str__(self) -> str:
        """The code."""
        return _written(self)


@cache
def _written(code: Written) -> str:
    return code.write()


Code = Union[str, Program, Written]


def program(path: str, **holes: Code) -> Program:
    """The program of a file, with code in its holes."""
    return Program(path, tuple(holes.items()))


@cache
def _filled(program: Program) -> str:
    code = _COMMENT.sub("", _read(program.path)).strip()
    for hole, filling in program.holes:
        code = code.replace(hole, str(filling))
    return code


def _read(path: str) -> str:
    return (_DIRECTORY / path).read_text("utf-8")


class Programs(Mapping[str, str]):
    """Code by the capability that it gives; a file is read when its code is asked for."""

    def __init__(self, codes: Mapping[str, Code]) -> None:
        self._codes = dict(codes)

    def __getitem__(self, capability: str) -> str:
        """The code of a capability."""
        return str(self._codes[capability])

    def __contains__(self, capability: object) -> bool:
        """True if there is code for a capability; the code is not read for that."""
        return capability in self._codes

    def __iter__(self) -> Iterator[str]:
        """The capabilities."""
        return iter(self._codes)

    def __len__(self) -> int:
        """The number of capabilities."""
        return len(self._codes)

    def without(self, capability: str) -> Programs:
        """All of these programs without one."""
        return Programs({name: code for name, code in self._codes.items() if name != capability})


@cache
def python_text(*paths: str) -> str:
    """The text of Python modules as one program, in order, without imports from one another.

    Their names are those of one namespace, so no two of them may define the same.
    """
    return "\n".join(["from __future__ import annotations\n", *[_body(_read(path)) for path in paths]])


def _body(text: str) -> str:
    """A module without its docstrings, and without imports from the modules before it."""
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
