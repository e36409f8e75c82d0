"""Loads the embedded REPL into a program, so that coverage and debuggers leave its code out.

The code of each module is compiled under a name such as `<codriver serving.embedded>`: tools that measure files pass
over names in angle brackets. Python would put a file's name back when it reads its own bytecode, so the bytecode is
cached in files of another suffix next to it.

It is executed from its source, as it has to come before the package that it loads.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
from importlib.machinery import FileFinder, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types

HEADER_BYTES = 24
"""The magic number of the interpreter's bytecode in 8 bytes, and 8 each for time and size of the source."""


class Loader(SourceFileLoader):
    """Loads one module of the embedded REPL."""

    def get_code(self, fullname: str) -> types.CodeType:
        """See `importlib.abc.InspectLoader`."""
        path = self.get_filename(fullname)
        status = os.stat(path)
        header = importlib.util.MAGIC_NUMBER.ljust(8, b"\0")
        header += status.st_mtime_ns.to_bytes(8, "little") + status.st_size.to_bytes(8, "little")
        directory, name = os.path.split(path)
        cached = os.path.join(directory, "__pycache__", f"{name[:-3]}.{sys.implementation.cache_tag}.codriver")
        try:
            with open(cached, "rb") as file:
                data = file.read()
            if data[:HEADER_BYTES] == header:
                code: types.CodeType = marshal.loads(data[HEADER_BYTES:])  # noqa: S302  # as Python does
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
        """Cache the code if the folder can be written: in an installed package it often cannot."""
        draft = f"{path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(draft, "wb") as file:
                file.write(data)
            os.replace(draft, path)
        except OSError:
            pass


def load(directory: str, name: str) -> types.ModuleType:
    """Load the package in `directory` under a private name, with nothing added to the search for other modules."""
    for parent, below, _files in os.walk(directory):
        below[:] = [one for one in below if one != "__pycache__"]
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
