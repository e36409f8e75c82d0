"""Profiles of connected REPLs: their language, and the operations that they support."""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


LISP = "lisp"
"""The language family of tools that work for every Lisp dialect."""
PYTHON = "python"
NON_LISP_DIALECTS = frozenset({"python", "unknown"})
"""The dialects that are not Lisps."""


@dataclass(frozen=True)
class Capability:
    """How a REPL provides a capability.

    `op` is the name of the operation in the REPL's protocol. If `adapted` is true, the operation does not provide the
    capability directly, but Codriver uses it to provide the capability.
    """

    op: str
    adapted: bool = False


@dataclass(frozen=True)
class Profile:
    """The properties and capabilities of a connected REPL, determined by queries when it connected."""

    dialect: str = "unknown"
    """`clojure`, `clojurescript`, `babashka`, `basilisp`, `python`, `hy`, `nbb` or `unknown`."""
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    capabilities: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    """The available capabilities by name."""
    missing: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """A line on how to get each capability that is not available, by name."""
    queued: frozenset[str] = frozenset({"test"})
    """The capabilities for which calls wait while the REPL restarts, as evaluations do."""
    isolation: Literal["session", "connection", "none"] = "session"
    """What keeps namespaces apart: sessions on one connection, only separate connections, or nothing."""
    outside: str | None = None
    """A sentence about the project's packages that are imported from outside its working tree."""
    application: str = ""
    """The name of the running application that the REPL is part of, or empty if it is not part of one."""
    shares: str = ""
    """A description of what an isolated session shares with the others."""
    runs_concurrently: bool = False
    """Whether the REPL can run code in one session while code is running in another."""
    is_serial: bool = False
    """Whether the REPL runs only one evaluation at a time across all sessions."""
    reads_itself: bool = False
    """Whether the REPL itself checks that code can be read, because it accepts more than the plain language."""
    process_id: int | None = None
    project_root: str | None = None
    document: str | None = None
    """The path of the document whose code people run in the REPL, if the connection reports it."""
    other_tree: str | None = None
    """The other working tree of the workspace's repository that the REPL runs in, or None if it runs in this one."""
    thread_output: str = ""
    """A description of where output from threads goes, or empty if Codriver receives it."""
    notes: tuple[str, ...] = ()
    """Sentences that users should know, such as why this REPL cannot be interrupted."""
