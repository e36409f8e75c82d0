"""Definitions in modules, read without asking user code; and the definitions that a load changed, held.

Held objects are put back without running anything. A name is put back only if it still has the load's value: later
definitions stay, and are told. Classes made by a load that was put back are taken out of the subclasses of their bases:
such a class lives on until the garbage collector runs, or while a plug-in's registry, a traceback or a callback holds
it. No code of the user's is called for that.
"""

from __future__ import annotations

import gc
import os
import sys
import types
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed packages, which belong to no project."""
MOST_WRAPPERS = 20
ABSENT = object()
MAX_RECORDS = 8


def is_class(value: object) -> bool:
    """Whether a value is a class. `isinstance` would ask the value, and may run user code."""
    return issubclass(type(value), type)


space_of: Callable[[object], Any] = type.__dict__["__dict__"].__get__
"""The names of a class, read without asking its metaclass."""
qualname_of_class: Callable[[object], Any] = type.__dict__["__qualname__"].__get__
_qualname_of_function: Callable[[object], Any] = vars(types.FunctionType)["__qualname__"].__get__


def qualname_of(value: object) -> Any:
    """The qualified name of a class or function."""
    return qualname_of_class(value) if is_class(value) else _qualname_of_function(value)


def home_of(value: object) -> Any:
    """The name of the module of a class or a function."""
    return space_of(value).get("__module__") if is_class(value) else value.__module__


def function_in(value: Any) -> object:
    """The function within a static method, class method or property; any other value is returned as it is."""
    if type(value) in (staticmethod, classmethod):
        return value.__func__
    if type(value) is property:
        return value.fget
    return value


def unwrapped(value: object) -> Iterator[types.FunctionType]:
    """The functions within a decorated one, outermost first; the user's classes are not asked."""
    for _ in range(MOST_WRAPPERS):
        if type(value) is types.FunctionType:
            yield value
        if is_class(value):
            return
        try:
            value = object.__getattribute__(value, "__dict__").get("__wrapped__")
        except AttributeError:
            return
        if value is None:
            return


def all_classes() -> Iterator[type]:
    """Every living class."""
    seen: set[int] = set()
    waiting: list[type] = [object]
    while waiting:
        one = waiting.pop()
        found: list[type] = type.__subclasses__(one)
        for kind in found:
            if id(kind) not in seen:
                seen.add(id(kind))
                waiting.append(kind)
                yield kind


class UndoRecord:
    """The definitions from before the loads of one batch. Lives until they are put back, or kept.

    Without `is_recording` it serves loads that will not be put back.
    """

    def __init__(self, roots: list[str], *, is_recording: bool = True) -> None:
        self._is_recording = is_recording
        self._roots = [os.path.join(os.path.realpath(root), "") for root in roots]
        self._steps: list[tuple[str, Callable[[], object], Callable[[], object]]] = []
        self._modules = dict(sys.modules) if is_recording else {}
        self._before: tuple[dict[str, Any], dict[int, type]] = {}, {}
        self._made: list[type] = []

    def begin_load(self) -> None:
        """Note the existing modules and classes before a load."""
        if self._is_recording:
            self._before = dict(sys.modules), {id(one): one for one in all_classes()}

    def end_load(self, home: str = "") -> None:
        """Keep the modules that the load of the module `home` exchanged, and the project's classes that it made."""
        if self._is_recording:
            modules, classes = self._before
            for name, old in modules.items():
                if sys.modules.get(name, ABSENT) is not old:
                    self.note_key(name, sys.modules, name, old)
            made = [one for one in all_classes() if id(one) not in classes]
            self._made += [one for one in made if home_of(one) == home or self._is_of_project(home_of(one))]
            self._before = {}, {}

    def note(self, label: str, is_current: Callable[[], object], undo: Callable[[], object]) -> None:
        """Keep one change: a test whether it still stands, and its undoing. `label`: its name, or empty."""
        if self._is_recording:
            self._steps.append((label, is_current, undo))

    def note_key(self, label: str, space: dict[Any, Any], key: object, old: object) -> None:
        """Keep a mapping key's former value, ABSENT for a new key."""
        new = space.get(key, ABSENT)

        def undo() -> None:
            if old is ABSENT:
                space.pop(key, None)
            else:
                space[key] = old

        self.note(label, lambda: space.get(key, ABSENT) is new, undo)

    def note_attribute(self, label: str, owner: Any, key: str, old: object) -> None:
        """Keep a class attribute's former value."""
        new = space_of(owner).get(key, ABSENT)

        def undo() -> None:
            if old is ABSENT:
                type.__delattr__(owner, key)
            else:
                type.__setattr__(owner, key, old)

        self.note(label, lambda: space_of(owner).get(key, ABSENT) is new, undo)

    def put_back(self) -> list[str]:
        """Put all back, the newest change first; the names with newer definitions, which stay."""
        left = self._undo()
        self._forget_modules()
        return sorted({name for name in [*left, *detach_classes(self._made)] if name})

    def _undo(self) -> list[str]:
        left = []
        for label, is_current, undo in reversed(self._steps):
            try:
                if is_current():
                    undo()
                    continue
            except (TypeError, ValueError, AttributeError, KeyError):
                pass  # another layout by now, or an empty cell
            left.append(label)
        self._steps.clear()
        return left

    def is_project_file(self, file: str) -> bool:
        """Whether a file is the project's own, not installed there."""
        parts = os.path.realpath(file).split(os.sep)
        within = any(os.path.realpath(file).startswith(root) for root in self._roots)
        return within and not any(part in INSTALLED for part in parts)

    def _is_of_project(self, home: object) -> bool:
        """True if a module of that name is the project's, or was missing before and after."""
        if type(home) is not str:
            return False
        module = sys.modules.get(home)
        file = getattr(module, "__dict__", {}).get("__file__")
        return self.is_project_file(file) if isinstance(file, str) else module is None and home not in self._modules

    def _forget_modules(self) -> None:
        """Take out the project's new modules: they hold definitions that were put back."""
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
    """The names of one module, and of its classes, before it is loaded again."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module
        self.names: dict[str, Any] = dict(module.__dict__)
        self._spaces = [
            (value, dict(space_of(value)))
            for value in self.names.values()
            if is_class(value) and home_of(value) == module.__name__
        ]

    def note_changes(self, undo: UndoRecord) -> None:
        """Keep in `undo` each name whose value changed since the hold began, with its former value."""
        home, space = self._module.__name__, self._module.__dict__
        for name in [*self.names, *(one for one in list(space) if one not in self.names)]:
            old = self.names.get(name, ABSENT)
            if space.get(name, ABSENT) is not old:
                undo.note_key(home + "." + name, space, name, old)
        for owner, attributes in self._spaces:
            now = space_of(owner)
            for name in [*attributes, *(one for one in list(now) if one not in attributes)]:
                old = attributes.get(name, ABSENT)
                if now.get(name, ABSENT) is not old:
                    undo.note_attribute(home + "." + owner.__qualname__ + "." + name, owner, name, old)


class UndoRecords:
    """The holds of all batches, by their ids, for the life of the worker; beyond a number the oldest is forgotten."""

    def __init__(self, roots: list[str]) -> None:
        self._roots = roots
        self._records: dict[str, UndoRecord] = {}

    def make(self) -> UndoRecord:
        """The hold of a new batch."""
        return UndoRecord(self._roots)

    def of(self, batch: object) -> UndoRecord:
        """The hold of a batch; an empty hold for a load outside of any."""
        if not isinstance(batch, str) or not batch:
            return UndoRecord([], is_recording=False)
        if batch not in self._records:
            self._records[batch] = self.make()
            if len(self._records) > MAX_RECORDS:
                del self._records[next(iter(self._records))]
        return self._records[batch]

    def end(self, batch: str, *, puts_back: bool) -> list[str]:
        """Put back a batch's changes, or keep them; the names that stay all the same."""
        record = self._records.pop(batch, None)
        if record is None or not puts_back:
            return []
        return record.put_back()


HEAP, IMMUTABLE = 1 << 9, 1 << 8
"""Flags of types: made at run time; yet written in C. Source: CPython, `object.h`, `Py_TPFLAGS_…`."""
flags_of, bases_of, base_of, order_of = (
    type.__dict__[name].__get__ for name in ("__flags__", "__bases__", "__base__", "__mro__")
)
"""The attributes of a class, read without asking its metaclass."""


def detach_classes(classes: list[type]) -> list[str]:
    """Give each class an empty base of ours in place of its own; the names of classes that stay. The list is emptied.

    A class stays if it, or a subclass, has instances, is a base of a class outside of the list, or has a layout or a
    metaclass that forbids a change of bases; and if somebody holds the class.
    """
    stay = _rebase(classes)
    classes.clear()
    if stay:
        gc.collect()  # a class that nobody holds would be told in vain
    return [home_of(one) + "." + qualname_of(one) for one in (known() for known in stay) if one is not None]


def _rebase(classes: list[type]) -> list[weakref.ref[type]]:
    """Change the bases of each class; the classes that stay as they are."""
    failed = {id(one): one for one in classes if not all(map(_is_built_in, bases_of(one)))}
    if not failed:
        return []
    kinds = {id(type(one)) for one in gc.get_objects()}
    stay: set[int] = set()
    for key, one in failed.items():
        if key in kinds or _orders_itself(one) or any(id(other) not in failed for other in _derived_from(one)):
            stay.update(map(id, order_of(one)))
    for one in sorted(failed.values(), key=lambda one: -len(order_of(one))):  # a subclass comes before its bases
        if id(one) not in stay:
            try:
                type.__setattr__(one, "__bases__", (_empty_class(one),))
            except TypeError:  # of another layout
                stay.update(map(id, order_of(one)))
    return [weakref.ref(one) for key, one in failed.items() if key in stay]


def _is_built_in(one: type) -> bool:
    flags: int = flags_of(one)
    return not flags & HEAP or bool(flags & IMMUTABLE)


def _empty_class(failed: type) -> type:
    base: type | None = failed
    while base is not None and not _is_built_in(base):
        base = base_of(base)
    return type("PutBack", (base or object,), {"__module__": __name__})


def _derived_from(one: type) -> Iterator[type]:
    found: list[type] = type.__subclasses__(one)
    for other in found:
        yield other
        yield from _derived_from(other)


def _orders_itself(one: type) -> bool:
    """True if the metaclass has a user's `mro`, which a change of bases would call."""
    return any("mro" in space_of(kind) for kind in order_of(type(one)) if not _is_built_in(kind))
