"""Imports between the files of a project: which files import one, by the words of their imports, however indirectly.

Nothing is loaded for it. Only a file that changed is read again, and files with the same name in several folders
count as each other: a test too many does no harm.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links, Rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

RULES: Final = Rules(Links.ANY, 2**20)
PYTHON: Final = ".py"
LISP: Final = frozenset({".clj", ".cljc", ".cljs", ".lpy", ".bb"})
MOST_BYTES: Final = 2**20
CONFTEST: Final = "conftest"
_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]*)|import[ \t]+([^\n#;]*))", re.MULTILINE
)
_NS: Final = re.compile(r"\(ns\s+(?:\^\S+\s+)*([^\s()\[\]{}\"]+)(.*?)(?=^\(|\Z)", re.DOTALL | re.MULTILINE)
_WORD: Final = re.compile(r"[^\s()\[\]{}\"',;]+")


class ImportGraph:
    """The imports of the files that were asked about, for the life of a server. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[files.Stamp, str, frozenset[str]]] = {}
        """By file: its stamp, the namespace that it is in Lisp, and the names that it imports."""

    def importers(self, changed: Iterable[Path], among: Iterable[Path], root: Path) -> dict[Path, int]:
        """The files that import the changed ones, each with how many imports lie between. Blocks."""
        with self._lock:
            names: dict[str, set[Path]] = {}
            imports: dict[Path, frozenset[str]] = {}
            for file in {*among, *changed}:
                known = self._read(file)
                if known is not None:
                    imports[file] = known[2]
                    for name in names_of(file, root, known[1]):
                        names.setdefault(name, set()).add(file)
        return _reached(changed, imports, names)

    def _read(self, file: Path) -> tuple[files.Stamp, str, frozenset[str]] | None:
        try:
            status = file.stat()
            stamp = files.stamp_of(status)
            known = self._known.get(file)
            if known is not None and known[0] == stamp:
                return known
            text = files.read(file, RULES) if status.st_size <= MOST_BYTES else b""
        except OSError:
            return None
        space, found = ("", frozenset(python_imports(text, file))) if file.suffix == PYTHON else lisp_imports(text)
        self._known[file] = stamp, space, found
        return self._known[file]


def _reached(
    changed: Iterable[Path], imports: Mapping[Path, frozenset[str]], names: Mapping[str, set[Path]]
) -> dict[Path, int]:
    by: dict[Path, list[Path]] = {}
    for file, found in imports.items():
        for target in {one for name in found for one in names.get(name, ()) if one != file}:
            by.setdefault(target, []).append(file)
    reached = dict.fromkeys(changed, 0)
    waiting = deque(reached)
    while waiting:
        one = waiting.popleft()
        for file in by.get(one, ()):
            if file not in reached:
                reached[file] = reached[one] + 1
                waiting.append(file)
    return reached


def names_of(file: Path, root: Path, space: str = "") -> Iterator[str]:
    """The names by which a file may be imported: its namespace, or its path from any folder of the project on."""
    if file.suffix != PYTHON:
        yield space
        return
    parts = file.with_suffix("").relative_to(root).parts if file.is_relative_to(root) else (file.stem,)
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    for start in range(len(parts)):
        yield ".".join(parts[start:])


def python_imports(text: bytes, file: Path) -> Iterator[str]:
    """The modules that a text of Python may import, at any place. Relative ones by the names of the folders around."""
    for found in _IMPORT.finditer(text):
        source, names, modules = (part.decode("utf-8", "replace") if part else "" for part in found.groups())
        for module in filter(None, (part.split()[0] if part.split() else "" for part in modules.split(","))):
            yield from _prefixes(module)
        if source:
            level = len(source) - len(source.lstrip("."))
            folders = file.parent.parts[: len(file.parent.parts) - level + 1]
            base = ".".join(filter(None, [folders[-1] if level and folders else "", source.lstrip(".")]))
            yield from _prefixes(base)
            for name in re.findall(r"[\w*]+", re.sub(r"\bas\s+\w+|#[^\n]*", "", names)):
                yield f"{base}.{name}"


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


def lisp_imports(text: bytes) -> tuple[str, frozenset[str]]:
    """The namespace of a text of Lisp, and the words of its `ns` form, which name those that it requires."""
    found = _NS.search(text.decode("utf-8", "replace"))
    if found is None:
        return "", frozenset()
    return found[1], frozenset(_WORD.findall(found[2])) - {found[1]}
