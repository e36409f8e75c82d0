"""Preload the modules of a plan, and record the effects of each import.

No modules from the workspace are loaded. If a module's file is outside the interpreter's library directories, the
imports that led to it are aborted. The warm process never calls anything that it imports.
"""

from __future__ import annotations

import builtins
import os
import sys
from contextlib import contextmanager

from .effects import (
    MISSING_VALUE,
    RecordedFunction,
    current_effects,
    logger_effects,
    logger_states,
    warning_filters,
)
from .import_record import ImportRecord, ImportRecords, current_environment, native_variables
from .module_attributes import attribute_value, changed_attributes, module_contents, namespace_of
from .process_state import (
    TRIAL_FORK_FILE,
    changed_settings,
    process_settings,
    random_state,
    thread_ids,
)
from .random_draws import RecordingSeedSource, RecordingUrandom
from .recording_wrappers import MissedModules, RecordingDirectoryRead, RecordingFileFunction, RefusedCall
from .registries import Registries
from .scripts import hide_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType
    from typing import Any

bootstrap: Any = sys.modules["_frozen_importlib"]

PYTEST_PACKAGES = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"})
"""Packages that every run imports, before tests could replace anything."""
GENERATED_MODULE_PREFIXES = ("_sysconfigdata_", "_missing_stdlib_info")
"""Prefixes of modules that Python's build generates. `sys.stdlib_module_names` does not list these modules."""
STREAM_DEFAULT_MODULES = frozenset(
    {"matplotlib.cbook", "pyparsing", "charset_normalizer.api", "psutil._common", "pycparser.c_ast"}
)
"""Modules that store a standard stream only as the default of a function for debugging."""
WARM_PROCESS_ID = os.getpid()
"""Process id of the warm process. Its child processes have different ids."""


class ExcludedModuleError(BaseException):
    """Raised to abort the import of an excluded module.

    It is not an `Exception`, so that libraries do not catch it.
    """


class Preloader:
    """Imports modules, and records the effects of each import."""

    def __init__(
        self,
        base: set[str],
        libraries: tuple[str, ...],
        packages: frozenset[str],
        excluded: Mapping[str, str],
        watched: Mapping[str, Iterable[str]],
    ) -> None:
        self.base = base
        """The modules that a new interpreter has loaded."""
        self.libraries = libraries
        """The interpreter's library directories, each with a trailing separator."""
        self.packages = packages
        """The packages outside the standard library that may be preloaded."""
        self.excluded = dict(excluded)
        """The modules and packages that must not be preloaded, with reasons."""
        self.watched = watched
        """Attributes that imports of other packages replace, by module, as found during an earlier start."""
        self.imports = ImportRecords()
        self.generators: list[Any] = []
        """Random number generators that imports created without a seed."""
        self.bit_generators: list[Any] = []
        """NumPy bit generators that imports created without a seed."""
        self._attributed: set[tuple[str, Any]] = set()
        self._always: Any = None
        self._drawn: Any = None
        self._stream_references = 0
        self._loggers: dict[Any, tuple[Any, ...]] = {}
        self._outputs: dict[str, int] = {}
        self.replaced: dict[int, tuple[Any, Any]] = {}
        """Each recording wrapper and the original function, by the id of the wrapper."""
        self.contents = {name: module_contents(module) for name, module in list(sys.modules.items())}
        """The attributes of each module when its import finished."""
        self.registries = Registries({})
        self._real_load: Callable[[Any], ModuleType] = bootstrap._load_unlocked
        self._real_find: Callable[..., ModuleType] = bootstrap._find_and_load
        self._real_import = builtins.__import__

    def is_library(self, path: str) -> bool:
        """Return whether a path is in one of the interpreter's library directories."""
        return f"{os.path.abspath(path)}{os.sep}".startswith(self.libraries)

    def is_known(self, name: str) -> bool:
        """Return whether a module belongs to the standard library or to one of the known packages.

        This includes modules that Python's build generates, such as the one that `sysconfig` loads, and the modules
        with generated names that modules compiled by mypyc import.
        """
        top = name.partition(".")[0]
        return (
            top in sys.stdlib_module_names
            or top.startswith(GENERATED_MODULE_PREFIXES)
            or is_in_packages(name, self.packages)
            or (top.endswith("__mypyc") and bool(self.imports.in_progress))
        )

    def exclusion_reason(self, name: str) -> str:
        """Return the reason why a module must not be preloaded, or an empty string."""
        parts = name.split(".")
        names = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
        return next((self.excluded[module_name] for module_name in names if module_name in self.excluded), "")

    # Recording

    @contextmanager
    def record_imports(self, outputs: Mapping[str, int]) -> Iterator[None]:
        """Record imports and their side effects while the context is active.

        `outputs` maps the names of the standard streams to the file descriptors that they write to.
        """
        environ_type: Any = type(os.environ)
        replaced: list[tuple[Any, str, Any]] = []

        def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
            real = vars(owner)[name]
            replacement = make(real)
            replaced.append((owner, name, real))
            self.replaced[id(replacement)] = replacement, real
            setattr(owner, name, replacement)

        replace(bootstrap, "_load_unlocked", lambda _: self._load)
        replace(bootstrap, "_find_and_load", lambda _: self._find_and_load)
        replace(builtins, "__import__", lambda _: self._import)
        replace(environ_type, "__getitem__", self._recording_variable_read)
        replace(environ_type, "__iter__", self._recording_environment_read)
        # From Python 3.14 on, a new interpreter has not imported `io`, which provides `open`.
        files = sys.modules.get("io") or sys.modules["_io"]
        for owner, name in (os, "stat"), (builtins, "open"), (files, "open"):
            replace(owner, name, lambda real: RecordingFileFunction(self.imports, self.is_library, real))
        for name in ("access", "lstat", "open", "readlink"):
            replace(os, name, lambda real: RecordingFileFunction(self.imports, self.is_library, real))
        for name in ("listdir", "scandir"):
            replace(os, name, lambda real: RecordingFileFunction(self.imports, self.is_library, real, end=os.sep))
        replace(os, "urandom", lambda real: RecordingUrandom(self.imports, real))
        replace(os, "getcwd", lambda real: RecordingDirectoryRead(self.imports, real))
        for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"):
            replace(os, name, lambda real: RefusedCall(self.imports, real, "starts a process"))
        import _posixsubprocess

        replace(_posixsubprocess, "fork_exec", lambda real: RefusedCall(self.imports, real, "starts a process"))
        import atexit
        import codecs
        import warnings

        replace(atexit, "register", lambda real: RecordedFunction(real, self.imports.add_effect))
        replace(codecs, "register", lambda real: RecordedFunction(real, self.imports.add_effect))
        replace(codecs, "register_error", lambda real: RecordedFunction(real, self.imports.add_effect))
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
        finder = MissedModules(self.imports)
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

    @hide_frames
    def _load(self, spec: Any) -> ModuleType:
        """Load a module and record the effects of its import. Replaces `_load_unlocked` of importlib."""
        name, importers = spec.name, list(self.imports.in_progress)
        mine = self.imports.record(name)
        self._refuse_excluded(spec)
        before, known, threads = process_settings(), set(sys.modules), thread_ids()
        present, variables = current_effects() | warning_filters(self._always), current_environment()
        self._record_present_state()
        self.imports.in_progress.append(name)
        try:
            module = self._real_load(spec)
        except BaseException as error:
            self._record_failed_import(name, error, importers)
            raise
        finally:
            self._record_present_state()
            self.imports.in_progress.pop()
        mine.loader, mine.origin = type(spec.loader).__name__, spec.origin if spec.has_location else ""
        parent, _, child = name.rpartition(".")
        mine.parent_attribute = namespace_of(sys.modules.get(parent)).get(child, MISSING_VALUE)
        for other in (
            sys.modules.keys() - known - self.imports.by_name.keys()
        ):  # such as six.moves, which is inserted manually
            self.imports.record(other)
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
            self.imports.add_obstacle(name, f"changes {', '.join(changed)}")
        if importers:
            self.imports.record(importers[-1]).imports[name] = None
        self.contents[name] = module_contents(module)
        self._record_attributes(name)
        self.registries.copy_after_import(name, module)
        return module

    def _record_present_state(self) -> None:
        """Record what the current import has changed since the last call."""
        self._record_drawn_numbers()
        self._record_stored_streams()
        previous, self._loggers = self._loggers, logger_states()
        if (current := self.imports.current()) is not None:
            current.effects.extend(logger_effects(previous, self._loggers))

    def _record_drawn_numbers(self) -> None:
        """Record whether the current import has used Python's random number generator since the last call."""
        drawn = self._drawn
        self._drawn = random_state()
        current = self.imports.current()
        if current is not None and drawn not in (None, self._drawn) and ("drawn", None) not in current.effects:
            current.effects.append(("drawn", None))

    def _record_stored_streams(self) -> None:
        """Record an obstacle if the current import stored a standard stream since the last call.

        In a plain run, the module stores the stream with which pytest captures output. Modules of the standard library
        do not store streams in a way that matters.
        """
        previous, self._stream_references = self._stream_references, stream_references()
        name = self.imports.in_progress[-1] if self.imports.in_progress else ""
        top = name.partition(".")[0]
        is_allowed = top in sys.stdlib_module_names | PYTEST_PACKAGES or name in STREAM_DEFAULT_MODULES
        if self._stream_references > previous > 0 and name and not is_allowed:
            self.imports.add_current_obstacle("stores a standard stream, which pytest replaces")

    def _refuse_excluded(self, spec: Any) -> None:
        """Raise `ExcludedModuleError` if a module is excluded, and exclude the modules that are importing it."""
        paths = [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
        if not all(map(self.is_library, paths)):
            self.excluded.setdefault(spec.name, "is outside the interpreter's libraries")
        elif not self.is_known(spec.name):
            self.excluded.setdefault(spec.name, "is not a known package")
        if self.exclusion_reason(spec.name):
            for importer in self.imports.in_progress:
                self.imports.add_obstacle(importer, f"imports {spec.name}")
            raise ExcludedModuleError(spec.name)

    def _record_failed_import(self, name: str, error: BaseException, importers: list[str]) -> None:
        """Record an import that raised an exception.

        If it was an ImportError, the importer may have handled it, so the events are added to the importer's record.
        Otherwise, the module and its importers must not be preloaded.
        """
        if isinstance(error, ImportError) and importers:
            mine, importer = self.imports.record(name), self.imports.record(importers[-1])
            importer.imports.update(mine.imports)  # they stay loaded
            importer.environment.update(mine.environment)
            importer.files.update(mine.files)
            importer.effects.extend(mine.effects)
            return
        for module_name in [*importers, name]:
            self.imports.add_obstacle(module_name, f"importing {name} raised {type(error).__name__}")

    def _record_native(self, name: str, module: ModuleType) -> None:
        """Record what an extension module does without calling Python functions.

        It may import other modules and read environment variables.
        """
        mine = self.imports.record(name)
        names = (value.__name__ for value in vars(module).values() if issubclass(type(value), type(sys)))
        mine.imports.update((module_name, None) for module_name in names if module_name != name)
        if name == "numpy.random.bit_generator" and (draw := vars(module).get("randbits")) is not None:
            allowed = RecordingSeedSource(self.imports, draw)
            self.replaced[id(allowed)] = allowed, draw
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
        """Record the watched attributes of other packages' modules that an import has replaced."""
        for owner, attributes in self.watched.items():
            if owner in self.contents and (module := sys.modules.get(owner)) is not None:
                previous = self.contents[owner]
                for attribute in attributes:
                    old, new = previous.get(attribute, MISSING_VALUE), attribute_value(module, attribute)
                    if old is not new:
                        previous[attribute] = new
                        if owner.partition(".")[0] == name.partition(".")[0]:
                            continue
                        if ("attribute", (owner, attribute)) in self._attributed:
                            self.imports.add_obstacle(
                                name, f"replaces {owner}.{attribute}, which another module has already replaced"
                            )
                        self._attributed.add(("attribute", (owner, attribute)))
                        self.imports.record(name).effects.append(("attribute", (module, attribute, old, new)))

    @hide_frames
    def _find_and_load(self, name: str, import_: Any, **options: Any) -> ModuleType:
        """Record an import of a module that is not loaded yet. Replaces `_find_and_load` of importlib."""
        importer = self.imports.in_progress[-1] if self.imports.in_progress else ""
        module = self._real_find(name, import_, **options)
        if importer and name != importer:
            self.imports.record(importer).imports[name] = None
        return module

    @hide_frames
    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:  # noqa: A002 - as `__import__` has them
        """Record an import, even if the module is already loaded. Replaces `__import__`."""
        importer = self.imports.in_progress[-1] if self.imports.in_progress else ""
        result = self._real_import(name, globals, locals, fromlist, level)
        if importer:
            package = (globals or {}).get("__package__") or (globals or {}).get("__name__", "")
            base = package.rsplit(".", level - 1)[0] if level > 1 else package
            full = f"{base}.{name}" if level and name else base if level else name
            parts = full.split(".")
            names = [".".join(parts[: end + 1]) for end in range(len(parts))]
            names += [f"{full}.{module_name}" for module_name in fromlist or () if isinstance(module_name, str)]
            imports = self.imports.record(importer).imports
            imports.update(
                (module_name, None) for module_name in names if module_name in sys.modules and module_name != importer
            )
        return result

    def _recording_variable_read(self, real: Any) -> Any:
        """Return a wrapper for `os.environ.__getitem__` that records which variables an import reads."""
        process_environ: Any = os.environ

        def __getitem__(environ: Any, key: str) -> str:  # noqa: N807 - it stands in for that
            current = self.imports.current()
            if current is not None and environ._data is process_environ._data:
                encoded = environ.encodekey(key)
                current.environment.setdefault(encoded, environ._data.get(encoded))
            value: str = real(environ, key)
            return value

        return __getitem__

    def _recording_environment_read(self, real: Any) -> Any:
        """Return a wrapper for `os.environ.__iter__` that records when an import reads all variables."""

        def __iter__(environ: Any) -> Any:  # noqa: N807 - it stands in for that
            current = self.imports.current()
            if current is not None and environ is os.environ and current.whole_environment is None:
                current.whole_environment = current_environment()
            return real(environ)

        return __iter__

    def _recording_seed(self, real: Any) -> Any:
        """Return a wrapper for `random.Random.seed` that records generators that an import seeds randomly."""

        def seed(generator: Any, a: Any = None, *more: Any, **options: Any) -> None:
            if a is None and self.imports.in_progress and type(generator).__name__ != "SystemRandom":
                self.generators.append(generator)
            real(generator, a, *more, **options)

        return seed

    def _record_warning(self, message: Any, category: Any, filename: str, line: int, *_rest: Any) -> None:
        """Record a warning. Replaces `warnings.showwarning`.

        The filter `always` ensures that this function is called for every warning.
        """
        if (
            self.imports.in_progress and filename != TRIAL_FORK_FILE
        ):  # Python 3.12 warns about forks in processes with threads
            names = (
                name for name, module in list(sys.modules.items()) if getattr(module, "__file__", None) == filename
            )
            self.imports.add_effect(
                ("warning", (message, category, filename, line, next(names, self.imports.in_progress[-1])))
            )

    def unwatched_replacements(self) -> dict[str, list[str]]:
        """Return attributes that were replaced after their module was imported and that are not watched yet."""
        found: dict[str, list[str]] = {}
        for name, previous in self.contents.items():
            if (module := sys.modules.get(name)) is not None:
                changed = set(changed_attributes(previous, module_contents(module))) - set(self.watched.get(name, ()))
                if changed:
                    found[name] = sorted(changed)
        return found


def is_in_packages(name: str, packages: frozenset[str]) -> bool:
    """Return whether a module is in one of these packages, or in a namespace package that contains one."""
    parts = name.split(".")
    return any(".".join(parts[:end]) in packages for end in range(1, len(parts) + 1)) or any(
        package.startswith(f"{name}.") for package in packages
    )


def stream_references() -> int:
    """Return the number of references to the standard streams."""
    return sum(sys.getrefcount(stream) for stream in (sys.stdout, sys.stderr, sys.stdin))
