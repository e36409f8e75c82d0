"""The loaded texts of modules, remembered: by the file's stamp at the load, and by its bytes soon after.

A text that is read later counts while the file still has the stamp of the load; otherwise the text is unknown, and
equals nothing. A load by an unseen loader counts by its file's age. Stamps are taken when the loader asks for them; no
frame of ours stays.

Python itself accepts compiled code for any file of the same second and size. For the project's files unsettled code is
not believed: code written before its source, or so soon after it that a process may have read a former text within the
second of an edit.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import sys
import threading
import time
import types
import weakref
import zlib
from importlib.machinery import ModuleSpec

from ..basics.dialect import bytes_of
from ..basics.held_definitions import INSTALLED, function_in, home_of, is_class, space_of, unwrapped
from ..basics.systems import process_start_ns, status_ns
from .bound_names import BoundNames, Names
from .python_names import space_of_module
from .recorded_calls import mark_of
from .renewal import is_same_code
from .statements import UNPARSABLE, SourceText, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Dict, Tuple

    from .bound_names import Remembered
    from .module_text import Outline

    Stamp = Tuple[int, int, int, int]

    """Time of the content and of the status in ns, size, number of the file."""

    Stats = Dict[str, Any]


CLOCKS_NS = 3 * 10**9
"""The possible difference between the clocks of files and of this process."""
MOST_AT_ONCE = 20
"""Files that are read before an answer is sent; those of a large package afterwards."""
PACKED = 1
"""The level of compression: 7 ms a megabyte, and 0.3 bytes a byte."""
QUIET_S = 0.3
"""The quiet time without loads before texts are read on a thread, so that a running import is not held up."""
MOST_TEXT = 2**20
"""The most bytes of a file whose statements are looked at: a longer one was generated."""
EMPTY: Mapping[str, Any] = types.MappingProxyType({})
REWRITERS = ("AssertionRewritingHook",)
"""Loaders whose code differs from the file's. Source: pytest, `_pytest.assertion.rewrite`."""


class Load:
    """One load of a module: its file as it was, and the names as the load left them.

    `stamp`: None if unknown. `gone`: the names that later loads took out of the module.
    """

    __slots__ = (
        "_before",
        "_bound",
        "_data",
        "file",
        "gone",
        "is_read",
        "is_rewritten",
        "left",
        "module",
        "outline",
        "stamp",
    )

    def __init__(self, module: types.ModuleType, file: str, stamp: Stamp | None, before: Load | None = None) -> None:
        space = space_of_module(module)
        self.module = weakref.ref(module)
        self.file, self.stamp = file, stamp
        self.left = Names(space)
        self.gone: set[str] = set()
        self._before = before
        self.is_read = False
        self.outline: Outline | None = None
        self.is_rewritten = type(getattr(space.get("__spec__"), "loader", None)).__name__ in REWRITERS
        self._data: bytes | None = None
        self._bound: BoundNames | None = None

    def read(self) -> None:
        """Read the text, which is the loaded one while the file has the load's stamp."""
        if self.is_read:
            return
        self.is_read = True
        self.left.settle()
        before, self._before = self._before, None
        if self.stamp is not None and self.file.endswith(".py"):
            found = read_file(self.file)
            if found is not None and found[0] == self.stamp:
                self.store(found[1], before)

    def store(self, data: bytes, before: Load | None = None) -> None:
        """Remember the loaded text. `before`: the load that it replaces."""
        self._data, self._bound, self.is_read = zlib.compress(data, PACKED), None, True
        self.outline = None
        if before is not None and (before.gone or before.data != data):
            old, new = before.bound(), self.bound()
            names = {one for one in old.kinds if "." not in one} if old is not None else set()
            self.gone = (names | before.gone).difference(new.kinds if new is not None else ())

    def with_names_of_now(self) -> Load:
        """A load of the same text, with the present names."""
        module = self.module()
        if module is None:
            return self
        again = Load(module, self.file, self.stamp)
        again._data, again._bound, again.is_read, again.gone = self._data, self._bound, self.is_read, self.gone
        again.outline = self.outline
        again.left.settle()
        return again

    @property
    def data(self) -> bytes | None:
        """The loaded text, as bytes of the file; None for an unknown text."""
        return None if self._data is None else zlib.decompress(self._data)

    @property
    def packed(self) -> bytes | None:
        """The loaded text, in its packed form."""
        return self._data

    @property
    def stored_bytes(self) -> int:
        """The memory that the text takes."""
        return len(self._data or b"")

    def bound(self) -> BoundNames | None:
        """The names that the text binds; None for an unknown text."""
        data = self.data if self._bound is None else None
        if data is not None and len(data) <= MOST_TEXT:
            try:
                self._bound = BoundNames(SourceText(data, self.file).tree)
            except UNPARSABLE:  # another reader than Python's loaded the text
                return None
        return self._bound


MAX_PREVIOUS = 20
MOST_COMPARED = 3
"""The most bytes of texts of one file that are compared: compiling takes a microsecond a byte."""
MAX_PREVIOUS_BYTES = 2**20
"""The most bytes of replaced texts, packed: those of the newest loads are kept."""


class LoadedSources:
    """The loads of this process' own modules, for its life. `reports_main`: whether `__main__` is the project's too."""

    def __init__(self, *, reports_main: bool = False) -> None:
        self.loads: dict[str, Load] = {}
        self.previous: list[tuple[str, str, weakref.ref[Any]]] = []
        """Module, name and object of former loads."""
        self._replaced: list[tuple[int, str, bytes]] = []
        """The texts of files that loads replaced: the time in ms, the file, the text, packed."""
        self.reports_main = reports_main
        self._lock = threading.RLock()
        self._loaded_event = threading.Event()
        self._is_over = False
        self.stamps = ImportStamps(self._notify)
        self._seen = (0, 0)
        self._checked_ns = process_start_ns()

    def begin(self) -> None:
        """Take stamps from now on. Modules loaded before count if their file is older than the process."""
        self.stamps.install()
        self.note()
        self.settle()

    def end(self) -> None:
        """Take no stamps any more, and end `serve`."""
        self.stamps.remove()
        self._is_over = True
        self._loaded_event.set()

    def serve(self) -> None:
        """Read texts after each load, until `end`: for programs that load outside of evaluations."""
        while True:
            self._loaded_event.wait()
            if self._is_over:
                return
            self._loaded_event.clear()
            time.sleep(QUIET_S)
            if not self._loaded_event.is_set():
                self.note()
                self.settle()

    def _notify(self) -> None:
        if not self._loaded_event.is_set():
            self._loaded_event.set()

    def note(self) -> None:
        """Remember the present names of modules loaded since. To be called while no import is under way."""
        seen = self.stamps.count, len(sys.modules)
        if seen == self._seen:
            return
        self.check()

    def check(self) -> None:
        """Note all new loads, of any kind."""
        with self._lock:
            started, seen = time.time_ns(), (self.stamps.count, len(sys.modules))
            project_modules = list(self._modules())
            if any(_is_being_loaded(module) for _, module, _ in project_modules):
                return  # modules of one import finish the work of others
            self._seen = seen
            by_module = {id(module): load for load in self.loads.values() if (module := load.module()) is not None}
            stamps, self.stamps.of = self.stamps.of, {}
            made: set[int] = set()
            for name, module, file in project_modules:
                known, same = self.loads.get(name), by_module.get(id(module))
                # A module may be known by more than one name.
                if same is None or (file in stamps and id(module) not in made):
                    made.add(id(module))
                    same = by_module[id(module)] = Load(
                        module, file, stamps.get(file) or self._by_age(module, file), known
                    )
                if same is not known:
                    self._remember(name, same)
            self._checked_ns = started

    def settle(self, most: int | None = None) -> None:
        """Read the texts of noted loads, if they are at most `most` files."""
        with self._lock:
            waiting = [one for one in self.loads.values() if not one.is_read]
            if most is None or len(waiting) <= most:
                for one in waiting:
                    one.read()

    def loaded(
        self,
        name: str,
        module: types.ModuleType,
        file: str,
        text: str,
        standing: Mapping[str, Remembered | None] = EMPTY,
    ) -> Load:
        """Remember that a file's text was loaded in a module; `standing`: names left alone."""
        with self._lock:
            self.check()
            known = self.loads.get(name)
            load = Load(module, file, None)
            load.store(store_text(load, text, read_file(file)), known)
            if known is not None and (before := known.data) is not None and before != load.data:
                self._store_previous(file, zlib.compress(before, PACKED))
            load.left.settle()
            for project_modules, remembered in standing.items():
                load.left.put_back(project_modules, remembered)
            self._remember(name, load)
            return load

    def _store_previous(self, file: str, packed: bytes) -> None:
        self._replaced.append((time.time_ns() // 10**6, file, packed))
        del self._replaced[:-MAX_PREVIOUS]
        while sum(len(one[2]) for one in self._replaced) > MAX_PREVIOUS_BYTES:
            del self._replaced[0]

    def previous_since(self, when_ms: int) -> dict[str, bytes]:
        """By file the text loaded at that time, for files with another text loaded since."""
        found: dict[str, bytes] = {}
        for replaced_ms, file, packed in self._replaced:
            if replaced_ms >= when_ms:
                found.setdefault(file, zlib.decompress(packed))
        return found

    def changed_ms(self, code: types.CodeType, mark: int) -> int:
        """The ms at which a load last gave a function its present code; 0 if unknown."""
        file, name = code.co_filename, code.co_name
        replaced = [(when_ms, packed) for when_ms, other, packed in self._replaced if other == file]
        replaced = replaced[-MOST_COMPARED:]
        now = next((load.packed for load in self.loads.values() if load.file == file), None) if replaced else None
        if now is None or mark not in _marks(file, now).get(name, ()):
            return 0
        return next((when for when, packed in reversed(replaced) if mark not in _marks(file, packed).get(name, ())), 0)

    def rebind(self, name: str, project_modules: str) -> Callable[[], None] | None:
        """Remember that a load gave a name of a module another object; the undoing, if there is one."""
        load = self.loads.get(name)
        module = None if load is None else load.module()
        if load is None or module is None:
            return None
        before = load.left.settle().get(project_modules)
        load.left.remember(project_modules, space_of_module(module)[project_modules])
        return lambda: load.left.put_back(project_modules, before)

    def renamed(self, name: str, standing: Mapping[str, Remembered | None]) -> None:
        """Remember the present names of a module that another one's load has changed; `standing`: names left alone."""
        load = self.loads.get(name)
        if load is not None:
            again = load.with_names_of_now()
            for project_modules, remembered in standing.items():
                again.left.put_back(project_modules, remembered)
            self.loads[name] = again

    def of(self, name: str) -> Load | None:
        """The last load of a module, if the module is still the same; its text is read."""
        with self._lock:
            self.check()
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
        now = {} if module is None else space_of_module(module)
        for project_modules, remembered in known.left.settle().items():
            value = remembered.live_object()
            is_other = (
                value is not None
                and value is not now.get(project_modules)
                and not issubclass(type(value), types.ModuleType)
            )
            if is_other and "." not in project_modules and _is_from(value, name):
                self.previous.append((name, project_modules, weakref.ref(value)))
        self.previous = [one for one in self.previous if one[2]() is not None]

    def _by_age(self, module: types.ModuleType, file: str) -> Stamp | None:
        """The stamp of a file whose load was not seen, if it is older than the last look around; else None.

        If the file is hardly older, its clock may differ: then all living functions have to be of its text.
        """
        try:
            status = os.stat(file)
        except OSError:
            return None
        written = max(status.st_mtime_ns, status.st_ctime_ns)
        is_old = written < self._checked_ns - CLOCKS_NS or (written <= self._checked_ns and _has_code_of(module, file))
        return stamp_of(status) if is_old else None

    def _modules(self) -> Iterator[tuple[str, types.ModuleType, str]]:
        for name, module in list(sys.modules.items()):
            if not issubclass(type(module), types.ModuleType) or (name == "__main__" and not self.reports_main):
                continue
            file = space_of_module(module).get("__file__")
            if type(file) is str and self.stamps.is_project_file(file):
                yield name, module, file


@functools.lru_cache(maxsize=2 * MAX_PREVIOUS)
def _marks(file: str, packed: bytes) -> dict[str, set[int]]:
    """The marks of a text's functions, by name."""
    found: dict[str, set[int]] = {}
    try:
        codes = [compile(zlib.decompress(packed), file, "exec", dont_inherit=True)]
    except UNPARSABLE:
        return found
    for code in codes:
        codes += [one for one in code.co_consts if type(one) is types.CodeType]
        found.setdefault(code.co_name, set()).add(mark_of(code))
    return found


def _has_code_of(module: types.ModuleType, file: str) -> bool:
    """True if the functions of a module are those of its file's text; a module that is loading has none yet."""
    found = read_file(file) if file.endswith(".py") else None
    values = list(space_of_module(module).values())
    values += [function_in(one) for kind in values if is_class(kind) for one in list(space_of(kind).values())]
    live = [one.__code__ for value in values for one in unwrapped(value) if one.__code__.co_filename == file]
    if found is None or not live:
        return found is not None
    try:
        codes = [compile(found[1], file, "exec", dont_inherit=True)]
    except UNPARSABLE:
        return False
    for code in codes:
        codes += [one for one in code.co_consts if type(one) is types.CodeType]
    return all(any(code.co_name == one.co_name and is_same_code(code, one) for one in codes) for code in live)


def _is_being_loaded(module: types.ModuleType) -> bool:
    spec = space_of_module(module).get("__spec__")
    return type(spec) is ModuleSpec and getattr(spec, "_initializing", False) is True


def _is_from(value: object, module: str) -> bool:
    """True if an object of a former load may be that module's own, not an import."""
    return home_of(value) == module if is_class(value) or type(value) is types.FunctionType else True


def store_text(load: Load, text: str, found: tuple[Stamp, bytes] | None) -> bytes:
    """The bytes of a loaded text: the file's, which then has the load's stamp, if its text is the same."""
    if found is not None:
        try:
            if text_of(found[1]) == text.replace("\r\n", "\n").replace("\r", "\n"):
                load.stamp = found[0]
                return found[1]
        except (SyntaxError, ValueError, LookupError):
            pass
    load.stamp = None
    return b"\xef\xbb\xbf" + text.lstrip("\ufeff").encode("utf-8", "surrogatepass")


def read_file(file: str) -> tuple[Stamp, bytes] | None:
    """The stamp and the bytes of a regular file of bounded length; None for any other."""
    try:
        found = bytes_of(file)
    except (OSError, ValueError):
        return None
    return None if found is None else (stamp_of(found[0]), found[1])


LOADER: Any = importlib.machinery.SourceFileLoader
STANDARD = os.path.dirname(os.__file__) + os.sep
NO_SIZE = -1
"""No file has this size, so compiled code with it is ignored, and written anew. Source: `SourceLoader.get_code`."""
SETTLED_NS = 10 * 10**9
"""The longest compilation: code compiled this long after its source was written is of no former text."""
FRAMES = 4
"""The most frames between the loader's question and its `exec_module`, also with functions of a subclass."""


class ImportStamps:
    """The stamp of each file at its last load, from `install` on. Installed files are left out."""

    def __init__(self, notify: Callable[[], object]) -> None:
        self.count = 0
        """The number of loads, by which callers notice new ones."""
        self.of: dict[str, Stamp] = {}
        self._notify = notify
        self._is_project: dict[str, bool] = {}
        self._previous: Any = None
        self._installed: Any = None

    def install(self) -> None:
        """Begin to take stamps."""
        previous = self._previous = LOADER.path_stats
        is_pythons = previous.__code__.co_filename.startswith("<frozen ")

        def path_stats(loader: object, path: Any) -> Stats:
            if not self.is_project_file(path):
                stats: Stats = previous(loader, path)
                return stats
            status = os.stat(path)
            stats = {"mtime": status.st_mtime, "size": status.st_size} if is_pythons else previous(loader, path)
            caller = sys._getframe(1)  # noqa: SLF001  # no other way to it
            if _is_load(caller):
                self.of[path] = stamp_of(status)
                self.count += 1
                self._notify()
            if not _is_settled(path, caller, status):
                stats["size"] = NO_SIZE
            return stats

        self._installed = LOADER.path_stats = path_stats

    def remove(self) -> None:
        """Take no more stamps, unless somebody else has come in between."""
        if LOADER.path_stats is self._installed:
            LOADER.path_stats = self._previous

    def is_project_file(self, file: object) -> bool:
        """True if a file may be a project's: neither Python's own nor installed."""
        if type(file) is not str:
            return False
        directory = file.rpartition(os.sep)[0]
        known = self._is_project.get(directory)
        if known is None:
            real = os.path.realpath(directory) + os.sep
            parts = real.split(os.sep)
            known = not real.startswith(STANDARD) and not any(part in INSTALLED for part in parts)
            self._is_project[directory] = known and os.path.isabs(file)
        return self._is_project[directory]


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file's status: another stamp means that the file was written since."""
    return status.st_mtime_ns, status_ns(status), status.st_size, status.st_ino


def _is_load(frame: types.FrameType | None) -> bool:
    """True if the loader asks because of a load: others ask for code as well, and run none."""
    for _ in range(FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_name == "exec_module":
            return True
        frame = frame.f_back
    return False


def _is_settled(path: str, caller: types.FrameType, source: os.stat_result) -> bool:
    """True if compiled code was written well after its source, or is missing."""
    bytecode_path = caller.f_locals.get("bytecode_path") if caller.f_code.co_name == "get_code" else None
    try:
        compiled = os.stat(bytecode_path or importlib.util.cache_from_source(path))
    except (OSError, NotImplementedError, ValueError):
        return True
    return compiled.st_mtime_ns > max(source.st_mtime_ns, source.st_ctime_ns) + SETTLED_NS
