"""A loader for the embedded REPL that hides its code from coverage tools and debuggers.

Each module is compiled with a name such as `<codriver serving.embedded>`, because tools that measure files ignore names
in angle brackets. Python would restore the file name when it reads its own bytecode, so the code is cached in files
with a different suffix.

This module is executed from its source, because it must run before the package that it loads. As a script, it compiles
and caches all modules for the Python running it, so that no program has to wait for this.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
import time
from importlib.machinery import FileFinder, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types

WORK_S, PAUSE_S = 0.0005, 0.001
"""Seconds of loading before a pause, and the length of a pause in seconds.

Without pauses, other threads would wait 5 ms each time they need the interpreter lock, several times per web request.
"""
CACHE_HEADER_BYTES = 24
"""The size of a cache file's header: the interpreter's magic number, and the source's time and size, 8 bytes each."""


class Loader(SourceFileLoader):
    """A loader for the embedded REPL's modules that hides their code from tools and caches it."""

    _paused_at = 0.0
    """The time of the last pause."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Execute a module. If this thread has worked for a while, pause so that the program's threads can run."""
        super().exec_module(module)
        if time.monotonic() - Loader._paused_at > WORK_S:
            time.sleep(PAUSE_S)
            Loader._paused_at = time.monotonic()

    def get_code(self, fullname: str) -> types.CodeType:
        """Return the code of a module from the cache. If it is not cached, compile and cache it."""
        path = self.get_filename(fullname)
        status = os.stat(path)
        header = importlib.util.MAGIC_NUMBER.ljust(8, b"\0")
        header += status.st_mtime_ns.to_bytes(8, "little") + status.st_size.to_bytes(8, "little")
        directory, name = os.path.split(path)
        cached = os.path.join(directory, "__pycache__", f"{name[:-3]}.{sys.implementation.cache_tag}.codriver")
        try:
            with open(cached, "rb") as file:
                data = file.read()
            if data[:CACHE_HEADER_BYTES] == header:
                code: types.CodeType = marshal.loads(data[CACHE_HEADER_BYTES:])  # noqa: S302  # Python does the same
                return code
        except (OSError, EOFError, ValueError, TypeError):
            pass
        with open(path, "rb") as file:
            source = file.read()
        label = f"<codriver {fullname.partition('.')[2] or fullname}>"
        code = compile(source, label, "exec", dont_inherit=True)
        self._store(cached, header + marshal.dumps(code))
        return code

    @staticmethod
    def _store(path: str, data: bytes) -> None:
        """Write code to the cache. Read-only directories, such as those of many installed packages, are ignored."""
        draft = f"{path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(draft, "wb") as file:
                file.write(data)
            os.replace(draft, path)
        except OSError:
            pass


def compile_all(directory: str) -> None:
    """Compile and cache all modules in the package in `directory` that are not cached yet."""
    for parent, below, files in os.walk(directory):
        below[:] = [name for name in below if name != "__pycache__"]
        package = ["_codriver_worker", *os.path.relpath(parent, directory).replace(".", "").split(os.sep)]
        for file in files:
            if file.endswith(".py"):
                module = ".".join(filter(None, [*package, file[:-3].replace("__init__", "")]))
                Loader(module, os.path.join(parent, file)).get_code(module)


def load_package(directory: str, name: str) -> types.ModuleType:
    """Load the package in `directory` under a private name. Imports of other modules are not affected.

    Raises:
        ImportError: the package cannot be loaded.
    """
    for parent, below, _files in os.walk(directory):
        below[:] = [item for item in below if item != "__pycache__"]
        sys.path_importer_cache[parent] = FileFinder(parent, (Loader, [".py"]))
    file = os.path.join(directory, "__init__.py")
    spec = importlib.util.spec_from_file_location(
        name, file, loader=Loader(name, file), submodule_search_locations=[directory]
    )
    if spec is None or spec.loader is None:
        raise ImportError("the embedded REPL cannot be imported from " + directory)
    package = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


if __name__ == "__main__":
    compile_all(os.path.dirname(os.path.abspath(__file__)))
