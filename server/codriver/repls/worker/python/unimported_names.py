"""Describe names in modules that were not imported, by parsing their source files."""

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

MAX_PARSED_BYTES = 2**20
"""Maximum size of a source file to parse, because parsing a larger one would block the REPL for seconds."""
MAX_REEXPORTS = 6
"""Maximum number of re-exports to follow from a package to the module that defines a name."""
NOT_IMPORTED_NOTE = "the module is not imported: this is from its file"


def describe_unimported(dotted: str) -> dict[str, Any] | None:
    """Return a description of a name in a module that was not imported, or None if no source file defines the name."""
    found = _locate(dotted, MAX_REEXPORTS)
    return None if found is None else _describe(found)


def unimported_source(dotted: str) -> tuple[str, str, int] | None:
    """Return the source, file and first line of a definition in a module that was not imported, or None."""
    found = _locate(dotted, MAX_REEXPORTS)
    if found is None or found.node is None:
        return None
    first = min([found.node.lineno, *(decorator.lineno for decorator in found.node.decorator_list)])
    last = found.node.end_lineno or first
    return "".join(found.lines[first - 1 : last]).rstrip("\n"), found.file, first


def unimported_members(dotted: str) -> list[dict[str, str]] | None:
    """Return the functions and classes in a module or class, in source order.

    Private ones are included. Returns None if the module was imported or has no source.
    """
    found = _locate(dotted, MAX_REEXPORTS)
    if found is None or not isinstance(found.node, (ast.ClassDef, type(None))):
        return None
    rows = []
    body: Sequence[ast.stmt] = (found.node or found.tree).body
    for node in body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        rows.append(definition_row(node))
    return rows


def definition_row(node: Definition) -> dict[str, str]:
    """Return a definition as a row with its type, parameters, line and summary."""
    row = {"name": node.name, "type": _kind(node), "args": _parameters(node), "line": str(node.lineno)}
    doc = (ast.get_docstring(node) or "").partition("\n")[0]
    return {key: text for key, text in {**row, "doc": doc}.items() if text}


class _Located:
    """A definition in the source file of a module. If `node` is None, it is the module itself."""

    def __init__(self, module: str, file: str, lines: Sequence[str], tree: ast.Module, node: Definition | None) -> None:
        self.module, self.file, self.lines, self.tree, self.node = module, file, lines, tree, node


def _locate(dotted: str, hops: int) -> _Located | None:
    """Find the definition of a dotted name in a module that was not imported.

    `hops` limits how many re-exports are followed.
    """
    parts = dotted.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    spec, rest = _longest_module(parts)
    # For imported modules, the module object is used instead.
    return None if spec is None or spec.name in sys.modules else _find_in_module(spec, rest, hops)


def _longest_module(parts: Sequence[str]) -> tuple[importlib.machinery.ModuleSpec | None, list[str]]:
    """Return the spec of the module with the longest matching name, and the remaining names."""
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


def _find_in_module(spec: importlib.machinery.ModuleSpec, names: Sequence[str], hops: int) -> _Located | None:
    """Find the definition of a name, or of nested names in a class, in the file of a module."""
    lines = read_lines(spec.origin)
    tree = parse_lines(lines)
    if tree is None or spec.origin is None:
        return None
    body: Sequence[ast.stmt] = tree.body
    node = None
    for at, name in enumerate(names):
        node = _definition(body, name)
        if node is None:
            return _find_in_other_modules(spec, body, names, hops) if at == 0 else None
        body = node.body
    return _Located(spec.name, spec.origin, lines, tree, node)


def _describe(found: _Located) -> dict[str, Any]:
    """Return a description of a definition, with a note that its module was not imported."""
    about: dict[str, Any] = {"file": found.file, "ns": found.module, "imported": "no", "note": NOT_IMPORTED_NOTE}
    node = found.node
    if node is None:
        about.update(name=found.module, type="module", line=1)
        doc = ast.get_docstring(found.tree)
    else:
        about.update(name=node.name, type=_kind(node), line=node.lineno, column=node.col_offset + 1)
        doc = ast.get_docstring(node)
        parameters = _parameters(node)
        if parameters:
            about["arglists-str"] = parameters
    return {**about, "doc": doc} if doc else about


def _kind(node: Definition) -> str:
    return "class" if isinstance(node, ast.ClassDef) else "function"


def _find_in_other_modules(
    spec: importlib.machinery.ModuleSpec, body: Sequence[ast.stmt], names: Sequence[str], hops: int
) -> _Located | None:
    """Find the definition of a name that a module imports or assigns at the top level, as in `fromstring = XML`."""
    package = spec.name if spec.submodule_search_locations else spec.name.rpartition(".")[0]
    for node in reversed(body):
        if not hops:
            return None
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == names[0] for target in node.targets
        ):
            origin = _dotted(node.value)
            return _find_in_module(spec, [*origin, *names[1:]], hops - 1) if origin else None
        if isinstance(node, ast.Import):
            for alias in node.names:
                if names[0] == (alias.asname or alias.name.partition(".")[0]):
                    module = alias.name if alias.asname else names[0]
                    return _find_in_another_module(spec, [*module.split("."), *names[1:]], hops)
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            if (alias.asname or alias.name) != names[0]:
                continue
            above = package.split(".")[: len(package.split(".")) - max(0, node.level - 1)] if node.level else []
            home = [*above, *(node.module.split(".") if node.module else [])]
            if (found := _find_in_another_module(spec, [*home, alias.name, *names[1:]], hops)) is not None:
                return found
    return None


def _find_in_another_module(spec: importlib.machinery.ModuleSpec, parts: Sequence[str], hops: int) -> _Located | None:
    """Find the definition of a dotted name in a module other than that of `spec`."""
    found, rest = _longest_module(parts)
    return None if found is None or found.name == spec.name else _find_in_module(found, rest, hops - 1)


def _dotted(node: ast.expr) -> list[str]:
    """Return the parts of an expression that is a dotted name. Return [] for other expressions."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return [*before, node.attr]
    return []


def read_lines(file: str | None) -> list[str]:
    """Return the lines of a source file, or [] if it cannot be read or is too large."""
    if file is None or not file.endswith(".py"):
        return []
    try:
        if os.path.getsize(file) > MAX_PARSED_BYTES:
            return []
        with tokenize.open(file) as source:
            return source.readlines()
    except (OSError, SyntaxError, ValueError):
        return []


def parse_lines(lines: Sequence[str]) -> ast.Module | None:
    """Parse source lines to a syntax tree. Return None if there are none or they cannot be parsed."""
    try:
        return ast.parse("".join(lines)) if lines else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def _definition(body: Sequence[ast.stmt], name: str) -> Definition | None:
    """Return the last function or class with this name, including definitions in conditional statements."""
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
    """Format the parameters of a function, or of a class's `__init__`, in parentheses.

    The text is empty before Python 3.9.
    """
    if isinstance(node, ast.ClassDef):
        made = _definition(node.body, "__init__")
        if made is None or isinstance(made, ast.ClassDef):
            return ""
        node = made
    if sys.version_info < (3, 9):
        return ""
    return "(" + ast.unparse(node.args) + ")"
