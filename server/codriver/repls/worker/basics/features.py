"""What features add to the REPL. The REPL knows none of them: a module in the folder `features` is one.

Each such module has a `FEATURE`. The nREPL server and the answers within a kernel of Python serve the same features.
"""

import importlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, ContextManager

    from .dialect import Dialect
    from .jobs import Job

_PACKAGE = __name__.rpartition(".")[0].rpartition(".")[0] + ".features"
_DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "features")


class WorkerFeature:
    """What one feature adds."""

    __slots__ = ("around", "fields", "operations")

    def __init__(
        self,
        fields: "tuple[str, ...]",
        around: "Callable[[Job, Dialect], ContextManager[None]]",
        operations: "Callable[[Callable[..., int]], Mapping[str, Callable[..., Any]]]",
    ) -> None:
        self.fields = fields
        """The fields of requests that concern it."""
        self.around = around
        """Return the context in which a request with one of them is evaluated."""
        self.operations = operations
        """Return its operations in a kernel by name. It is given the function that tells when code was changed."""


def found() -> "list[WorkerFeature]":
    """Import and return the features that are there. In a kernel, they have been loaded already."""
    try:
        names = [name[:-3] for name in os.listdir(_DIRECTORY) if name.endswith(".py") and name != "__init__.py"]
    except OSError:
        names = [full.rpartition(".")[2] for full in sys.modules if full.startswith(_PACKAGE + ".")]
    return [importlib.import_module(_PACKAGE + "." + name).FEATURE for name in sorted(names)]
