"""Preload the modules of a plan, record the effects of each import, and hide the modules again.

No module of the workspace is loaded. A module whose file is outside the interpreter's library directories aborts the
imports that led to it. The warm process never calls anything that it imports.
"""

from __future__ import annotations

import builtins
import os
import sys
from contextlib import contextmanager

from .effects import MISSING_VALUE, RecordedFunction, current_effects, warning_filters, withdraw_effect
from .import_record import ImportRecord, current_environment, native_variables
from .process_state import (
    TRIAL_FORK_FILE,
    changed_settings,
    file_stat,
    process_settings,
    random_state,
    real_stat,
    thread_ids,
)
from .registries import Registries
from .scripts import hide_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType
    from typing import Any

bootstrap: Any = sys.modules["_frozen_importlib"]

PATCHABLE_MODULES = (
    "time", "datetime", "socket", "ssl", "select", "selectors", "threading", "subprocess", "os", "random", "uuid",
    "signal", "queue", "pathlib", "io", "tempfile",
)  # fmt: skip
"""Modules whose functions freezegun, gevent and others replace.

Modules that imported the functions earlier still have the original ones.
"""
REDRAWN_MODULES = ("random", "multiprocessing.process", "numpy.random")
"""Modules that, like their submodules, draw random numbers during import. `draw_again` repeats it on a reveal."""
KEY_DRAWING_MODULES = frozenset({"opentelemetry.context"})
"""Modules that draw random numbers only for the names of keys that are not visible outside of the process."""
KERNEL_FILE_PREFIXES = ("/proc/", "/dev/", "/sys/")
"""Directories with files whose content the kernel generates. Reading them is not recorded."""
FACT_FINDING_MODULES = frozenset({"ctypes.util", "platform"})
"""Modules that start processes to determine facts about the machine that do not change between runs."""
WARM_PROCESS_ID = os.getpid()
"""Process id of the warm process, which differs in its children."""
WRITE_MODE_CHARACTERS = frozenset("wax+")
"""Characters in the mode of a file that is opened for writing."""
real_os_open = os.open


class ExcludedModuleError(BaseException):
    """Raised to abort the import of an excluded module.

    It is not an `Exception`, so that libraries do not catch it.
    """


class Preloader:
    """Imports modules, records the effects of each import, and hides the modules again."""

    def __init__(
        self,
        base: set[str],
        libraries: tuple[str, ...],
        excluded: Mapping[str, str],
        watched: Mapping[str, Iterable[str]],
    ) -> None:
        self.base = base
        """The modules of a new interpreter."""
        self.libraries = libraries
        """The interpreter's library directories, each with a trailing separator."""
        self.excluded = dict(excluded)
        """The modules and packages that must not be preloaded, with reasons."""
        self.watched = watched
        """Attributes that imports of other packages replace, by module, as found by an earlier start."""
        self.records: dict[str, ImportRecord] = {}
        self.hidden: dict[str, ModuleType] = {}
        self.detached: set[str] = set()
        """Hidden modules that were attributes of their parents."""
        self.functions: dict[str, dict[str, Any]] = {}
        """The functions of the modules in `PATCHABLE_MODULES`."""
        self.generators: list[Any] = []
        """Unseeded random number generators created by imports."""
        self.bit_generators: list[Any] = []
        """Unseeded bit generators of numpy."""
        self.is_draw_allowed = False
        self.subclasses: list[tuple[str, str]] = []
        """Modules that look up subclasses of a class, each with a module of another package that defines one."""
        self._importing: list[str] = []
        self._attributed: set[tuple[str, Any]] = set()
        self._always: Any = None
        self._drawn: Any = None
        self._outputs: dict[str, int] = {}
        self._replaced: dict[int, tuple[Any, Any]] = {}
        self._contents = {name: module_contents(module) for name, module in list(sys.modules.items())}
        self.registries = Registries({})
        self._real_load: Callable[[Any], ModuleType] = bootstrap._load_unlocked
        self._real_find: Callable[..., ModuleType] = bootstrap._find_and_load
        self._real_import = builtins.__import__

    def record(self, name: str) -> ImportRecord:
        """Return the record of a module's import, which is created at the first call."""
        return self.records.setdefault(name, ImportRecord())

    def is_library(self, path: str) -> bool:
        """Return whether a path is in one of the interpreter's library directories."""
        return f"{os.path.abspath(path)}{os.sep}".startswith(self.libraries)

    def exclusion_reason(self, name: str) -> str:
        """Return the reason why a module must not be preloaded, or an empty string."""
        parts = name.split(".")
        names = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
        return next((self.excluded[module_name] for module_name in names if module_name in self.excluded), "")

    def obstacles(self) -> dict[str, str]:
        """Return the modules that were loaded but must not be preloaded, with the reasons."""
        found = {
            name: record.obstacle
            for name, record in self.records.items()
            if record.obstacle and not self.exclusion_reason(name)
        }
        for name in self.hidden:
            parent = name.rpartition(".")[0]
            if parent and parent not in self.hidden and parent not in self.base and not self.exclusion_reason(parent):
                found.setdefault(parent, f"is missing, and {name} is loaded")
        return found

    # Recording

    @contextmanager
    def record_imports(self, outputs: Mapping[str, int]) -> Iterator[None]:
        """Record imports and their side effects while the context is active.

        `outputs` maps the names of the standard streams to the file descriptors to which they write.
        """
        environ_type: Any = type(os.environ)
        replaced: list[tuple[Any, str, Any]] = []

        def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
            real = vars(owner)[name]
            replacement = make(real)
            replaced.append((owner, name, real))
            self._replaced[id(replacement)] = replacement, real
            setattr(owner, name, replacement)

        replace(bootstrap, "_load_unlocked", lambda _: self._load)
        replace(bootstrap, "_find_and_load", lambda _: self._find_and_load)
        replace(builtins, "__import__", lambda _: self._import)
        replace(environ_type, "__getitem__", self._recording_variable_read)
        replace(environ_type, "__iter__", self._recording_environment_read)
        # From Python 3.14 on, a new interpreter has not imported `io`, which provides `open`.
        files = sys.modules.get("io") or sys.modules["_io"]
        for owner, name in (os, "stat"), (builtins, "open"), (files, "open"):
            replace(owner, name, lambda real: RecordingFileFunction(self, real))
        for name in ("access", "lstat", "open", "readlink"):
            replace(os, name, lambda real: RecordingFileFunction(self, real))
        for name in ("listdir", "scandir"):
            replace(os, name, lambda real: RecordingFileFunction(self, real, end=os.sep))
        replace(os, "urandom", lambda real: RecordingUrandom(self, real))
        for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"):
            replace(os, name, lambda real: RefusedCall(self, real, "starts a process"))
        import _posixsubprocess

        replace(_posixsubprocess, "fork_exec", lambda real: RefusedCall(self, real, "starts a process"))
        import atexit
        import codecs
        import warnings

        replace(atexit, "register", lambda real: RecordedFunction(real, self.add_effect))
        replace(codecs, "register", lambda real: RecordedFunction(real, self.add_effect))
        replace(warnings, "showwarning", lambda _: self._record_warning)
        try:
            import random
        except ExcludedModuleError:  # the workspace has one
            pass
        else:
            replace(random, "_urandom", lambda real: real)  # it imported the replacement installed above
            replace(random.Random, "seed", self._recording_seed)
        original_filters = warnings.filters[:]
        warnings.simplefilter("always")
        self._always = warnings.filters[0]
        self._outputs.update(outputs)
        finder = MissedModules(self)
        sys.meta_path.append(finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            for owner, name, value in reversed(replaced):
                setattr(owner, name, value)
            warnings.filters[:] = original_filters  # type: ignore[index]  # it is a list

    def preload(self, names: list[str]) -> None:
        """Import modules by name, and ignore those that cannot be imported."""
        import warnings

        for name in names:
            warnings.filters[:] = [self._always]  # type: ignore[index]  # it is a list
            try:
                bootstrap._gcd_import(name)
            except BaseException:  # noqa: S112 - it is in the module's record
                continue

    def current_import(self) -> ImportRecord | None:
        """Return the record of the innermost import in progress, or None."""
        return self.records[self._importing[-1]] if self._importing else None

    def add_effect(self, effect: tuple[str, Any]) -> bool:
        """Add an effect to the innermost import in progress. Return False if there is none."""
        current = self.current_import()
        if current is not None:
            current.effects.append(effect)
        return current is not None

    def add_obstacle(self, name: str, obstacle: str) -> None:
        """Record the reason why a module must not be preloaded."""
        record = self.record(name)
        record.obstacle = record.obstacle or obstacle

    def add_current_obstacle(self, obstacle: str) -> None:
        """Record the reason why the module that is being imported must not be preloaded."""
        self.add_obstacle(self._importing[-1], obstacle)

    def redraws_random_numbers(self) -> bool:
        """Return whether the module that is being imported draws its random numbers again when it is revealed."""
        name = f"{self._importing[-1]}."
        return any(name.startswith(f"{prefix}.") for prefix in REDRAWN_MODULES)

    @hide_frames
    def _load(self, spec: Any) -> ModuleType:
        """Load a module and record the effects of its import. Replaces `_load_unlocked` of importlib."""
        name, importers = spec.name, list(self._importing)
        mine = self.record(name)
        self._refuse_excluded(spec)
        before, known, threads = process_settings(), set(sys.modules), thread_ids()
        present, variables = current_effects() | warning_filters(self._always), current_environment()
        self._record_drawn_numbers()
        self._importing.append(name)
        try:
            module = self._real_load(spec)
        except BaseException as error:
            self._record_failed_import(name, error, importers)
            raise
        finally:
            self._record_drawn_numbers()
            self._importing.pop()
        mine.loader, mine.origin = type(spec.loader).__name__, spec.origin if spec.has_location else ""
        for other in sys.modules.keys() - known - self.records.keys():  # such as six.moves, which is inserted manually
            self.record(other)
            mine.imports[other] = None
        if mine.loader == "ExtensionFileLoader":
            self._record_native(name, module)
        if pid_names := [key for key, value in vars(module).items() if type(value) is int and value == WARM_PROCESS_ID]:
            mine.effects.append(("process id", (module, pid_names)))
        for key, effect in (current_effects() | warning_filters(self._always)).items():
            if key not in present and key not in self._attributed:
                self._attributed.add(key)
                mine.effects.append(effect)
        self._record_output(mine)
        changed = changed_settings(before)
        changed += ["threads"] if thread_ids() - threads and thread_ids(after_fork=True) - threads else []
        changed += ["variables"] if variables.keys() - current_environment().keys() else []
        if changed:
            self.add_obstacle(name, f"changes {', '.join(changed)}")
        if importers:
            self.record(importers[-1]).imports[name] = None
        self._contents[name] = module_contents(module)
        self._record_attributes(name)
        self.registries.copy_after_import(name, module)
        return module

    def _record_drawn_numbers(self) -> None:
        """Record that the current import used Python's random number generator since the last call."""
        drawn = self._drawn
        self._drawn = random_state()
        current = self.current_import()
        if current is not None and drawn not in (None, self._drawn) and ("drawn", None) not in current.effects:
            current.effects.append(("drawn", None))

    def _refuse_excluded(self, spec: Any) -> None:
        """Raise `ExcludedModuleError` if a module is excluded, and exclude the modules that are importing it."""
        paths = [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
        if not all(map(self.is_library, paths)):
            self.excluded.setdefault(spec.name, "is outside the interpreter's libraries")
        if self.exclusion_reason(spec.name):
            for importer in self._importing:
                self.add_obstacle(importer, f"imports {spec.name}")
            raise ExcludedModuleError(spec.name)

    def _record_failed_import(self, name: str, error: BaseException, importers: list[str]) -> None:
        """Record an import that raised an exception.

        If it was an ImportError, the importer may have handled it, so the events are added to the importer's record.
        Otherwise, the module and its importers must not be preloaded.
        """
        if isinstance(error, ImportError) and importers:
            mine, importer = self.record(name), self.record(importers[-1])
            importer.imports.update(mine.imports)  # they stay loaded
            importer.environment.update(mine.environment)
            importer.files.update(mine.files)
            importer.effects.extend(mine.effects)
            return
        for module_name in [*importers, name]:
            self.add_obstacle(module_name, f"importing {name} raised {type(error).__name__}")

    def _record_native(self, name: str, module: ModuleType) -> None:
        """Record what an extension module does without calling Python functions.

        This is importing other modules and reading environment variables.
        """
        mine = self.record(name)
        names = (value.__name__ for value in vars(module).values() if issubclass(type(value), type(sys)))
        mine.imports.update((module_name, None) for module_name in names if module_name != name)
        if name == "numpy.random.bit_generator" and (draw := vars(module).get("randbits")) is not None:
            allowed = RecordingSeedSource(self, draw)
            self._replaced[id(allowed)] = allowed, draw
            vars(module)["randbits"] = allowed
        if "lib-dynload" not in mine.origin:
            mine.native = native_variables(current_environment())

    def _record_output(self, record: ImportRecord) -> None:
        """Record what an import wrote to the standard streams, and truncate the files that it was written to."""
        for name, descriptor in self._outputs.items():
            getattr(sys, name).flush()
            if size := os.fstat(descriptor).st_size:
                record.effects.append((name, os.pread(descriptor, size, 0).decode(errors="replace")))
                os.ftruncate(descriptor, 0)

    def _record_attributes(self, name: str) -> None:
        """Record the watched attributes of modules of other packages that an import has replaced."""
        for owner, attributes in self.watched.items():
            if owner in self._contents and (module := sys.modules.get(owner)) is not None:
                previous, present = self._contents[owner], module_contents(module)
                for attribute in attributes:
                    old, new = previous.get(attribute, MISSING_VALUE), present.get(attribute, MISSING_VALUE)
                    if old is not new:
                        previous[attribute] = new
                        if owner.partition(".")[0] == name.partition(".")[0]:
                            continue
                        if ("attribute", (owner, attribute)) in self._attributed:
                            self.add_obstacle(name, f"replaces {owner}.{attribute}, which another module has replaced")
                        self._attributed.add(("attribute", (owner, attribute)))
                        self.record(name).effects.append(("attribute", (module, attribute, old, new)))

    @hide_frames
    def _find_and_load(self, name: str, import_: Any, **options: Any) -> ModuleType:
        """Record an import of a module that is not loaded yet. Replaces `_find_and_load` of importlib."""
        importer = self._importing[-1] if self._importing else ""
        module = self._real_find(name, import_, **options)
        if importer and name != importer:
            self.record(importer).imports[name] = None
        return module

    @hide_frames
    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:  # noqa: A002 - as `__import__` has them
        """Record an import, even of modules that are already loaded. Replaces `__import__`."""
        importer = self._importing[-1] if self._importing else ""
        result = self._real_import(name, globals, locals, fromlist, level)
        if importer:
            package = (globals or {}).get("__package__") or (globals or {}).get("__name__", "")
            base = package.rsplit(".", level - 1)[0] if level > 1 else package
            full = f"{base}.{name}" if level and name else base if level else name
            parts = full.split(".")
            names = [".".join(parts[: end + 1]) for end in range(len(parts))]
            names += [f"{full}.{module_name}" for module_name in fromlist or () if isinstance(module_name, str)]
            imports = self.record(importer).imports
            imports.update(
                (module_name, None) for module_name in names if module_name in sys.modules and module_name != importer
            )
        return result

    def _recording_variable_read(self, real: Any) -> Any:
        """Return a wrapper of `os.environ.__getitem__` that records which variable an import reads."""
        process_environ: Any = os.environ

        def __getitem__(environ: Any, key: str) -> str:  # noqa: N807 - it stands in for that
            current = self.current_import()
            if current is not None and environ is process_environ:
                encoded = environ.encodekey(key)
                current.environment.setdefault(encoded, environ._data.get(encoded))
            value: str = real(environ, key)
            return value

        return __getitem__

    def _recording_environment_read(self, real: Any) -> Any:
        """Return a wrapper of `os.environ.__iter__` that records that an import reads all variables."""

        def __iter__(environ: Any) -> Any:  # noqa: N807 - it stands in for that
            current = self.current_import()
            if current is not None and environ is os.environ and current.whole_environment is None:
                current.whole_environment = current_environment()
            return real(environ)

        return __iter__

    def _recording_seed(self, real: Any) -> Any:
        """Return a wrapper of `random.Random.seed` that records generators which an import seeds randomly."""

        def seed(generator: Any, a: Any = None, *more: Any, **options: Any) -> None:
            if a is None and self._importing and type(generator).__name__ != "SystemRandom":
                self.generators.append(generator)
            real(generator, a, *more, **options)

        return seed

    def _record_warning(self, message: Any, category: Any, filename: str, line: int, *_rest: Any) -> None:
        """Record a warning. Replaces `warnings.showwarning`.

        The filter `always` ensures that this function is called for every warning.
        """
        if self._importing and filename != TRIAL_FORK_FILE:  # Python 3.12 warns about forks in processes with threads
            names = (
                name for name, module in list(sys.modules.items()) if getattr(module, "__file__", None) == filename
            )
            self.add_effect(("warning", (message, category, filename, line, next(names, self._importing[-1]))))

    # Hiding

    def unwatched_replacements(self) -> dict[str, list[str]]:
        """Return attributes that were replaced after the import of their module, and are not watched yet."""
        found: dict[str, list[str]] = {}
        for name, previous in self._contents.items():
            if (module := sys.modules.get(name)) is not None:
                changed = set(changed_attributes(previous, module_contents(module))) - set(self.watched.get(name, ()))
                if changed:
                    found[name] = sorted(changed)
        return found

    def hide_modules(self) -> None:
        """Remove modules that a new interpreter does not have from `sys.modules`, and undo their effects."""
        self._restore_replaced()
        for name in PATCHABLE_MODULES:
            if (module := sys.modules.get(name)) is not None:
                found = {key: value for key, value in vars(module).items() if callable(value) and key != "excepthook"}
                self.functions[name] = found
        self._find_subclasses()
        self._record_registrations()
        for record in reversed(self.records.values()):
            for effect in reversed(record.effects):
                withdraw_effect(*effect)
        for name in [name for name in sys.modules if name not in self.base]:
            self.hidden[name] = sys.modules.pop(name)
            record = self.record(name)
            record.stat = file_stat(record.origin) if record.origin else None
        for name, module in self.hidden.items():
            parent, _, child = name.rpartition(".")
            owner = self.hidden.get(parent) or sys.modules.get(parent)
            if owner is not None and getattr(owner, "__dict__", {}).get(child) is module:
                delattr(owner, child)
                self.detached.add(name)
        self._forget_cached_attributes()
        self._contents.clear()
        self.registries.discard_copies()

    def _record_registrations(self) -> None:
        """Record the entries that each import added to containers in modules that it does not import itself."""
        for name, owner, path, container, new in self.registries.effects:
            if name not in self.modules_to_reveal(owner):
                self.record(name).effects.append(("entries", (owner, path, container, new)))
        for name, registry in self.registries.changers.items():
            owner = next((watched for watched in self.registries.watched if registry.startswith(f"{watched}.")), "")
            if name not in self.modules_to_reveal(owner):
                self.add_obstacle(name, f"changes {registry}")

    def modules_to_reveal(self, name: str) -> set[str]:
        """Return the modules that must be revealed together with a module: its imports and its parents, recursively."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            module_name = waiting.pop()
            if module_name and module_name not in found:
                found.add(module_name)
                waiting += [*self.record(module_name).imports, module_name.rpartition(".")[0]]
        return found

    def _restore_replaced(self) -> None:
        """Restore the original functions in modules that have imported one of the recording wrappers."""
        for module in list(sys.modules.values()):
            if not issubclass(type(module), type(sys)):
                continue
            for key, value in list(vars(module).items()):
                if (found := self._replaced.get(id(value))) is not None:
                    setattr(module, key, found[1])
                elif issubclass(type(value), type) and value.__module__ == module.__name__:
                    for name, member in list(vars(value).items()):
                        if (found := self._replaced.get(id(member))) is not None:
                            setattr(value, name, found[1])

    def _forget_cached_attributes(self) -> None:
        """Delete attributes that `__getattr__` of a module has cached, so that accessing them imports the submodule."""
        for name, module in self.hidden.items():
            previous, present = self._contents.get(name, {}), getattr(module, "__dict__", {})
            if "__getattr__" in previous:
                for key in present.keys() - previous.keys():
                    if not key.startswith("_"):
                        del present[key]

    def _find_subclasses(self) -> None:
        """Find modules that call `__subclasses__`, and the modules of other packages that define the subclasses."""
        lookers: dict[str, str] = {}
        for name, record in self.records.items():
            top = name.partition(".")[0]
            is_candidate = record.origin.endswith(".py") and top not in sys.stdlib_module_names and top not in lookers
            if is_candidate and mentions_subclasses(record.origin):
                lookers[top] = name
        for name in [name for name in sys.modules if lookers and name not in self.base]:
            for value in list(getattr(sys.modules[name], "__dict__", {}).values()):
                if issubclass(type(value), type) and value.__module__ == name:
                    for base in value.__mro__[1:]:
                        top = str(base.__module__).partition(".")[0]
                        if top in lookers and top != name.partition(".")[0]:
                            self.subclasses.append((lookers[top], name))


class MissedModules:
    """An import finder that records top-level modules which do not exist. It is the last one on `sys.meta_path`."""

    def __init__(self, preloader: Preloader) -> None:
        self.preloader = preloader

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:  # noqa: ARG002 - as importlib calls
        """Record the name of a top-level module. Always return None."""
        current = self.preloader.current_import()
        if current is not None and "." not in name:
            current.missed.add(name)


class RecordingFileFunction:
    """A wrapper of a function that accesses files. It records the files that imports read.

    Like a built-in function, it is not bound when it is an attribute of a class.
    """

    def __init__(self, preloader: Preloader, real: Callable[..., Any], end: str = "") -> None:
        self.preloader = preloader
        self.real = real
        self.end = end
        """Suffix added to the path: a separator for functions that list directories."""

    def __call__(self, path: Any = ".", *arguments: Any, **options: Any) -> Any:
        """Record the file and call the original function."""
        current = self.preloader.current_import()
        caller = sys._getframe(1).f_globals.get("__name__", "")
        # Metadata is found by listing `sys.path`. What is installed is compared as a whole before each run.
        if current is not None and not isinstance(path, int) and not caller.startswith("importlib.metadata"):
            try:
                full = os.path.abspath(os.fsdecode(path)) + self.end
            except TypeError:
                full = ""
            # The stat of a library file only shows that it exists. What matters is what is read from it.
            is_counted = self.real is not real_stat and not full.endswith((".py", ".pyc"))
            if (
                full
                and not full.startswith(KERNEL_FILE_PREFIXES)
                and (is_counted or not self.preloader.is_library(full))
            ):
                current.files.setdefault(full, file_stat(full))
            if self.is_writing(arguments, options) and not full.startswith(KERNEL_FILE_PREFIXES):
                self.preloader.add_current_obstacle(f"writes {full}")
        return self.real(path, *arguments, **options)

    def is_writing(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
        """Return whether a call with these arguments opens a file for writing."""
        if self.real is real_os_open:
            flags = arguments[0] if arguments else options.get("flags", 0)
            return bool(flags & (os.O_WRONLY | os.O_RDWR))
        mode = arguments[0] if arguments else options.get("mode", "")
        return (
            getattr(self.real, "__name__", "") == "open"
            and isinstance(mode, str)
            and not WRITE_MODE_CHARACTERS.isdisjoint(mode)
        )


class RefusedCall:
    """A wrapper of a function whose effect cannot be repeated. A module whose import calls it is not preloaded."""

    def __init__(self, preloader: Preloader, real: Callable[..., Any], obstacle: str) -> None:
        self.preloader = preloader
        self.real = real
        self.obstacle = obstacle

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Record the caller and call the original function."""
        if self.preloader.current_import() is not None and not is_called_from(FACT_FINDING_MODULES):
            self.preloader.add_current_obstacle(self.obstacle)
        return self.real(*arguments, **options)


def is_called_from(names: frozenset[str]) -> bool:
    """Return whether one of these modules is on the stack above the module that is being imported."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "<module>":
        if frame.f_globals.get("__name__") in names:
            return True
        frame = frame.f_back  # type: ignore[assignment]  # None at the end
    return False


class RecordingUrandom:
    """A wrapper of `os.urandom` that records that an import drew random bytes."""

    def __init__(self, preloader: Preloader, real: Callable[[int], bytes]) -> None:
        self.preloader = preloader
        self.real = real

    def __call__(self, size: int) -> bytes:
        """Record the caller and return random bytes."""
        preloader = self.preloader
        is_allowed = (
            preloader.current_import() is None or preloader.redraws_random_numbers() or preloader.is_draw_allowed
        )
        if not is_allowed and not is_called_from(KEY_DRAWING_MODULES):
            preloader.add_current_obstacle("draws random numbers")
        return self.real(size)


class RecordingSeedSource:
    """A wrapper of the function with which numpy seeds generators. It allows imports to draw random bytes.

    The generators are found by `find_generators` and seeded again in each child process.
    """

    def __init__(self, preloader: Preloader, real: Callable[..., Any]) -> None:
        self.preloader = preloader
        self.real = real

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function, and allow it to draw random numbers."""
        self.preloader.is_draw_allowed = True
        try:
            return self.real(*arguments, **options)
        finally:
            self.preloader.is_draw_allowed = False


def find_generators(objects: Iterable[Any]) -> list[Any]:
    """Return numpy's bit generators that were seeded randomly, which shows in a seed of more than 64 bits."""
    kind: Any = getattr(sys.modules.get("numpy.random.bit_generator"), "BitGenerator", None)
    found = [candidate for candidate in objects if kind is not None and issubclass(type(candidate), kind)]
    return [
        candidate
        for candidate in found
        if is_large_seed(getattr(getattr(candidate, "seed_seq", None), "entropy", None))
    ]


def is_large_seed(seed: Any) -> bool:
    """Return whether a seed is an integer of more than 64 bits."""
    return type(seed) is int and seed >> 64 != 0


# Check types with `type`, because `isinstance` would evaluate lazy objects such as Django's settings.


def module_contents(module: Any) -> dict[str, Any]:
    """Return the attributes of a module by name, and the functions of its classes by `Class.name`."""
    found: dict[str, Any] = {}
    name = getattr(module, "__name__", "")
    for key, value in list(getattr(module, "__dict__", {}).items()):
        found[key] = value
        if type(value) is type and value.__module__ == name:
            for attribute, function in list(vars(value).items()):
                if isinstance(function, FUNCTION_TYPES):
                    found[f"{key}.{attribute}"] = function
    return found


FUNCTION_TYPES = (type(module_contents), classmethod, staticmethod, property)
"""Types of the functions in a class."""


def changed_attributes(previous: dict[str, Any], present: dict[str, Any]) -> list[str]:
    """Return the names of functions and classes that were replaced or added since `previous` was collected."""
    changed = []
    for key, value in present.items():
        is_replaced = issubclass(type(value), (*FUNCTION_TYPES, type)) and previous.get(key, value) is not value
        is_added = "." in key and key not in previous and key.partition(".")[0] in previous
        if is_replaced or is_added:
            changed.append(key)
    return changed


def mentions_subclasses(path: str) -> bool:
    """Return whether a source file contains a call of `__subclasses__`."""
    try:
        with open(path, "rb") as file:
            return b"__subclasses__()" in file.read()
    except OSError:
        return False
