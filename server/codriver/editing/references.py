"""References: the uses of a name in the files of a workspace, to be listed, or renamed with the definition.

Lisp is read by its scopes, Python by its parser, and each search stays within bounds.
"""

from __future__ import annotations

import ast
import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codriver.editing.editable_paths import SUFFIXES, show
from codriver.editing.file_changes import MAX_FILE_BYTES
from codriver.files import MEBIBYTE, Links, Rules, read
from codriver.files.working_trees import files_of
from codriver_lisp.binding_forms import find_occurrences, namespace_of
from codriver_lisp.errors import EditError, EditFailedError
from codriver_lisp.source_text import Document
from codriver_lisp.symbol_rename import Renamed, find_names
from codriver_lisp.symbol_rename import find_references as lisp_references

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from codriver_lisp.edit import Rename
    from codriver_lisp.reader import Form

MAX_LISTED: Final = 50
MAX_ENTRIES: Final = 100_000
MAX_BYTES: Final = 16 * MEBIBYTE
"""Of all files together."""
MAX_S: Final = 5.0
RULES: Final = Rules(Links.WITHIN, 256 * 1024)
"""Parsing a longer file at once would hold up all other calls."""
LINE_CHARACTERS: Final = 2000
NO_NAME: Final = "codriver--no-name"
"""The placeholder for the second name that the walk through scopes takes."""
_HELD = frozenset({"reference", "global", "type", "protocol", "referred", "hint"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOKED_AT: Final = tuple(suffix for suffix in SUFFIXES if suffix not in (".edn", ".hy", ".hl"))
"""Endings of files whose code names other files' definitions. Data files name none, and Hy names modules by path."""
RENAME_FILES: Final = 20_000
RENAME_BYTES: Final = 256 * MEBIBYTE
RENAME_S: Final = 10.0
"""Files, bytes and time for one renaming: a workspace with more is no project of one reader."""
RENAME_PLACES: Final = 20
"""Places in other files that an answer names."""
RENAME_RULES = Rules(Links.NEVER, MAX_FILE_BYTES)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A name that is looked for. `space`: the namespace or module that defines it; None: any.

    `is_space`: the name is a namespace or module itself.
    """

    name: str
    space: str | None = None
    is_space: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A place where the name is used: the file below the workspace, and the line with its text."""

    file: str
    line: int
    text: str


@dataclass(slots=True)
class References:
    """The first places, in the order of the walk; how many more there are; how many files were not read."""

    places: list[Place] = field(default_factory=list)
    omitted: int = 0
    skipped: int = 0


def find_references(workspace: Path, wanted: Wanted, suffixes: tuple[str, ...]) -> References:
    """The places where `wanted` is used, in files with these suffixes. Blocks: call it in a thread.

    Skipped, and counted, are files that are too long, cannot be read or parsed, or come after the bound of time or
    bytes is reached.
    """
    found = References()
    deadline, left = time.monotonic() + MAX_S, MAX_BYTES
    plain = wanted.name.rpartition("/")[2].rpartition(".")[2].encode()
    for path in files_of(workspace, suffixes, max_entries=MAX_ENTRIES):
        if time.monotonic() >= deadline or left <= 0:
            found.skipped += 1
            continue
        try:
            data = read(path, RULES, root=workspace)
            left -= len(data)
            # A name of Hy may be written with hyphens or not.
            if plain not in data and plain.replace(b"_", b"-") not in data:
                continue
            text = data.decode("utf-8-sig")
            parts = path.relative_to(workspace).with_suffix("").parts
            lines = _in_python(text, wanted, parts) if path.suffix == ".py" else _in_lisp(text, wanted, path.suffix)
        except (OSError, ValueError, SyntaxError, EditFailedError, RecursionError, MemoryError):
            found.skipped += 1
            continue
        rows = text.splitlines()
        for line in sorted(lines):
            if len(found.places) < MAX_LISTED:
                shown = rows[line - 1].strip()[:LINE_CHARACTERS] if line <= len(rows) else ""
                found.places.append(Place(path.relative_to(workspace).as_posix(), line, shown))
            else:
                found.omitted += 1
    return found


def _in_lisp(text: str, wanted: Wanted, suffix: str) -> set[int]:
    document = Document(text, is_hy=suffix == ".hy")
    if document.reading.imbalance is not None:
        raise ValueError(document.bracket_error)
    if wanted.is_space or wanted.name.startswith(":"):
        atoms = (form for form in _all(document.reading.forms) if form.kind == "atom")
        return {document.positions.line(form.start) for form in atoms if text[form.start : form.end] == wanted.name}
    if wanted.space is not None and not document.is_hy:
        found = lisp_references(document, Renamed(wanted.space, wanted.name, NO_NAME), checks=False)
        return {document.positions.line(start) for start, *_ in found.positions}
    names = dict.fromkeys([wanted.name, wanted.name.replace("_", "-")] if document.is_hy else [wanted.name])
    return {
        document.positions.line(one.start)
        for name in names
        for one in find_occurrences(document, document.reading.forms, (name, NO_NAME), {name})
        if one.role in _HELD and (one.role != "reference" or one.scope.old is None)
    }


def _all(forms: Sequence[Form]) -> Iterator[Form]:
    pending = list(reversed(forms))
    while pending:
        form = pending.pop()
        yield form
        pending.extend(reversed(form.children))


def _in_python(text: str, wanted: Wanted, parts: tuple[str, ...]) -> set[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings concern the user's code, and nobody asked for them
        tree = ast.parse(text)
    uses = _PythonUses(wanted, parts[:-1] if parts[-1] == "__init__" else parts, is_package=parts[-1] == "__init__")
    uses.read_imports(tree)
    if not wanted.is_space:
        uses.visit(tree, at_top=True)
    return uses.lines


class _PythonUses:
    """The uses of a name in one Python file, with the parts of its path below the workspace."""

    def __init__(self, wanted: Wanted, parts: tuple[str, ...], *, is_package: bool) -> None:
        self._wanted = wanted
        self._package = parts if is_package else parts[:-1]
        self.lines: set[int] = set()
        self._is_home = wanted.space is not None and self._is_space(".".join(parts), wanted.space)
        self._bare = {wanted.name} if wanted.space is None or self._is_home else set()
        self._owners: set[str] = set()

    @staticmethod
    def _is_space(dotted: str, space: str) -> bool:
        """Return whether a path's dotted name is the module's, whose root may be a directory such as `src`."""
        return dotted == space or dotted.endswith(f".{space}")

    def read_imports(self, tree: ast.AST) -> None:
        """Note the names under which the file knows the name and its module."""
        space = self._wanted.name if self._wanted.is_space else self._wanted.space
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
            own = alias.asname or alias.name
            if means(f"{source}.{alias.name}"):
                self._note_module(node.lineno, own)
            elif self._wanted.is_space and means(source):
                self.lines.add(node.lineno)
            elif alias.name == self._wanted.name and (space is None or means(source)):
                self.lines.add(getattr(alias, "lineno", node.lineno))
                self._bare.add(own)
            elif alias.name == "*" and means(source):
                self._bare.add(self._wanted.name)

    def _note_module(self, line: int, own: str) -> None:
        self._owners.add(own)
        if self._wanted.is_space:
            self.lines.add(line)

    def visit(self, node: ast.AST, *, at_top: bool, hidden: frozenset[str] = frozenset()) -> None:
        """Note the uses in a part of the file; `hidden`: names that are local to a function there."""
        name = self._wanted.name
        match node:
            case ast.Name():
                if node.id in self._bare and node.id not in hidden:
                    self.lines.add(node.lineno)
            case ast.Attribute():
                is_owned = node.attr == name and (not self._wanted.space or _dotted(node.value) in self._owners)
                if is_owned:
                    self.lines.add(node.end_lineno or node.lineno)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if node.name == name and (not self._wanted.space or (self._is_home and at_top)):
                    self.lines.add(node.lineno)
        for child in ast.iter_child_nodes(node):
            inner = hidden | (self._own_names(node) if isinstance(node, _FUNCTIONS) else frozenset())
            self.visit(child, at_top=at_top and not isinstance(node, (*_FUNCTIONS, ast.ClassDef)), hidden=inner)

    @staticmethod
    def _own_names(function: ast.AST) -> frozenset[str]:
        """The local names of a function: parameters, and assigned names that it does not declare global."""
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
    """Return a chain of names as it is written; empty for anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


@dataclass(slots=True)
class Elsewhere:
    """The uses of a renamed name in other files, as `file:line`; these files; and the unreadable files."""

    name: Renamed | None
    places: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unread: list[tuple[str, EditError]] = field(default_factory=list)
    """By file, as answers show it: an unreadable file may use the name too."""

    def told(self) -> dict[str, object]:
        """Return the keys of an answer: the first places, the number of further ones, and unread files."""
        fields: dict[str, object] = {"elsewhere": self.places[:RENAME_PLACES]} if self.places else {}
        if len(self.places) > RENAME_PLACES:
            fields["elsewhereMore"] = len(self.places) - RENAME_PLACES
        if self.unread:
            fields["elsewhereUnread"] = [f"{file}: {problem.message}" for file, problem in self.unread[:RENAME_PLACES]]
        return fields


def renamed_by(path: Path, workspace: Path, edit: Rename) -> Renamed | None:
    """The name known to other files that a renaming in all of the file at `path` changes; None for a local one.

    Raises:
        OSError, ValueError, ProblemError: the renaming itself cannot be done, as its plan says.
    """
    if edit.target is not None or path.suffix not in LOOKED_AT:
        return None
    document = Document(_data(path, workspace).decode("utf-8-sig"))
    found = find_names(document, edit.old, edit.new)
    if edit.old.startswith(":"):
        return None if edit.old.startswith("::") else Renamed(None, edit.old, edit.new)
    namespace = namespace_of(document)
    if namespace is None:
        return None
    old, new = (name.removeprefix(f"{namespace}/") for name in (edit.old, edit.new))
    return None if "/" in old else Renamed(namespace, old, new, found.kind)


def find_elsewhere(workspace: Path, own: Path, name: Renamed) -> Elsewhere:
    """Return the uses of a name in other files. No link is followed; unread files are told."""
    found = Elsewhere(name)
    ends_at, size, seen = time.monotonic() + RENAME_S, 0, 0
    for path in files_of(workspace, LOOKED_AT):
        if path == own:
            continue
        seen += 1
        if seen > RENAME_FILES or size > RENAME_BYTES or time.monotonic() > ends_at:
            words = f"more than {RENAME_FILES:,} files, {RENAME_BYTES:,} bytes or {RENAME_S:g} s are not looked at"
            found.unread.append((show(workspace, path), EditError(f"it and those behind it were not read: {words}")))
            break
        try:
            size += _look(found, name, path, workspace)
        except (OSError, ValueError, RuntimeError) as error:
            why = "it is not UTF-8" if isinstance(error, ValueError) else getattr(error, "strerror", None)
            found.unread.append((show(workspace, path), EditError(why or str(error))))
    return found


def _look(found: Elsewhere, name: Renamed, path: Path, workspace: Path) -> int:
    """Take note of the places in one file; its size."""
    if path.is_symlink() and (real := path.resolve()).is_relative_to(workspace) and not real.is_symlink():
        return 0  # the target is looked at by its own name; from Python 3.13 on a link to itself is its own target
    data = _data(path, workspace)
    if not name.may_occur_in(data.decode(errors="replace")):
        return len(data)
    text = data.decode("utf-8-sig")
    document = Document(text)
    shown = show(workspace, path)
    if document.bracket_error is not None:
        found.unread.append((shown, EditError(f"its brackets do not balance: {document.bracket_error}")))
        return len(text)
    try:
        places = lisp_references(document, name, checks=False).positions
    except EditFailedError as error:
        found.unread.append((shown, error.error))
        return len(text)
    if places:
        found.files.append(path)
        lines = sorted({document.positions.line(start) for start, *_ in places})
        found.places += [f"{shown}:{line}" for line in lines]
    return len(text)


def _data(path: Path, workspace: Path) -> bytes:
    """Return the data of a file; no link may lead to it."""
    return read(path, RENAME_RULES, root=workspace if path.is_relative_to(workspace) else None)
