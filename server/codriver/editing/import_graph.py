"""Find out which files in a project import each other, directly or indirectly, without running code.

An import is matched to files by name, and only changed files are read again. Files with the same name in several
directories are not distinguished, because running too many tests does no harm.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import FileRules, Links

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


SOURCE_RULES: Final = FileRules(Links.ANY, 2**20)


PYTHON_SUFFIX: Final = ".py"


MAX_SOURCE_BYTES: Final = 2**20


_IMPORT_STATEMENT: Final = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]*)|import[ \t]+([^\n#;]*))", re.MULTILINE
)
"""Matches a Python import statement: the module and names of `from`, or the modules of `import`."""


_NS: Final = re.compile(r"\(ns\s+(?:\^\S+\s+)*([^\s()\[\]{}\"]+)(.*?)(?=^\(|\Z)", re.DOTALL | re.MULTILINE)
"""Matches a Clojure `ns` form: its name and its contents."""


_LISP_WORD: Final = re.compile(r"[^\s()\[\]{}\"',;]+")
"""Matches a Lisp symbol or keyword."""


class ImportGraph:
    """Finds out which files import which, and caches the imports of each file. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[files.Stamp, str, frozenset[str]]] = {}
        """Stamp, namespace in Lisp, and imported names, by file."""

    def importers(self, changed: Iterable[Path], among: Iterable[Path], root: Path) -> dict[Path, int]:
        """Return the files in `among` that import any changed file, directly or indirectly.

        The values are the numbers of imports in between. Blocks on disk I/O.
        """
        with self._lock:
            names: dict[str, set[Path]] = {}
            imports: dict[Path, frozenset[str]] = {}
            for file in {*among, *changed}:
                known = self._read(file)
                if known is not None:
                    imports[file] = known[2]
                    for name in import_names(file, root, known[1]):
                        names.setdefault(name, set()).add(file)
        return _count_import_steps(changed, imports, names)

    def _read(self, file: Path) -> tuple[files.Stamp, str, frozenset[str]] | None:
        try:
            status = file.stat()
            stamp = files.stamp_from_status(status)
            known = self._known.get(file)
            if known is not None and known[0] == stamp:
                return known
            text = files.read(file, SOURCE_RULES) if status.st_size <= MAX_SOURCE_BYTES else b""
        except OSError:
            return None
        space, found = (
            ("", frozenset(python_imports(text, file))) if file.suffix == PYTHON_SUFFIX else lisp_imports(text)
        )
        self._known[file] = stamp, space, found
        return self._known[file]


def _count_import_steps(
    changed: Iterable[Path], imports: Mapping[Path, frozenset[str]], names: Mapping[str, set[Path]]
) -> dict[Path, int]:
    by: dict[Path, list[Path]] = {}
    for file, found in imports.items():
        for target in {using for name in found for using in names.get(name, ()) if using != file}:
            by.setdefault(target, []).append(file)
    reached = dict.fromkeys(changed, 0)
    waiting = deque(reached)
    while waiting:
        current = waiting.popleft()
        for file in by.get(current, ()):
            if file not in reached:
                reached[file] = reached[current] + 1
                waiting.append(file)
    return reached


def import_names(file: Path, root: Path, space: str = "") -> Iterator[str]:
    """Yield the names by which a file may be imported.

    These are the namespace `space`, or the path relative to any directory of the project.
    """
    if file.suffix != PYTHON_SUFFIX:
        yield space
        return
    parts = file.with_suffix("").relative_to(root).parts if file.is_relative_to(root) else (file.stem,)
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    for start in range(len(parts)):
        yield ".".join(parts[start:])


def python_imports(text: bytes, file: Path) -> Iterator[str]:
    """Yield the modules that Python code may import, at any position. Relative imports are resolved."""
    for found in _IMPORT_STATEMENT.finditer(text):
        source, names, modules = (part.decode("utf-8", "replace") if part else "" for part in found.groups())
        for module in filter(None, (part.split()[0] if part.split() else "" for part in modules.split(","))):
            yield from _dotted_prefixes(module)
        if source:
            level = len(source) - len(source.lstrip("."))
            directories = file.parent.parts[: len(file.parent.parts) - level + 1]
            base = ".".join(filter(None, [directories[-1] if level and directories else "", source.lstrip(".")]))
            yield from _dotted_prefixes(base)
            for name in re.findall(r"[\w*]+", re.sub(r"\bas\s+\w+|#[^\n]*", "", names)):
                yield f"{base}.{name}"


def _dotted_prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


def lisp_imports(text: bytes) -> tuple[str, frozenset[str]]:
    """Return the namespace that Lisp code declares, and the names in its `ns` form.

    The names include the required namespaces.
    """
    found = _NS.search(text.decode("utf-8", "replace"))
    if found is None:
        return "", frozenset()
    return found[1], frozenset(_LISP_WORD.findall(found[2])) - {found[1]}
