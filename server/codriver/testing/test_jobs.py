"""Manage test runs as jobs of the server: start them in turn, record and interrupt them, and store their reports.

The core decides when a job runs. This module starts its process, and copies its events to its transcript and the log.
The report of a run can be read at any time, until newer reports replace it.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from codriver.core import log_facts
from codriver.core.actions import EvaluationFinished, StopRequested
from codriver.core.evaluations import TEST_JOBS_REPL, Failure
from codriver.core.records import Recent
from codriver.errors import CodriverError, format_count, join_first
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.testing.executed_functions import RecordedExecutions
from codriver.testing.recordings import executed_functions
from codriver.testing.retained_failure import FrameCode, RetainedFailure
from codriver.testing.runs import (
    NO_TESTS_STATUS,
    Output,
    ReportBuilder,
    RunFinished,
    RunSpec,
    SecretsFound,
    StartState,
    TestReport,
)
from codriver.testing.suspects import rank_suspects

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
    from typing import Literal

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core
    from codriver.core.effects import RunJob
    from codriver.core.evaluations import Evaluation
    from codriver.log.evaluation_transcripts import Transcripts
    from codriver.log.logbook import Logbook
    from codriver.testing.runs import Event, StartRun, TestProcess
    from codriver.testing.suspects import Suspect

    FinalStatus = Literal["done", "failed", "interrupted", "lost"]
    ChangedSince = Callable[[int], Coroutine[object, object, Sequence[str]]]

logger = logging.getLogger(__name__)

MAX_STORED_REPORTS: Final = 200
"""Maximum number of runs whose reports are stored."""
MAX_STORED_RESULTS: Final = 200_000
"""Maximum total number of results in all stored reports. A report with 10,000 results takes about 3 MB."""
FUNCTIONS_RECORDER: Final = "functions"
"""Name of the recorder whose records are needed to choose affected tests."""
PLAIN_STARTS: Final = (StartState(is_warm=False, reason="every run starts a new process"),)
"""The start states of a server that starts a new process for every run."""
MAX_NAMED_FAILURES: Final = 10
"""Maximum number of failures that a log line names."""
MAX_EXPLAINED_FAILURES: Final = 5
"""Maximum number of failures for which suspicious functions are determined. One test can have several failures."""
MAX_SUSPECTS: Final = 20
"""Maximum number of suspicious functions per failure."""
MAX_FAILED_TESTS: Final = 1000
"""Maximum number of failed tests that are remembered."""
PURPOSE_DESCRIPTIONS: Final = {
    "tests": "",
    "check": "to check an edit",
    "comparison": "to compare its calls",
}
"""Descriptions of jobs' purposes, as they appear in the log."""
STOP_TIMEOUT_S: Final = 6.0
"""Time to wait for an interrupted run to end, in seconds. It is killed if its teardown takes more than 5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestJob:
    """A request for a test run, which may have to wait for other runs."""

    __test__ = False

    spec: RunSpec
    without_pytest: RunSpec | None = None
    """Run to start instead if the interpreter has no pytest."""
    limit_s: float | None = None
    """Time after which the run is interrupted. None for the server's limit."""
    is_plain: bool = False
    """Whether the run has to use a new process, even if a faster way to start runs is available."""
    session_key: str = ""
    """Key of the session whose interpreter and directory are used, or empty for those of the project."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the caller set for this run."""
    purpose: Literal["tests", "check", "comparison"] = "tests"
    """The reason why the job runs: `check` repeats tests or uses other sources, and `comparison` records calls.

    A comparison ends when a caller requests another run.
    """
    paths: tuple[str, ...] | None = ()
    """Selected files, directories and tests. Empty for all, None if pytest options also select tests."""
    is_complete: bool = False
    """Whether the selected tests are all that changes can break: all tests of the project, or all affected ones."""
    repeat: int = 1
    """The number of times that the tests run, each time in a separate process."""


@dataclass(frozen=True, slots=True)
class Repetitions:
    """The number of finished runs of a repeated job, and how many of them failed."""

    finished: int = 0
    failed: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    """The number of times that each test failed, by name."""

    def add(self, report: TestReport) -> Repetitions:
        """Return a copy that also counts another run."""
        names = dict.fromkeys(failure.nodeid for failure in report.failures)
        failures = {**self.failures, **{name: self.failures.get(name, 0) + 1 for name in names}}
        return Repetitions(self.finished + 1, self.failed + (report.exit_status != 0), failures)


@dataclass(frozen=True, slots=True)
class JobReport:
    """The report of a test run, with facts that only the server knows, such as files that changed during the run."""

    job: TestJob
    report: TestReport
    changed_files: tuple[str, ...] = ()
    """Files in the workspace that changed during the run."""
    limit_passed: str = ""
    """The time limit that ended the run, as text."""
    is_longest_limit: bool = False
    """Whether the run was ended by the limit that the settings impose on all runs, so no longer limit is possible."""
    is_undone: bool = False
    """Whether the tested files have been reverted since the run."""
    suspects: Mapping[str, Sequence[Suspect]] = field(default_factory=dict)
    """Functions that may have caused the first failures, most suspicious first, by test."""
    repetitions: Repetitions = field(default_factory=Repetitions)
    """The finished runs. `report` describes the first one that failed, or else the last one."""

    @property
    def is_complete(self) -> bool:
        """Return whether the run included every test that changes may affect, finished, and tested unchanged files."""
        report = self.report
        is_whole = report.error is None and report.interruption is None and not (report.running or report.not_started)
        return self.job.is_complete and is_whole and not self.limit_passed and not self.changed_files

    @property
    def has_finished(self) -> bool:
        """Return whether every test in the run finished."""
        report = self.report
        return not (report.interruption is not None or report.running or report.not_started or self.limit_passed)

    @property
    def has_all_tests(self) -> bool:
        """Return whether every test in the requested paths was selected and finished."""
        return self.has_finished and not (self.job.spec.chosen or self.report.counts.deselected or self.report.error)

    @property
    def is_relevant(self) -> bool:
        """Return whether a caller requested the run and its files have not been reverted since."""
        return self.job.purpose == "tests" and not self.is_undone


@dataclass(slots=True)
class _RunningJob:
    """A running test job, with its process and the events received so far."""

    job: TestJob
    builder: ReportBuilder = field(default_factory=ReportBuilder)
    process: TestProcess | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)
    is_interrupted: bool = False
    limit_passed: str = ""
    is_longest_limit: bool = False
    repetitions: Repetitions = field(default_factory=Repetitions)
    first_failed: ReportBuilder | None = None
    """The report of the first run that failed, if the job repeats its tests."""


class TestJobs:
    """Runs the test jobs of a server, and stores their reports."""

    __test__ = False

    def __init__(
        self,
        *,
        core: Core,
        tasks: TaskGroup,
        transcripts: Transcripts,
        logbook: Logbook,
        start_plain: StartRun,
        changed_since: ChangedSince,
    ) -> None:
        """Create the jobs of a server.

        `start_plain` starts runs in new processes. `changed_since` returns the files in the workspace that have changed
        since a time in epoch milliseconds.
        """
        self._core = core
        self._tasks = tasks
        self._transcripts = transcripts
        self._logbook = logbook
        self._start_plain = start_plain
        self.start = start_plain
        """Starts the runs that need no new process. A feature may install a faster way before the server listens."""
        self.start_states: Callable[[], Sequence[StartState]] = lambda: PLAIN_STARTS
        """Returns how runs are currently started, by interpreter and directory. Replaced together with `start`."""
        self.changed_since = changed_since
        self.recorded: tuple[Callable[[str, TestJob, TestReport], None], ...] = ()
        """Called with the records of a run's recorders. Set once, before the server starts listening."""
        self.executions = RecordedExecutions()
        self._started_ms = core.now()
        self.failure = RetainedFailure(core, tasks, transcripts, logbook)
        self._running: dict[str, _RunningJob] = {}
        self._reports: Recent[str, JobReport] = Recent(MAX_STORED_REPORTS)
        self._once_failed: Recent[str, None] = Recent(MAX_FAILED_TESTS)
        """Names of tests that failed in some run."""

    def report(self, job: str) -> JobReport | None:
        """Return the report of a job, which is incomplete while the job is running.

        Return None if the job has not started or its report is no longer stored.
        """
        running = self._running.get(job)
        if running is not None:
            return JobReport(
                running.job,
                running.builder.report(),
                limit_passed=running.limit_passed,
                is_longest_limit=running.is_longest_limit,
                repetitions=running.repetitions,
            )
        return self._reports.get(job)

    def finished_runs(self) -> list[tuple[str, JobReport]]:
        """Return the ids and reports of relevant finished runs, newest first."""
        return [
            (name, job_report) for name, job_report in reversed(list(self._reports.items())) if job_report.is_relevant
        ]

    def last_requested(self) -> tuple[str, JobReport] | None:
        """Return the id and the report of the last finished run whose tests a caller selected, or None."""
        runs = ((name, found) for name, found in self.finished_runs() if found.job.purpose == "tests")
        return next(((name, found) for name, found in runs if found.job.spec.chosen is None), None)

    def tested_until_ms(self) -> int:
        """Return the time until which changes to files have been tested, in epoch milliseconds.

        This is the start of the last complete run, or else the start of the server.
        """
        for name, job_report in self.finished_runs():
            started_ms = self._core.state.evaluations[name].started_at if name in self._core.state.evaluations else None
            if job_report.is_complete and started_ms is not None:
                return started_ms
        return self._started_ms

    def record_reverted(self, job: str) -> None:
        """Record that the files tested by a run were reverted."""
        job_report = self._reports.get(job)
        if job_report is not None:
            self._reports[job] = replace(job_report, is_undone=True)

    def start_job(self, effect: RunJob) -> None:
        """Start a job. Its end is always reported to the core."""
        job = effect.request.job
        if isinstance(job, FrameCode):
            self.failure.start_evaluation(effect)
            return
        assert isinstance(job, TestJob)  # noqa: S101  # the caller always sets it
        running = self._running[effect.request.id] = _RunningJob(job)
        self._tasks.start_soon(self._run, effect.request.id, running, effect.max_run_ms / 1000)

    async def _run(self, job_id: str, running: _RunningJob, most_s: float) -> None:
        """Run a job, and report its end to the core."""
        failure: Failure | None = None
        try:
            with running.scope:
                try:
                    if running.job.purpose == "tests":
                        await self.failure.drop()
                    await self._run_within_limit(job_id, running, most_s)
                except CodriverError as error:
                    failure = Failure(getattr(error, "reason", "evaluation-failed"), str(error))
                except Exception as error:
                    logger.exception("the test run %s failed", job_id)
                    failure = Failure("internal-error", f"internal error in Codriver during this test run: {error!r}")
            if running.scope.cancelled_caught:
                failure = Failure("server-stopped", "the run was stopped because the server is stopping")
        finally:
            with anyio.CancelScope(shield=True):
                await self._finish(job_id, running, failure)

    async def _run_within_limit(self, job_id: str, running: _RunningJob, most_s: float) -> None:
        """Run the processes of a job within its time limit. If pytest is not installed, use the alternative run."""
        job = running.job
        limit_s = min(most_s, job.limit_s or most_s)
        running.is_longest_limit = limit_s == most_s
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_overlong, running, limit_s)
            await self._run_process(job_id, running, job.spec)
            error = running.builder.report().error
            if error is not None and error.kind == "no-pytest" and job.without_pytest is not None:
                running.builder, running.job = ReportBuilder(), replace(job, spec=job.without_pytest)
                await self._run_process(job_id, running, job.without_pytest)
            await self._repeat(job_id, running)
            tasks.cancel_scope.cancel()

    async def _repeat(self, job_id: str, running: _RunningJob) -> None:
        """Run the tests of a job again until they have run as often as requested.

        Only the process of the first failure is retained. The repetitions end if the job is stopped, or if its tests
        cannot run.
        """
        while running.job.repeat > 1 and not (running.is_interrupted or running.limit_passed):
            report = running.builder.report()
            if not report.results:
                return
            running.repetitions = running.repetitions.add(report)
            if running.first_failed is None and report.exit_status != 0:
                running.first_failed = running.builder
            if running.repetitions.finished == running.job.repeat:
                break
            running.builder = ReportBuilder()
            spec = replace(running.job.spec, retains_failed_process=running.first_failed is None)
            await self._run_process(job_id, running, spec)
        running.builder = running.first_failed or running.builder

    async def _run_process(self, job_id: str, running: _RunningJob, spec: RunSpec) -> None:
        """Run a test process and handle its events. Retain the process if the run fails."""
        start = self._start_plain if running.job.is_plain else self.start
        self._logbook.add_secrets(TEST_JOBS_REPL, spec.environment.items())
        async with start(spec) as process:
            running.process = process
            if running.is_interrupted:
                await process.interrupt()
            has_alternative = running.job.without_pytest not in (None, spec)
            events = process.events()
            async for event in _without_missing_pytest_output(events) if has_alternative else events:
                self._handle_event(job_id, running, event)
            if running.job.purpose == "tests" and (process_of_run := process.detach()) is not None:
                self.failure.retain(job_id, process_of_run)

    async def _end_overlong(self, running: _RunningJob, limit_s: float) -> None:
        """Interrupt a run when its time limit has passed."""
        await anyio.sleep(limit_s)
        running.limit_passed = f"{limit_s:g} s"
        if running.process is not None:
            await running.process.interrupt()

    def _handle_event(self, job_id: str, running: _RunningJob, event: Event) -> None:
        """Add an event to the report, and output to the transcript and the log."""
        running.builder.add(event)
        if isinstance(event, SecretsFound):
            self._logbook.add_secrets(TEST_JOBS_REPL, event.named)
        transcript = self._transcripts.get(job_id)
        if isinstance(event, Output):
            if transcript is not None and (text := transcript.out.append(event.text)):
                self._record_output(job_id, text)
        elif isinstance(event, RunFinished) and transcript is not None:
            for rest, _ in transcript.end_streams():
                if rest:
                    self._record_output(job_id, rest)
        if transcript is not None and not isinstance(event, Output):
            transcript.notify_change()

    def _record_output(self, job_id: str, text: str) -> None:
        """Add output of a job to the log."""
        who = self._core.state.evaluations[job_id].who
        now = self._core.now()
        self._logbook.record(Entry(UNASSIGNED_LINE, "evaluationOutput", text, now, who, None, TEST_JOBS_REPL, job_id))

    async def _finish(self, job_id: str, running: _RunningJob, failure: Failure | None) -> None:
        """Store the report of a job, and report its end to the core."""
        evaluation = self._core.state.evaluations[job_id]
        report = running.builder.report()
        changed: Sequence[str] = ()
        try:
            changed = await self.changed_since(evaluation.started_at or 0)
        except OSError as error:
            logger.info("cannot search for changed files: %s", error)
        job_report = JobReport(
            running.job,
            report,
            tuple(changed),
            running.limit_passed,
            is_longest_limit=running.is_longest_limit,
            repetitions=running.repetitions,
        )
        self._forget_surplus()
        if FUNCTIONS_RECORDER in running.job.spec.recorders and not changed:
            suspects = await to_thread.run_sync(self._find_suspects, job_report)
            job_report = replace(job_report, report=replace(report, recorded=()), suspects=suspects)
        self._reports[job_id] = job_report
        if running.job.purpose != "comparison":
            for handle in self.recorded:
                handle(job_id, running.job, report)
        del self._running[job_id]
        running.over.set()
        status, failure = _status_and_failure(job_report, failure, is_interrupted=running.is_interrupted)
        words = failure.message if failure is not None and not report.results else summarize_report(report)
        if running.repetitions.finished:
            words = (
                f"{running.repetitions.failed} of {format_count(running.repetitions.finished, 'run')} failed; {words}"
            )
        why = PURPOSE_DESCRIPTIONS[running.job.purpose]
        log_summary = f"{evaluation.head} {why} ({words})" if why else f"{evaluation.head}: {words}"
        transcript = self._transcripts.get(job_id)
        if transcript is not None and not evaluation.is_finished:
            transcript.add_value(summarize_report(report))
        failures = dict.fromkeys(test.nodeid for test in report.failures)
        test_facts = log_facts.TestFacts(
            job=job_id,
            tests=evaluation.head,
            counts=asdict(report.counts),
            failures=list(failures),
            passed_again=self._tests_passing_again(report) if running.job.purpose == "tests" else (),
            paths=running.job.paths or (),
            is_partial=running.job.paths is None or not job_report.has_all_tests,
            purpose=why,
        )
        self._core.report(
            EvaluationFinished(job_id, status, failure=failure, summary=log_summary, data=test_facts.to_data())
        )

    def _find_suspects(self, job_report: JobReport) -> Mapping[str, Sequence[Suspect]]:
        """Store what the tests executed, and return the suspects of the first failed tests. Blocks."""
        report, spec = job_report.report, job_report.job.spec
        self.executions.add(report.recorded, is_finished=job_report.has_finished)
        if not report.failures:
            return {}
        root = Path(spec.roots[0]) if spec.roots else spec.directory
        executed = executed_functions(report.recorded)
        return {
            failure.nodeid: rank_suspects(failure, executed, report.results, root=root)[:MAX_SUSPECTS]
            for failure in report.failures[:MAX_EXPLAINED_FAILURES]
        }

    def _tests_passing_again(self, report: TestReport) -> list[str]:
        """Return the tests that passed after they had failed in an earlier run, and remember the tests that failed."""
        failures = {failure.nodeid for failure in report.failures}
        passed = {result.nodeid for result in report.results} - failures
        found = [name for name in self._once_failed if name in passed]
        for name in failures:
            self._once_failed[name] = None
        return found

    def _forget_surplus(self) -> None:
        """Discard the oldest reports while the stored reports have more than `MAX_STORED_RESULTS` results."""
        result_count = 0
        for name in reversed(list(self._reports)):
            result_count += len(self._reports[name].report.results)
            if result_count > MAX_STORED_RESULTS and name != next(reversed(self._reports)):
                del self._reports[name]

    async def stop(self, job: Evaluation, why: str, *, settle_s: float = STOP_TIMEOUT_S) -> tuple[str, ...]:
        """Interrupt a test run, or code in a frame, and wait for its end. Return messages that describe the result."""
        if not job.is_test_job:
            return await self.failure.stop(job, why)
        running = self._running.get(job.id)
        if running is None:
            return ("the test run had already finished",)
        self._core.report(StopRequested(job.id, why))
        running.is_interrupted = True
        if running.process is not None:
            await running.process.interrupt()
        with anyio.move_on_after(max(settle_s, STOP_TIMEOUT_S)):
            await running.over.wait()
        if running.over.is_set():
            return ("the test run has finished",)
        return ("the test run was interrupted, and is still stopping",)

    def end_comparisons(self) -> None:
        """Stop comparison runs, so that a run requested by a caller can start."""
        for running in self._running.values():
            if running.job.purpose == "comparison" and running.process is not None:
                self._tasks.start_soon(running.process.kill)

    def interrupt(self, job: Evaluation, why: str) -> None:
        """Interrupt a job without waiting for its end."""
        self._tasks.start_soon(self.stop, job, why)

    async def end_all(self) -> None:
        """Stop all jobs, and wait until their processes have exited."""
        await self.failure.drop()
        runs = list(self._running.values())
        for running in runs:
            running.scope.cancel()
        for running in runs:
            await running.over.wait()


async def _without_missing_pytest_output(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    """Yield the events of a run. Omit its output if the interpreter has no pytest."""
    output: list[Output] | None = []
    async for event in events:
        if output is not None and isinstance(event, Output):
            output.append(event)
            continue
        is_missing = isinstance(event, RunFinished) and event.error is not None and event.error.kind == "no-pytest"
        for text in () if is_missing else output or ():
            yield text
        output = None
        yield event


def _status_and_failure(
    job_report: JobReport, failure: Failure | None, *, is_interrupted: bool
) -> tuple[FinalStatus, Failure | None]:
    """Return the final status of a job, and its failure if it has one."""
    report, error = job_report.report, job_report.report.error
    if failure is not None:
        return ("lost" if failure.type == "server-stopped" else "failed"), failure
    if is_interrupted or job_report.limit_passed or (report.interruption is not None and not report.failures):
        return "interrupted", None
    if report.exit_status == 0 and error is None:
        return "done", None
    if error is not None and not report.failures:
        return "failed", Failure(error.kind, error.message)
    if report.exit_status == NO_TESTS_STATUS:
        return "failed", Failure("no-tests", "no test was found")
    return "failed", Failure("tests-failed", summarize_report(report))


def summarize_report(report: TestReport) -> str:
    """Return a string with the counts of a run and the names of the first failed tests."""
    counts = report.counts
    tests = counts.passed + counts.failed + counts.errors + counts.skipped + counts.xfailed + counts.xpassed
    errors = format_count(counts.errors, "error")
    words = f"{format_count(tests, 'test')}, {counts.passed} passed, {counts.failed} failed, {errors}"
    names = list(dict.fromkeys(failure.nodeid for failure in report.failures))
    return words + (f": {join_first(names, MAX_NAMED_FAILURES)}" if names else "")
