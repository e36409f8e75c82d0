"""Find the paths of a project's tests, and the directories without any, in its pytest configuration."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase as fnmatch
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files.tree_walk import walk_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CONFIG_FILE_RULES: Final = files.FileRules(files.Links.ANY, max_bytes=files.MEBIBYTE)
"""Limits for reading configuration files."""
INI_SECTIONS: Final = (
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)
"""Names of configuration files, each with its section for pytest."""
MAX_SCANNED_ENTRIES: Final = 20_000
"""Maximum number of directory entries that are checked for a test file."""
DEFAULT_SKIPPED_DIRECTORIES: Final = ("*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv", "{arch}")
"""pytest's default for `norecursedirs`. Source: pytest, `main.py`."""


def test_paths(directory: Path) -> tuple[Path, ...]:
    """Return the paths in pytest's `testpaths` setting. Blocks."""
    found = _setting(directory, "testpaths")
    return tuple(path for pattern in found for path in sorted(directory.glob(pattern)))


def skipped_directories(directory: Path) -> tuple[str, ...]:
    """Return the patterns in pytest's `norecursedirs` setting, or pytest's default. Blocks."""
    return tuple(_setting(directory, "norecursedirs")) or DEFAULT_SKIPPED_DIRECTORIES


def is_skipped(file: Path, directory: Path, patterns: Sequence[str]) -> bool:
    """Return whether pytest does not find a test file because it skips one of the directories above the file.

    Source: pytest, `fnmatch_ex`. A pattern with a separator matches the end of the path.
    """
    parents = [parent for parent in file.parents if parent != directory and parent.is_relative_to(directory)]
    return any(
        fnmatch(parent.as_posix(), f"*/{pattern}") if "/" in pattern else fnmatch(parent.name, pattern)
        for parent in parents
        for pattern in patterns
    )


def find_python_test_file(directory: Path) -> Path | None:
    """Return a file below a directory in which pytest finds tests by default, or None. Blocks."""
    patterns = skipped_directories(directory)
    for root in test_paths(directory) or (directory,):
        for file in walk_files(root, (".py",), max_entries=MAX_SCANNED_ENTRIES):
            is_test = file.name.startswith("test_") or file.name.endswith("_test.py")
            if is_test and not is_skipped(file, directory, patterns):
                return file
    return None


def _setting(directory: Path, name: str) -> list[str]:
    """Return the value of a pytest setting that is a list, or an empty list."""
    return _setting_in_toml(directory, name) or _setting_in_ini(directory, name)


def _setting_in_toml(directory: Path, name: str) -> list[str]:
    """Return the value of a pytest setting in `pyproject.toml`, or an empty list."""
    import tomllib  # noqa: PLC0415  # a server that starts has no use for it

    try:
        table = tomllib.loads(files.read_text(directory / "pyproject.toml", CONFIG_FILE_RULES))
        settings = table["tool"]["pytest"]
        given = settings.get(name) or settings["ini_options"][name]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return shlex.split(given) if isinstance(given, str) else [str(path) for path in given]


def _setting_in_ini(directory: Path, name: str) -> list[str]:
    """Return the value of a pytest setting in the first INI file that contains it, or an empty list."""
    from configparser import ConfigParser, Error  # noqa: PLC0415  # as above

    for file_name, section in INI_SECTIONS:
        parser = ConfigParser(interpolation=None)
        try:
            parser.read_string(files.read_text(directory / file_name, CONFIG_FILE_RULES))
            return shlex.split(parser.get(section, name))
        except (OSError, ValueError, Error):
            continue
    return []
