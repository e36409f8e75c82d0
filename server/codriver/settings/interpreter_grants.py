"""Permission for one interpreter of a workspace, given through a client for a server's lifetime and written nowhere.

It covers the project's own interpreter by its path, as long as its environment stays the user's own, and no command,
host or hook that the settings name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.repls.launch.projects import is_inside
from codriver.settings.environments import EnvironmentState, change_since, directory_of, inspect
from codriver.settings.trust import environment_acceptance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from codriver.repls.launch.projects import Acceptance


class InterpreterGrants:
    """The permission for one workspace, for the lifetime of one server.

    `python_of` returns the interpreter that would run if the workspace were accepted, None for a workspace without any.
    The function blocks.
    """

    def __init__(self, workspace: Path, python_of: Callable[[], str | None]) -> None:
        self._workspace = workspace
        self._python_of = python_of
        self._asked: dict[str, EnvironmentState] = {}
        """For each interpreter that a human was asked about, the state of its environment at that time."""
        self._given: tuple[str, EnvironmentState] | None = None

    def wanted(self) -> str | None:
        """Return the interpreter to ask for, by its path; None when none waits for the user's permission. Blocks."""
        acceptance = environment_acceptance(self._workspace)
        python = self._python_of()
        if python is None or (acceptance.is_given and not self._is_uncovered(acceptance, python)):
            return None
        self._asked[python] = self._state_of(python)
        return python

    @property
    def is_given(self) -> bool:
        """Return true from the user's permission on."""
        return self._given is not None

    def give(self, python: str) -> None:
        """Let an interpreter that was requested run from now on."""
        self._given = python, self._asked[python]

    def allows(self, python: str) -> bool:
        """Return whether the user let this interpreter run, and its environment is still the user's own. Blocks."""
        if self._given is None or self._given[0] != python:
            return False
        return change_since(self._given[1], self._state_of(python)) is None

    def _is_uncovered(self, acceptance: Acceptance, python: str) -> bool:
        is_within = is_inside(python, self._workspace, self._workspace)
        return is_within and acceptance.lapse_for(python, self._workspace) is not None

    def _state_of(self, python: str) -> EnvironmentState:
        return inspect(self._workspace, directory_of(python, self._workspace) or python)
