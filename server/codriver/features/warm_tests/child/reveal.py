"""Reveal a preloaded module when a test run imports it, if the import would still have the same result.

`sys.modules` always looks like that of a new process. If importing a module would read something different now, the
import is not repeated, because two copies of a module in one process are dangerous. The run then requests a plain
process.
"""

from __future__ import annotations

import os
import sys
import time

from .effects import repeat_effect, warning_action
from .hide import PATCHABLE_MODULES
from .import_record import current_environment, native_variables
from .module_attributes import namespace_of
from .module_search import ModuleSearch
from .preload import PYTEST_PACKAGES
from .process_state import file_stat, random_state
from .references import refers_to_any
from .rewriting_rules import RewritingRules, find_rewriting_hook
from .scripts import hide_frames, module_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any

    from .hide import PreloadedModules
    from .import_record import ImportRecord
    from .scripts import RunRecord

bootstrap: Any = sys.modules["_frozen_importlib"]
perf_counter = time.perf_counter
external: Any = sys.modules["_frozen_importlib_external"]

CLOCK_MODULES = frozenset({"time", "datetime", "uuid"})
"""Modules in which freezegun and time-machine replace functions."""
UNCHECKED_PACKAGES = PYTEST_PACKAGES | {"warnings"}
"""Packages whose functions are not compared. pytest itself replaces those of `warnings`."""
RUN_VARIABLES = (b"PYTEST_VERSION", b"PYTEST_CURRENT_TEST", b"PYTHONHASHSEED")
"""Environment variables that a run itself sets."""


class Revealer:
    """Reveals hidden modules to the imports of one run.

    To reveal a module is to insert it into `sys.modules` and to repeat the effects of its import. If an import would
    have a different result now, `request_plain` is called to abort the run, which is then repeated in a plain process.
    Its arguments are a module, the kind of the obstacle, its subject, and other modules in the import with an obstacle
    of the same kind.
    """

    def __init__(
        self,
        preloaded: PreloadedModules,
        record: RunRecord,
        request_plain: Callable[[str, str, str, list[str]], None],
    ) -> None:
        self.preloaded = preloaded
        self.preloader = preloaded.preloader
        self.record = record
        self.hidden = preloaded.hidden
        self.request_plain = request_plain
        self.set_by_imports = {
            value
            for module_name in self.preloader.imports.by_name.values()
            for kind, value in module_name.effects
            if kind == "variable"
        }
        self.set_attributes: dict[tuple[str, str], Any] = {}
        """Attributes that the imports of revealed modules have set on other modules, by module and name."""
        self.random_state: Any = None
        """The state of Python's random number generator when `random` was revealed."""
        self.known_entries: dict[int, Any] = {}
        """The entries of directories, which `ModuleSearch` keeps between imports."""
        self._real_find = bootstrap._find_and_load_unlocked

    def install(self) -> None:
        """Replace the importlib function that finds modules. The replacement does not appear in tracebacks."""

        def _find_and_load_unlocked(name: str, import_: Any, **options: Any) -> Any:
            __tracebackhide__ = True  # where pytest displays frames of importlib
            self.record.started.setdefault(name)
            if name in self.hidden:
                parent = name.rpartition(".")[0]
                if parent and parent not in sys.modules:
                    import_(parent)
                    if name in sys.modules:
                        return sys.modules[name]
                if name in self.hidden:  # importing its parent may have revealed it and removed it from sys.modules
                    self.check_import(name)
                    self.reveal(name)
                    return sys.modules[name]
            before, started_s = self.record.imported_s, perf_counter()
            module = self._real_find(name, import_, **options)
            if (file := module_file(module)) and self.preloader.is_library(file):
                self.record.imported_s = before + perf_counter() - started_s
            return module

        replacement = hide_frames(_find_and_load_unlocked)
        bootstrap._find_and_load_unlocked = replacement
        # `check_modules` must not take this for a replacement by the run.
        self.preloaded.namespaces.get("importlib._bootstrap", {})["_find_and_load_unlocked"] = replacement

    # Checks

    def check_import(self, name: str) -> None:
        """Request a plain process if importing a module would have a different result than when it was preloaded."""
        hidden, ahead, closure = self.hidden.keys(), [name], {name}
        while ahead:
            new = (self.preloaded.requirements[ahead.pop()] & hidden) - closure
            closure |= new
            ahead += new
        records = {module_name: self.preloader.imports.record(module_name) for module_name in closure}
        hook, replaced = find_rewriting_hook(), self.replaced_modules()
        rules = RewritingRules(hook) if hook is not None else None
        search = ModuleSearch(self.known_entries, hook)
        for looker, definer in self.preloaded.subclasses:
            if looker in closure and definer in self.hidden and definer not in closure:
                self.request_plain(definer, "subclasses", looker, [])
        found = {
            module_name: obstacle
            for module_name, record in records.items()
            if (obstacle := self.find_obstacle(module_name, record, replaced, rules, search))
        }
        for module_name, (kind, about) in found.items():
            others = [other for other in found if other != module_name and found[other][0] == kind]
            self.request_plain(module_name, kind, about, others)
        self.check_modules(name, records)

    def check_modules(self, name: str, records: dict[str, ImportRecord]) -> None:
        """Request a plain process if the modules used by an import are not those that were preloaded.

        A module may have been replaced in `sys.modules`, or one of its functions, classes and constants. `records`
        contains the import records of all modules that the import of `name` reveals.
        """
        used = {other: module_name for module_name, record in records.items() for other in record.imports}
        used.update((module_name.rpartition(".")[0], module_name) for module_name in records if "." in module_name)
        used.update((module_name, module_name) for module_name in records if module_name in sys.modules)
        known = self.preloaded.loaded
        top, standard = name.partition(".")[0], sys.stdlib_module_names
        is_checked = top not in standard and top not in UNCHECKED_PACKAGES

        def request_plain(other: str, about: str) -> None:
            users = [module_name for module_name, record in records.items() if other in record.imports]
            self.request_plain(used[other], "module", about, users)

        for other in used:
            if other == "__main__" or (other in self.hidden and other not in sys.modules):
                continue
            if sys.modules.get(other) is not known.get(other):
                request_plain(other, other)
            elif is_checked and not (other in PATCHABLE_MODULES or other.partition(".")[0] in UNCHECKED_PACKAGES):
                present = namespace_of(known.get(other))
                for key, value in self.preloaded.namespaces.get(other, {}).items():
                    if present.get(key) is value or getattr(value, "__module__", "") in CLOCK_MODULES:
                        continue
                    is_set_by_import = present.get(key) is self.set_attributes.get((other, key), value)
                    if not is_set_by_import or self.has_original_user(records, other, key, value):
                        request_plain(other, f"{other}.{key}")

    def has_original_user(self, names: Iterable[str], owner: str, attribute: str, original: Any) -> bool:
        """Return whether one of these modules refers to the original value of an attribute, and is still hidden."""
        users = self.preloaded.original_users.get((owner, attribute))
        return any(
            refers_to_any(self.hidden[name], [original]) if users is None else name in users
            for name in names
            if name in self.hidden
        )

    def replaced_modules(self) -> dict[str, list[Any]]:
        """Return the revealed modules in which functions have been replaced, with the original functions."""
        found = {}
        for name, functions in self.preloaded.functions.items():
            if (module := sys.modules.get(name)) is not None:
                present = vars(module)
                real = [value for key, value in functions.items() if present.get(key) is not value]
                if real:
                    found[name] = real
        return found

    def replaced_function_obstacle(
        self, name: str, record: ImportRecord, replaced: dict[str, list[Any]]
    ) -> tuple[str, str] | None:
        """Return an obstacle if the import would use functions replaced in this run, and otherwise None.

        If only clocks are replaced, this applies only to modules that store an original function, because other modules
        look it up when they call it. Replaced locks and sockets have other effects, too.
        """
        concerned = [module_name for module_name in replaced if module_name in record.imports]
        if not concerned:
            return None
        if CLOCK_MODULES.issuperset(replaced):
            real = [value for module_name in concerned for value in replaced[module_name]]
            if not refers_to_any(self.hidden[name], real):
                return None
        return "replaced", concerned[0]

    def find_obstacle(
        self,
        name: str,
        record: ImportRecord,
        replaced: dict[str, list[Any]],
        rules: RewritingRules | None,
        search: ModuleSearch,
    ) -> tuple[str, str] | None:
        """Return the kind and the subject of the first obstacle to revealing a module, or None if there is none."""
        return (
            self.changed_variables_obstacle(record)
            or self.changed_file_obstacle(record)
            or self.changed_directory_obstacle(record)
            or self.changed_module_obstacle(name, record, search)
            or self.rewriting_obstacle(name, record, rules)
            or self.changed_effect_obstacle(record)
            or self.replaced_function_obstacle(name, record, replaced)
        )

    def changed_variables_obstacle(self, record: ImportRecord) -> tuple[str, str] | None:
        """Return an obstacle if environment variables that the import read have changed, and otherwise None.

        Variables that imports themselves set, as scikit-learn does, may change.
        """
        if not record.environment and record.native is None and record.whole_environment is None:
            return None
        present = current_environment()
        recorded = dict(record.environment)
        if record.native is not None:
            recorded.update(dict.fromkeys(native_variables(present)) | record.native)
        if record.whole_environment is not None:
            recorded.update(dict.fromkeys(present) | record.whole_environment)
        names = {
            key
            for key, value in recorded.items()
            if present.get(key) != value
            and key not in RUN_VARIABLES
            and self.set_by_imports.isdisjoint({(key, value), (key, present.get(key))})
        }
        return ("variable", " ".join(sorted(map(os.fsdecode, names)))) if names else None

    def changed_file_obstacle(self, record: ImportRecord) -> tuple[str, str] | None:
        """Return an obstacle if the module's file or a file that its import read has changed, and otherwise None."""
        if record.stat is not None and file_stat(record.origin) != record.stat:
            return "file", record.origin
        return next((("file", path) for path, stat in record.files.items() if file_stat(path) != stat), None)

    def changed_directory_obstacle(self, record: ImportRecord) -> tuple[str, str] | None:
        """Return an obstacle if the import read the current directory, which has changed since, and otherwise None."""
        if record.directory and record.directory != os.getcwd():
            return "directory", record.directory
        return None

    def changed_module_obstacle(self, name: str, record: ImportRecord, search: ModuleSearch) -> tuple[str, str] | None:
        """Return an obstacle if the import would now load a different module, and otherwise None.

        This includes finding a top-level module that was missing before.
        """
        for missed in record.missed:
            if missed not in self.hidden and missed not in sys.modules and search.finds_any(missed):
                return "found", missed
        parent = name.rpartition(".")[0]
        if record.stat is None:
            return None if parent else self.changed_namespace_obstacle(name)
        path = None
        if parent:
            owner = sys.modules.get(parent) or self.hidden.get(parent)
            path = getattr(owner, "__path__", None)
            path = list(getattr(path, "_path", path)) if path is not None else None
            if path and not getattr(owner, "__file__", None):
                found = external.PathFinder.find_spec(name, path)
                if found is None or found.origin != record.origin:
                    return "hidden", name
        elif not search.finds(name, record.origin):
            return "hidden", name
        for finder in search.earlier_finders:
            if finder.find_spec(name, path) is not None:
                return "finder", type(finder).__name__
        return None

    def changed_namespace_obstacle(self, name: str) -> tuple[str, str] | None:
        """Return an obstacle if a top-level namespace package would now have other directories, and otherwise None."""
        path: Any = getattr(self.hidden[name], "__path__", None)
        if type(path).__name__ == "_NamespacePath":
            found = external.PathFinder.find_spec(name)
            if found is None or list(found.submodule_search_locations or ()) != path._path:
                return "namespace", name
        return None

    def rewriting_obstacle(
        self, name: str, record: ImportRecord, rules: RewritingRules | None
    ) -> tuple[str, str] | None:
        """Return an obstacle if pytest would rewrite the module's assertions differently now, and otherwise None."""
        is_rewritten = record.loader == "AssertionRewritingHook"
        if not is_rewritten and (rules is None or record.loader != "SourceFileLoader"):
            return None
        if is_rewritten != (rules is not None and rules.would_rewrite(name, record.origin)):
            return "rewriting", name
        return None

    def changed_effect_obstacle(self, record: ImportRecord) -> tuple[str, str] | None:
        """Return an obstacle if a side effect of the import would differ from the recorded one, and otherwise None."""
        warnings, logging = sys.modules.get("warnings"), sys.modules.get("logging")
        loggers = logging.root.manager.loggerDict if logging is not None else {}
        for kind, value in record.effects:
            if kind == "warning" and warnings is not None and warning_action(value, warnings) == "error":
                return "warning", str(value[0])[:200]
            if kind == "drawn" and self.random_state not in (None, random_state()):
                return "drawn", "random"
            if kind == "logger" and hasattr(loggers.get(value[0]), "parent"):
                return "logger", value[0]
            # A module that replaces the class itself is not preloaded.
            if kind == "logger" and logging is not None and logger_class(logging) is not logging.Logger:
                return "logger class", value[0]
        return None

    # Revealing

    def reveal(self, name: str) -> None:
        """Insert a hidden module, its parents and its imports into `sys.modules`, and repeat their effects."""
        parent, _, child = name.rpartition(".")
        if parent in self.hidden:
            self.reveal(parent)
        if name not in self.hidden:
            return
        module, record = self.hidden.pop(name), self.preloader.imports.record(name)
        sys.modules[name] = module
        for import_ in record.imports:
            if import_ in self.hidden:
                self.reveal(import_)
        sys.modules[name] = sys.modules.pop(name)  # an import moves its module to the end when it has finished
        if record.loader == "AssertionRewritingHook" and (hook := find_rewriting_hook()) is not None:
            module.__loader__ = hook
            vars(module.__spec__).update(loader=hook)
            hook._rewritten_names[name] = sys.modules["pathlib"].Path(record.origin)
        if name in self.preloaded.detached:
            setattr(sys.modules[parent], child, module)
            self.set_attributes[parent, child] = module
        for effect in record.effects:
            repeat_effect(*effect, sys.modules)
            if effect[0] == "attribute":
                owner, attribute, _, new = effect[1]
                self.set_attributes[owner.__name__, attribute] = new
        draw_again(name, module)
        if name == "random":
            self.random_state = random_state()


def logger_class(logging: Any) -> object:
    """Return the class used for new loggers."""
    return logging.root.manager.loggerClass or logging.getLoggerClass()


def draw_again(name: str, module: ModuleType) -> None:
    """Redraw an import's random numbers and time, so that they differ between child processes."""
    found: Any = module
    if name in ("random", "numpy.random"):
        found.seed()
    elif name == "multiprocessing.process":
        found.current_process()._config["authkey"] = found.AuthenticationString(os.urandom(32))
    elif name == "logging":
        found._startTime = time.time_ns() if sys.version_info >= (3, 13) else time.time()
