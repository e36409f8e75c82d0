"""Read the settings tables of a workspace from pyproject.toml and codriver.toml."""

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
    """The settings tables of a workspace before validation."""

    project: Mapping[str, Any]
    codriver_table: Mapping[str, Any]


def project_file(workspace: Path) -> Path:
    """Return the path of `pyproject.toml`."""
    return workspace / "pyproject.toml"


def codriver_file(workspace: Path) -> Path:
    """Return the path of the workspace's `codriver.toml`."""
    return workspace / "codriver.toml"


def read_tables(workspace: Path) -> WorkspaceTables:
    """Read the settings tables of a workspace. Missing tables are empty. Nothing is validated.

    Raises:
        TomlFileError: a file cannot be read, or its `tool.codriver` is not a table.
    """
    file = project_file(workspace)
    table: object = toml_file.read_toml(file, root=workspace)
    for key in ("tool", "codriver"):
        table = table.get(key, {}) if isinstance(table, dict) else table
    if not isinstance(table, dict):
        raise TomlFileError(file, "tool.codriver is not a table. Write [tool.codriver], with the settings below it")
    return WorkspaceTables(table, toml_file.read_toml(codriver_file(workspace), root=workspace))
