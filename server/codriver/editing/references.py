"""Find the uses of a name in the files of a workspace, to list them.

Lisp is read by its scopes, Python by its parser. Each search is limited.
"""

from __future__ import annotations

import ast
import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codriver.files import MEBIBYTE, FileRules, Links, read
from codriver.files.tree_walk import files_of
from codriver_lisp.binding_forms import find_occurrences
from codriver_lisp.errors import EditFailedError
from codriver_lisp.source_text import Document
from codriver_lisp.symbol_rename import DefinitionRenaming
from codriver_lisp.symbol_rename import find_references as lisp_references

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from codriver_lisp.reader import Form

MAX_LISTED_USES: Final = 50
MAX_ENTRIES: Final = 100_000
MAX_BYTES: Final = 16 * MEBIBYTE
"""Maximum bytes of all files together."""
MAX_S: Final = 5.0
"""Maximum seconds for one search."""
RULES: Final = FileRules(Links.WITHIN, 256 * 1024)
"""Limits for a file. Parsing a longer one at once would block all other calls."""
LINE_CHARACTERS: Final = 2000
PLACEHOLDER_NAME: Final = "codriver--no-name"
"""Placeholder for the new name that the scope analysis requires, if nothing is renamed."""
_VAR_KINDS = frozenset({"reference", "global", "type", "protocol", "referred", "hint"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """A name to search for. `space` is the namespace or module that defines it, or None for any.

    With `is_space`, the name is itself a namespace or module.
    """

    name: str
    space: str | None = None
    is_space: bool = False


@dataclass(frozen=True, slots=True)
class NameUse:
    """A use of the name: the file relative to the workspace, and the line with its text."""

    file: str
    line: int
    text: str


@dataclass(slots=True)
class FoundReferences:
    """The first uses in the order of the search, the number of further ones, and the number of unread files."""

    uses: list[NameUse] = field(default_factory=list)
    omitted: int = 0
    skipped: int = 0


def find_references(workspace: Path, target: SearchTarget, suffixes: tuple[str, ...]) -> FoundReferences:
    """Return the uses of a name in files with these suffixes. Blocks, so call it in a thread.

    Files are skipped and counted if they are too long, cannot be read or parsed, or if a limit has been reached.
    """
    found = FoundReferences()
    deadline, left = time.monotonic() + MAX_S, MAX_BYTES
    plain = target.name.rpartition("/")[2].rpartition(".")[2].encode()
    for path in files_of(workspace, suffixes, max_entries=MAX_ENTRIES):
        if time.monotonic() >= deadline or left <= 0:
            found.skipped += 1
            continue
        try:
            data = read(path, RULES, root=workspace)
            left -= len(data)
            # Hy names may be written with hyphens or underscores.
            if plain not in data and plain.replace(b"_", b"-") not in data:
                continue
            text = data.decode("utf-8-sig")
            parts = path.relative_to(workspace).with_suffix("").parts
            lines = (
                _python_use_lines(text, target, parts)
                if path.suffix == ".py"
                else _lisp_use_lines(text, target, path.suffix)
            )
        except (OSError, ValueError, SyntaxError, EditFailedError, RecursionError, MemoryError):
            found.skipped += 1
            continue
        rows = text.splitlines()
        for line in sorted(lines):
            if len(found.uses) < MAX_LISTED_USES:
                line_text = rows[line - 1].strip()[:LINE_CHARACTERS] if line <= len(rows) else ""
                found.uses.append(NameUse(path.relative_to(workspace).as_posix(), line, line_text))
            else:
                found.omitted += 1
    return found


def _lisp_use_lines(text: str, target: SearchTarget, suffix: str) -> set[int]:
    document = Document(text, is_hy=suffix == ".hy")
    if document.reading.imbalance is not None:
        raise ValueError(document.bracket_error)
    if target.is_space or target.name.startswith(":"):
        atoms = (form for form in _all(document.reading.forms) if form.kind == "atom")
        return {document.positions.line(form.start) for form in atoms if text[form.start : form.end] == target.name}
    if target.space is not None and not document.is_hy:
        found = lisp_references(document, DefinitionRenaming(target.space, target.name, PLACEHOLDER_NAME), checks=False)
        return {document.positions.line(start) for start, *_ in found.positions}
    names = dict.fromkeys([target.name, target.name.replace("_", "-")] if document.is_hy else [target.name])
    return {
        document.positions.line(occurrence.start)
        for name in names
        for occurrence in find_occurrences(document, document.reading.forms, (name, PLACEHOLDER_NAME), {name})
        if occurrence.role in _VAR_KINDS and (occurrence.role != "reference" or occurrence.scope.old is None)
    }


def _all(forms: Sequence[Form]) -> Iterator[Form]:
    pending = list(reversed(forms))
    while pending:
        form = pending.pop()
        yield form
        pending.extend(reversed(form.children))


def _python_use_lines(text: str, target: SearchTarget, parts: tuple[str, ...]) -> set[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about the user's code are not of interest
        tree = ast.parse(text)
    uses = _PythonUses(target, parts[:-1] if parts[-1] == "__init__" else parts, is_package=parts[-1] == "__init__")
    uses.read_imports(tree)
    if not target.is_space:
        uses.visit(tree, at_top=True)
    return uses.lines


class _PythonUses:
    """The uses of a name in one Python file, with the parts of its path relative to the workspace."""

    def __init__(self, target: SearchTarget, parts: tuple[str, ...], *, is_package: bool) -> None:
        self._target = target
        self._package = parts if is_package else parts[:-1]
        self.lines: set[int] = set()
        self._is_home = target.space is not None and self._is_space(".".join(parts), target.space)
        self._bare = {target.name} if target.space is None or self._is_home else set()
        self._owners: set[str] = set()

    @staticmethod
    def _is_space(dotted: str, space: str) -> bool:
        """Return whether a dotted name is that of the module, whose root may be a directory such as `src`."""
        return dotted == space or dotted.endswith(f".{space}")

    def read_imports(self, tree: ast.AST) -> None:
        """Record the names with which the file refers to the name and its module."""
        space = self._target.name if self._target.is_space else self._target.space
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name == space:
                        self._note_module(node.lineno, alias.asname or alias.name)
            elif isinstance(node, ast.ImportFrom):
                self._read_from(node, space)

    def _read_from(self, node: ast.ImportFrom, space: str | None) -> None:
        base = ".".join(self._package[: len(self._package) + 1 - node.level]) if node.level else ""
        source = ".".join(part for part in (base, node.module or "") if part)

        def means(dotted: str) -> bool:
            return dotted == space or (bool(node.level and space) and self._is_space(dotted, str(space)))

        for alias in node.names:
            bound = alias.asname or alias.name
            if means(f"{source}.{alias.name}"):
                self._note_module(node.lineno, bound)
            elif self._target.is_space and means(source):
                self.lines.add(node.lineno)
            elif alias.name == self._target.name and (space is None or means(source)):
                self.lines.add(getattr(alias, "lineno", node.lineno))
                self._bare.add(bound)
            elif alias.name == "*" and means(source):
                self._bare.add(self._target.name)

    def _note_module(self, line: int, bound: str) -> None:
        self._owners.add(bound)
        if self._target.is_space:
            self.lines.add(line)

    def visit(self, node: ast.AST, *, at_top: bool, hidden: frozenset[str] = frozenset()) -> None:
        """Record the uses in a part of the file. `hidden` are names that are local to the enclosing function."""
        name = self._target.name
        match node:
            case ast.Name():
                if node.id in self._bare and node.id not in hidden:
                    self.lines.add(node.lineno)
            case ast.Attribute():
                is_owned = node.attr == name and (not self._target.space or _dotted(node.value) in self._owners)
                if is_owned:
                    self.lines.add(node.end_lineno or node.lineno)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if node.name == name and (not self._target.space or (self._is_home and at_top)):
                    self.lines.add(node.lineno)
        for child in ast.iter_child_nodes(node):
            inner = hidden | (self._local_names(node) if isinstance(node, _FUNCTIONS) else frozenset())
            self.visit(child, at_top=at_top and not isinstance(node, (*_FUNCTIONS, ast.ClassDef)), hidden=inner)

    @staticmethod
    def _local_names(function: ast.AST) -> frozenset[str]:
        """Return the local names of a function: parameters, and assigned names that are not declared global."""
        bound: set[str] = set()
        free: set[str] = set()
        nodes = list(ast.iter_child_nodes(function))
        while nodes:
            node = nodes.pop()
            match node:
                case ast.arg():
                    bound.add(node.arg)
                case ast.Name(ctx=ast.Store()):
                    bound.add(node.id)
                case ast.Global() | ast.Nonlocal():
                    free.update(node.names)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    bound.add(node.name)
                    continue
            nodes += ast.iter_child_nodes(node)
        return frozenset(bound - free)


def _dotted(node: ast.expr) -> str:
    """Return a chain of names as written, or an empty string for anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""
