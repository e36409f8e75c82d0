"""Grants for a server's life: the user's yes, given through a client, to the project's own interpreter and to no more.

Unlike `trust` it is written nowhere, and it grants no command, host or hook that the workspace's settings ask for. It
holds for one interpreter by its path, and for the settings as they were; whatever changes either takes it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.files.toml_file import TomlFileError
from codriver.settings import trust

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Grants:
    """The grant of one workspace, for the life of one server.

    `python_of` gives the interpreter that would run were the workspace accepted, None where there is none. It blocks.
    """

    def __init__(self, workspace: Path, python_of: Callable[[], str | None]) -> None:
        self._workspace = workspace
        self._python_of = python_of
        self._asked: dict[str, str] = {}
        """By the path of an interpreter that a human is asked for: the digest of the settings at that time."""
        self._given: tuple[str, str] | None = None
        """The interpreter that may run, and the digest of the settings with which it may."""

    def wanted(self) -> str | None:
        """The interpreter to ask for, by its path; None where nothing waits for one. Blocks."""
        if trust.is_accepted(self._workspace):
            return None
        python, digest = self._python_of(), self._digest()
        if python is None or digest is None:
            return None
        self._asked[python] = digest
        return python

    @property
    def is_given(self) -> bool:
        """True from the user's yes on."""
        return self._given is not None

    def give(self, python: str) -> None:
        """Let an interpreter that was asked for run from now on, with the settings as they were then."""
        self._given = python, self._asked[python]

    def allows(self, python: str) -> bool:
        """True where the user let this interpreter run, with the settings as they are now. Blocks."""
        return self._given is not None and self._given == (python, self._digest())

    def _digest(self) -> str | None:
        try:
            return trust.read_tables(self._workspace).digest
        except TomlFileError:
            return None
