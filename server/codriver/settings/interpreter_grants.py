"""Permissions to run the workspace's interpreter that users give through a client while a server is running.

Such a permission is never written to disk. It covers the project's own interpreter, identified by path, as long as
nobody else controls its environment. It does not cover commands, hosts or hooks from the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.repls.launch.projects import is_inside
from codriver.settings.acceptance_records import environment_acceptance
from codriver.settings.environment_acceptance import (
    EnvironmentState,
    describe_revoking_change,
    environment_directory,
    inspect_directory,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from codriver.repls.launch.projects import Acceptance


class InterpreterGrants:
    """The permission to run one of a workspace's interpreters, for the lifetime of a server.

    `python_of` returns the interpreter that would run if the workspace were accepted, or None. It may block.
    """

    def __init__(self, workspace: Path, python_of: Callable[[], str | None]) -> None:
        self._workspace = workspace
        self._python_of = python_of
        self._requested: dict[str, EnvironmentState] = {}
        """The interpreters that a user was asked about, with the state of their environments at that time."""
        self._given: tuple[str, EnvironmentState] | None = None

    def pending_interpreter(self) -> str | None:
        """Return the interpreter that needs the user's permission, or None. Blocks on disk I/O."""
        acceptance = environment_acceptance(self._workspace)
        python = self._python_of()
        if python is None or (acceptance.is_given and not self._needs_permission(acceptance, python)):
            return None
        self._requested[python] = self._inspect_environment(python)
        return python

    @property
    def is_given(self) -> bool:
        """Return whether the user has allowed an interpreter."""
        return self._given is not None

    def allow(self, python: str) -> None:
        """Record that the user allows an interpreter, which `pending_interpreter` has returned."""
        self._given = python, self._requested[python]

    def allows(self, python: str) -> bool:
        """Return whether the user has allowed this interpreter and its environment is unchanged. Blocks on disk I/O."""
        if self._given is None or self._given[0] != python:
            return False
        return describe_revoking_change(self._given[1], self._inspect_environment(python)) is None

    def _needs_permission(self, acceptance: Acceptance, python: str) -> bool:
        is_within = is_inside(python, self._workspace, self._workspace)
        return is_within and acceptance.lapse_reason(python, self._workspace) is not None

    def _inspect_environment(self, python: str) -> EnvironmentState:
        return inspect_directory(self._workspace, environment_directory(python, self._workspace) or python)
