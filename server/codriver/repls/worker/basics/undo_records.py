"""Undo records, which restore definitions that a load has changed.

Restoring runs no user code. A name is restored only if it still has the value that the load gave it. Later definitions
are left alone and reported.
"""

from __future__ import annotations

import os
import sys
from functools import partial

from .definition_access import ABSENT, INSTALLED_DIRECTORIES, all_classes, defining_module_name, is_class, space_of
from .detached_classes import detach_classes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from typing import Any

MAX_UNDO_RECORDS = 8
"""Maximum number of retained undo records."""


class UndoRecord:
    """The definitions before a batch of loads, stored until they are restored or the record is discarded.

    Without `is_recording`, all changes are ignored. This is for loads that cannot be undone.
    """

    def __init__(self, roots: list[str], *, is_recording: bool = True) -> None:
        self._is_recording = is_recording
        self._roots = [os.path.join(os.path.realpath(root), "") for root in roots]
        self._steps: list[tuple[str, Callable[[], object], Callable[[], object]]] = []
        self._modules = dict(sys.modules) if is_recording else {}
        self._before: tuple[dict[str, Any], dict[int, type]] = {}, {}
        self._made: list[type] = []

    def begin_load(self) -> None:
        """Store the existing modules and classes before a load."""
        if self._is_recording:
            self._before = dict(sys.modules), {id(class_): class_ for class_ in all_classes()}

    def end_load(self, home: str = "") -> None:
        """Record the modules that a load replaced and the classes that it created. `home` is the loaded module."""
        if self._is_recording:
            modules, classes = self._before
            for name, old in modules.items():
                if sys.modules.get(name, ABSENT) is not old:
                    self.record_key(name, sys.modules, name, old)
            made = [class_ for class_ in all_classes() if id(class_) not in classes]
            self._made += [
                class_
                for class_ in made
                if defining_module_name(class_) == home or self._is_of_project(defining_module_name(class_))
            ]
            self._before = {}, {}

    def record_change(self, label: str, is_current: Callable[[], object], undo: Callable[[], object]) -> None:
        """Record a change and how to undo it. `is_current` returns whether the change still applies.

        `label` is the name of the changed definition, or "".
        """
        if self._is_recording:
            self._steps.append((label, is_current, undo))

    def record_undo(self, undo: Callable[..., object], *arguments: object) -> None:
        """Record how to undo a change of an object that has no name: by calling `undo` with the arguments."""
        self.record_change("", lambda: True, partial(undo, *arguments))

    def record_key(self, label: str, space: dict[Any, Any], key: object, old: object) -> None:
        """Record the previous value of a key in a mapping. `old` is `ABSENT` if the key is new."""
        new = space.get(key, ABSENT)

        def undo() -> None:
            if old is ABSENT:
                space.pop(key, None)
            else:
                space[key] = old

        self.record_change(label, lambda: space.get(key, ABSENT) is new, undo)

    def record_attribute(self, label: str, owner: Any, key: str, old: object) -> None:
        """Record the previous value of a class attribute. `old` is `ABSENT` if the attribute is new."""
        new = space_of(owner).get(key, ABSENT)

        def undo() -> None:
            if old is ABSENT:
                type.__delattr__(owner, key)
            else:
                type.__setattr__(owner, key, old)

        self.record_change(label, lambda: space_of(owner).get(key, ABSENT) is new, undo)

    def restore(self) -> list[str]:
        """Undo all changes, newest first. Return the names not restored because they have been redefined since."""
        left = self._undo()
        self._forget_modules()
        return sorted({name for name in [*left, *detach_classes(self._made)] if name})

    def _undo(self) -> list[str]:
        """Undo the recorded changes, newest first. Return the labels of the changes that could not be undone."""
        left = []
        for label, is_current, undo in reversed(self._steps):
            try:
                if is_current():
                    undo()
                    continue
            except (TypeError, ValueError, AttributeError, KeyError):
                pass  # a different class layout, or an empty cell
            left.append(label)
        self._steps.clear()
        return left

    def is_project_file(self, file: str) -> bool:
        """Return whether a file belongs to the project rather than to an installed package."""
        parts = os.path.realpath(file).split(os.sep)
        within = any(os.path.realpath(file).startswith(root) for root in self._roots)
        return within and not any(part in INSTALLED_DIRECTORIES for part in parts)

    def _is_of_project(self, home: object) -> bool:
        """Return whether a module belongs to the project. A module that was never loaded counts as part of it."""
        if type(home) is not str:
            return False
        module = sys.modules.get(home)
        file = getattr(module, "__dict__", {}).get("__file__")
        return self.is_project_file(file) if isinstance(file, str) else module is None and home not in self._modules

    def _forget_modules(self) -> None:
        """Remove project modules that were loaded since the record began, because they contain undone definitions."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__dict__", {}).get("__file__")
            if name in self._modules or not isinstance(file, str):
                continue
            if self.is_project_file(file):
                del sys.modules[name]
                parent, _, child = name.rpartition(".")
                space = getattr(sys.modules.get(parent), "__dict__", {})
                if space.get(child) is module:
                    del space[child]


class Snapshot:
    """The names in a module and in its classes before the module is loaded again."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module
        self.names: dict[str, Any] = dict(module.__dict__)
        self._spaces = [
            (value, dict(space_of(value)))
            for value in self.names.values()
            if is_class(value) and defining_module_name(value) == module.__name__
        ]

    def record_changes(self, undo: UndoRecord) -> None:
        """Record the previous value of each name whose value has changed since the snapshot."""
        home, space = self._module.__name__, self._module.__dict__
        for name in [*self.names, *(name for name in list(space) if name not in self.names)]:
            old = self.names.get(name, ABSENT)
            if space.get(name, ABSENT) is not old:
                undo.record_key(home + "." + name, space, name, old)
        for owner, attributes in self._spaces:
            now = space_of(owner)
            for name in [*attributes, *(name for name in list(now) if name not in attributes)]:
                old = attributes.get(name, ABSENT)
                if now.get(name, ABSENT) is not old:
                    undo.record_attribute(home + "." + owner.__qualname__ + "." + name, owner, name, old)


class UndoRecords:
    """The undo records, by the id of their batch. At most `MAX_UNDO_RECORDS` are stored, and the oldest are dropped."""

    def __init__(self, roots: list[str]) -> None:
        self._roots = roots
        self._records: dict[str, UndoRecord] = {}

    def create_record(self) -> UndoRecord:
        """Create the record for a new batch."""
        return UndoRecord(self._roots)

    def record_for(self, batch: object) -> UndoRecord:
        """Return the record for a batch, creating it if needed.

        Without an id, the load cannot be undone, so the returned record ignores all changes.
        """
        if not isinstance(batch, str) or not batch:
            return UndoRecord([], is_recording=False)
        if batch not in self._records:
            self._records[batch] = self.create_record()
            if len(self._records) > MAX_UNDO_RECORDS:
                del self._records[next(iter(self._records))]
        return self._records[batch]

    def close_record(self, batch: str, *, puts_back: bool) -> list[str]:
        """Undo the changes made by a batch if `puts_back` is set, and discard its record.

        Return the names that could not be restored.
        """
        record = self._records.pop(batch, None)
        if record is None or not puts_back:
            return []
        return record.restore()
