"""Find the paths of a project's tests in its pytest configuration."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from codriver import files

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_FILE_RULES: Final = files.FileRules(files.Links.ANY, most_bytes=files.MEBIBYTE)
"""Limits for reading configuration files."""
INI_SECTIONS: Final = (
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)
"""Names of configuration files, each with its section for pytest."""


def test_paths(directory: Path) -> tuple[Path, ...]:
    """Return the paths of the setting `testpaths`, or none. Blocks."""
    found = _paths_in_toml(directory) or _paths_in_ini(directory)
    return tuple(path for pattern in found for path in sorted(directory.glob(pattern)))


def _paths_in_toml(directory: Path) -> list[str]:
    """Return the setting `testpaths` in `pyproject.toml`, or an empty list."""
    import tomllib  # noqa: PLC0415  # a server that starts has no use for it

    try:
        table = tomllib.loads(files.read_text(directory / "pyproject.toml", CONFIG_FILE_RULES))
        settings = table["tool"]["pytest"]
        given = settings.get("testpaths") or settings["ini_options"]["testpaths"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return shlex.split(given) if isinstance(given, str) else [str(path) for path in given]


def _paths_in_ini(directory: Path) -> list[str]:
    """Return the setting `testpaths` in the first configuration file that has it, or an empty list."""
    from configparser import ConfigParser, Error  # noqa: PLC0415  # as above

    for name, section in INI_SECTIONS:
        parser = ConfigParser(interpolation=None)
        try:
            parser.read_string(files.read_text(directory / name, CONFIG_FILE_RULES))
            return shlex.split(parser.get(section, "testpaths"))
        except (OSError, ValueError, Error):
            continue
    return []
