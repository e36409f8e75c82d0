"""Start test runs: warm if this is known to give the same results as a plain process, otherwise plain."""

from __future__ import annotations

import logging
import secrets
import shutil
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from codriver.errors import format_count
from codriver.features.warm_tests import decisions
from codriver.features.warm_tests.comparison import Comparison, outcomes_by_test
from codriver.features.warm_tests.decisions import Decision, Project
from codriver.features.warm_tests.known_packages import KNOWN_PACKAGES
from codriver.features.warm_tests.plans import (
    Obstacle,
    RunRecord,
    correct_plan,
    extend_plan,
    lasting_exclusions,
    plan_from_run,
)
from codriver.features.warm_tests.stamps import (
    digest_packages,
    digest_sources,
    digest_start_conditions,
    has_module,
    workspace_modules,
)
from codriver.features.warm_tests.warm_process import RECORDER_SCRIPT, WarmProcess, WarmProcessError
from codriver.testing.plain_process import start_in_process
from codriver.testing.running_process import open_plain_process
from codriver.testing.runs import Collected, ReportBuilder, RunError, RunFinished, StartState, TestStarted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from anyio.abc import TaskGroup

    from codriver.features.warm_tests.saved_plans import SavedPlans
    from codriver.testing.running_process import RunningProcess
    from codriver.testing.runs import Event, RetainedProcess, RunSpec, TestProcess, TestReport

logger = logging.getLogger(__name__)

MAX_REMEMBERED_PROJECTS: Final = 16
"""Maximum number of (interpreter, directory) pairs to remember. The least recently used ones are dropped."""
IDLE_CHECK_S: Final = 30.0
"""Time between two checks for idle processes."""
IS_FORK_SAFE: Final = sys.platform == "linux"
"""Whether a process that has imported packages can be forked safely on this system."""
STARTED_EVENT_PART: Final = '"event":"started"'
"""A string that the events file contains once a test has started."""
COLLECTION_NAME: Final = "the collection"
"""Name used in messages for what a run does before its first test."""
NO_PYTEST_REASON: Final = "pytest is not installed in the interpreter's own library directories"
MIN_FIRST_WAIT_S: Final = 2.0
"""Lower bound on the maximum time that a server's first run waits for the warm process."""
MAX_FIRST_WAIT_RATIO: Final = 2.0
"""Maximum time that a server's first run waits for the warm process, as a multiple of a plain start's duration."""
MAX_LATE_IMPORT_S: Final = 0.3
"""Maximum time that a warm run may spend importing packages that were not preloaded.

If it takes longer, the process is replaced.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmOptions:
    """The settings for warm test runs, which use forks of a process that has preloaded modules."""

    is_enabled: bool = False
    packages: frozenset[str] = KNOWN_PACKAGES
    """The packages that may be preloaded."""
    memory_mb: int = 1024
    """Maximum total memory of all warm processes, in MiB."""
    min_saving_s: float = decisions.MIN_SAVING_S
    """Minimum time that a warm start has to save for the project to be warmed."""


@dataclass(slots=True)
class _Entry:
    """What is known about test runs of one interpreter in one directory, and the warm process for them."""

    python: str
    directory: Path
    project: Project = field(default_factory=Project)
    process: WarmProcess | None = None
    memory_mb: int = 0
    differences: tuple[str, ...] = ()
    is_loaded: bool = False
    """Whether the plan saved by an earlier server has been looked up."""
    is_preloading: bool = False
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set when the process being started is ready or has failed to start."""
    unlearned: dict[int, anyio.Event] = field(default_factory=dict)
    """Events for finished runs whose results are still being evaluated, by number. Each is set when that is done."""
    reason: str = ""

    async def wait_until_learned(self) -> None:
        """Wait until all finished runs have been evaluated."""
        for event in list(self.unlearned.values()):
            await event.wait()


class WarmTests:
    """Starts test runs, and owns the warm processes. Use `warm_tests` to create one."""

    def __init__(self, options: Callable[[], WarmOptions], tasks: TaskGroup, saved: SavedPlans | None = None) -> None:
        """Create the starter. Nothing is started before the first run.

        `options` returns the current settings. `tasks` owns the warm processes. `saved` stores what earlier servers
        learned.
        """
        self._present_options = options
        self._saved = saved
        self._tasks = tasks
        self._directory: Path | None = None
        self._entries: dict[tuple[str, Path], _Entry] = {}
        self._number = 0

    @asynccontextmanager
    async def __call__(self, spec: RunSpec) -> AsyncIterator[TestProcess]:
        """Start a run. See `StartRun`."""
        if self._unsupported_reason() or decisions.never_warm_reason(spec):
            async with start_in_process(spec, open_plain_process) as plain:
                yield plain
            return
        await self._create_directory()
        entry = self._find_entry(spec)
        await entry.wait_until_learned()
        await self._load_saved(entry)
        await self._forget_other_packages(entry)
        if entry.project.unfit:
            entry.project = decisions.allow_retry(entry.project, await self._digest_circumstances(spec))
        if entry.project.is_restored:
            await self._preload_first(spec, entry)
        decision = decisions.decide_start(spec, entry.project, entry.process.state() if entry.process else None)
        entry.reason = decision.reason
        async with AsyncExitStack() as stack:
            run = _Run(self, spec, entry, stack)
            await run.start(decision)
            yield run

    def states(self) -> Sequence[StartState]:
        """Return how runs are currently started, for each interpreter and directory."""
        if why := self._unsupported_reason():
            return (StartState(is_warm=False, reason=why),)
        if not self._entries:
            return (StartState(is_warm=False, reason="no test has run yet, and the first run uses a plain process"),)
        return tuple(self.state(entry.python, entry.directory) for entry in self._entries.values())

    def state(self, python: str, directory: Path) -> StartState:
        """Return how runs with an interpreter in a directory are currently started."""
        entry = self._entries.get((python, directory))
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
        entry = self._entries.get((python, directory))
        return entry is not None and bool(entry.project.off or entry.project.unfit)

    def _unsupported_reason(self) -> str:
        if not self._options.is_enabled:
            return "the setting warmTests is off"
        return "" if IS_FORK_SAFE else "processes cannot be copied safely on this system"

    def is_preloading(self, python: str, directory: Path) -> bool:
        """Return whether a warm process is being started, or may be started soon."""
        entry = self._entries.get((python, directory))
        return entry is not None and (entry.is_preloading or bool(entry.unlearned))

    # State

    @property
    def _options(self) -> WarmOptions:
        return self._present_options()

    async def _create_directory(self) -> None:
        """Create the directory for the files of runs. A background task eventually removes it."""
        if self._directory is None:
            self._directory = Path(await to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="codriver-warm-")))
            self._tasks.start_soon(self._clean_up, self._directory)

    def new_file(self, name: str) -> Path:
        """Return an unused path in the directory for the files of runs."""
        assert self._directory is not None  # noqa: S101  # every run creates it first
        self._number += 1
        return self._directory / f"{self._number}-{name}"

    def _find_entry(self, spec: RunSpec) -> _Entry:
        """Return the state for the interpreter and directory of a run.

        If there are too many states, drop the least recently used one.
        """
        key = spec.python, spec.directory
        entry = self._entries.pop(key, None) or _Entry(*key)
        self._entries[key] = entry  # the newest is last
        while len(self._entries) > MAX_REMEMBERED_PROJECTS:
            oldest = self._entries.pop(next(iter(self._entries)))
            self._end_process(oldest)
        return entry

    def _end_process(self, entry: _Entry) -> None:
        """End the warm process once its runs have finished."""
        process, entry.process = entry.process, None
        if process is not None:
            self._tasks.start_soon(_end_when_idle, process)

    async def _forget_other_packages(self, entry: _Entry) -> None:
        """Forget what was learned if packages were installed, removed or replaced since then."""
        plan = entry.project.plan
        if plan is not None and await to_thread.run_sync(digest_packages, plan.libraries) != entry.project.stamp:
            self._end_process(entry)
            entry.project, entry.differences = Project(), ()

    async def _load_saved(self, entry: _Entry) -> None:
        """Load what an earlier server learned about a project, unless it was already loaded."""
        if entry.is_loaded or self._saved is None:
            return
        entry.is_loaded = True
        found = await to_thread.run_sync(self._saved.load, entry.python, entry.directory, self._options.packages)
        if found is not None and entry.project.plan is None:
            entry.project = found

    async def _save(self, entry: _Entry) -> None:
        """Save what was learned about a project, so that later servers can use it."""
        if self._saved is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(
                    self._saved.save, entry.python, entry.directory, self._options.packages, entry.project
                )

    async def _preload_first(self, spec: RunSpec, entry: _Entry) -> None:
        """Start a warm process before the first run of this server, and wait for it."""
        entry.project = replace(entry.project, is_restored=False)
        self._warm_up(spec, entry)
        if entry.is_preloading:
            with anyio.move_on_after(
                max(MIN_FIRST_WAIT_S, MAX_FIRST_WAIT_RATIO * (entry.project.plain_start_s or 0.0))
            ):
                await entry.settled.wait()

    # Results of runs

    def learn_later(
        self,
        spec: RunSpec,
        entry: _Entry,
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
                logger.info("nothing was learned from a test run in %s: %s", entry.directory, error)
            finally:
                entry.unlearned.pop(number).set()

        self._tasks.start_soon(learn_and_report)

    async def _learn_from_plain_run(
        self, spec: RunSpec, entry: _Entry, report: TestReport, observations: RunObservations, record: str | None
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
            plan = plan_from_run(run_record, project_modules, self._options.packages)
            off = "" if "pytest" in plan.early else NO_PYTEST_REASON
            entry.project = project = replace(project, plan=plan, stamp=stamp, off=off)
        if observations.collected_s is not None:
            least_s = self._options.min_saving_s
            entry.project = decisions.record_plain_start(project, spec.arguments, observations.collected_s, least_s)
        await self._compare_outcomes(spec, entry, report, observations, is_warm=False)
        if entry.project != previous:
            await self._save(entry)
        self._warm_up(spec, entry)

    async def _learn_from_warm_run(
        self, spec: RunSpec, entry: _Entry, report: TestReport, observations: RunObservations, record: str | None
    ) -> None:
        """Update what is known about a project after a warm run, and replace its process if necessary."""
        previous = entry.project
        entry.project = replace(entry.project, corrections=0, obstacle="")
        is_cut_short = report.interruption is not None or (report.exit_status or 0) < 0
        if observations.stalled_at and is_cut_short:
            entry.project = replace(entry.project, stalled=observations.stalled_at)
        if observations.collected_s is not None:
            least_s = self._options.min_saving_s
            entry.project = decisions.record_warm_start(
                entry.project, spec.arguments, observations.collected_s, least_s
            )
        await self._compare_outcomes(spec, entry, report, observations, is_warm=True)
        plan, found = entry.project.plan, RunRecord.parse(record) if record is not None else None
        if (
            plan is not None
            and found is not None
            and found.imported_s > MAX_LATE_IMPORT_S
            and found.missing_modules(plan)
        ):
            entry.project = replace(entry.project, plan=extend_plan(plan, found))
            self._end_process(entry)
        if entry.project.off != previous.off:
            await self._save(entry)
        self._warm_up(spec, entry)

    async def learn_from_obstacle(self, spec: RunSpec, entry: _Entry, obstacle: Obstacle) -> None:
        """Correct the plan so that it avoids an obstacle, and replace the warm process."""
        if (plan := entry.project.plan) is not None:
            hidden = obstacle.hidden_module
            is_hidden = bool(hidden) and await to_thread.run_sync(has_module, entry.directory, hidden)
            corrected = correct_plan(plan, obstacle, is_hidden_by_workspace=is_hidden)
            entry.project = decisions.record_obstacle(
                entry.project, corrected, obstacle.reason, has_started=obstacle.has_started
            )
            await self._save(entry)
        self._end_process(entry)
        self._warm_up(spec, entry)

    async def _compare_outcomes(
        self, spec: RunSpec, entry: _Entry, report: TestReport, observations: RunObservations, *, is_warm: bool
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
            self._end_process(entry)

    # Warm processes

    def _warm_up(self, spec: RunSpec, entry: _Entry) -> None:
        """Start a warm process if warm runs are useful for the project and it has none."""
        if entry.process is not None and entry.process.state().must_be_replaced:
            self._end_process(entry)
        project = entry.project
        is_off = bool(project.off or project.unfit)
        if entry.process is None and project.plan is not None and not is_off and not entry.is_preloading:
            entry.is_preloading, entry.settled = True, anyio.Event()
            self._tasks.start_soon(self._run_process, spec, entry)

    async def _run_process(self, spec: RunSpec, entry: _Entry) -> None:
        """Start a warm process, and end it when it is no longer needed."""
        plan, path, process, is_ready = entry.project.plan, self.new_file("plan"), None, False
        assert plan is not None  # noqa: S101  # `_warm_up` has checked it
        circumstances = await self._digest_circumstances(spec)
        try:
            await to_thread.run_sync(path.write_text, plan.to_literal())
            process = await WarmProcess.start(
                spec.python, spec.directory, spec.environment, seed=secrets.randbelow(2**32 - 1) + 1, plan=path
            )
            await process.preload()
            entry.memory_mb = await to_thread.run_sync(_memory_mb, process.pid)
            self._check_memory(entry.memory_mb)
            if entry.project.plan is plan:  # otherwise, it was corrected in the meantime
                excluded = {**lasting_exclusions(process.excluded, plan.excluded), **plan.excluded}
                known = replace(plan, excluded=excluded, watched=process.watched, registries=process.registries)
                entry.project = replace(entry.project, plan=known)
            entry.process, entry.is_preloading, is_ready = process, False, True
            entry.project = replace(entry.project, failed_starts=0)
            entry.settled.set()
            self._limit_memory(entry)
            await self._save(entry)
            await process.read()
        except WarmProcessError as error:
            entry.project = decisions.record_failed_start(entry.project, str(error), circumstances)
        finally:
            if not is_ready:
                entry.is_preloading = False
                entry.settled.set()
            if process is not None:
                if entry.process is process:
                    entry.process = None
                await process.aclose()
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(lambda: path.unlink(missing_ok=True))

    async def _digest_circumstances(self, spec: RunSpec) -> str:
        """Return a digest of what affects the start of a warm process for this run."""
        return await to_thread.run_sync(
            digest_start_conditions, spec.directory, spec.environment, self._options.memory_mb
        )

    def _check_memory(self, memory_mb: int) -> None:
        """Check that a warm process alone does not exceed the memory limit.

        Raises:
            WarmProcessError: the process uses too much memory.
        """
        limit_mb = self._options.memory_mb
        if memory_mb > limit_mb:
            raise WarmProcessError(f"the warm process uses {memory_mb} MB, but the limit is {limit_mb} MB")

    def _limit_memory(self, entry: _Entry) -> None:
        """End the least recently used processes if all warm processes together exceed the memory limit.

        The process of `entry` is kept, unless the entry has been dropped since the process was started.
        """
        if self._entries.get((entry.python, entry.directory)) is not entry:
            self._end_process(entry)
        with_process = [other for other in self._entries.values() if other.process is not None]
        excess_mb = sum(other.memory_mb for other in with_process) - self._options.memory_mb
        for other in with_process:
            if excess_mb > 0 and other is not entry:
                excess_mb -= other.memory_mb
                other.reason = "the warm processes of all projects together used too much memory"
                self._end_process(other)

    async def _clean_up(self, directory: Path) -> None:
        """End idle warm processes until cancelled, and then remove the directory."""
        try:
            await self._end_idle_processes()
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(lambda: shutil.rmtree(directory, ignore_errors=True))

    async def _end_idle_processes(self) -> None:
        while True:
            await anyio.sleep(IDLE_CHECK_S)
            for entry in self._entries.values():
                process = entry.process
                if process is not None and time.monotonic() - process.used_at > decisions.IDLE_TIMEOUT_S:
                    self._end_process(entry)


@dataclass(slots=True)
class RunObservations:
    """Times and events that were observed during a test run."""

    started_ns: int
    started_s: float
    collected_s: float | None = None
    """Seconds from the start of the run until the tests were collected."""
    last_s: float = 0.0
    running: str = COLLECTION_NAME
    stalled_at: str = ""

    @classmethod
    def start(cls) -> RunObservations:
        """Return new observations for a run that starts now."""
        now_s = time.monotonic()
        return cls(time.time_ns(), now_s, last_s=now_s)

    def add(self, event: Event) -> None:
        """Update the observations with an event."""
        now_s = time.monotonic()
        if isinstance(event, Collected) and self.collected_s is None:
            self.collected_s = now_s - self.started_s
        elif isinstance(event, TestStarted):
            self.running = event.nodeid
        elif isinstance(event, RunFinished) and now_s - self.last_s > decisions.STALL_TIMEOUT_S:
            self.stalled_at = self.running
        self.last_s = now_s


class _Run:
    """A test run in a fork of the warm process. It is repeated in a plain process if that turns out to be necessary."""

    def __init__(self, owner: WarmTests, spec: RunSpec, entry: _Entry, stack: AsyncExitStack) -> None:
        self._owner = owner
        self._spec = spec
        self._entry = entry
        self._stack = stack
        self._record = owner.new_file("record")
        self._answer = owner.new_file("answer")
        self._process: WarmProcess | None = None
        self._run: TestProcess
        self._is_stopped = False

    async def start(self, decision: Decision) -> None:
        """Start the process of the run, as decided."""
        self._stack.push_async_callback(self._remove_files)
        if decision.is_warm:
            self._process = self._entry.process
            try:
                self._run = await self._stack.enter_async_context(start_in_process(self._spec, self._open_warm))
            except WarmProcessError as error:
                self._entry.reason = str(error)
                self._process = None
            else:
                return
        await self._start_plain()

    async def _start_plain(self) -> None:
        self._process = None
        self._run = await self._stack.enter_async_context(start_in_process(self._spec, self._open_recorded))

    async def _open_warm(self, spec: RunSpec, command: Sequence[str], directory: Path) -> RunningProcess:
        """Start the run in a new child of the warm process."""
        _, script, *arguments = command
        if self._process is None:
            raise WarmProcessError("the warm process has ended")
        return await self._process.fork(
            {
                "script": script,
                "arguments": arguments,
                "directory": str(spec.directory),
                "environment": dict(spec.environment),
                "output": str(directory / "output"),
                "events": str(directory / "events"),
                "begun": STARTED_EVENT_PART,
                "record": str(self._record),
                "answer": str(self._answer),
            }
        )

    async def _open_recorded(self, spec: RunSpec, command: Sequence[str], directory: Path) -> RunningProcess:
        """Start the run in a plain process. The imports of a project's first plain run are recorded."""
        if self._entry.project.plan is None:
            command = (command[0], str(RECORDER_SCRIPT), str(self._record), *command[1:])
        return await open_plain_process(spec, command, directory)

    @property
    def pid(self) -> int:
        """Return the process id of the test runner."""
        return self._run.pid

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of the run. May be iterated only once.

        The events of a warm run are held back until a test starts, because the run may have to be repeated.
        """
        if self._process is None:
            async for event in self._plain_events():
                yield event
            return
        builder, observations, has_started = ReportBuilder(), RunObservations.start(), False
        waiting: list[Event] = []
        async for event in self._run.events():
            builder.add(event)
            observations.add(event)
            waiting.append(event)
            if isinstance(event, RunFinished):
                obstacle = await to_thread.run_sync(_read_obstacle, self._answer)
                if obstacle is not None and await self._start_again(obstacle):
                    async for other in self._plain_events():
                        yield other
                    return
                waiting[-1] = finished = self._finish_event(event, obstacle)
                builder.add(finished)
                if obstacle is None:
                    await self._report_results(builder.report(), observations, is_warm=True)
            has_started = has_started or isinstance(event, (TestStarted, RunFinished))
            if has_started:
                for message in waiting:
                    yield message
                waiting.clear()

    async def _start_again(self, obstacle: Obstacle) -> bool:
        """Correct the plan, and repeat the run in a plain process. Return whether it is repeated.

        It is not repeated if a test has started or the run was stopped.
        """
        self._entry.reason = obstacle.reason
        await self._owner.learn_from_obstacle(self._spec, self._entry, obstacle)
        if obstacle.has_started or self._is_stopped:
            return False
        await self._start_plain()
        return True

    def _finish_event(self, event: RunFinished, obstacle: Obstacle | None) -> RunFinished:
        """Return the last event of a warm run with the hash seed added, and an error if the run was aborted."""
        seed = self._process.seed if self._process is not None else None
        if obstacle is None:
            return replace(event, hash_seed=seed)
        # The run interrupted itself, unless it was interrupted from outside.
        interruption = event.interruption if self._is_stopped else None
        return replace(event, hash_seed=seed, error=_obstacle_error(obstacle), interruption=interruption)

    async def _plain_events(self) -> AsyncIterator[Event]:
        builder, observations = ReportBuilder(), RunObservations.start()
        async for event in self._run.events():
            builder.add(event)
            observations.add(event)
            if isinstance(event, RunFinished):
                await self._report_results(builder.report(), observations, is_warm=False)
            yield event

    async def _report_results(self, report: TestReport, observations: RunObservations, *, is_warm: bool) -> None:
        """Pass the results of the run to the owner."""
        record = await to_thread.run_sync(_text, self._record)
        self._owner.learn_later(self._spec, self._entry, report, observations, record, is_warm=is_warm)

    async def interrupt(self) -> None:
        """Interrupt the run. See `TestProcess.interrupt`."""
        self._is_stopped = True
        await self._run.interrupt()

    async def kill(self) -> None:
        """Kill the process of the run. See `TestProcess.kill`."""
        self._is_stopped = True
        await self._run.kill()

    def detach(self) -> RetainedProcess | None:
        """Detach the process of a failed run. See `TestProcess.detach`."""
        return self._run.detach()

    async def _remove_files(self) -> None:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_remove, (self._record, self._answer))


def _obstacle_error(obstacle: Obstacle) -> RunError:
    return RunError(
        "preloaded",
        f"the run was not finished: {obstacle.reason}",
        "run the tests again: the next run uses a plain process",
    )


def _record_hang_check(project: Project, report: TestReport) -> Project:
    """Turn warm runs off if a plain run finished the test at which a warm run stalled."""
    nodeid = project.stalled
    found = next((result for result in report.results if result.nodeid == nodeid), None)
    seconds = found.seconds if found is not None else report.seconds
    has_passed = found is not None or (nodeid == COLLECTION_NAME and report.passed)
    off = f"a warm run stalled at {nodeid}, but a plain run did not"
    return replace(project, stalled="", off=off if has_passed and seconds < decisions.STALL_TIMEOUT_S else project.off)


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except OSError:
        return None


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _read_obstacle(path: Path) -> Obstacle | None:
    text = _text(path)
    with suppress(ValueError):
        return Obstacle.parse(text) if text is not None else None
    return None


def _memory_mb(pid: int) -> int:
    """Return the resident memory of a process in MiB, including mapped files."""
    text = _text(Path(f"/proc/{pid}/status")) or ""
    kilobytes = next((line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:")), "0")
    return int(kilobytes) // 1024


async def _end_when_idle(process: WarmProcess) -> None:
    """End a warm process after its children have exited."""
    await process.wait_idle()
    await process.aclose()


@asynccontextmanager
async def warm_tests(options: WarmOptions, saved: SavedPlans | None = None) -> AsyncIterator[WarmTests]:
    """Create a starter of test runs, and end its warm processes when the context is exited."""
    async with anyio.create_task_group() as tasks:
        try:
            yield WarmTests(lambda: options, tasks, saved)
        finally:
            tasks.cancel_scope.cancel()
