"""Learn from finished test runs whether a project can be run warm, and with which modules."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from codriver.errors import format_count
from codriver.features.warm_tests import decisions
from codriver.features.warm_tests.comparison import Comparison, outcomes_by_test
from codriver.features.warm_tests.plans import (
    Obstacle,
    RunRecord,
    correct_plan,
    extend_plan,
    plan_from_run,
)
from codriver.features.warm_tests.run_observations import COLLECTION_NAME, RunObservations
from codriver.features.warm_tests.stamps import (
    digest_packages,
    digest_sources,
    has_module,
    workspace_modules,
)

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from codriver.features.warm_tests.decisions import Project
    from codriver.features.warm_tests.process_pool import WarmProcessPool
    from codriver.features.warm_tests.project_state import ProjectState
    from codriver.testing.runs import RunSpec, TestReport

logger = logging.getLogger(__name__)

NO_PYTEST_REASON: Final = "pytest is not installed in the interpreter's own library directories"
MAX_LATE_IMPORT_S: Final = 0.3
"""Maximum time that a warm run may spend importing packages that were not preloaded.

If it takes longer, the run writes a record of its imports, and the process is replaced.
"""


class RunLearner:
    """Learns from finished runs, and starts or replaces warm processes accordingly."""

    def __init__(self, pool: WarmProcessPool, tasks: TaskGroup) -> None:
        self._pool = pool
        self._tasks = tasks
        self._number = 0

    def learn_later(
        self,
        spec: RunSpec,
        entry: ProjectState,
        report: TestReport,
        observations: RunObservations,
        record: str | None,
        *,
        is_warm: bool,
    ) -> None:
        """Learn from a finished run in a background task. The project's next run waits for this task.

        `record` is the record of imports that the run wrote, or None.
        """
        self._number += 1
        number, learn = self._number, self._learn_from_warm_run if is_warm else self._learn_from_plain_run
        entry.unlearned[number] = anyio.Event()

        async def learn_and_report() -> None:
            try:
                await learn(spec, entry, report, observations, record)
            except (OSError, ValueError) as error:
                logger.info("cannot use what a test run in %s recorded for warm runs: %s", entry.directory, error)
            finally:
                entry.unlearned.pop(number).set()

        self._tasks.start_soon(learn_and_report)

    async def _learn_from_plain_run(
        self, spec: RunSpec, entry: ProjectState, report: TestReport, observations: RunObservations, record: str | None
    ) -> None:
        """Update what is known about a project after a plain run, and start a warm process if that is useful."""
        previous = entry.project
        entry.project = project = replace(previous, unfinished="")
        if project.stalled:
            entry.project = project = _record_hang_check(project, report)
        if project.plan is None and record is not None:
            run_record = RunRecord.parse(record)
            project_modules = await to_thread.run_sync(workspace_modules, run_record.libraries, spec.directory)
            stamp = await to_thread.run_sync(digest_packages, run_record.libraries)
            plan = plan_from_run(run_record, project_modules, self._pool.options.packages)
            off = "" if "pytest" in plan.early else NO_PYTEST_REASON
            entry.project = project = replace(project, plan=plan, stamp=stamp, off=off)
        if observations.collected_s is not None:
            least_s = self._pool.options.min_saving_s
            entry.project = decisions.record_plain_start(project, spec.arguments, observations.collected_s, least_s)
        await self._compare_outcomes(spec, entry, report, observations, is_warm=False)
        if entry.project != previous:
            await self._pool.save(entry)
        self._pool.warm_up(spec, entry)

    async def _learn_from_warm_run(
        self, spec: RunSpec, entry: ProjectState, report: TestReport, observations: RunObservations, record: str | None
    ) -> None:
        """Update what is known about a project after a warm run, and replace its process if necessary."""
        previous = entry.project
        entry.project = replace(entry.project, corrections=0, obstacle="")
        is_cut_short = report.interruption is not None or (report.exit_status or 0) < 0
        if observations.stalled_at and is_cut_short:
            entry.project = replace(entry.project, stalled=observations.stalled_at)
        if observations.collected_s is not None:
            least_s = self._pool.options.min_saving_s
            entry.project = decisions.record_warm_start(
                entry.project, spec.arguments, observations.collected_s, least_s
            )
        await self._compare_outcomes(spec, entry, report, observations, is_warm=True)
        plan, found = entry.project.plan, RunRecord.parse(record) if record is not None else None
        if plan is not None and found is not None and found.missing_modules(plan):
            entry.project = replace(entry.project, plan=extend_plan(plan, found))
            self._pool.end(entry)
        if entry.project.off != previous.off:
            await self._pool.save(entry)
        self._pool.warm_up(spec, entry)

    async def learn_from_obstacle(self, spec: RunSpec, entry: ProjectState, obstacle: Obstacle) -> None:
        """Correct the plan so that it avoids an obstacle, and replace the warm process."""
        if (plan := entry.project.plan) is not None:
            hidden = obstacle.hidden_module
            is_hidden = bool(hidden) and await to_thread.run_sync(has_module, entry.directory, hidden)
            corrected = correct_plan(plan, obstacle, is_hidden_by_workspace=is_hidden)
            entry.project = decisions.record_obstacle(
                entry.project, corrected, obstacle.reason, has_started=obstacle.has_started
            )
            await self._pool.save(entry)
        self._pool.end(entry)
        self._pool.warm_up(spec, entry)

    async def _compare_outcomes(
        self, spec: RunSpec, entry: ProjectState, report: TestReport, observations: RunObservations, *, is_warm: bool
    ) -> None:
        """Compare the outcomes of a run with earlier plain and warm runs of the same files.

        If they differ, the project's runs remain plain from then on.
        """
        files_stamp = await to_thread.run_sync(digest_sources, spec.directory, observations.started_ns)
        if not files_stamp or report.error is not None or report.interruption is not None:
            return
        stamp = f"{files_stamp} {spec.arguments} {sorted(spec.environment.items())}"
        comparison = entry.project.comparison
        if comparison is None or comparison.stamp != stamp:
            comparison = Comparison(stamp)
        comparison = comparison.with_outcomes(outcomes_by_test(report), is_warm=is_warm)
        entry.project = replace(entry.project, comparison=comparison)
        if differences := comparison.differences():
            entry.differences = differences
            tests = format_count(len(differences), "test has", "tests have")
            reason = f"{tests} a different outcome than in a plain process, such as {differences[0]}"
            entry.project = replace(entry.project, off=reason)
            self._pool.end(entry)


def _record_hang_check(project: Project, report: TestReport) -> Project:
    """Turn warm runs off if a plain run finished the test at which a warm run stalled."""
    nodeid = project.stalled
    found = next((result for result in report.results if result.nodeid == nodeid), None)
    seconds = found.seconds if found is not None else report.seconds
    has_passed = found is not None or (nodeid == COLLECTION_NAME and report.passed)
    off = f"a warm run stalled at {nodeid}, but a plain run did not"
    return replace(project, stalled="", off=off if has_passed and seconds < decisions.STALL_TIMEOUT_S else project.off)
