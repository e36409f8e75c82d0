"""The settings files of a workspace as written: `[tool.codriver]` of pyproject.toml, and codriver.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codriver.files import toml_file
from codriver.files.toml_file import TomlFileError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class WorkspaceTables:
    """The tables of settings that a workspace brings, unchecked."""

    project: Mapping[str, Any]
    own: Mapping[str, Any]


def project_file(workspace: Path) -> Path:
    """Return the project's file, which has a table for settings."""
    return workspace / "pyproject.toml"


def own_file(workspace: Path) -> Path:
    """Return the workspace's own settings file."""
    return workspace / "codriver.toml"


def read_tables(workspace: Path) -> WorkspaceTables:
    """Read the settings of a workspace, unchecked; both tables are empty without any.

    Raises:
        TomlFileError: a file cannot be read, or has something else in place of the table.
    """
    file = project_file(workspace)
    table: object = toml_file.read(file, root=workspace)
    for key in ("tool", "codriver"):
        table = table.get(key, {}) if isinstance(table, dict) else table
    if not isinstance(table, dict):
        raise TomlFileError(file, "tool.codriver is no table; write [tool.codriver] and the settings below")
    return WorkspaceTables(table, toml_file.read(own_file(workspace), root=workspace))
