"""Compare loaded Basilisp namespaces with their files, and find objects from previous loads.

Values are retained until the next query so that ids cannot be reused.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import time

from ..basics.definition_access import all_classes, defining_module_name, is_class, qualified_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable


FUNCTION_TYPE = type(lambda: None)
COLLECTION_MODULES = (".vector", ".map", ".set", ".list")
"""Basilisp modules that contain the collection classes."""
REFERENCE_VALUE_FIELDS = {".atom": "_state", ".volatile": "value"}
"""The field that contains the value of a reference, by the module of its class."""
WALKED, DEEP = 10_000, 6
"""Maximum number of values that are searched for functions, and the maximum depth."""


class LispLoaded:
    """The code loaded in a worker. It can be queried repeatedly for changes."""

    def __init__(self, keywords: types.ModuleType, maps: types.ModuleType, names: types.ModuleType) -> None:
        keys = (keywords.keyword(name) for name in ("file", "line", "interface"))
        self._file, self._line, self._interface = keys
        self._map, self._munge = maps.PersistentMap, names.munge
        self._language = maps.__name__.rpartition(".")[0]
        self._started_ms = time.time_ns() // 1_000_000
        self._numbers = itertools.count(1)
        self._seen: dict[tuple[str, str], tuple[object, object, int, int]] = {}
        """By namespace and name: the value, the metadata, a number for the value, and a number for both together."""

    def describe_loaded_code(self, namespaces: Iterable[Any], root: str, known: str) -> dict[str, Any]:
        """Return the `names` of all namespaces, the changed ones in `spaces`, and objects from previous loads.

        `known` contains a line for each namespace from an earlier reply, with its mark and whether it belongs to a file
        below `root`. Objects from previous loads are in `old` and `instances`.
        """
        marks = {name: (mark, within == "1") for name, mark, within in map(str.split, known.splitlines())}
        before, self._seen = self._seen, {}
        within = _Files(root)
        names, spaces = [], []
        project_vars: list[tuple[str, Any, list[tuple[str, Any]]]] = []
        for namespace in namespaces:
            name = str(namespace.name)
            names.append(name)
            variables = [(str(symbol.name), var) for symbol, var in namespace.interns.items()]
            mark = self._mark(name, variables, before)
            was = marks.get(name)
            if was is not None and was[0] == mark:
                if was[1]:
                    project_vars.append((name, namespace, variables))
                continue
            rows = [self._row(name, var_name, var) for var_name, var in variables]
            files = [getattr(namespace.module, "__file__", None), *(row[1] for row in rows)]
            found = sorted({file for file in files if isinstance(file, str) and within.has(file)})
            spaces.append({"ns": name, "mark": mark, "files": found, "vars": rows if found else []})
            if found:
                project_vars.append((name, namespace, variables))
        old, instances = self._previous_objects(project_vars)
        report = {"names": " ".join(names), "spaces": spaces, "old": old, "instances": instances}
        return {"began": str(self._started_ms), **report}

    def _mark(self, name: str, variables: list[tuple[str, Any]], before: dict[tuple[str, str], Any]) -> str:
        """Return a fingerprint that changes whenever a var in the namespace changes."""
        newest = 0
        for var_name, var in variables:
            value, meta = var.root, var.meta
            was = before.get((name, var_name), (self, None, 0, 0))
            if was[0] is value and was[1] is meta:
                seen = was
            else:
                number = next(self._numbers)
                seen = value, meta, was[2] if was[0] is value else number, number
            self._seen[name, var_name] = seen
            newest = max(newest, seen[3])
        return f"{newest}.{len(variables)}"

    def _row(self, name: str, var_name: str, var: Any) -> list[object]:
        """Return the name, file and line of a var, and the numbers that identify its value and its definition."""
        meta = var.meta
        file, line = (meta.val_at(self._file), meta.val_at(self._line)) if meta is not None else (None, None)
        known = file if isinstance(file, str) and not file.startswith("<") else ""
        return [var_name, known, line if isinstance(line, int) else 0, *map(str, self._seen[name, var_name][2:])]

    def _previous_objects(
        self, project_vars: list[tuple[str, Any, list[tuple[str, Any]]]]
    ) -> tuple[list[list[str]], list[list[str]]]:
        """Return rows for objects from previous loads.

        The first list is for vars that refer to such an object, and the second for previous classes that have
        instances.
        """
        heirs: dict[tuple[object, object], tuple[object, str, str]] = {}
        faces: dict[str, list[tuple[object, str]]] = {}
        for name, namespace, variables in project_vars:
            for var_name, var in variables:
                value = var.root
                if is_class(value) and defining_module_name(value) == namespace.module.__name__:
                    heirs[defining_module_name(value), qualified_name(value)] = value, name, var_name
                face = value.val_at(self._interface) if type(value) is self._map else None
                if is_class(face):
                    faces.setdefault(str(qualified_name(face)), []).append((face, name + "/" + var_name))
        old = _captured_functions(project_vars, self._language, self._munge)
        for name, _, variables in project_vars:
            for var_name, var in variables:
                if is_class(var.root):
                    old += [[name, var_name, *row] for row in _previous_types(var.root, heirs, faces)]
        return old, _count_instances(heirs)


def _captured_functions(project_vars: Iterable[Any], language: str, munge: Callable[[str], str]) -> list[list[str]]:
    """Return rows for vars that refer to a function from a previous load.

    References through collections or other functions are included.
    """
    current: dict[tuple[str, str], tuple[types.CodeType, str]] = {}
    for name, _, variables in project_vars:
        for var_name, var in variables:
            code = _function_code(var.root)
            if code is not None and munge(var_name) == code.co_name:
                current[code.co_filename, code.co_name] = code, name + "/" + var_name
    rows: dict[tuple[str, ...], None] = {}
    left = [WALKED]
    for name, _, variables in project_vars:
        for var_name, var in variables:
            for code in _iter_codes(var.root, language, left, DEEP):
                now = current.get((code.co_filename, code.co_name))
                if now is not None and now[0] is not code:
                    rows[name, var_name, "old", now[1]] = None
    return [list(row) for row in rows]


def _iter_codes(value: Any, language: str, left: list[int], depth: int) -> Iterator[types.CodeType]:
    """Yield the code of each function in a value, down to a depth of `depth`. No user code runs."""
    left[0] -= 1
    if depth < 1 or left[0] < 0:
        return
    kind = type(value)
    module = defining_module_name(kind)
    home = module[len(language) :] if type(module) is str and module.startswith(language) else ""
    parts: Iterable[Any] = ()
    code = _function_code(value)
    if code is not None:
        yield code
        parts = _closure_values(value)
    elif kind in (list, tuple, set, frozenset) or home in COLLECTION_MODULES:
        parts = value.items() if qualified_name(kind) == "PersistentMap" else value
    elif kind is dict:
        parts = list(value.items())
    elif home in REFERENCE_VALUE_FIELDS:
        parts = (getattr(value, REFERENCE_VALUE_FIELDS[home], None),)
    for part in itertools.islice(parts, max(left[0], 0)):
        yield from _iter_codes(part, language, left, depth - 1)


def _closure_values(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # the cell is empty
            yield cell.cell_contents


def _function_code(value: Any) -> types.CodeType | None:
    """Return the code of a function, unwrapping a function with metadata. Return None for any other value."""
    while type(value) is FUNCTION_TYPE and "__wrapped__" in value.__dict__:
        value = value.__dict__["__wrapped__"]
    code: types.CodeType | None = value.__code__ if type(value) is FUNCTION_TYPE else None
    return code


def _previous_types(kind: Any, heirs: dict[Any, Any], faces: dict[str, list[tuple[object, str]]]) -> list[list[str]]:
    """Return rows for a class if it, or a protocol that it implements, is from a previous load."""
    heir = heirs.get((defining_module_name(kind), qualified_name(kind)))
    if heir is not None and heir[0] is not kind:
        return [["old", heir[1] + "/" + heir[2]]]
    current = [face for found in faces.values() for face, _ in found]
    for base in type.__dict__["__mro__"].__get__(kind)[1:]:
        found = faces.get(str(qualified_name(base)), [])
        if (
            len(found) == 1
            and defining_module_name(base) == defining_module_name(found[0][0])
            and not any(base is face for face in current)
        ):
            return [["former", found[0][1]]]
    return []


def _count_instances(heirs: dict[Any, Any]) -> list[list[str]]:
    """Return rows with the number of instances of each class from a previous load."""
    previous = {}
    for kind in all_classes():
        heir = heirs.get((defining_module_name(kind), qualified_name(kind)))
        if heir is not None and heir[0] is not kind:
            previous[id(kind)] = heir[1], heir[2]
    if not previous:
        return []
    counts: dict[tuple[str, str], int] = {}
    for candidate in gc.get_objects():
        named = previous.get(id(type(candidate)))
        if named is not None:
            counts[named] = counts.get(named, 0) + 1
    return [[name, var_name, str(count)] for (name, var_name), count in counts.items()]


class _Files:
    """The project's files below a directory."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root) + os.sep
        self._known: dict[str, bool] = {}

    def has(self, file: str) -> bool:
        """Return whether a file is below the directory and does not belong to an installed package."""
        if file not in self._known:
            real = os.path.realpath(file)
            is_installed = "site-packages" in real or "dist-packages" in real
            self._known[file] = real.startswith(self._root) and not is_installed and os.path.isfile(real)
        return self._known[file]
