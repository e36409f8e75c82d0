"""Load the worker's optional features, which are the modules in the package `features`.

Each module has a `FEATURE`. The nREPL server and the answers in Python kernels use the same features. Nothing else in
the worker knows about them.
"""

import importlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, ContextManager

    from .connections import Connection, Message
    from .dialect import Dialect
    from .jobs import Job, Session

_FEATURES_PACKAGE = __name__.rpartition(".")[0].rpartition(".")[0] + ".features"
_FEATURES_DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "features")


class WorkerFeature:
    """The request fields, kernel operations and nREPL ops that one feature adds to the worker."""

    __slots__ = ("about", "around", "fields", "operations", "ops")

    def __init__(
        self,
        fields: "tuple[str, ...]",
        around: "Callable[[Job, Dialect], ContextManager[None]]",
        operations: "Callable[[Callable[..., int]], Mapping[str, Callable[..., Any]]]",
        ops: "Mapping[str, Callable[[Message, Connection, Session], None]] | None" = None,
        about: "Callable[[], dict[str, str]] | None" = None,
    ) -> None:
        self.fields = fields
        """The request fields that this feature handles."""
        self.around = around
        """Returns the context manager in which a request with one of these fields is evaluated."""
        self.operations = operations
        """Returns the feature's kernel operations by name. Takes a function that returns when code last changed."""
        self.ops = ops or {}
        """The ops that the feature adds to the nREPL server."""
        self.about = about
        """Returns fields that describe the process. They are sent with `describe` and at the end of each request."""


def load_features() -> "list[WorkerFeature]":
    """Import and return all features.

    A kernel has no directory of features, so in a kernel they are found among the installed modules.
    """
    try:
        names = [
            name[:-3] for name in os.listdir(_FEATURES_DIRECTORY) if name.endswith(".py") and name != "__init__.py"
        ]
    except OSError:
        names = [full.rpartition(".")[2] for full in sys.modules if full.startswith(_FEATURES_PACKAGE + ".")]
    return [importlib.import_module(_FEATURES_PACKAGE + "." + name).FEATURE for name in sorted(names)]
