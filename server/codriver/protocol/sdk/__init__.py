"""The part of the server that uses the MCP SDK, imported only when a message needs it.

It also defers the SDK's packages, so that their `__init__` runs only when a name in them is used. `import
mcp.shared.exceptions` runs `mcp/__init__.py` first, which imports the SDK's HTTP client and cryptography. That would
take a sixth of the server's memory, and a quarter of its start time, for nothing that the server uses. A deferred
package is the real one at its usual location, and its modules are imported as usual. Only its own `__init__` waits for
the first use of a name that is not a submodule.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

_running = RLock()


class _DeferredPackage(ModuleType):
    """A package whose `__init__` has not run yet. Accessing an attribute runs it."""

    def __getattr__(self, name: str) -> Any:
        with _running:
            if type(self) is _DeferredPackage and (spec := self.__spec__) and spec.loader:
                self.__class__ = _RunPackage
                try:
                    spec.loader.exec_module(self)
                except BaseException:
                    self.__class__ = _DeferredPackage  # the next look-up tries again, and fails for the same reason
                    raise
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class _RunPackage(_DeferredPackage):
    """A deferred package whose `__init__` has started. Accessing a missing attribute is an error."""


def defer_init(*names: str) -> None:
    """Defer the `__init__` of packages that are not imported yet. Parent packages must come first."""
    for name in names:
        if name in sys.modules or (spec := find_spec(name)) is None:
            continue
        package = module_from_spec(spec)
        package.__class__ = _DeferredPackage
        sys.modules[name] = package
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, package)


defer_init("mcp", "mcp.server")
