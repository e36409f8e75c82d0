"""Search `sys.path` for top-level modules with the same results as importlib, but faster for many modules."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

bootstrap: Any = sys.modules["_frozen_importlib"]
external: Any = sys.modules["_frozen_importlib_external"]

Stems = dict[str, list[str]]
"""The entries of a directory, by the part of their names before the first dot."""


class ModuleSearch:
    """A search of `sys.path` for several modules. Use a new one for each import."""

    def __init__(self, known: dict[int, tuple[Any, Stems]], hook: Any) -> None:
        """Create a search.

        Args:
            known: the grouped entries for each set of entries that a finder has cached, by the set's id. It is kept
                between searches.
            hook: pytest's import hook, or None.
        """
        self.finders: list[tuple[Any, Stems | None]] = []
        for path in sys.path:
            finder = external.PathFinder._path_importer_cache(path) if isinstance(path, str) else None
            if finder is not None:
                is_directory = type(finder) is external.FileFinder
                self.finders.append((finder, group_entries(list_entries(finder), known) if is_directory else None))
        self.earlier_finders = find_earlier_finders(hook)
        """The finders that are asked before `sys.path` is searched."""

    def finds(self, name: str, origin: str) -> bool:
        """Return whether an import of a top-level module would load the file at `origin`."""
        for finder, stems in self.finders:
            if stems is not None:
                found = stems.get(name)
                if found is None:
                    continue
                if len(found) == 1 and origin == f"{finder.path}{os.sep}{found[0]}":
                    return True
            spec = finder.find_spec(name)
            if spec is not None and spec.loader is not None:
                return bool(spec.origin == origin)
        return False

    def finds_any(self, name: str) -> bool:
        """Return whether an import of a top-level module would find a file or a namespace package."""
        return any(
            (stems is None or name in stems) and finder.find_spec(name) is not None for finder, stems in self.finders
        )


def find_earlier_finders(hook: Any) -> list[Any]:
    """Return the finders that importlib asks before its own, without `hook`."""
    found = []
    for finder in sys.meta_path:
        if finder in (external.PathFinder, bootstrap.FrozenImporter, bootstrap.BuiltinImporter):
            break
        if finder is not hook and getattr(finder, "find_spec", None) is not None:
            found.append(finder)
    return found


def list_entries(finder: Any) -> set[str]:
    """Return the entries of a finder's directory. As in importlib, they are read only if the directory has changed."""
    try:
        modified_s = external._path_stat(finder.path).st_mtime
    except OSError:
        modified_s = -1
    if modified_s != finder._path_mtime:
        finder._fill_cache()
        finder._path_mtime = modified_s
    entries: set[str] = finder._path_cache
    return entries


def group_entries(entries: set[str], known: dict[int, tuple[Any, Stems]]) -> Stems:
    """Return the entries of a directory, grouped by the part of their names before the first dot."""
    if id(entries) in known:  # `known` keeps the entries alive, so that their id is not reused
        return known[id(entries)][1]
    stems: Stems = {}
    for name in entries:
        stems.setdefault(name.partition(".")[0], []).append(name)
    known[id(entries)] = entries, stems
    return stems
