"""Save what was learned about a project's test runs, so that even a server's first run can be warm.

There is one file per interpreter and directory, in the user's cache. Values of environment variables are saved only if
native code reads the variables, such as OMP_NUM_THREADS, because others may be secrets. All functions block.
"""

from __future__ import annotations

import hashlib
import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from codriver import files
from codriver.errors import CodriverError
from codriver.features.warm_tests.child.import_record import NATIVE_VARIABLE_PREFIXES
from codriver.features.warm_tests.decisions import Project
from codriver.features.warm_tests.plans import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

FORMAT_VERSION: Final = 1
"""The version of the file format. Files with a different version are ignored."""
PLAN_RULES: Final = files.FileRules(files.Links.OF_USER, max_bytes=4 * files.MEBIBYTE)
"""Limits for reading a plan. A plan with 10,000 modules takes 400 KB."""
MAX_PLANS: Final = 64
"""Maximum number of saved plans. The oldest ones are removed."""
_NATIVE_PREFIXES: Final = tuple(prefix.decode() for prefix in NATIVE_VARIABLE_PREFIXES)


class SavedPlans:
    """A directory that stores what was learned about the test runs of projects, in one file per project."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, python: str, directory: Path, packages: frozenset[str]) -> Project | None:
        """Return what earlier servers learned about a project, or None if nothing was saved."""
        try:
            data = files.read_json(self._file(python, directory), PLAN_RULES)
            return _from_data(data, python, directory, packages)
        except (OSError, ValueError, KeyError, TypeError, CodriverError):
            return None

    def save(self, python: str, directory: Path, packages: frozenset[str], project: Project) -> None:
        """Save what was learned about a project. Errors are ignored, because it can be learned again."""
        if project.plan is None:
            return
        text = json.dumps(_to_data(project, project.plan, python, directory, packages))
        try:
            path = self._file(python, directory)
            files.replace(
                path, text.encode(), links=files.Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE, is_durable=False
            )
            self._forget_oldest()
        except (OSError, CodriverError) as error:
            logger.info("the plan of warm test runs cannot be saved: %s", error)

    def _file(self, python: str, directory: Path) -> Path:
        digest = hashlib.sha256(f"{python}\0{directory}".encode(errors="surrogateescape")).hexdigest()
        return self._directory / f"{digest[:24]}.json"

    def _forget_oldest(self) -> None:
        paths = sorted(self._directory.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in paths[:-MAX_PLANS]:
            with suppress(OSError):
                files.remove(path)


def _to_data(project: Project, plan: Plan, python: str, directory: Path, packages: frozenset[str]) -> Mapping[str, Any]:
    """Return the content of the file for a project."""
    return {
        "version": FORMAT_VERSION,
        "python": python,
        "directory": str(directory),
        "packages": _digest(packages),
        "stamp": project.stamp,
        "off": project.off,
        "plain_start_s": project.plain_start_s,
        "libraries": plan.libraries,
        "early": plan.early,
        "late": plan.late,
        "variables": {name: value for name, value in plan.variables.items() if name.startswith(_NATIVE_PREFIXES)},
        "unlearnable": sorted(plan.unlearnable),
        "excluded": dict(plan.excluded),
        "watched": dict(plan.watched),
        "registries": dict(plan.registries),
    }


def _from_data(data: Any, python: str, directory: Path, packages: frozenset[str]) -> Project:
    """Create a project from the content of its file.

    Raises:
        ValueError: the file is for a different project, format version or list of known packages.
    """
    found = data["version"], data["python"], data["directory"], data["packages"]
    if found != (FORMAT_VERSION, python, str(directory), _digest(packages)):
        raise ValueError("the file contains the plan of another project")
    start_s = data["plain_start_s"]
    return Project(
        plan=Plan(
            libraries=_strings(data["libraries"]),
            packages=packages,
            early=_strings(data["early"]),
            late=_strings(data["late"]),
            variables=_text_by_name(data["variables"]),
            unlearnable=frozenset(_strings(data["unlearnable"])),
            excluded=_text_by_name(data["excluded"]),
            watched={str(name): _strings(values) for name, values in data["watched"].items()},
            registries={str(name): _strings(values) for name, values in data["registries"].items()},
        ),
        stamp=str(data["stamp"]),
        off=str(data["off"]),
        plain_start_s=None if start_s is None else float(start_s),
    )


def _digest(packages: frozenset[str]) -> str:
    """Return a digest of the packages that may be preloaded. Plans made for different packages are ignored."""
    return hashlib.sha256(" ".join(sorted(packages)).encode()).hexdigest()[:16]


def _strings(values: Any) -> tuple[str, ...]:
    return tuple(map(str, values))


def _text_by_name(values: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in values.items()}
