"""Start test runs: warm if this is known to give the same results as a plain process, otherwise plain."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from codriver.features.warm_tests import decisions
from codriver.features.warm_tests.decisions import Project
from codriver.features.warm_tests.learning import RunLearner
from codriver.features.warm_tests.process_pool import WarmProcessPool
from codriver.features.warm_tests.stamps import digest_packages
from codriver.features.warm_tests.warm_options import IS_FORK_SAFE, WarmOptions
from codriver.features.warm_tests.warm_run import WarmRun
from codriver.testing.plain_process import start_in_process
from codriver.testing.running_process import open_plain_process
from codriver.testing.runs import StartState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.features.warm_tests.project_state import ProjectState
    from codriver.features.warm_tests.saved_plans import SavedPlans
    from codriver.testing.runs import RunSpec, TestProcess


class WarmTests:
    """Starts test runs, warm or plain. Use `warm_tests` to create one."""

    def __init__(self, options: Callable[[], WarmOptions], tasks: TaskGroup, saved: SavedPlans | None = None) -> None:
        """Create the starter. Nothing is started before the first run. See `WarmProcessPool` for the arguments."""
        self._pool = WarmProcessPool(options, tasks, saved)
        self._learner = RunLearner(self._pool, tasks)

    @asynccontextmanager
    async def __call__(self, spec: RunSpec) -> AsyncIterator[TestProcess]:
        """Start a run. See `StartRun`."""
        if self._unsupported_reason() or decisions.never_warm_reason(spec):
            async with start_in_process(spec, open_plain_process) as plain:
                yield plain
            return
        await self._pool.create_directory()
        entry = self._pool.find(spec)
        await entry.wait_until_learned()
        await self._pool.load_saved(entry)
        await self._forget_other_packages(entry)
        if entry.project.unfit:
            entry.project = decisions.allow_retry(entry.project, await self._pool.digest_circumstances(spec))
        decision = decisions.decide_start(spec, entry.project, entry.process.state() if entry.process else None)
        entry.reason = decision.reason
        async with AsyncExitStack() as stack:
            run = WarmRun(self._pool, self._learner, spec, entry, stack)
            await run.start(decision)
            yield run

    def states(self) -> Sequence[StartState]:
        """Return how runs are currently started, for each interpreter and directory."""
        if why := self._unsupported_reason():
            return (StartState(is_warm=False, reason=why),)
        if not self._pool.projects:
            return (StartState(is_warm=False, reason="no test has run yet, and the first run uses a plain process"),)
        return tuple(self.state(entry.python, entry.directory) for entry in self._pool.projects.values())

    def state(self, python: str, directory: Path) -> StartState:
        """Return how runs with an interpreter in a directory are currently started."""
        entry = self._pool.projects.get((python, directory))
        if entry is None:
            return StartState(is_warm=False, reason=self._unsupported_reason() or "no test has run yet")
        process, why = entry.process, entry.project.off or entry.project.unfit
        state = StartState(
            is_warm=False,
            python=python,
            directory=str(directory),
            reason=why or entry.reason,
            differences=entry.differences,
        )
        if why or process is None or not process.state().is_ready:
            return state
        return replace(
            state,
            is_warm=True,
            pid=process.pid,
            memory_mb=entry.memory_mb,
            hash_seed=process.seed,
            modules=len(process.hidden),
            runs=process.runs,
        )

    def is_off(self, python: str, directory: Path) -> bool:
        """Return whether a project's runs are currently always plain."""
        entry = self._pool.projects.get((python, directory))
        return entry is not None and bool(entry.project.off or entry.project.unfit)

    def _unsupported_reason(self) -> str:
        if not self._pool.options.is_enabled:
            return "the setting warmTests is off"
        return "" if IS_FORK_SAFE else "processes cannot be copied safely on this system"

    def is_preloading(self, python: str, directory: Path) -> bool:
        """Return whether a warm process is being started, or may be started soon."""
        entry = self._pool.projects.get((python, directory))
        return entry is not None and (entry.is_preloading or bool(entry.unlearned))

    async def _forget_other_packages(self, entry: ProjectState) -> None:
        """Forget what was learned if packages were installed, removed or replaced since then."""
        plan = entry.project.plan
        if plan is not None and await to_thread.run_sync(digest_packages, plan.libraries) != entry.project.stamp:
            self._pool.end(entry)
            entry.project, entry.differences = Project(), ()


@asynccontextmanager
async def warm_tests(options: WarmOptions, saved: SavedPlans | None = None) -> AsyncIterator[WarmTests]:
    """Create a starter of test runs, and end its warm processes when the context is exited."""
    async with anyio.create_task_group() as tasks:
        try:
            yield WarmTests(lambda: options, tasks, saved)
        finally:
            tasks.cancel_scope.cancel()
