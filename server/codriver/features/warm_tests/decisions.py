"""Decide whether the next test run of a project is warm or plain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.warm_tests.comparison import Comparison
    from codriver.features.warm_tests.plans import Plan
    from codriver.testing.runs import RunSpec

MAX_RUNS_PER_SEED: Final = 10
"""Maximum number of runs with the same hash seed."""
MAX_AGE_S: Final = 8 * 3600.0
"""Maximum age of a warm process."""
IDLE_TIMEOUT_S: Final = 30 * 60.0
"""Time after which an idle warm process is ended."""
STALL_TIMEOUT_S: Final = 30.0
"""Time without progress, in seconds, after which a warm run is assumed to hang."""
MIN_SAVING_S: Final = 0.2
"""Minimum time that a warm start has to save per run. Projects in which it saves less are not warmed."""
SAVES_TOO_LITTLE_REASON: Final = "a warm start saves too little time"
MAX_LOW_SAVING_RUNS: Final = 3
"""Maximum number of consecutive runs that save too little. After that, a project is no longer warmed."""
MAX_FAILED_STARTS: Final = 5
"""Maximum number of consecutive failed attempts to start a warm process, each under different circumstances."""
MAX_CORRECTIONS: Final = 6
"""Maximum number of consecutive corrections without a successful warm run in between.

After that, all runs of the project are plain.
"""
START_VARIABLE_PREFIXES: Final = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "LC_", "LANG", "TZ", "COVERAGE_PROCESS")
"""Prefixes of environment variables that Python and the C library read when a process starts."""
PLAIN_VARIABLES: Final = ("PYTHONHASHSEED", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
"""Variables that require a plain run. They fix the hash seed, or measure coverage from the start of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Everything that is known about the test runs of one interpreter in one directory."""

    plan: Plan | None = None
    stamp: str = ""
    """A digest of the interpreter's packages at the time when the other fields were learned."""
    off: str = ""
    """The reason why runs stay plain until packages change."""
    unfit: str = ""
    """The reason why there is no warm process. Unlike `off`, it is not saved, and another attempt is made when
    `circumstances` change.
    """
    circumstances: str = ""
    """A digest of the environment and files with which the warm process failed to start."""
    failed_starts: int = 0
    """The number of consecutive failed starts."""
    comparison: Comparison | None = None
    plain_start_s: float | None = None
    """How long the last plain run took to collect its tests."""
    plain_arguments: tuple[str, ...] | None = None
    """The arguments of the last plain run."""
    small_savings: int = 0
    corrections: int = 0
    obstacle: str = ""
    """The reason why the last warm run needed a plain process."""
    unfinished: str = ""
    """The reason why the last run was not finished. The next run is plain."""
    stalled: str = ""
    """The test at which a warm run stopped making progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmState:
    """The properties of a warm process that affect whether a run may use it."""

    is_ready: bool
    environment: Mapping[str, str]
    """The environment variables of the process."""
    has_startup_code: bool = False
    """Whether the interpreter runs code at startup that may read any variable, such as `sitecustomize`."""
    runs: int = 0
    age_s: float = 0.0

    @property
    def must_be_replaced(self) -> bool:
        """Return whether the process has reached its maximum age or number of runs."""
        return self.runs >= MAX_RUNS_PER_SEED or self.age_s >= MAX_AGE_S


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on whether a run uses a fork of the warm process or a new, plain process.

    If it uses a plain process, `reason` is why.
    """

    is_warm: bool
    reason: str = ""


WARM_START: Final = Decision(is_warm=True)
"""The decision to run tests in a fork of the warm process."""


def start_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that Python or the C library reads at process startup."""
    return {key: value for key, value in environment.items() if key.startswith(START_VARIABLE_PREFIXES)}


def never_warm_reason(spec: RunSpec) -> str:
    """Return the reason why runs of this kind are never warm, or an empty string."""
    if spec.runner != "pytest":
        return f"the tests are run by {spec.runner}"
    if spec.sources:
        return "the tests run with replaced file contents"
    return next((f"{name} is set" for name in PLAIN_VARIABLES if name in spec.environment), "")


def decide_start(spec: RunSpec, project: Project, warm: WarmState | None) -> Decision:
    """Decide whether a run uses a fork of the warm process or a new, plain process.

    A run is plain if runs of its kind are never warm, if warm runs were found to differ, to hang or to save no time, if
    something must be learned or compared first, or if there is no suitable warm process.
    """
    if obstacle := never_warm_reason(spec):
        return Decision(is_warm=False, reason=obstacle)
    if reason := project.off or project.unfit:
        return Decision(is_warm=False, reason=reason)
    if project.plan is None:
        return Decision(is_warm=False, reason="the first run of a project uses a plain process")
    if project.unfinished:
        return Decision(is_warm=False, reason=f"the last run was not finished: {project.unfinished}")
    if project.stalled:
        return Decision(is_warm=False, reason=f"a warm run stalled at {project.stalled}")
    if project.comparison is not None and project.comparison.needs_plain_run():
        return Decision(is_warm=False, reason="a difference between warm and plain runs is being checked")
    if warm is None or not warm.is_ready:
        return Decision(is_warm=False, reason=project.obstacle or "the warm process is not ready yet")
    if warm.must_be_replaced:
        return Decision(is_warm=False, reason="the warm process is being replaced")
    if start_variables(warm.environment) != start_variables(spec.environment):
        return Decision(is_warm=False, reason="environment variables that Python reads when it starts have changed")
    if warm.has_startup_code and dict(warm.environment) != dict(spec.environment):
        return Decision(is_warm=False, reason="environment variables that startup code may read have changed")
    return WARM_START


def record_failed_start(project: Project, reason: str, circumstances: str) -> Project:
    """Record that a warm process could not be started, along with a digest of the circumstances."""
    return replace(project, unfit=reason, circumstances=circumstances, failed_starts=project.failed_starts + 1)


def allow_retry(project: Project, circumstances: str) -> Project:
    """Allow another attempt to start a warm process, if the circumstances have changed since the last failure."""
    if not project.unfit or project.circumstances == circumstances or project.failed_starts >= MAX_FAILED_STARTS:
        return project
    return replace(project, unfit="")


def record_warm_start(project: Project, arguments: tuple[str, ...], warm_start_s: float, least_s: float) -> Project:
    """Record how long a warm run took to collect its tests.

    Warm runs are turned off after several runs that saved less than `least_s` compared with a plain run of the same
    tests.
    """
    if project.plain_start_s is None or project.plain_arguments != arguments:
        return project
    saved_s = project.plain_start_s - warm_start_s
    if saved_s >= least_s:
        return replace(project, small_savings=0)
    small = project.small_savings + 1
    off = SAVES_TOO_LITTLE_REASON if small >= MAX_LOW_SAVING_RUNS else project.off
    return replace(project, small_savings=small, off=off)


def record_plain_start(project: Project, arguments: tuple[str, ...], start_s: float, least_s: float) -> Project:
    """Record how long a plain run took to collect its tests.

    If warm runs were off because they saved too little, and the project has become slower, forget what was learned.
    """
    if project.off == SAVES_TOO_LITTLE_REASON and start_s >= (project.plain_start_s or 0.0) + 2 * least_s:
        return Project()
    off = SAVES_TOO_LITTLE_REASON if start_s < least_s else project.off
    return replace(project, plain_start_s=start_s, plain_arguments=arguments, off=off)


def record_obstacle(project: Project, plan: Plan, reason: str, *, has_started: bool) -> Project:
    """Record that a warm run needed a plain process, and the plan that avoids this in the future.

    `has_started` is true if a test had already started, in which case the run was aborted.
    """
    corrections = project.corrections + 1
    off = f"runs keep needing a plain process: {reason}" if corrections >= MAX_CORRECTIONS else project.off
    return replace(
        project,
        plan=plan,
        corrections=corrections,
        obstacle=reason,
        off=off,
        unfinished=reason if has_started else "",
    )
