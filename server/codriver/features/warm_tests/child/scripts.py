"""Run a script in a forked process as `python SCRIPT` would, and record its imports at exit."""

from __future__ import annotations

import os
import sys

from .process_state import file_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


IMPORTLIB_FILE_NAME = "<frozen importlib._bootstrap>"
"""File name of frames in importlib.

Tracebacks, and warnings with a `stacklevel`, skip such frames.
"""


def hide_frames(function: Any) -> Any:
    """Make tracebacks omit the frames of a function, as they do for importlib."""
    function.__code__ = function.__code__.replace(co_filename=IMPORTLIB_FILE_NAME)
    return function


def compile_script(path: str) -> Any:
    """Compile the source file at `path`."""
    with open(path, encoding="utf-8") as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


class ScriptCache:
    """The compiled script of the last run, and the compiled programs that it loads, until one of the files changes.

    The warm process loads them before it forks, because compiling them takes a large part of a short run.
    """

    def __init__(self) -> None:
        self.files: Any = None
        """The paths of the script and of the programs, with the states of these files."""
        self.loaded: tuple[Any, Any]

    def load(self, script: str, programs: str) -> tuple[Any, Any]:
        """Return the code of a script, and what its function `load_compiled` returns for a file of programs.

        Raises:
            OSError: a file cannot be read.
        """
        files = [(path, file_stat(path)) for path in (script, programs)]
        if files != self.files:
            code = compile_script(script)
            namespace: dict[str, Any] = {"__name__": "", "__file__": script}
            exec(code, namespace)
            self.loaded, self.files = (code, namespace["load_compiled"](programs)), files
        return self.loaded


def create_main_namespace(
    script: str, arguments: list[str], record: RunRecord, compiled_programs: Any = None
) -> dict[str, Any]:
    """Return the namespace of a new `__main__` module for a script.

    It contains `compiled_programs`, if they are already loaded, and `before_retention`, which writes the record before
    a process is retained. Such a process exits long after its run has ended.
    """
    sys.argv[:] = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    module = type(sys)("__main__")
    vars(module).update(__builtins__=__builtins__, __annotations__={}, __file__=script)
    vars(module).update(before_retention=record.write, compiled_programs=compiled_programs)
    sys.modules["__main__"] = module
    return vars(module)


class RunRecord:
    """Records the modules that a run imports, and writes them to a file at exit.

    If the path is empty, nothing is written.
    """

    def __init__(self, path: str, base: set[str], min_imported_s: float | None = None) -> None:
        """Create an empty record.

        Args:
            path: the file to write.
            base: the names of the modules that a new interpreter has already loaded.
            min_imported_s: in a fork of a warm process, the record is written only if libraries that were not
                preloaded took longer than this to import.
        """
        self.path = path
        self.base = base
        self.min_imported_s = min_imported_s
        self.pid = os.getpid()
        self.imported_s = 0.0
        """Total time spent importing libraries that were not preloaded."""
        self.started: dict[str, None] = {}
        """The modules in the order in which imports started. `sys.modules` has the order in which they finished."""
        self.under_replaced_clock: dict[str, None] = {}
        """Modules whose imports started while `time.time` was replaced, as by freezegun."""

    def watch(self) -> None:
        """Start recording the order in which imports start."""
        bootstrap: Any = sys.modules["_frozen_importlib"]
        real, started, replaced = bootstrap._find_and_load_unlocked, self.started, self.under_replaced_clock
        clock: Any = sys.modules["time"]
        real_time = clock.time

        def _find_and_load_unlocked(name: str, import_: Any, **options: Any) -> Any:
            started.setdefault(name)
            if clock.time is not real_time:
                replaced.setdefault(name)
            return real(name, import_, **options)

        bootstrap._find_and_load_unlocked = hide_frames(_find_and_load_unlocked)

    def write(self) -> None:
        """Write the names and files of the imported modules, in the order in which their imports started."""
        if os.getpid() != self.pid or not self.path:
            return
        paths = set()
        if self.min_imported_s is None:
            import sysconfig

            names = ("stdlib", "platstdlib", "purelib", "platlib")
            paths = {sysconfig.get_path(name) for name in names} | {os.path.dirname(os.__file__)}
        elif self.imported_s <= self.min_imported_s:
            return
        present = dict(sys.modules)
        ordered = dict.fromkeys([*(name for name in self.started if name in present), *present])
        modules = [
            (name, module_file(present[name])) for name in ordered if name not in self.base and isinstance(name, str)
        ]
        record = {
            "modules": modules,
            "libraries": sorted(paths),
            "under_replaced_clock": [name for name in self.under_replaced_clock if isinstance(name, str)],
        }
        with open(f"{self.path}.new", "w", encoding="ascii") as file:
            file.write(ascii(record))
        os.replace(f"{self.path}.new", self.path)


def module_file(module: Any) -> str:
    """Return the file of a module, or the first directory of a namespace package, or an empty string."""
    try:
        file = module.__file__ or next(iter(module.__path__), "")
    except Exception:
        return ""
    return file if isinstance(file, str) else ""
