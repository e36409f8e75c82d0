"""Skip the teardown of preloaded modules when the process of a run exits. It takes up to a fifth of a short run.

When Python exits, it deletes the contents of all modules in `sys.modules`. In a forked process, this copies most of the
memory that the modules occupy. Preloaded modules are therefore removed from `sys.modules` first, unless an object may
exist whose deletion has an effect, for example an open file, or an object with a `__del__` method.
"""

from __future__ import annotations

import sys

from .module_attributes import class_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_io: Any = sys.modules["_io"]
_weakref: Any = sys.modules["_weakref"]

IS_HEAP_TYPE = 1 << 9
"""The flag of classes that were created at run time. Python's own types written in C do not have it."""
PROGRAM_PACKAGES = ("child", "_codriver")
"""The packages of Codriver's own programs, which are not in `sys.modules`."""
MEMORY_FILE_TYPES = (_io.BytesIO, _io.StringIO)
"""Files whose deletion has no effect."""


def _generator() -> Any:
    yield


async def _coroutine() -> None:
    pass


async def _async_generator() -> Any:
    yield


_unused_coroutine: Any = _coroutine()
SUSPENDABLE_TYPES = {
    type(_generator()): "gi_frame",
    type(_unused_coroutine): "cr_frame",
    type(_async_generator()): "ag_frame",
}
"""The types of objects that run `finally` blocks when they are deleted, with the attributes that hold their frames."""
_unused_coroutine.close()


class ModuleTeardown:
    """Removes preloaded modules from `sys.modules` when a run's process exits."""

    def __init__(self, gc: ModuleType) -> None:
        """Remember Python's own types. Must be called before anything is imported.

        `gc` is a copy of the module, whose functions the run cannot replace.
        """
        self.collect: Callable[[], int] = vars(gc)["collect"]
        self.get_objects: Callable[[], list[Any]] = vars(gc)["get_objects"]
        self.python_types = set(map(type, self.get_objects()))
        self.python_types.update(value for value in vars(sys.modules["builtins"]).values() if isinstance(value, type))
        self.standard_files: set[int] = set()
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            buffer = getattr(stream, "buffer", None)
            self.standard_files.update(map(id, (stream, buffer, getattr(buffer, "raw", None))))
        self.is_possible = False
        self.library_modules = set(sys.modules)
        self.preloaded_modules: list[Any] = []

    def check_preloaded(self, modules: dict[str, ModuleType]) -> None:
        """Decide whether the modules may be removed, as far as it depends on the preloaded objects."""
        self.library_modules.update(modules)
        found = self.get_objects()
        self.is_possible = not self.have_deletion_effect(found, set(map(type, found)))
        self.preloaded_modules = list(modules.values())
        self.preloaded_modules.append(self.preloaded_modules)  # so that it is never deleted

    def remove(self, modules: dict[str, ModuleType]) -> None:
        """Remove modules from `sys.modules`, unless deleting an object that the run created may have an effect."""
        if not self.is_possible:
            return
        self.collect()
        found = self.get_objects()
        kinds = set(map(type, found))
        if any(map(self.may_be_native, kinds)) or self.have_deletion_effect(found, kinds):
            return
        for name, module in modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]

    def have_deletion_effect(self, values: list[Any], kinds: set[type]) -> bool:
        """Return whether the deletion of one of these objects runs Python code or closes a file.

        `kinds` contains the types of the objects.
        """
        critical = {kind for kind in kinds if kind in SUSPENDABLE_TYPES or is_reference(kind) or has_finalizer(kind)}
        return any(type(value) in critical and self.has_deletion_effect(value) for value in values)

    def has_deletion_effect(self, value: Any) -> bool:
        """Return whether the deletion of an object of a critical type has an effect."""
        kind = type(value)
        if (frame := SUSPENDABLE_TYPES.get(kind)) is not None:
            return getattr(value, frame) is not None
        if is_reference(kind):
            return self.is_defined_in_workspace(value.__callback__)
        return class_module(kind) != "_io" or not (id(value) in self.standard_files or is_closed(value))

    def is_defined_in_workspace(self, function: Any) -> bool:
        """Return whether a function may be defined in a module that was not preloaded."""
        name = getattr(function, "__module__", None)
        if not isinstance(name, str):
            return False
        return name not in self.library_modules and name.partition(".")[0] not in sys.stdlib_module_names

    def may_be_native(self, kind: type) -> bool:
        """Return whether a native library may define a type. Deleting objects of such a type may have any effect."""
        if kind in self.python_types:
            return False
        name = class_module(kind)
        is_heap_type = bool(type.__dict__["__flags__"].__get__(kind) & IS_HEAP_TYPE)
        top = name.partition(".")[0]
        if top == "builtins":  # the default for native types of some libraries
            return is_heap_type
        file = getattr(sys.modules.get(name), "__file__", None)
        is_defined_in_source = is_heap_type and isinstance(file, str) and file.endswith(".py")
        return not (is_defined_in_source or top in sys.stdlib_module_names or top in PROGRAM_PACKAGES)


def class_module(kind: type) -> str:
    """Return the name of the module that defines a class, or an empty string. Does not call its metaclass."""
    try:
        name: object = type.__dict__["__module__"].__get__(kind)
    except AttributeError:  # the class has deleted it
        return ""
    return name if isinstance(name, str) else ""


def is_reference(kind: type) -> bool:
    """Return whether a type is a weak reference."""
    return issubclass(kind, _weakref.ref)


def has_finalizer(kind: type) -> bool:
    """Return whether the deletion of an object of this type may run Python code or close a file."""
    bases: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return kind not in MEMORY_FILE_TYPES and any("__del__" in class_namespace(base) for base in bases)


def is_closed(file: Any) -> bool:
    """Return whether a file is closed."""
    try:
        return bool(file.closed)
    except ValueError:  # it has been detached from its buffer
        return False
