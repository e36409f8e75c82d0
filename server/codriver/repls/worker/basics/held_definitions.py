"""Undo records, which restore definitions changed by a load, and access to definitions without running user code.

Restoring runs no user code. A name is restored only if it still has the value that the load gave it. Later definitions
are left alone and reported. Classes created by an undone load are detached from their base classes, because they exist
until they are garbage collected, which does not happen while a registry, a traceback or a callback refers to them.
"""

from __future__ import annotations

import gc
import os
import sys
import types
import weakref
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

INSTALLED_DIRECTORIES = ("site-packages", "dist-packages")
"""Directories of installed packages, which do not belong to the project."""
MAX_UNWRAPPED_DECORATORS = 20
"""Maximum number of nested decorators that are unwrapped."""
ABSENT = object()
"""Represents the value of a missing key or attribute."""
MAX_UNDO_RECORDS = 8
"""Maximum number of retained undo records."""


def is_class(value: object) -> bool:
    """Return whether a value is a class. Unlike `isinstance`, this never runs user code."""
    return issubclass(type(value), type)


space_of: Callable[[object], Any] = type.__dict__["__dict__"].__get__
"""Returns the namespace of a class without calling its metaclass."""
qualname_of_class: Callable[[object], Any] = type.__dict__["__qualname__"].__get__
_qualname_of_function: Callable[[object], Any] = vars(types.FunctionType)["__qualname__"].__get__


def qualified_name(value: object) -> Any:
    """Return the `__qualname__` of a class or function, without running user code."""
    return qualname_of_class(value) if is_class(value) else _qualname_of_function(value)


def defining_module_name(value: object) -> Any:
    """Return the name of the module that defines a class or function."""
    return space_of(value).get("__module__") if is_class(value) else value.__module__


def unwrap_descriptor(value: Any) -> object:
    """Return the function in a static method, class method or property. Return other values unchanged."""
    if type(value) in (staticmethod, classmethod):
        return value.__func__
    if type(value) is property:
        return value.fget
    return value


def unwrap_functions(value: object) -> Iterator[types.FunctionType]:
    """Yield a decorated function and the functions that it wraps, without running user code."""
    for _ in range(MAX_UNWRAPPED_DECORATORS):
        if type(value) is types.FunctionType:
            yield value
        if is_class(value):
            return
        try:
            value = object.__getattribute__(value, "__dict__").get("__wrapped__")
        except Exception:  # a proxy has no attributes outside of a request
            return
        if value is None:
            return


def all_classes() -> Iterator[type]:
    """Yield every existing class."""
    seen: set[int] = set()
    waiting: list[type] = [object]
    while waiting:
        class_ = waiting.pop()
        found: list[type] = type.__subclasses__(class_)
        for kind in found:
            if id(kind) not in seen:
                seen.add(id(kind))
                waiting.append(kind)
                yield kind


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


HEAP, IMMUTABLE = 1 << 9, 1 << 8
"""Flags of classes created at run time, and of immutable classes, such as those written in C.

Source: CPython, `object.h`, `Py_TPFLAGS_…`.
"""
flags_of, bases_of, base_of, order_of = (
    type.__dict__[name].__get__ for name in ("__flags__", "__bases__", "__base__", "__mro__")
)
"""Return attributes of a class without calling its metaclass."""


def detach_classes(classes: list[type]) -> list[str]:
    """Replace the bases of each class with an empty class, and clear the list. Return the names of skipped classes.

    A class is skipped if it or a subclass has instances, if it is a base of a class that is not in the list, or if its
    layout or metaclass forbids the change. Its name is returned only if something still refers to it.
    """
    stay = _replace_bases(classes)
    classes.clear()
    if stay:
        gc.collect()  # classes without references must not be reported
    return [
        defining_module_name(class_) + "." + qualified_name(class_)
        for class_ in (known() for known in stay)
        if class_ is not None
    ]


def _replace_bases(classes: list[type]) -> list[weakref.ref[type]]:
    """Replace the base classes of these classes, and return the classes that were skipped."""
    failed = {id(class_): class_ for class_ in classes if not all(map(_is_built_in, bases_of(class_)))}
    if not failed:
        return []
    kinds = {id(type(candidate)) for candidate in gc.get_objects()}
    stay: set[int] = set()
    for key, class_ in failed.items():
        if key in kinds or _overrides_mro(class_) or any(id(other) not in failed for other in _all_subclasses(class_)):
            stay.update(map(id, order_of(class_)))
    for class_ in sorted(failed.values(), key=lambda class_: -len(order_of(class_))):  # subclasses precede their bases
        if id(class_) not in stay:
            try:
                type.__setattr__(class_, "__bases__", (_make_empty_class(class_),))
            except TypeError:  # incompatible layout
                stay.update(map(id, order_of(class_)))
    return [weakref.ref(class_) for key, class_ in failed.items() if key in stay]


def _is_built_in(class_: type) -> bool:
    flags: int = flags_of(class_)
    return not flags & HEAP or bool(flags & IMMUTABLE)


def _make_empty_class(failed: type) -> type:
    """Create a class with the memory layout of `failed`, but without its attributes."""
    base: type | None = failed
    while base is not None and not _is_built_in(base):
        base = base_of(base)
    return type("PutBack", (base or object,), {"__module__": __name__})


def _all_subclasses(class_: type) -> Iterator[type]:
    found: list[type] = type.__subclasses__(class_)
    for other in found:
        yield other
        yield from _all_subclasses(other)


def _overrides_mro(class_: type) -> bool:
    """Return whether the metaclass overrides `mro`, which would be called when the base classes change."""
    return any("mro" in space_of(kind) for kind in order_of(type(class_)) if not _is_built_in(kind))
