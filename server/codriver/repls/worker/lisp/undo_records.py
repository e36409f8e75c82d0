"""Undo records for Basilisp namespaces.

An undo record contains each namespace's vars with their values, its referred, imported and aliased names, the methods
of multimethods, and the extensions of protocols. Restoring evaluates nothing and runs no watches.
"""

from __future__ import annotations

import contextlib
import os

from ..basics.definition_access import ABSENT
from ..basics.undo_records import UndoRecord, UndoRecords

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..basics.jobs import Job


NAMESPACE_FIELDS = ("_refers", "_aliases", "_imports", "_import_aliases", "_import_refers")
"""The fields of a namespace that are restored."""
VAR_FIELDS = ("_root", "_meta", "_is_bound")
"""The fields of a var that are restored."""
MULTIMETHOD_FIELDS = ("_methods", "_prefers")
"""The fields of a multimethod that are restored."""


class LispUndoRecords(UndoRecords):
    """Undo records for Basilisp. In Basilisp's own namespaces, only changes to methods are undone."""

    def __init__(self, namespaces: Any, multi: Any) -> None:
        super().__init__([os.getcwd()])
        self._namespaces = namespaces
        self._multi = multi

    def create_record(self) -> UndoRecord:
        """Create the record for a new batch."""
        return LispUndoRecord(self._roots, self._namespaces)

    @contextlib.contextmanager
    def record_evaluation(self, job: Job) -> Iterator[None]:
        """Record the changes made while the context is active, if the request has an undo id."""
        batch = job.message.get("codriver/hold")
        if not batch:
            yield
            return
        with job.shield:
            undo, before = self.record_for(batch), LispSnapshot(self._namespaces, self._multi)
            undo.begin_load()
        try:
            yield
        finally:
            with job.shield:
                undo.end_load()
                before.record_changes(undo)


class LispUndoRecord(UndoRecord):
    """The undo record for one batch of loads, including changes to namespaces."""

    def __init__(self, roots: list[str], namespaces: Any) -> None:
        super().__init__(roots)
        self._namespaces = namespaces
        self._known = set(namespaces.ns_cache())

    def _forget_modules(self) -> None:
        """Remove namespaces of project files that were loaded since the record began, and their modules."""
        super()._forget_modules()
        for name in [item for item in self._namespaces.ns_cache() if item not in self._known]:
            file = self._namespaces.get(name).module.__dict__.get("__file__")
            if not isinstance(file, str) or self.is_project_file(file):
                self._namespaces.remove(name)


class LispSnapshot:
    """The definitions in all namespaces at one moment."""

    def __init__(self, namespaces: Any, multi: Any) -> None:
        package = multi.__module__.partition(".")[0] + "."
        self._spaces = [
            (space, space.interns, dict(space.module.__dict__), _read_fields(space, NAMESPACE_FIELDS))
            for space in namespaces.ns_cache().values()
            if not str(space.name).startswith(package)
        ]
        self._vars = [
            (var, _read_fields(var, VAR_FIELDS)) for _, interns, *_ in self._spaces for var in interns.values()
        ]
        roots = [var.root for space in namespaces.ns_cache().values() for var in space.interns.values()]
        self._methods = [(root, _read_fields(root, MULTIMETHOD_FIELDS)) for root in roots if type(root) is multi]
        self._tables = [(root, table, dict(table)) for root in roots if (table := _dispatch_table(root)) is not None]

    def record_changes(self, undo: UndoRecord) -> None:
        """Record the definitions that have changed since the snapshot."""
        for var, was in self._vars:
            _note_fields(undo, str(var.ns.name) + "/" + str(var.name), var, was)
        for space, interns, names, was in self._spaces:
            now = space.interns
            for symbol in [*interns, *(item for item in now if item not in interns)]:
                if now.val_at(symbol) is not interns.val_at(symbol):
                    _note_intern(undo, space, symbol, interns.val_at(symbol))
            _note_fields(undo, str(space.name), space, was)
            _note_keys(undo, space.module.__dict__, names)
        for multi, was in self._methods:
            _note_fields(undo, str(multi._name), multi, was, multi._reset_cache)  # noqa: SLF001  # there is no other way
        for function, table, was in self._tables:
            if _note_keys(undo, table, was):
                undo.record_undo(function.__dict__["_clear_cache"])


def _note_keys(undo: UndoRecord, space: dict[Any, Any], was: dict[Any, Any]) -> bool:
    """Record the changed keys of a mapping, and return whether any have changed."""
    changed = [key for key in {**was, **space} if space.get(key, ABSENT) is not was.get(key, ABSENT)]
    for key in changed:
        undo.record_key("", space, key, was.get(key, ABSENT))
    return bool(changed)


def _read_fields(owner: object, names: tuple[str, ...]) -> dict[str, object]:
    return {name: getattr(owner, name) for name in names if hasattr(owner, name)}


def _note_fields(variables: UndoRecord, items: str, owner: Any, was: dict[str, object], after: Any = None) -> None:
    """Record the changed fields of an object. `after` is called after the fields have been restored."""
    now = _read_fields(owner, tuple(was))
    if all(now[name] is was[name] for name in was):
        return

    def undo() -> None:
        with owner._lock:  # noqa: SLF001  # Basilisp changes them under this lock
            for name, value in was.items():
                setattr(owner, name, value)
            if after is not None:
                after()

    variables.record_change(items, lambda: all(getattr(owner, name) is now[name] for name in now), undo)


def _note_intern(variables: UndoRecord, space: Any, symbol: Any, old: Any) -> None:
    """Record that a symbol in a namespace refers to a different var. `old` is the previous var, or None."""
    new = space.interns.val_at(symbol)

    def undo() -> None:
        space.unmap(symbol)
        if old is not None:
            space.intern(symbol, old, force=True)

    variables.record_change(str(space.name) + "/" + str(symbol.name), lambda: space.interns.val_at(symbol) is new, undo)


def _dispatch_table(function: Any) -> Any:
    """Return the dispatch table of a function that dispatches on types, like a protocol function, or None."""
    register = getattr(function, "__dict__", {}).get("register")
    code = getattr(register, "__code__", None)
    cells = dict(zip(getattr(code, "co_freevars", ()), getattr(register, "__closure__", None) or ()))
    table = cells["registry"].cell_contents if "registry" in cells else None
    return table if isinstance(table, dict) and "_clear_cache" in function.__dict__ else None
