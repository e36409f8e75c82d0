"""Determine the command with which clients start the relay."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codriver.files.codriver_paths import relay_file
from codriver.setup.shared_command import shared_command
from codriver_relay.workspace_search import is_search_boundary

if TYPE_CHECKING:
    from codriver.setup.environment import Environment

Scope = Literal["workspace", "user"]


@dataclass(frozen=True, slots=True)
class Launch:
    """The command with which a client starts the relay for a workspace."""

    python: Path
    """An interpreter that has Codriver installed, with which the relay starts the server."""
    relay: Path
    workspace: Path
    shared: tuple[str, ...] | None = None
    """The command line for shared files, without this machine's paths. Empty if none would work.

    None before it has been determined, in which case paths are used.
    """

    @classmethod
    def current(cls, workspace: Path) -> Launch:
        """Return the launch with this interpreter and this user's relay.

        The path of the interpreter is not resolved, because the links of a virtual environment identify it.
        """
        return cls(Path(sys.executable), relay_file(), workspace.resolve())

    def with_shared_command(self, environment: Environment) -> Launch:
        """Return a copy with the command line for shared files. It is empty if none works on this machine."""
        return replace(self, shared=() if is_search_boundary(str(self.workspace)) else shared_command(environment))

    def for_scope(self, scope: Scope) -> Launch:
        """Return the launch for files in a scope. Only the user's files contain this machine's paths."""
        return self if scope == "workspace" and self.shared else replace(self, shared=None)
