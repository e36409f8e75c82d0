"""Hide preloaded modules, so that the process looks like one in which they have not been imported."""

from __future__ import annotations

import sys

from .effects import MISSING_VALUE, withdraw_effect
from .module_attributes import is_definition, namespace_of
from .process_state import file_stat
from .references import find_references

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .preload import Preloader

PATCHABLE_MODULES = (
    "time", "datetime", "socket", "ssl", "select", "selectors", "threading", "subprocess", "os", "random", "uuid",
    "signal", "queue", "pathlib", "io", "tempfile",
)  # fmt: skip
"""Modules whose functions freezegun, gevent and others replace.

Modules that have already imported the functions keep the original ones.
"""


class PreloadedModules:
    """The preloaded modules, which are hidden until a run imports them."""

    def __init__(self, preloader: Preloader) -> None:
        self.preloader = preloader
        self.hidden: dict[str, ModuleType] = {}
        self.requirements: dict[str, frozenset[str]] = {}
        """By module, the modules that it imported, and its parent."""
        self.detached: set[str] = set()
        """Hidden modules that were attributes of their parents."""
        self.functions: dict[str, dict[str, Any]] = {}
        """The functions of the modules in `PATCHABLE_MODULES`."""
        self.loaded: dict[str, ModuleType] = {}
        """All modules that were loaded when the preloaded ones were hidden."""
        self.namespaces: dict[str, dict[str, Any]] = {}
        """The contents of each hidden module: its functions, classes and constants by name."""
        self.original_users: dict[tuple[str, str], set[str]] = {}
        """The hidden modules that refer to the original value of an attribute that another import replaces.

        The key is the module with the attribute, and the attribute's name.
        """
        self.subclasses: list[tuple[str, str]] = []
        """Modules that look up a class's subclasses, each with a module in another package that defines one."""

    def hide(self) -> None:
        """Remove modules that a new interpreter does not load from `sys.modules`, and undo their effects."""
        self._restore_replaced()
        for name in PATCHABLE_MODULES:
            if (module := sys.modules.get(name)) is not None:
                found = {key: value for key, value in vars(module).items() if callable(value) and key != "excepthook"}
                self.functions[name] = found
        self._find_subclasses()
        self._record_registrations()
        for record in reversed(self.preloader.imports.by_name.values()):
            for effect in reversed(record.effects):
                withdraw_effect(*effect)
        for name in [name for name in sys.modules if name not in self.preloader.base]:
            self.hidden[name] = sys.modules.pop(name)
            record = self.preloader.imports.record(name)
            record.stat = file_stat(record.origin) if record.origin else None
        for name, module in self.hidden.items():
            parent, _, child = name.rpartition(".")
            owner = self.hidden.get(parent) or sys.modules.get(parent)
            if owner is not None and getattr(owner, "__dict__", {}).get(child) is module:
                previous = self.preloader.imports.record(name).parent_attribute
                if previous is MISSING_VALUE or previous is module:
                    delattr(owner, child)
                else:
                    setattr(owner, child, previous)
                self.detached.add(name)
        self._forget_cached_attributes()
        self.loaded.update(sys.modules | self.hidden)
        for name, module in self.hidden.items():
            imports = self.preloader.imports.record(name).imports
            self.requirements[name] = frozenset(imports) | {name.rpartition(".")[0]}
            self.namespaces[name] = {
                key: value for key, value in namespace_of(module).items() if is_definition(key, value)
            }
        self._find_original_users()
        self.preloader.contents.clear()
        self.preloader.registries.discard_copies()

    def _find_original_users(self) -> None:
        """Find the modules that refer to original values of replaced attributes, which would take each run too long."""
        replaced = {
            (owner.__name__, attribute): old
            for record in self.preloader.imports.by_name.values()
            for kind, effect in record.effects
            if kind == "attribute"
            for owner, attribute, old, _ in [effect]
            if self.namespaces.get(owner.__name__, {}).get(attribute, MISSING_VALUE) is old
        }
        if not replaced:
            return
        self.original_users = {key: set() for key in replaced}
        for name, module in self.hidden.items():
            found = find_references(module, list(replaced.values()))
            for key, old in replaced.items():
                if id(old) in found:
                    self.original_users[key].add(name)

    def _record_registrations(self) -> None:
        """Record the entries that each import added to containers in modules that it did not import itself."""
        for name, owner, path, container, new in self.preloader.registries.effects:
            if name not in self.modules_to_reveal(owner):
                self.preloader.imports.record(name).effects.append(("entries", (owner, path, container, new)))
        for name, registry in self.preloader.registries.changers.items():
            owner = next(
                (watched for watched in self.preloader.registries.watched if registry.startswith(f"{watched}.")), ""
            )
            if name not in self.modules_to_reveal(owner):
                self.preloader.imports.add_obstacle(name, f"changes {registry}")

    def modules_to_reveal(self, name: str) -> set[str]:
        """Return the modules that must be revealed together with a module: its imports and its parents, recursively."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            module_name = waiting.pop()
            if module_name and module_name not in found:
                found.add(module_name)
                waiting += [*self.preloader.imports.record(module_name).imports, module_name.rpartition(".")[0]]
        return found

    def _restore_replaced(self) -> None:
        """Restore the original functions in modules that have imported one of the recording wrappers."""
        for module in list(sys.modules.values()):
            if not issubclass(type(module), type(sys)):
                continue
            for key, value in list(vars(module).items()):
                if (found := self.preloader.replaced.get(id(value))) is not None:
                    setattr(module, key, found[1])
                elif issubclass(type(value), type) and value.__module__ == module.__name__:
                    for name, member in list(vars(value).items()):
                        if (found := self.preloader.replaced.get(id(member))) is not None:
                            setattr(value, name, found[1])

    def _forget_cached_attributes(self) -> None:
        """Delete attributes cached by a module's `__getattr__`, so that accessing them imports the submodule."""
        for name, module in self.hidden.items():
            previous, present = self.preloader.contents.get(name, {}), getattr(module, "__dict__", {})
            if "__getattr__" in previous:
                for key in present.keys() - previous.keys():
                    if not key.startswith("_"):
                        del present[key]

    def _find_subclasses(self) -> None:
        """Find modules that call `__subclasses__`, and the modules of other packages that define the subclasses."""
        lookers: dict[str, str] = {}
        for name, record in self.preloader.imports.by_name.items():
            top = name.partition(".")[0]
            is_candidate = record.origin.endswith(".py") and top not in sys.stdlib_module_names and top not in lookers
            if is_candidate and mentions_subclasses(record.origin):
                lookers[top] = name
        for name in [name for name in sys.modules if lookers and name not in self.preloader.base]:
            for value in list(getattr(sys.modules[name], "__dict__", {}).values()):
                if issubclass(type(value), type) and value.__module__ == name:
                    for base in value.__mro__[1:]:
                        top = str(base.__module__).partition(".")[0]
                        if top in lookers and top != name.partition(".")[0]:
                            self.subclasses.append((lookers[top], name))

    def obstacles(self) -> dict[str, str]:
        """Return the modules that were loaded but must not be preloaded, with the reasons."""
        found = {
            name: record.obstacle
            for name, record in self.preloader.imports.by_name.items()
            if record.obstacle and not self.preloader.exclusion_reason(name)
        }
        for name in self.hidden:
            parent = name.rpartition(".")[0]
            if (
                parent
                and parent not in self.hidden
                and parent not in self.preloader.base
                and not self.preloader.exclusion_reason(parent)
            ):
                found.setdefault(parent, f"is missing, and {name} is loaded")
        return found


def mentions_subclasses(path: str) -> bool:
    """Return whether a source file contains a call to `__subclasses__`."""
    try:
        with open(path, "rb") as file:
            return b"__subclasses__()" in file.read()
    except OSError:
        return False
