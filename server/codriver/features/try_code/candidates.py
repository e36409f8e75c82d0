"""Run the same tests for each candidate in a new process that sees the candidate's contents.

Nothing is written. The process reads the contents in place of the files, and so do the Python processes that it starts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import anyio

from codriver.core.records import dataclass
from codriver.errors import format_count, refused, truncate
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.testing.runs import NO_TESTS_STATUS
from codriver.tools.calls.evaluation_waits import stop_evaluation, wait_for_evaluation
from codriver.tools.execution.affected_tests import AFFECTED_SELECTOR, TestsRun, choose_tests, chosen_tests, run_paths
from codriver.tools.execution.edit_verdict import find_failed_tests
from codriver.tools.execution.failure_groups import FailureGroup
from codriver.tools.execution.python_failure_rows import failure_row
from codriver.tools.execution.python_tests import make_job, start_job
from codriver.tools.execution.test_arguments import TestArguments
from codriver.tools.execution.test_environments import TestEnvironment
from codriver.tools.execution.test_runs import choose_test_location
from codriver.tools.execution.unfinished_tests import find_unfinished_tests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.editing import Outcome
    from codriver.testing.test_jobs import JobReport, TestJob
    from codriver.tools.calls.call import Call

END_TIMEOUT_S: Final = 10.0
"""Time allowed for a run to end after its limit, and to start after the previous one."""
MAX_LISTED_DIFFERENCES: Final = 10
"""Maximum number of listed tests with differing outcomes."""
MAX_NAMED_FAILURES: Final = 5
"""Maximum number of failed tests to name for a candidate."""
MAX_MESSAGE_CHARACTERS: Final = 300
"""Maximum length of a failure's message."""


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """The result of testing a candidate. `outcomes` maps the ids of finished tests to their outcomes."""

    label: str
    outcome: Literal["passed", "failed", "undecided"]
    outcomes: Mapping[str, str]
    fields: Mapping[str, object]
    """Additional fields of the answer."""

    @property
    def passed(self) -> int:
        """Return the number of passed tests, including tests that failed as expected."""
        return sum(how in ("passed", "xfailed") for how in self.outcomes.values())

    def to_json(self) -> dict[str, object]:
        """Return the result as an entry of the answer, which lists all candidates."""
        counts = {"passed": f"{self.passed} of {len(self.outcomes)} tests"} if self.outcomes else {}
        return {"label": self.label, "outcome": self.outcome, **counts, **self.fields}


@dataclass(frozen=True, slots=True)
class Trial:
    """The tests to run for each candidate. `tests` contains names of tests, or only `affected`."""

    tests: tuple[str, ...]
    limit_s: float
    """Maximum duration of one candidate's tests."""
    is_parallel: bool
    given_who: str | None
    session_key: str | None


async def check_candidates(
    call: Call, trial: Trial, who: str, outcomes: Mapping[str, Outcome]
) -> dict[str, CandidateResult]:
    """Run the same tests for each candidate, and return the results by label.

    `outcomes` maps labels to the files as the candidates' edits would leave them.
    """
    if not outcomes:
        return {}
    return await _run_candidates(call, trial, who, await _make_job(call, trial, who, list(outcomes.values())), outcomes)


async def _make_job(call: Call, trial: Trial, who: str, outcomes: Sequence[Outcome]) -> TestJob:
    """Create the test job that all candidates share. The files of each candidate are added later.

    Raises:
        RefusedError: there are no tests to run, or they cannot run in a new process.
    """
    if trial.tests == (AFFECTED_SELECTOR,):
        changed = [result for outcome in outcomes for result in outcome.files]
        choice = await choose_tests(call, changed, lambda _: "")
        runs = [run for run in choice.runs if run.only]
        if not runs:
            raise refused(
                "no-tests",
                "no test was found for the changed code. No test imports it, is named after it or is known to run it",
                hint="Pass the tests to run in the argument `test`.",
            )
    else:
        runs = [TestsRun("", name) for name in trial.tests]
    given = TestArguments.model_validate(
        {"paths": run_paths(runs), "replSessionKey": trial.session_key, "who": trial.given_who}
    )
    location = await choose_test_location(call, given, who)
    if not isinstance(location, TestEnvironment):
        raise CapabilityMissingError(
            "test", message=f"{location.repl.key} does not run its tests in a new process, so no candidate was tested"
        )
    job = await make_job(call, given, location)
    chosen = chosen_tests(runs, call.services.workspace, job.spec.directory)
    spec = replace(job.spec, chosen=chosen, retains_failed_process=False, recorders={})
    return replace(job, spec=spec, purpose="check", limit_s=trial.limit_s)


async def _run_candidates(
    call: Call, trial: Trial, who: str, job: TestJob, outcomes: Mapping[str, Outcome]
) -> dict[str, CandidateResult]:
    """Run each candidate's tests, one candidate after another or all in parallel."""
    results: dict[str, CandidateResult] = {}

    async def check(label: str, outcome: Outcome) -> None:
        sources = {str(file.change.path): file.change.after for file in outcome.files}
        candidate_job = replace(job, spec=replace(job.spec, sources=sources))
        name = start_job(call, who, candidate_job, is_parallel=trial.is_parallel)
        current = await wait_for_evaluation(call, name, (candidate_job.limit_s or 0) + END_TIMEOUT_S)
        if not current.is_finished:
            with anyio.CancelScope(shield=True):
                await stop_evaluation(call, name, "the tests for a candidate took too long")
        results[label] = candidate_result(call, label, call.services.tests.report(name))

    if trial.is_parallel:
        async with anyio.create_task_group() as tasks:
            for label, outcome in outcomes.items():
                tasks.start_soon(partial(check, label, outcome))
    else:
        for label, outcome in outcomes.items():
            await check(label, outcome)
    return results


def candidate_result(call: Call, label: str, job_report: JobReport | None) -> CandidateResult:
    """Create a candidate's result from the report on its test run."""
    if job_report is None:
        return CandidateResult(label, "undecided", {}, {"error": "another test run did not finish in time"})
    report = job_report.report
    outcomes = {result.nodeid: result.outcome for result in report.results if not result.is_collector}
    failed, unfinished = find_failed_tests(report), find_unfinished_tests(report)
    if failed:
        first = next(failure for failure in report.failures if failure.nodeid == failed[0])
        row = failure_row(FailureGroup(first), call.services.workspace)
        words = truncate(str(row.get("message", "")), MAX_MESSAGE_CHARACTERS)
        line = f" (line {row['line']})" if "line" in row else ""
        return CandidateResult(label, "failed", outcomes, {"error": f"{first.nodeid}{line}: {words}"})
    if unfinished or job_report.limit_passed:
        fields = {
            "error": f"the run was stopped after {job_report.limit_passed or 'its time limit'}",
            "notFinished": list(unfinished[:MAX_NAMED_FAILURES]),
        }
        return CandidateResult(label, "undecided", outcomes, fields)
    if report.error is not None:
        return CandidateResult(
            label, "failed", outcomes, {"error": truncate(report.error.message, MAX_MESSAGE_CHARACTERS)}
        )
    if report.exit_status == NO_TESTS_STATUS or not outcomes:
        return CandidateResult(label, "failed", outcomes, {"error": "no test was found"})
    return CandidateResult(label, "passed", outcomes, {})


def describe_outcome_differences(tried: Sequence[CandidateResult]) -> list[str]:
    """Return a line for each test whose outcome differs between candidates."""
    lines = []
    for test in dict.fromkeys(name for trial in tried for name in trial.outcomes):
        by_outcome: dict[str, list[str]] = {}
        for trial in tried:
            if test in trial.outcomes:
                by_outcome.setdefault(trial.outcomes[test], []).append(trial.label)
        if len(by_outcome) > 1:
            lines.append(f"{test}: " + "; ".join(f"{how} in {', '.join(names)}" for how, names in by_outcome.items()))
    left = len(lines) - MAX_LISTED_DIFFERENCES
    return [*lines[:MAX_LISTED_DIFFERENCES], f"… {format_count(left, 'more test')}"] if left > 0 else lines
