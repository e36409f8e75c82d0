"""The state of loaded Basilisp namespaces: undo records, comparison with files, and parts of values.

An undo record contains the vars of each namespace with their values, its referred, imported and aliased names, the
methods of multimethods, and the extensions of protocols. Restoring evaluates nothing and runs no watches. To find
objects of previous loads, values are retained until the next query, so that an id cannot be reused. Lazy sequences are
never realized to count them.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import time

from ..basics.held_definitions import ABSENT, UndoRecord, UndoRecords, all_classes, home_of, is_class, qualname_of
from ..basics.previews import GLIMPSED, LEVELS, TEXT_CHARACTERS, class_name
from ..basics.printing import Cuts, NoSuchPartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable

    from ..basics.jobs import Job


FIELDS = ("_refers", "_aliases", "_imports", "_import_aliases", "_import_refers")
FUNCTION = type(lambda: None)
COLLECTIONS = (".vector", ".map", ".set", ".list")
"""Modules of Basilisp that contain the classes of collections."""
REFERENCES = {".atom": "_state", ".volatile": "value"}
"""The field that contains the value of a reference, by the module of its class."""
WALKED, DEEP = 10_000, 6
"""Maximum number of values that are searched for functions, and the maximum depth."""
VAR = ("_root", "_meta", "_is_bound")
METHODS = ("_methods", "_prefers")


class LispUndoRecords(UndoRecords):
    """The undo records of Basilisp. Changes of Basilisp's own namespaces are not undone, except methods."""

    def __init__(self, namespaces: Any, multi: Any) -> None:
        super().__init__([os.getcwd()])
        self._namespaces = namespaces
        self._multi = multi

    def make(self) -> UndoRecord:
        """Create the record of a new batch."""
        return LispUndoRecord(self._roots, self._namespaces)

    @contextlib.contextmanager
    def around(self, job: Job) -> Iterator[None]:
        """Record the changes that are made in this context, if the request has an undo record."""
        batch = job.message.get("codriver/hold")
        if not batch:
            yield
            return
        with job.shield:
            undo, before = self.of(batch), LispSnapshot(self._namespaces, self._multi)
            undo.begin_load()
        try:
            yield
        finally:
            with job.shield:
                undo.end_load()
                before.note_changes(undo)


class LispUndoRecord(UndoRecord):
    """The undo record of one batch, which includes namespaces."""

    def __init__(self, roots: list[str], namespaces: Any) -> None:
        super().__init__(roots)
        self._namespaces = namespaces
        self._known = set(namespaces.ns_cache())

    def _forget_modules(self) -> None:
        """Remove new namespaces of the project's files, and their modules."""
        super()._forget_modules()
        for name in [one for one in self._namespaces.ns_cache() if one not in self._known]:
            file = self._namespaces.get(name).module.__dict__.get("__file__")
            if not isinstance(file, str) or self.is_project_file(file):
                self._namespaces.remove(name)


class LispSnapshot:
    """The definitions in all namespaces before something runs."""

    def __init__(self, namespaces: Any, multi: Any) -> None:
        package = multi.__module__.partition(".")[0] + "."
        self._spaces = [
            (space, space.interns, dict(space.module.__dict__), _fields_of(space, FIELDS))
            for space in namespaces.ns_cache().values()
            if not str(space.name).startswith(package)
        ]
        self._vars = [(var, _fields_of(var, VAR)) for _, interns, *_ in self._spaces for var in interns.values()]
        roots = [var.root for space in namespaces.ns_cache().values() for var in space.interns.values()]
        self._methods = [(one, _fields_of(one, METHODS)) for one in roots if type(one) is multi]
        self._tables = [(one, table, dict(table)) for one in roots if (table := _table_of(one)) is not None]

    def note_changes(self, undo: UndoRecord) -> None:
        """Record the definitions that have changed since the snapshot."""
        for var, was in self._vars:
            _note_fields(undo, str(var.ns.name) + "/" + str(var.name), var, was)
        for space, interns, names, was in self._spaces:
            now = space.interns
            for symbol in [*interns, *(one for one in now if one not in interns)]:
                if now.val_at(symbol) is not interns.val_at(symbol):
                    _note_intern(undo, space, symbol, interns.val_at(symbol))
            _note_fields(undo, str(space.name), space, was)
            _note_keys(undo, space.module.__dict__, names)
        for multi, was in self._methods:
            _note_fields(undo, str(multi._name), multi, was, multi._reset_cache)  # noqa: SLF001  # there is no other way
        for function, table, was in self._tables:
            if _note_keys(undo, table, was):
                undo.note("", lambda: True, function.__dict__["_clear_cache"])


def _note_keys(undo: UndoRecord, space: dict[Any, Any], was: dict[Any, Any]) -> bool:
    """Record the changed keys of a mapping, and return whether there are any."""
    changed = [key for key in {**was, **space} if space.get(key, ABSENT) is not was.get(key, ABSENT)]
    for key in changed:
        undo.note_key("", space, key, was.get(key, ABSENT))
    return bool(changed)


def _fields_of(owner: object, names: tuple[str, ...]) -> dict[str, object]:
    return {name: getattr(owner, name) for name in names if hasattr(owner, name)}


def _note_fields(variables: UndoRecord, items: str, owner: Any, was: dict[str, object], after: Any = None) -> None:
    """Record the changed fields of an object. `after` is called after they were restored."""
    now = _fields_of(owner, tuple(was))
    if all(now[name] is was[name] for name in was):
        return

    def undo() -> None:
        with owner._lock:  # noqa: SLF001  # Basilisp changes them under this lock
            for name, value in was.items():
                setattr(owner, name, value)
            if after is not None:
                after()

    variables.note(items, lambda: all(getattr(owner, name) is now[name] for name in now), undo)


def _note_intern(variables: UndoRecord, space: Any, symbol: Any, old: Any) -> None:
    new = space.interns.val_at(symbol)

    def undo() -> None:
        space.unmap(symbol)
        if old is not None:
            space.intern(symbol, old, force=True)

    variables.note(str(space.name) + "/" + str(symbol.name), lambda: space.interns.val_at(symbol) is new, undo)


def _table_of(function: Any) -> Any:
    """Return the table of a function that dispatches on types, as those of protocols do, or None for any other."""
    register = getattr(function, "__dict__", {}).get("register")
    code = getattr(register, "__code__", None)
    cells = dict(zip(getattr(code, "co_freevars", ()), getattr(register, "__closure__", None) or ()))
    table = cells["registry"].cell_contents if "registry" in cells else None
    return table if isinstance(table, dict) and "_clear_cache" in function.__dict__ else None


class LispLoaded:
    """The loaded code of one worker, which is queried repeatedly. Created with the language's own modules."""

    def __init__(self, keywords: types.ModuleType, maps: types.ModuleType, names: types.ModuleType) -> None:
        keys = (keywords.keyword(name) for name in ("file", "line", "interface"))
        self._file, self._line, self._interface = keys
        self._map, self._munge = maps.PersistentMap, names.munge
        self._language = maps.__name__.rpartition(".")[0]
        self._started_ms = time.time_ns() // 1_000_000
        self._numbers = itertools.count(1)
        self._seen: dict[tuple[str, str], tuple[object, object, int, int]] = {}
        """By namespace and name: the value, the metadata, and numbers that identify the value and both together."""

    def answer(self, namespaces: Iterable[Any], root: str, known: str) -> dict[str, Any]:
        """Return the `names` of all namespaces, the changed ones in `spaces`, and objects of previous loads.

        `known` has a line for each namespace from an earlier reply, with its mark and whether it is of a file below
        `root`. Objects of previous loads are in `old` and `instances`.
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
        old, instances = self._lives_on(project_vars)
        report = {"names": " ".join(names), "spaces": spaces, "old": old, "instances": instances}
        return {"began": str(self._started_ms), **report}

    def _mark(self, name: str, variables: list[tuple[str, Any]], before: dict[tuple[str, str], Any]) -> str:
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
        meta = var.meta
        file, line = (meta.val_at(self._file), meta.val_at(self._line)) if meta is not None else (None, None)
        known = file if isinstance(file, str) and not file.startswith("<") else ""
        return [var_name, known, line if isinstance(line, int) else 0, *map(str, self._seen[name, var_name][2:])]

    def _lives_on(
        self, project_vars: list[tuple[str, Any, list[tuple[str, Any]]]]
    ) -> tuple[list[list[str]], list[list[str]]]:
        """Return rows for vars with an object of a previous load, and for classes of which instances still exist."""
        heirs: dict[tuple[object, object], tuple[object, str, str]] = {}
        faces: dict[str, list[tuple[object, str]]] = {}
        for name, namespace, variables in project_vars:
            for var_name, var in variables:
                value = var.root
                if is_class(value) and home_of(value) == namespace.module.__name__:
                    heirs[home_of(value), qualname_of(value)] = value, name, var_name
                face = value.val_at(self._interface) if type(value) is self._map else None
                if is_class(face):
                    faces.setdefault(str(qualname_of(face)), []).append((face, name + "/" + var_name))
        old = _captured_functions(project_vars, self._language, self._munge)
        for name, _, variables in project_vars:
            for var_name, var in variables:
                if is_class(var.root):
                    old += [[name, var_name, *row] for row in _previous_types(var.root, heirs, faces)]
        return old, _instances(heirs)


def _captured_functions(project_vars: Iterable[Any], language: str, munge: Callable[[str], str]) -> list[list[str]]:
    """Return rows for vars that refer to a function of a previous load, even through collections or other functions."""
    current: dict[tuple[str, str], tuple[types.CodeType, str]] = {}
    for name, _, variables in project_vars:
        for var_name, var in variables:
            code = _code_of(var.root)
            if code is not None and munge(var_name) == code.co_name:
                current[code.co_filename, code.co_name] = code, name + "/" + var_name
    rows: dict[tuple[str, ...], None] = {}
    left = [WALKED]
    for name, _, variables in project_vars:
        for var_name, var in variables:
            for code in _codes_in(var.root, language, left, DEEP):
                now = current.get((code.co_filename, code.co_name))
                if now is not None and now[0] is not code:
                    rows[name, var_name, "old", now[1]] = None
    return [list(row) for row in rows]


def _codes_in(value: Any, language: str, left: list[int], depth: int) -> Iterator[types.CodeType]:
    """Yield the code of each function in a value, up to a depth. No user code runs."""
    left[0] -= 1
    if depth < 1 or left[0] < 0:
        return
    kind = type(value)
    module = home_of(kind)
    home = module[len(language) :] if type(module) is str and module.startswith(language) else ""
    parts: Iterable[Any] = ()
    code = _code_of(value)
    if code is not None:
        yield code
        parts = _enclosed(value)
    elif kind in (list, tuple, set, frozenset) or home in COLLECTIONS:
        parts = value.items() if qualname_of(kind) == "PersistentMap" else value
    elif kind is dict:
        parts = list(value.items())
    elif home in REFERENCES:
        parts = (getattr(value, REFERENCES[home], None),)
    for part in itertools.islice(parts, max(left[0], 0)):
        yield from _codes_in(part, language, left, depth - 1)


def _enclosed(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # the cell is empty
            yield cell.cell_contents


def _code_of(value: Any) -> types.CodeType | None:
    """Return the code of a function, unwrapping one with metadata, or None for any other value."""
    while type(value) is FUNCTION and "__wrapped__" in value.__dict__:
        value = value.__dict__["__wrapped__"]
    code: types.CodeType | None = value.__code__ if type(value) is FUNCTION else None
    return code


def _previous_types(kind: Any, heirs: dict[Any, Any], faces: dict[str, list[tuple[object, str]]]) -> list[list[str]]:
    """Describe which previous load a class belongs to, or the protocol that it implements."""
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
    previous = {}
    for kind in all_classes():
        heir = heirs.get((home_of(kind), qualname_of(kind)))
        if heir is not None and heir[0] is not kind:
            previous[id(kind)] = heir[1], heir[2]
    if not previous:
        return []
    counts: dict[tuple[str, str], int] = {}
    for one in gc.get_objects():
        named = previous.get(id(type(one)))
        if named is not None:
            counts[named] = counts.get(named, 0) + 1
    return [[name, var_name, str(count)] for (name, var_name), count in counts.items()]


class _Files:
    """The files below a directory."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root) + os.sep
        self._known: dict[str, bool] = {}

    def has(self, file: str) -> bool:
        """Return whether the directory contains a file that is not installed there."""
        if file not in self._known:
            real = os.path.realpath(file)
            is_installed = "site-packages" in real or "dist-packages" in real
            self._known[file] = real.startswith(self._root) and not is_installed and os.path.isfile(real)
        return self._known[file]


ATOMS = (str, bytes, int, float, complex, type(None))
COUNTED = (list, tuple, dict, set, frozenset)
PLAIN = ("keyword", "symbol")
"""Modules of Basilisp whose values are printed as one word."""
AROUND = {"vector": ("[", "]"), "map": ("{", "}"), "set": ("#{", "}")}
"""The brackets of a collection, by the module of its class."""


def pairs_of(value: Any) -> Any:
    """Return an iterator over the steps and parts of a collection, or None for any other value."""
    if isinstance(value, (*ATOMS, type)) or not hasattr(type(value), "__iter__"):
        return None
    if hasattr(value, "items"):
        return iter(value.items())
    # Iterators are excluded, because iterating would consume them.
    return None if hasattr(type(value), "__next__") else enumerate(value)


ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b"})


def print_string(text: str, *, human_readable: bool = False, print_readably: bool = True, **_settings: object) -> str:
    """Print a string like Clojure. Basilisp itself escapes all non-ASCII characters."""
    if human_readable or not print_readably:
        return text
    return '"' + text.translate(ESCAPES) + '"'


class LispValues:
    """The parts of Lisp values.

    `counted` is the class of collections with a known length, `vector` creates a vector, and `show` prints a key.
    """

    def __init__(self, counted: Any, vector: Callable[[list[Any]], Any], show: Callable[[Any], str]) -> None:
        self._counted = counted
        self._home = counted.__module__.rpartition(".")[0] + "."
        """The prefix of the names of Basilisp's own modules."""
        self._vector = vector
        self._show = show

    def _count(self, value: Any) -> int | None:
        # A lazy sequence has a length too, but would be realized to compute it.
        return len(value) if isinstance(value, (COUNTED, self._counted)) else None

    def cut(self, value: Any, length: int, depth: int | None, start: int, path: tuple[object, ...]) -> str:
        """Describe what was cut from a printed value. All parts that were printed are already realized."""
        cuts = Cuts()
        self._walk(value, path, (length, depth, 0), start, cuts)
        return cuts.words()

    def _walk(
        self, value: Any, path: tuple[object, ...], bounds: tuple[int, int | None, int], start: int, cuts: Cuts
    ) -> None:
        length, depth, level = bounds
        pairs = pairs_of(value)
        if pairs is None:
            return
        if depth is not None and level >= depth:
            cuts.add(f"levels below {depth}", path)
            return
        name = list(itertools.islice(pairs, start, start + length + 1))
        if len(name) > length:
            count = self._count(value)
            words = f"more than {start + length}" if count is None else f"{count - length} of {count} elements"
            cuts.add(words, path)
        for step, part in name[:length]:
            way = (*path, step if type(step) in (int, str) else self._show(step))
            self._walk(part, way, (length, depth, level + 1), 0, cuts)

    def _module_of(self, value: Any) -> str:
        """Return the last part of the name of a value's module if it is one of Basilisp's, or ""."""
        before, home, name = type(value).__module__.partition(self._home)
        return "" if before or not home else name

    def _is_core(self, value: Any) -> bool:
        """Return whether a value is one of Basilisp's collections with a known length."""
        return isinstance(value, self._counted) and bool(self._module_of(value))

    def is_function(self, value: Any) -> bool:
        """Return whether a value is a function. Collections and keywords are callable, but do not count."""
        return callable(value) and not self._is_core(value) and self._module_of(value) not in PLAIN

    def glimpse(self, value: Any) -> dict[str, str]:
        """Describe a value by its class, its size, and its text in one line, without running user code."""
        found = {"class": class_name(type(value))}
        if self._is_core(value):
            found["count"] = str(len(value))
        text = self._in_line(value, LEVELS)
        return found if text == f"<{found['class']}>" else {**found, "value": text}

    def _in_line(self, value: Any, levels: int) -> str:
        kind = type(value)
        if kind in (str, bytes) and len(value) > TEXT_CHARACTERS:
            return f"<{kind.__name__} of {len(value)}>"
        if kind in (*ATOMS, bool) or self._module_of(value) in PLAIN:
            return self._show(value)
        if not levels or not self._is_core(value):
            return f"<{class_name(kind)}>"
        before, after = AROUND.get(self._module_of(value), ("(", ")"))
        if hasattr(value, "items"):
            pairs = itertools.islice(value.items(), GLIMPSED)
            parts = [f"{self._in_line(key, levels - 1)} {self._in_line(one, levels - 1)}" for key, one in pairs]
        else:
            parts = [self._in_line(one, levels - 1) for one in itertools.islice(value, GLIMPSED)]
        if len(value) > GLIMPSED:
            parts.append("...")
        return before + " ".join(parts) + after

    def slice(self, value: Any, start: int, length: int) -> Any:
        """Return `length + 1` elements of a collection from `start` on. Other values are returned unchanged."""
        pairs = pairs_of(value)
        if pairs is None:
            return value
        name = itertools.islice(pairs, start, start + length + 1)
        if hasattr(value, "items"):
            return self._vector([self._vector(list(pair)) for pair in name])
        return self._vector([part for _, part in name])

    def part_at(self, value: Any, path: Iterable[object]) -> Any:
        """Return the part of a value at a path of positions and keys, which may be printed keys.

        Raises:
            NoSuchPartError: the path does not exist.
        """
        for step in path:
            found = list(itertools.islice(self._matching(value, step), 1))
            if not found:
                words = f"the step {step!r} of the path is not in the {type(value).__name__} there"
                raise NoSuchPartError(words)
            value = found[0]
        return value

    def _matching(self, value: Any, step: object) -> Iterator[Any]:
        pairs = pairs_of(value)
        if pairs is None:
            return
        if not hasattr(value, "items"):
            if type(step) is int and step >= 0:
                yield from (part for _, part in itertools.islice(pairs, step, step + 1))
            return
        for key, part in pairs:
            if key == step or (isinstance(step, str) and self._show(key) == step):
                yield part
