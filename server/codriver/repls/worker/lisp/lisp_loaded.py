"""Loaded Lisp: the namespaces that are of files below a folder, their vars, and what lives on of a former load.

No user code is run, and nothing is printed. Values are held until the next question, so that none is taken for another
that came into its place.
"""

from __future__ import annotations

import gc
import itertools
import os
import time

from ..basics.class_spaces import all_classes, home_of, is_class, qualname_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterable
    from typing import Any


class LispLoaded:
    """The loaded code of one worker, asked again and again. It is given the language's own keywords and maps."""

    def __init__(self, keywords: types.ModuleType, maps: types.ModuleType) -> None:
        keys = (keywords.keyword(name) for name in ("file", "line", "interface"))
        self._file, self._line, self._interface = keys
        self._map = maps.PersistentMap
        self._began_ms = time.time_ns() // 1_000_000
        self._numbers = itertools.count(1)
        self._seen: dict[tuple[str, str], tuple[object, object, int, int]] = {}
        """By namespace and name: the value, the metadata, and the numbers that stand for the one and for both."""

    def answer(self, namespaces: Iterable[Any], root: str, known: str) -> dict[str, Any]:
        """The fields of an answer: `names` of all namespaces, `spaces` that are new or changed, `old`, `instances`.

        `known`: a line for each namespace that the asker knows, with its mark and whether it is of a file there.
        """
        marks = {name: (mark, within == "1") for name, mark, within in map(str.split, known.splitlines())}
        before, self._seen = self._seen, {}
        within = _Files(root)
        names, spaces = [], []
        ours: list[tuple[str, Any, list[tuple[str, Any]]]] = []
        for namespace in namespaces:
            name = str(namespace.name)
            names.append(name)
            held = [(str(symbol.name), var) for symbol, var in namespace.interns.items()]
            mark = self._mark(name, held, before)
            was = marks.get(name)
            if was is not None and was[0] == mark:
                if was[1]:
                    ours.append((name, namespace, held))
                continue
            rows = [self._row(name, own, var) for own, var in held]
            files = [getattr(namespace.module, "__file__", None), *(row[1] for row in rows)]
            found = sorted({file for file in files if isinstance(file, str) and within.has(file)})
            spaces.append({"ns": name, "mark": mark, "files": found, "vars": rows if found else []})
            if found:
                ours.append((name, namespace, held))
        old, instances = self._lives_on(ours)
        told = {"names": " ".join(names), "spaces": spaces, "old": old, "instances": instances}
        return {"began": str(self._began_ms), **told}

    def _mark(self, name: str, held: list[tuple[str, Any]], before: dict[tuple[str, str], Any]) -> str:
        newest = 0
        for own, var in held:
            value, meta = var.root, var.meta
            was = before.get((name, own), (self, None, 0, 0))
            if was[0] is value and was[1] is meta:
                seen = was
            else:
                number = next(self._numbers)
                seen = value, meta, was[2] if was[0] is value else number, number
            self._seen[name, own] = seen
            newest = max(newest, seen[3])
        return f"{newest}.{len(held)}"

    def _row(self, name: str, own: str, var: Any) -> list[object]:
        meta = var.meta
        file, line = (meta.val_at(self._file), meta.val_at(self._line)) if meta is not None else (None, None)
        known = file if isinstance(file, str) and not file.startswith("<") else ""
        return [own, known, line if isinstance(line, int) else 0, *map(str, self._seen[name, own][2:])]

    def _lives_on(self, ours: list[tuple[str, Any, list[tuple[str, Any]]]]) -> tuple[list[list[str]], list[list[str]]]:
        """The rows of what holds something of a former load, and of the classes of which instances live on."""
        heirs: dict[tuple[object, object], tuple[object, str, str]] = {}
        faces: dict[str, list[tuple[object, str]]] = {}
        for name, namespace, held in ours:
            for own, var in held:
                value = var.root
                if is_class(value) and home_of(value) == namespace.module.__name__:
                    heirs[home_of(value), qualname_of(value)] = value, name, own
                face = value.val_at(self._interface) if type(value) is self._map else None
                if is_class(face):
                    faces.setdefault(str(qualname_of(face)), []).append((face, name + "/" + own))
        old = []
        for name, _, held in ours:
            for own, var in held:
                if is_class(var.root):
                    old += [[name, own, *row] for row in _former(var.root, heirs, faces)]
        return old, _instances(heirs)


def _former(kind: Any, heirs: dict[Any, Any], faces: dict[str, list[tuple[object, str]]]) -> list[list[str]]:
    """The former load that a class is of, or that a protocol which it implements is of, in words."""
    heir = heirs.get((home_of(kind), qualname_of(kind)))
    if heir is not None and heir[0] is not kind:
        return [["old", heir[1] + "/" + heir[2]]]
    current = [face for found in faces.values() for face, _ in found]
    for base in type.__dict__["__mro__"].__get__(kind)[1:]:
        found = faces.get(str(qualname_of(base)), [])
        if len(found) == 1 and home_of(base) == home_of(found[0][0]) and not any(base is face for face in current):
            return [["former", found[0][1]]]
    return []


def _instances(heirs: dict[Any, Any]) -> list[list[str]]:
    former = {}
    for kind in all_classes():
        heir = heirs.get((home_of(kind), qualname_of(kind)))
        if heir is not None and heir[0] is not kind:
            former[id(kind)] = heir[1], heir[2]
    if not former:
        return []
    counts: dict[tuple[str, str], int] = {}
    for one in gc.get_objects():
        named = former.get(id(type(one)))
        if named is not None:
            counts[named] = counts.get(named, 0) + 1
    return [[name, own, str(count)] for (name, own), count in counts.items()]


class _Files:
    """The files below a folder."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root) + os.sep
        self._known: dict[str, bool] = {}

    def has(self, file: str) -> bool:
        """Whether a file is there, and not installed."""
        if file not in self._known:
            real = os.path.realpath(file)
            is_installed = "site-packages" in real or "dist-packages" in real
            self._known[file] = real.startswith(self._root) and not is_installed and os.path.isfile(real)
        return self._known[file]
