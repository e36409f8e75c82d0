"""Names of modules that nobody has imported yet, read from their source files: nothing is imported, so nothing runs."""

from __future__ import annotations

import ast
import importlib.machinery
import os
import sys
import tokenize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

MOST_BYTES = 2**20
"""Maximum size of a source file that is parsed: a larger one would hold the REPL up for seconds."""
MOST_HOPS = 6
"""Maximum number of re-exports that are followed from a package to the module that defines a name."""
NOT_IMPORTED = "not imported here: this is from its file"


def unimported(dotted: str) -> dict[str, Any] | None:
    """Return the description of a dotted name in a module that is not imported; None if no source file defines it."""
    parts = dotted.split(".")
    if not all(part.isidentifier() for part in parts) or parts[0] in sys.modules:
        return None
    spec, rest = _longest_module(parts)
    if spec is None:
        return None
    return _described(spec, rest, MOST_HOPS)


def _longest_module(parts: Sequence[str]) -> tuple[importlib.machinery.ModuleSpec | None, list[str]]:
    """Return the spec of the module that the longest part of a name leads to, and the names after it."""
    found, path = None, None
    for at, _ in enumerate(parts):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[: at + 1]), path)
        if spec is None:
            return found, list(parts[at:])
        found, path = spec, spec.submodule_search_locations
        if path is None:
            return found, list(parts[at + 1 :])
        path = list(path)
    return found, []


def _described(spec: importlib.machinery.ModuleSpec, names: Sequence[str], hops: int) -> dict[str, Any] | None:
    tree = _parsed(spec.origin)
    if tree is None:
        return None
    about: dict[str, Any] = {"file": spec.origin, "note": NOT_IMPORTED}
    if not names:
        doc = ast.get_docstring(tree)
        return {
            **about,
            "name": spec.name,
            "ns": spec.name,
            "type": "module",
            "line": 1,
            **({"doc": doc} if doc else {}),
        }
    body: Sequence[ast.stmt] = tree.body
    node = None
    for at, name in enumerate(names):
        node = _definition(body, name)
        if node is None:
            return _elsewhere(spec, body, names, hops) if at == 0 else None
        body = node.body
    if node is None:
        return None
    about.update(name=names[-1], ns=spec.name, line=node.lineno, column=node.col_offset + 1)
    about["type"] = "class" if isinstance(node, ast.ClassDef) else "function"
    parameters = _parameters(node)
    if parameters:
        about["arglists-str"] = parameters
    doc = ast.get_docstring(node)
    return {**about, "doc": doc} if doc else about


def _elsewhere(
    spec: importlib.machinery.ModuleSpec, body: Sequence[ast.stmt], names: Sequence[str], hops: int
) -> dict[str, Any] | None:
    """Return the description of a name that a module takes from another one by an import at its top."""
    package = spec.name if spec.submodule_search_locations else spec.name.rpartition(".")[0]
    for node in reversed(body):
        if not isinstance(node, ast.ImportFrom) or not hops:
            continue
        for alias in node.names:
            if (alias.asname or alias.name) != names[0]:
                continue
            above = package.split(".")[: len(package.split(".")) - max(0, node.level - 1)] if node.level else []
            home = [*above, *(node.module.split(".") if node.module else [])]
            found, rest = _longest_module([*home, alias.name])
            if found is not None and found.name != spec.name:
                return _described(found, [*rest, *names[1:]], hops - 1)
    return None


def _parsed(file: str | None) -> ast.Module | None:
    if file is None or not file.endswith(".py"):
        return None
    try:
        if os.path.getsize(file) > MOST_BYTES:
            return None
        with tokenize.open(file) as source:
            return ast.parse(source.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _definition(body: Sequence[ast.stmt], name: str) -> Definition | None:
    """Return the last function or class of this name, also under a condition at the top."""
    found = None
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name == name:
                found = node
            continue
        for part in ("body", "orelse", "finalbody"):
            found = _definition(getattr(node, part, []), name) or found
        for handler in getattr(node, "handlers", []):
            found = _definition(handler.body, name) or found
    return found


def _parameters(node: Definition) -> str:
    """Return the parameters in parentheses, of a class those of its `__init__`; empty before Python 3.9."""
    if isinstance(node, ast.ClassDef):
        made = _definition(node.body, "__init__")
        if made is None or isinstance(made, ast.ClassDef):
            return ""
        node = made
    if sys.version_info < (3, 9):
        return ""
    return "(" + ast.unparse(node.args) + ")"
