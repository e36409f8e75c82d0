"""Behind the plain way: the only room that knows the SDK. It is imported when a client's message needs it.

Packages of the SDK whose `__init__` runs only when a name is looked up in them.

`import mcp.shared.exceptions` runs `mcp/__init__.py` first, which imports the SDK's HTTP client and cryptography: a
sixth of the memory that the server would hold, and a quarter of its start's time, for nothing that the server uses. A
deferred package is the real one, found at its usual place, and its modules are imported as ever. Only its own
`__init__` waits, for the first look-up of a name that no submodule has given the package.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

_running = RLock()


class _DeferredPackage(ModuleType):
    """A package before its `__init__` ran: attribute look-up runs it, once."""

    def __getattr__(self, name: str) -> Any:
        with _running:
            if type(self) is _DeferredPackage and (spec := self.__spec__) and spec.loader:
                self.__class__ = _RunPackage
                try:
                    spec.loader.exec_module(self)
                except BaseException:
                    self.__class__ = _DeferredPackage  # the next look-up tries again, and fails with the same reason
                    raise
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class _RunPackage(_DeferredPackage):
    """A deferred package from the moment at which its `__init__` begins: a missing name is an error."""


def defer(*names: str) -> None:
    """Put off the `__init__` of packages that are not imported yet, each after its parent package."""
    for name in names:
        if name in sys.modules or (spec := find_spec(name)) is None:
            continue
        package = module_from_spec(spec)
        package.__class__ = _DeferredPackage
        sys.modules[name] = package
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, package)


defer("mcp", "mcp.server")
