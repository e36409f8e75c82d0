"""Plans that list the modules for a warm process to preload, learned from earlier runs."""

from __future__ import annotations

import ast
import os
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from codriver.features.warm_tests.known_packages import KNOWN_PACKAGES, is_known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ObstacleKind = Literal[
    "variable", "file", "directory", "found", "hidden", "namespace", "finder", "rewriting", "warning", "logger",
    "logger class", "module", "replaced", "subclasses", "drawn", "startup",
]  # fmt: skip
"""The kinds of reasons for not preloading a module."""

MAX_FILE_CHANGES: Final = 3
"""Maximum number of changes to a file that a module reads during import. After that, the module is not preloaded."""

IMPORTS_PREFIX: Final = "imports "
"""Prefix of the reason for not preloading a module that imports an unsuitable module."""
REPLACED_CLOCK_REASON: Final = "the module is imported while something has replaced the clock"
"""Reason for not preloading a module that may retain functions of the replaced clock."""
_REASON_TEMPLATES_BY_KIND: Final[Mapping[str, str]] = {
    "variable": "the import read {about}, which had a different value",
    "file": "the file {about} has changed",
    "directory": "the import read the current directory, which was {about}",
    "startup": "{about}, which Python reads when it starts, has changed",
    "found": "the import looked for the module {about}, which exists now",
    "hidden": "a different file would be imported in its place",
    "namespace": "the directories of this namespace package have changed",
    "finder": "the import hook {about} would import something else",
    "rewriting": "pytest would rewrite the module's assertions differently",
    "warning": "the import issues a warning, and warnings are errors: {about}",
    "logger": "the logger {about}, which the import creates, already exists",
    "logger class": "the import creates the logger {about}, and something has replaced the logger class",
    "module": "something has replaced {about}",
    "replaced": "something has replaced functions in {about}",
    "drawn": "the import draws random numbers, and {about} may have been seeded",
    "subclasses": "{about} searches for the module's classes, and the module had not been imported",
}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why a preloaded module could not be revealed and the run needed a plain process."""

    module: str
    kind: ObstacleKind
    about: str
    others: tuple[str, ...]
    """Other modules in the same import with an obstacle of this kind."""
    variables: Mapping[str, str | None]
    """The current values of those variables that the import read and that have changed."""
    has_started: bool
    """Whether a test had started, in which case the run could not be restarted."""

    @classmethod
    def parse(cls, text: str) -> Obstacle:
        """Parse an obstacle that a child process wrote.

        Raises:
            ValueError: the text is not an obstacle.
        """
        try:
            data = ast.literal_eval(text)
            return cls(
                data["module"],
                data["kind"],
                data["about"],
                tuple(data["others"]),
                dict(data["variables"]),
                bool(data["begun"]),
            )
        except (KeyError, TypeError, SyntaxError) as error:
            raise ValueError(text[:200]) from error

    @property
    def hidden_module(self) -> str:
        """Return the top-level module that is now hidden or provided by a different file, or an empty string."""
        if self.kind in ("hidden", "namespace"):
            return self.module.partition(".")[0]
        return self.about if self.kind == "found" else ""

    @property
    def reason(self) -> str:
        """Describe the obstacle as a clause."""
        return (
            f"{self.module} had to be imported again: {_REASON_TEMPLATES_BY_KIND[self.kind].format(about=self.about)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The modules that a warm process preloads, and those that it must not preload."""

    libraries: tuple[str, ...]
    """The interpreter's library directories, each with a trailing separator."""
    packages: frozenset[str] = KNOWN_PACKAGES
    """The packages that may be preloaded. The standard library may be, too."""
    early: tuple[str, ...]
    """Modules that were loaded before the workspace's first module, in order."""
    late: tuple[str, ...] = ()
    """Modules that were loaded after the workspace's first module, when `variables` had been set."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables as set by the workspace's conftest."""
    unlearnable: frozenset[str] = frozenset()
    """Variables whose values cannot be set in advance, because a run imported a module that reads them before they were
    set.
    """
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Modules and packages that must not be preloaded, with the reasons."""
    watched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Attributes that are replaced when other packages are imported, by module."""
    registries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Containers that imports of other modules change, by module."""
    changed_files: Mapping[str, int] = field(default_factory=dict)
    """The number of times that a file read by a module's import has changed, by module."""

    def may_preload(self, name: str) -> bool:
        """Return whether a module may be added to the plan."""
        return name.partition(".")[0] in sys.stdlib_module_names or is_known(name, self.packages)

    def to_literal(self) -> str:
        """Return the plan as an ASCII literal, which the warm process reads from a file."""
        return ascii(
            {
                "libraries": self.libraries,
                "packages": sorted(self.packages),
                "early": self.early,
                "late": self.late,
                "variables": dict(self.variables),
                "excluded": dict(self.excluded),
                "watched": dict(self.watched),
                "registries": {name: list(paths) for name, paths in self.registries.items()},
            }
        )


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The modules that a run imported, in order, with their files."""

    modules: tuple[tuple[str, str], ...]
    libraries: tuple[str, ...] = ()
    under_replaced_clock: frozenset[str] = frozenset()
    """Modules that were imported while the clock was replaced."""

    @classmethod
    def parse(cls, text: str) -> RunRecord:
        """Parse the record that a run wrote.

        Raises:
            ValueError: the text is not a record.
        """
        try:
            data = ast.literal_eval(text)
            modules = tuple((str(name), str(file)) for name, file in data["modules"])
            libraries = _with_separators(data["libraries"])
            return cls(modules, libraries, frozenset(map(str, data["under_replaced_clock"])))
        except (KeyError, TypeError, SyntaxError) as error:
            raise ValueError(text[:200]) from error

    def missing_modules(self, plan: Plan) -> tuple[str, ...]:
        """Return the library modules that the run imported but that are not in the plan."""
        known = {*plan.early, *plan.late}
        return tuple(
            name
            for name, file in self.modules
            if name not in known
            and plan.may_preload(name)
            and file.startswith(plan.libraries)
            and not _is_excluded(name, plan.excluded)
        )


def _with_separators(paths: Iterable[Any]) -> tuple[str, ...]:
    """Return the absolute and the resolved forms of paths, each with a trailing separator."""
    forms = (os.path.abspath, os.path.realpath)
    return tuple(sorted({f"{form(str(path)).rstrip(os.sep)}{os.sep}" for path in paths for form in forms}))


def _is_excluded(name: str, excluded: Mapping[str, str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:end]) in excluded for end in range(1, len(parts) + 1))


def plan_from_run(record: RunRecord, excluded: Iterable[str], packages: frozenset[str] = KNOWN_PACKAGES) -> Plan:
    """Create a plan from the record of a plain run. `excluded` are top-level modules that belong to the workspace."""
    plan = Plan(libraries=record.libraries, packages=packages, early=())
    early: list[str] = []
    late: list[str] = []
    modules = early
    for name, file in record.modules:
        if file and not file.startswith(record.libraries):
            modules = late
        elif name != "__main__" and not name.startswith("__editable__"):
            modules.append(name)
    return replace(
        plan,
        early=tuple(filter(plan.may_preload, early)),
        late=tuple(filter(plan.may_preload, late)),
        excluded={
            **dict.fromkeys(excluded, "belongs to the workspace"),
            **dict.fromkeys(sorted(record.under_replaced_clock & {*early, *late}), REPLACED_CLOCK_REASON),
        },
    )


def lasting_exclusions(found: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the unsuitable modules that remain unsuitable when files in the workspace change.

    The others import a module in the workspace, for example one that hides a standard library module.
    """

    def is_lasting(name: str, seen: frozenset[str]) -> bool:
        imported = found[name].removeprefix(IMPORTS_PREFIX)
        if imported == found[name] or imported in seen:
            return True
        if imported not in found:
            return _is_excluded(imported, {**found, **known})
        return is_lasting(imported, seen | {name})

    return {name: reason for name, reason in found.items() if is_lasting(name, frozenset())}


def extend_plan(plan: Plan, record: RunRecord) -> Plan:
    """Return the plan, extended by the library modules that a warm run had to import."""
    return replace(plan, late=(*plan.late, *record.missing_modules(plan)))


def correct_plan(plan: Plan, obstacle: Obstacle, *, is_hidden_by_workspace: bool = False) -> Plan:
    """Return a plan that avoids an obstacle.

    `is_hidden_by_workspace` is true if a file in the runs' directory hides the module. A new process finds this file
    too, so the plan need not change.
    """
    if obstacle.kind == "startup" or is_hidden_by_workspace:  # a new process reads the file again
        return plan
    if obstacle.kind == "file":
        times = plan.changed_files.get(obstacle.module, 0) + 1
        if times < MAX_FILE_CHANGES:
            return replace(plan, changed_files={**plan.changed_files, obstacle.module: times})
    unlearnable = plan.unlearnable | (obstacle.variables.keys() & plan.variables.keys())
    learnable = {name: value for name, value in obstacle.variables.items() if value is not None}
    if not learnable.keys() <= unlearnable or unlearnable != plan.unlearnable:
        variables = {key: value for key, value in {**plan.variables, **learnable}.items() if key not in unlearnable}
        return replace(plan, variables=variables, unlearnable=unlearnable)
    reason = _REASON_TEMPLATES_BY_KIND[obstacle.kind].format(about=obstacle.about)
    modules = (obstacle.module, *(obstacle.others if obstacle.kind in ("module", "replaced") else ()))
    return replace(plan, excluded={**plan.excluded, **dict.fromkeys(modules, reason)})
