"""REPL capabilities: those that exist without features, and those that features define."""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


CAPABILITIES = (
    "evaluate",
    "load-file",
    "interrupt",
    "restart",
    "complete",
    "lookup",
    "stdin",
    "sessions",
    "print-limits",
    "macroexpand",
    "test",
    "stacktrace",
    "frame",
    "drift",
    "restore",
)
"""The capabilities that exist without features, in the order in which they are displayed.

`restart` depends on who started the process.
"""


@dataclass(frozen=True, slots=True)
class ServerCapability:
    """A REPL capability that a feature defines.

    A REPL has the capability if its server supports one of `ops` or if a companion provides it. The `ops` are in order
    of preference.
    """

    name: str
    ops: tuple[str, ...]
    missing: str
    """A one-line hint on how to get the capability, or what to do without it."""
    missing_by_dialect: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Hints for dialects that need a different one."""

    def hint_for(self, dialect: str) -> str:
        """Return the hint for a REPL of this dialect that lacks the capability."""
        return self.missing_by_dialect.get(dialect, self.missing)
