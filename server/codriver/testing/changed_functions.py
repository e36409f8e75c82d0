"""Find the functions and classes in a Python file that an edit changes, by their lines.

The result determines the order in which tests run. It is computed from indentation, because the project may be written
for a newer Python than the server's: a line belongs to the definitions above it that are less indented. Tests are left
out of a run only if the server's Python can parse both versions of the file.
"""

from __future__ import annotations

import ast
import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from codriver.python_syntax import parse_source

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_COMPARED_LINES: Final = 3000
"""Maximum number of lines between the first and the last change that are compared in detail."""
MAX_PARSED_CHARACTERS: Final = 512 * 1024
"""Maximum length of a string that is parsed, because parsing blocks all other threads."""
_DEFINITION_START: Final = re.compile(r"(\s*)(?:async\s+def|def|(class))\s+(\w+)")
"""Matches the start of a function or class. Its groups are the indentation, `class` for a class, and the name."""


def changed_functions(before: str, after: str) -> frozenset[str]:
    """Return the qualified names of the definitions in which lines differ between two versions of a file.

    If definitions are nested, only the innermost is returned. Changes outside of definitions are ignored.
    """
    old, new = before.splitlines(), after.splitlines()
    found: set[str] = set()
    for lines, changed in zip((old, new), _changed_line_indexes(old, new), strict=True):
        names = _innermost_definitions(lines)
        found.update(names[number] for number in changed if lines[number].strip())
    return frozenset(found - {""})


def functions_with_changed_bodies(before: str, after: str) -> frozenset[str] | None:
    """Return the qualified names of changed functions, if only function bodies differ between two versions of a file.

    Return None if other lines differ, such as a signature or a class attribute, because they have an effect at import.
    Also return None if a version is too long or cannot be parsed by the server's Python.
    """
    found: set[str] = set()
    if max(len(before), len(after)) > MAX_PARSED_CHARACTERS:
        return None
    for text, changed in zip(
        (before, after), _changed_line_indexes(before.splitlines(), after.splitlines()), strict=True
    ):
        try:
            bodies = _function_bodies(parse_source(text))
        except (SyntaxError, ValueError, RecursionError):
            return None
        lines = text.splitlines()
        for number in changed:
            if not lines[number].strip():
                continue
            name = next((name for first, last, name in bodies if first <= number + 1 <= last), None)
            if name is None:
                return None
            found.add(name)
    return frozenset(found)


def _function_bodies(tree: ast.Module) -> list[tuple[int, int, str]]:
    """Return the first line, last line and qualified name of each function's body, inner functions first."""
    found: list[tuple[int, int, str]] = []
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, prefix = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                # A body on the line of the signature counts as part of the signature.
                last = child.end_lineno or child.lineno
                found.append((_last_line_of_signature(child) + 1, last, prefix + child.name))
                waiting.append((child, f"{prefix}{child.name}.<locals>."))
            elif isinstance(child, ast.ClassDef):
                waiting.append((child, f"{prefix}{child.name}."))
            else:
                waiting.append((child, prefix))
    return sorted(found, key=lambda span: span[1] - span[0])


def _last_line_of_signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    parts = [*ast.walk(function.args), *([function.returns] if function.returns is not None else [])]
    return max([function.lineno, *[getattr(part, "end_lineno", None) or 0 for part in parts]])


def _changed_line_indexes(old: Sequence[str], new: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the indexes of the lines that were removed from the old text, and of those added in the new text."""
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    most = shorter - start
    end = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    middles = old[start : len(old) - end], new[start : len(new) - end]
    if max(map(len, middles)) > MAX_COMPARED_LINES:
        return [*range(start, len(old) - end)], [*range(start, len(new) - end)]
    gone: list[int] = []
    added: list[int] = []
    for tag, *at in SequenceMatcher(None, *middles, autojunk=False).get_opcodes():
        if tag != "equal":
            gone += range(start + at[0], start + at[1])
            added += range(start + at[2], start + at[3])
    return gone, added


def _innermost_definitions(lines: Sequence[str]) -> list[str]:
    """Return the qualified name of the innermost definition for each line. A decorator belongs to its definition."""
    owners: list[str] = []
    chain: list[tuple[int, str, bool]] = []
    decorators: list[int] = []
    for number, line in enumerate(lines):
        text = line.lstrip()
        depth = len(line) - len(text)
        if text and not text.startswith(("#", ")", "]", "}")):
            while chain and depth <= chain[-1][0]:
                chain.pop()
        definition = _DEFINITION_START.match(line)
        if definition is not None:
            chain.append((depth, definition[3], definition[2] is not None))
        owners.append(_qualified_name(chain))
        if text.startswith("@"):
            decorators.append(number)
        elif definition is not None:
            for decorator in decorators:
                owners[decorator] = owners[-1]
            decorators.clear()
    return owners


def _qualified_name(chain: Sequence[tuple[int, str, bool]]) -> str:
    """Return the qualified name of the innermost definition in a chain of nested definitions."""
    names = [name + ("." if is_class else ".<locals>.") for _, name, is_class in chain[:-1]]
    return "".join([*names, *[name for _, name, _ in chain[-1:]]])
