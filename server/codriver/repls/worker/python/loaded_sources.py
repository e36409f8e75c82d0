"""Remember the source from which each module was loaded.

A source that is read later is used if the file still has the same stamp as when it was loaded. Otherwise the source is
unknown, and counts as different from any other. For loads that were not observed, the file's age is used instead.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import types
import weakref
import zlib
from importlib.machinery import ModuleSpec

from ..basics.definition_access import (
    defining_module_name,
    is_class,
    space_of,
    unwrap_descriptor,
    unwrap_functions,
)
from ..basics.systems import process_start_ns
from .import_stamps import ImportStamps, file_stamp, read_file
from .load_records import COMPRESSION_LEVEL, Load, loaded_content
from .recorded_calls import code_mark
from .renewal import is_same_code
from .statements import PARSE_ERRORS
from .stored_attributes import module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from .import_stamps import Stamp
    from .remembered_names import RememberedValue


MAX_CLOCK_DIFFERENCE_NS = 3 * 10**9
"""The assumed maximum difference between the clock of the file system and that of this process, in nanoseconds."""
WORKER_MODULE_PREFIX = __name__.rpartition(".")[0].rpartition(".")[0] + "."
"""Name prefix of the worker's own modules, which are not part of the project."""
MAX_IMMEDIATE_READS = 20
"""Maximum number of files that are read before an answer is sent. More files are read afterwards."""
QUIET_PERIOD_S = 0.3
"""Seconds without a load after which a thread reads sources, so that a running import is not delayed."""
EMPTY_MAPPING: Mapping[str, Any] = types.MappingProxyType({})


MAX_PREVIOUS_SOURCES = 20
"""Maximum number of replaced sources that are stored."""
MAX_COMPARED_SOURCES = 3
"""Maximum number of sources compared for one file. Compiling takes a microsecond per byte."""
MAX_PREVIOUS_BYTES = 2**20
"""Maximum compressed size of all replaced sources that are stored. The oldest ones are dropped."""


class LoadedSources:
    """Keeps track of how the project's modules were loaded in this process.

    If `reports_main` is set, `__main__` counts as one of these modules.
    """

    def __init__(self, *, reports_main: bool = False) -> None:
        self.loads: dict[str, Load] = {}
        self.previous: list[tuple[str, str, weakref.ref[Any]]] = []
        """The module, name and object of each definition from a previous load."""
        self._replaced: list[tuple[int, str, bytes]] = []
        """The sources replaced by loads, each with the time in ms, the file, and the compressed source."""
        self.reports_main = reports_main
        self._lock = threading.RLock()
        self._loaded_event = threading.Event()
        self._is_over = False
        self.stamps = ImportStamps(self._notify)
        self._seen = (0, 0)
        self._installed: dict[str, weakref.ref[types.ModuleType]] = {}
        """Modules that are known not to be part of a project, by name. A process may have thousands of them."""
        self._checked_ns = process_start_ns()

    def start_recording(self) -> None:
        """Start recording loads. Modules loaded earlier are included if their file is older than the process."""
        self.stamps.install()
        self.record_names()
        self.read_recent_sources()

    def stop_recording(self) -> None:
        """Stop recording loads, and make `follow_loads` return."""
        self.stamps.remove()
        self._is_over = True
        self._loaded_event.set()

    def follow_loads(self) -> None:
        """Read sources after each load until `stop_recording` is called.

        This is for programs that load modules outside of evaluations.
        """
        while True:
            self._loaded_event.wait()
            if self._is_over:
                return
            self._loaded_event.clear()
            time.sleep(QUIET_PERIOD_S)
            if not self._loaded_event.is_set():
                self.record_names()
                self.read_recent_sources()

    def _notify(self) -> None:
        """Wake the thread that runs `follow_loads`."""
        if not self._loaded_event.is_set():
            self._loaded_event.set()

    def record_names(self) -> None:
        """Store the current names in recently loaded modules. Must not be called during an import."""
        seen = self.stamps.count, len(sys.modules)
        if seen == self._seen:
            return
        self.record_new_loads()

    def record_new_loads(self) -> None:
        """Record all new loads, even if the number of loaded modules has not changed."""
        with self._lock:
            started, seen = time.time_ns(), (self.stamps.count, len(sys.modules))
            project_modules = list(self._modules())
            if any(_is_being_loaded(module) for _, module, _ in project_modules):
                return  # modules imported by others may still be changed by those
            self._seen = seen
            by_module = {id(module): load for load in self.loads.values() if (module := load.module()) is not None}
            stamps, self.stamps.of = self.stamps.of, {}
            made: set[int] = set()
            for name, module, file in project_modules:
                known, same = self.loads.get(name), by_module.get(id(module))
                # A module may have several names.
                if same is None or (file in stamps and id(module) not in made):
                    made.add(id(module))
                    same = by_module[id(module)] = Load(
                        module, file, stamps.get(file) or self._stamp_by_age(module, file), known
                    )
                if same is not known:
                    self._remember(name, same)
            self._checked_ns = started

    def read_recent_sources(self, most: int | None = None) -> None:
        """Read the sources of recent loads. If there are more than `most`, do nothing."""
        with self._lock:
            waiting = [load for load in self.loads.values() if not load.is_read]
            if most is None or len(waiting) <= most:
                for item in waiting:
                    item.read()

    def record_load(
        self,
        name: str,
        module: types.ModuleType,
        file: str,
        text: str,
        standing: Mapping[str, RememberedValue | None] = EMPTY_MAPPING,
    ) -> Load:
        """Record that a source was loaded into a module.

        `standing` contains the names that the load left unchanged, each with the value to compare it with.
        """
        with self._lock:
            self.record_new_loads()
            known = self.loads.get(name)
            load = Load(module, file, None)
            load.store(loaded_content(load, text, read_file(file)), known)
            if known is not None and (before := known.data) is not None and before != load.data:
                self._store_previous(file, zlib.compress(before, COMPRESSION_LEVEL))
            load.left.release()
            for bound_name, remembered in standing.items():
                load.left.restore(bound_name, remembered)
            self._remember(name, load)
            return load

    def _store_previous(self, file: str, packed: bytes) -> None:
        self._replaced.append((time.time_ns() // 10**6, file, packed))
        del self._replaced[:-MAX_PREVIOUS_SOURCES]
        while sum(len(item[2]) for item in self._replaced) > MAX_PREVIOUS_BYTES:
            del self._replaced[0]

    def previous_sources(self, when_ms: int) -> dict[str, bytes]:
        """Return the sources that were loaded at the time `when_ms` and have been replaced since, by file.

        The time is in milliseconds since 1970.
        """
        found: dict[str, bytes] = {}
        for replaced_ms, file, packed in self._replaced:
            if replaced_ms >= when_ms:
                found.setdefault(file, zlib.decompress(packed))
        return found

    def last_changed_ms(self, code: types.CodeType, mark: int) -> int:
        """Return the time at which a load last changed the code of a function, in milliseconds, or 0 if unknown."""
        file, name = code.co_filename, code.co_name
        replaced = [(when_ms, packed) for when_ms, other, packed in self._replaced if other == file]
        replaced = replaced[-MAX_COMPARED_SOURCES:]
        now = (
            next((load.compressed_source for load in self.loads.values() if load.file == file), None)
            if replaced
            else None
        )
        if now is None or mark not in _marks(file, now).get(name, ()):
            return 0
        return next((when for when, packed in reversed(replaced) if mark not in _marks(file, packed).get(name, ())), 0)

    def record_rebinding(self, name: str, bound_name: str) -> Callable[[], None] | None:
        """Record that a load has changed the name `bound_name` in another module.

        Return a function that undoes the record.
        """
        load = self.loads.get(name)
        module = None if load is None else load.module()
        if load is None or module is None:
            return None
        before = load.left.release().get(bound_name)
        load.left.remember(bound_name, module_dict(module)[bound_name])
        return lambda: load.left.restore(bound_name, before)

    def record_changed_names(self, name: str, standing: Mapping[str, RememberedValue | None]) -> None:
        """Store the current names in a module after loading another module has changed some.

        `standing` contains the names that were left unchanged.
        """
        load = self.loads.get(name)
        if load is not None:
            again = load.with_present_names()
            for bound_name, remembered in standing.items():
                again.left.restore(bound_name, remembered)
            self.loads[name] = again

    def find_load(self, name: str) -> Load | None:
        """Return the last load of a module including its source, or None if the module was replaced."""
        with self._lock:
            self.record_new_loads()
            return self.find_known_load(name)

    def find_known_load(self, name: str) -> Load | None:
        """Like `find_load`, return the last recorded load of a module, but do not search for new loads."""
        with self._lock:
            load = self.loads.get(name)
            if load is None or load.module() is not sys.modules.get(name):
                return None
            load.read()
            return load

    def _remember(self, name: str, load: Load) -> None:
        known = self.loads.get(name)
        self.loads[name] = load
        if known is None or load.is_rewritten:
            return
        module = load.module()
        now = {} if module is None else module_dict(module)
        for bound_name, remembered in known.left.release().items():
            value = remembered.live_object()
            is_other = (
                value is not None and value is not now.get(bound_name) and not issubclass(type(value), types.ModuleType)
            )
            if is_other and "." not in bound_name and _may_be_defined_in(value, name):
                self.previous.append((name, bound_name, weakref.ref(value)))
        self.previous = [entry for entry in self.previous if entry[2]() is not None]

    def _stamp_by_age(self, module: types.ModuleType, file: str) -> Stamp | None:
        """Return the stamp of a file whose load was not observed, or None if the file is not older than the last check.

        If the file is only slightly older, the clocks may differ, so the functions of the module must also match the
        file.
        """
        try:
            status = os.stat(file)
        except OSError:
            return None
        written = max(status.st_mtime_ns, status.st_ctime_ns)
        is_old = written < self._checked_ns - MAX_CLOCK_DIFFERENCE_NS or (
            written <= self._checked_ns and _has_code_of(module, file)
        )
        return file_stamp(status) if is_old else None

    def _modules(self) -> Iterator[tuple[str, types.ModuleType, str]]:
        """Yield the name, module and file of each loaded project module."""
        installed = self._installed
        for name, module in list(sys.modules.items()):
            known = installed.get(name)
            if known is not None and known() is module:
                continue
            if not issubclass(type(module), types.ModuleType) or (name == "__main__" and not self.reports_main):
                continue
            file = module_dict(module).get("__file__")
            if type(file) is not str:
                continue
            if self.stamps.is_project_file(file) and not name.startswith(WORKER_MODULE_PREFIX):
                yield name, module, file
            else:
                installed[name] = weakref.ref(module)


@functools.lru_cache(maxsize=2 * MAX_PREVIOUS_SOURCES)
def _marks(file: str, packed: bytes) -> dict[str, set[int]]:
    """Return the marks of the functions in a compressed source, by name."""
    found: dict[str, set[int]] = {}
    try:
        codes = [compile(zlib.decompress(packed), file, "exec", dont_inherit=True)]
    except PARSE_ERRORS:
        return found
    for code in codes:
        codes += [const for const in code.co_consts if type(const) is types.CodeType]
        found.setdefault(code.co_name, set()).add(code_mark(code))
    return found


def _has_code_of(module: types.ModuleType, file: str) -> bool:
    """Return whether the functions of a module have the code in its file.

    A module that is still loading may not have any functions.
    """
    found = read_file(file) if file.endswith(".py") else None
    values = list(module_dict(module).values())
    values += [unwrap_descriptor(item) for kind in values if is_class(kind) for item in list(space_of(kind).values())]
    live = [
        function.__code__
        for value in values
        for function in unwrap_functions(value)
        if function.__code__.co_filename == file
    ]
    if found is None or not live:
        return found is not None
    try:
        codes = [compile(found[1], file, "exec", dont_inherit=True)]
    except PARSE_ERRORS:
        return False
    for code in codes:
        codes += [const for const in code.co_consts if type(const) is types.CodeType]
    return all(any(code.co_name == item.co_name and is_same_code(code, item) for item in codes) for code in live)


def _is_being_loaded(module: types.ModuleType) -> bool:
    spec = module_dict(module).get("__spec__")
    return type(spec) is ModuleSpec and getattr(spec, "_initializing", False) is True


def _may_be_defined_in(value: object, module: str) -> bool:
    """Return whether an object from a previous load may have been defined in this module rather than imported."""
    return defining_module_name(value) == module if is_class(value) or type(value) is types.FunctionType else True
