"""Digests of installed packages and of the workspace's files, used to detect changes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SOURCE_SUFFIXES: Final = (".py", ".pyi", ".toml", ".ini", ".cfg", ".env", ".json", ".yaml", ".yml")
"""Suffixes of the files that are compared to determine whether two runs had the same sources.

Other files are ignored, because tests may write them.
"""
SKIPPED_DIRECTORIES: Final = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox"})
"""Names of directories that are not searched for sources."""
MAX_WORKSPACE_FILES: Final = 20_000
"""Maximum number of files in a workspace. Runs in larger workspaces are not compared."""


def digest_packages(libraries: Iterable[str]) -> str:
    """Return a digest of the installed packages. It changes when a package is installed, removed or replaced."""
    digest = hashlib.sha256()
    for library in libraries:
        try:
            names = sorted(path.name for path in Path(library).iterdir() if path.name != "__pycache__")
        except OSError:
            names = []
        for name in names:
            is_metadata = name.endswith((".dist-info", ".egg-info", ".pth", ".egg-link"))
            digest.update(
                f"{library}{name}{_modified_ns(Path(library, name)) if is_metadata else ''}\n".encode(errors="replace")
            )
    return digest.hexdigest()[:16]


def digest_start_conditions(directory: Path, environment: Mapping[str, str], memory_mb: int) -> str:
    """Return a digest of the conditions under which a warm process starts.

    The conditions are environment variables, the memory limit, and files that shadow modules.
    """
    digest = hashlib.sha256(repr((sorted(environment.items()), memory_mb)).encode(errors="replace"))
    paths = [directory, *map(Path, filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)))]
    for path in paths:
        with suppress(OSError):
            for entry in sorted(os.scandir(path), key=lambda found: found.name):
                name = entry.name.partition(".")[0]
                if entry.name.endswith(".py") or (name.isidentifier() and entry.is_dir()):
                    # Editing a module of the project does not affect what is preloaded.
                    changed = _modified_ns(Path(entry.path)) if name in sys.stdlib_module_names else 0
                    digest.update(f"{path}{entry.name}{changed}\n".encode(errors="replace"))
    return digest.hexdigest()[:16]


def has_module(directory: Path, name: str) -> bool:
    """Return whether a directory contains a module or package with this name."""
    return (directory / name).is_dir() or (directory / f"{name}.py").exists()


def digest_sources(directory: Path, started_ns: int) -> str:
    """Return a digest of the source files in a directory.

    Return an empty string if there are too many files, or if a file changed after `started_ns`.
    """
    digest = hashlib.sha256()
    for count, (path, status) in enumerate(_sources(directory)):
        if count >= MAX_WORKSPACE_FILES or status.st_mtime_ns >= started_ns:
            return ""
        digest.update(f"{path}\0{status.st_mtime_ns}\0{status.st_size}\n".encode(errors="replace"))
    return digest.hexdigest()[:16]


def _sources(directory: Path) -> Iterator[tuple[str, os.stat_result]]:
    for parent, subdirectories, names in os.walk(directory):
        subdirectories[:] = sorted(
            name for name in subdirectories if name not in SKIPPED_DIRECTORIES and not name.endswith("_cache")
        )
        for name in sorted(names):
            if name.endswith(SOURCE_SUFFIXES):
                path = Path(parent, name)
                try:
                    yield str(path), path.stat()
                except OSError:
                    continue


def workspace_modules(libraries: Iterable[str], directory: Path) -> tuple[str, ...]:
    """Return the top-level modules of installed distributions whose source is the workspace.

    These are distributions installed from a directory, for example in editable mode, and the one with the project's
    name.
    """
    project_name = _normalize_name(_project_name(directory))
    found: dict[str, None] = {}
    for library in libraries:
        for metadata in Path(library).glob("*.dist-info"):
            name = _normalize_name(metadata.name.removesuffix(".dist-info").rpartition("-")[0])
            if (project_name and name == project_name) or _is_from_directory(metadata / "direct_url.json"):
                found.update(dict.fromkeys(_top_level_modules(metadata)))
    return tuple(found)


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _project_name(directory: Path) -> str:
    import tomllib  # noqa: PLC0415  # the server does not need it to start

    for parent in (directory, *directory.parents):
        try:
            data = tomllib.loads(_text(parent / "pyproject.toml"))
        except (OSError, ValueError):
            continue
        project: dict[str, Any] = data.get("project", {})
        return str(project.get("name") or data.get("tool", {}).get("poetry", {}).get("name", ""))
    return ""


def _is_from_directory(direct_url: Path) -> bool:
    try:
        data = json.loads(_text(direct_url))
    except (OSError, ValueError):
        return False
    return "dir_info" in data


def _top_level_modules(metadata: Path) -> Iterator[str]:
    """Yield the top-level modules of a distribution, found in its list of files."""
    try:
        lines = _text(metadata / "RECORD").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        first, _, rest = line.partition(",")[0].partition("/")
        if rest and not first.endswith((".dist-info", ".data")) and first not in ("..", "__pycache__"):
            yield first
        elif not rest and first.endswith((".py", ".so", ".pyd")):
            yield first.partition(".")[0]


def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _modified_ns(path: Path) -> int:
    """Return the modification time of a file in nanoseconds, or 0 if it does not exist."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
