"""Load edited files into their REPL, run the tests, and revert the edits if they broke a test.

Python tests run in a separate process, from the files. Tests of other languages run in their REPL. Reverting an edit
does not execute user code again, because the REPL retained the objects that the load replaced.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.profiles import PYTHON
from codriver.core.requests import MAIN_SESSION
from codriver.errors import CodriverError, RefusedError, ReplDisconnectedError, join_first, refused
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.queries import Restore
from codriver.repls.kinds import dialects_by_suffix
from codriver.testing.changed_files import newest_change_ms
from codriver.tools.answers.evaluation_answers import PARTLY_EVALUATED_HINT
from codriver.tools.calls.evaluation_waits import stop_evaluation, wait_for_evaluation
from codriver.tools.calls.gate import await_search
from codriver.tools.calls.session_choice import (
    Target,
    await_serving_repl,
    caller_lane,
    check_serving_repl,
    repl_for_file,
)
from codriver.tools.execution.affected_tests import (
    AFFECTED_SELECTOR,
    AFFECTED_TIME_LIMIT_S,
    Choice,
    TestsRun,
    choose_tests,
    chosen_tests,
    run_paths,
)
from codriver.tools.execution.edit_loads import EditLoads, hide_save_from_watchers
from codriver.tools.execution.edit_verdict import (
    CHECK_TIME_LIMIT_S,
    EXPECTED_OUTCOMES,
    Verdict,
    find_failed_tests,
    find_outcomes,
    previous_sources,
    test_files,
    verification_jobs,
)
from codriver.tools.execution.edited_lines import Edit, edited_files
from codriver.tools.execution.failure_groups import ADDRESS_PATTERN, failure_groups
from codriver.tools.execution.failure_sources import failure_sources
from codriver.tools.execution.pytest_usage_errors import describe_usage_error, is_usage_error
from codriver.tools.execution.python_failure_rows import failure_rows
from codriver.tools.execution.python_tests import make_job, start_job
from codriver.tools.execution.submission import check_not_blocked
from codriver.tools.execution.test_arguments import TestArguments, pytest_path
from codriver.tools.execution.test_environments import TestEnvironment
from codriver.tools.execution.test_runs import choose_test_location, repl_runs, run_tests
from codriver.tools.execution.unfinished_tests import find_unfinished_tests, unfinished_edit_fields
from codriver.wire.untrusted import int_or_none, mappings_or_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.editing import Outcome, RestoreResult
    from codriver.testing.runs import RunError, TestFinished
    from codriver.testing.test_jobs import JobReport, TestJob
    from codriver.tools.answers.lean_answers import Evaluating
    from codriver.tools.calls.call import Call

TESTS_TIME_LIMIT_S: Final = 50.0
"""Default time limit for all tests of one edit, in seconds. Clients wait for one minute."""
MIN_RUN_S: Final = 1.0
"""Minimum remaining time, in seconds, for a run to be started."""
RUN_GRACE_S: Final = 10.0
"""Extra time, in seconds, for a run to stop after its limit or to start after another run."""
CHECK_BATCH_TESTS: Final = 8
"""Number of failed tests repeated in one run. A single broken test is enough to revert an edit."""
MAX_DESCRIBED_FAILURES: Final = 5
"""Maximum number of failures that an answer describes."""
MAX_NAMED_TESTS: Final = 4
"""Maximum number of tests named in a message."""
PYTHON_SUFFIX: Final = ".py"
NO_TESTS_REASONS: Final = ("no-tests", "unknown-namespace")
"""The values of `reason` in answers about runs that found no tests."""
FAILED_BEFORE_MESSAGE: Final = "the edit is kept: the failing tests had already failed before it"
NOT_TESTED_MESSAGE: Final = "the edit is kept, but not tested"
NOT_KNOWN_MESSAGE: Final = "the edit is kept: no failed test is known to have passed before the edit"
LOAD_FAILED_MESSAGE: Final = "the edit is kept although its load failed, and the REPL has the previous definitions"
PARTLY_RESTORED_HINT: Final = "see error. Other effects of the code that ran remain, such as modified objects and files"
RESTORED_TEMPLATE: Final = "{all} as before. Other effects of the load and the tests are not undone"
NOT_RESTORED_TEMPLATE: Final = "{all} as before, but definitions were not restored: {why}"


class LiveSteps:
    """Loads and tests one batch of edits, and restores the previous definitions if the edits broke a test.

    Implements `codriver.editing.edit_transaction.ReplSteps`. `fields` contains the fields of the answer about tests and
    failures.
    """

    def __init__(
        self,
        call: Call,
        who: str,
        arguments: Evaluating,
        tests: Sequence[str],
        *,
        restores: bool,
        loads: bool = True,
        limit_s: float | None = None,
    ) -> None:
        self.fields: dict[str, object] = {}
        self._call = call
        self._tests = tests
        self._restores = restores
        self._is_loaded = loads
        self._undo_id = uuid.uuid4().hex if restores and loads else ""
        self._key: str | None = getattr(arguments, "repl_session_key", None)
        """Key of the session that loads the files, if the caller named one."""
        self._given_who = arguments.who
        self._who = who
        self._arguments = arguments
        self._loads = self._new_loads()
        self._is_restored = False
        """Whether the previous definitions have been restored because the edit broke a test."""
        self._limit_s = limit_s or (AFFECTED_TIME_LIMIT_S if self._selects_affected else TESTS_TIME_LIMIT_S)
        self._verdict = Verdict()
        self._load_started_ms = 0
        """Start time of the load."""
        self._changed_before_ms = 0
        """Time of the last change to a source file before the edit, in epoch milliseconds."""
        self._runs: list[str] = []
        """Ids of the test runs of these edits."""
        self._known_before: dict[str, str] = {}
        """Outcomes of tests with the files as they were before the edit."""
        self._known_messages: dict[str, str] = {}
        """Messages from tests that failed with these files."""
        self._running_at_end = ""
        """Id of the test that was interrupted, if one was."""
        self._run_error: RunError | None = None
        """The error that ended the test run before its time limit, if there was one."""
        self._loaded = anyio.Event()
        self._choice_made: Choice | None = None
        self._python_fields: dict[str, object] = {}
        """Fields of the answer about the tests that ran in a separate process."""

    def _new_loads(self) -> EditLoads:
        return EditLoads(self._call, self._who, self._arguments, undo_id=self._undo_id, key=self._key)

    @property
    def rows(self) -> Mapping[int, Mapping[str, object]]:
        """Return what the answer reports about each load, by the index of the file among the edited files."""
        return self._loads.rows

    @property
    def loaded(self) -> Mapping[Path, tuple[str, int]]:
        """Return the id and the generation of the REPL that was asked to load each file."""
        return self._loads.loaded

    @property
    def unserved(self) -> Mapping[str, object]:
        """Return the fields of the answer about code that no session could load.

        They are empty if all code was sent to a REPL.
        """
        return self._loads.unserved

    @property
    def _selects_affected(self) -> bool:
        """Return whether the caller requested the tests that the edit can break."""
        return AFFECTED_SELECTOR in self._tests

    async def check_steps(self, files: Iterable[str]) -> None:
        """Check that the edits to `files` can be loaded, tested and reverted, before anything is written.

        Raises:
            RefusedError: one of these steps is impossible.
        """
        await await_search(self._call.services.core)
        files = tuple(dict.fromkeys(files))
        for file in files:
            path = self._call.services.workspace / file
            if not dialects_by_suffix().get(path.suffix):
                continue
            is_python = path.suffix == PYTHON_SUFFIX
            if (self._undo_id or self._tests) and not is_python:
                await await_serving_repl(self._call, path, self._call.wait_ms() / 1000)
            if self._is_loaded and self._key is None:
                check_serving_repl(self._call, path, self._who)
            repl = self._serving_repl(path)
            if not isinstance(repl, str):
                if self._is_loaded:
                    shared = Target(repl, repl.sessions[MAIN_SESSION])
                    check_not_blocked(self._call, caller_lane(self._call, shared, self._who), self._who)
                needed = [*(["restore"] if self._undo_id else []), *(["test"] if self._tests and not is_python else [])]
                for capability in needed:
                    _check_capability(repl, capability)
            elif (self._undo_id or self._tests) and not is_python:
                raise refused(
                    "no-repl",
                    f"{repl or f'no connected REPL serves {file}'}, so nothing was written",
                    hint="Start a REPL (see list_sessions), or omit test and onFailure.",
                )
        if self._tests and (of_python := [file for file in files if file.endswith(PYTHON_SUFFIX)]):
            location = await self._find_test_location(of_python[0])
            if isinstance(location, TestEnvironment) and len(of_python) == len(files):
                await self._check_tests(location, files)
        if self._tests:
            await self._read_state_before()

    async def _find_test_location(self, file: str) -> TestEnvironment | Target:
        """Return where the Python tests for an edited file run.

        Raises:
            RefusedError: they cannot run.
        """
        arguments = TestArguments(paths=[file], who=self._given_who)
        try:
            return await choose_test_location(self._call, arguments, self._who)
        except CapabilityMissingError as error:
            message = f"{error.message}, so nothing was written"
            raise CapabilityMissingError(error.capability, error.hint, message=message) from error

    async def _check_tests(self, environment: TestEnvironment, edited: Sequence[str]) -> None:
        """Check that the files of the requested Python tests exist or may be created by the edits.

        Raises:
            RefusedError: a file does not exist.
        """
        services = self._call.services
        named = [name for name in self._tests if name != AFFECTED_SELECTOR]
        find = partial(_missing_tests, named, services.workspace, environment.directory, edited)
        if missing := await services.work.files.run(self._call.client, find):
            raise refused(
                "no-tests",
                f"`test` names {join_first(missing)}, which does not exist, so nothing was written",
                hint='Correct the path, or pass test: ["affected"].',
            )

    async def _read_state_before(self) -> None:
        """Record what the verdict on the edit needs to know about the files as they are before it.

        This is the time of their last change, if tests may run in a REPL, and the outcomes of their tests, if the edit
        may be reverted.
        """
        services = self._call.services
        if any(repl.dialect != PYTHON or not repl.is_owned for repl in self._call.state.repls.values()):
            find = partial(newest_change_ms, services.workspace, tuple(dialects_by_suffix()))
            self._changed_before_ms = await services.work.files.run(self._call.client, find)
        if self._restores:
            self._known_before = await self._current_outcomes()

    async def _current_outcomes(self) -> dict[str, str]:
        """Return the outcomes of tests that ran with the current files.

        Also records the failure messages of these tests.
        """
        services = self._call.services
        newest = await services.work.files.run(self._call.client, partial(newest_change_ms, services.workspace))
        found: dict[str, str] = {}
        for name, job_report in reversed(services.tests.finished_runs()):
            run = self._call.state.evaluations.get(name)
            if run is not None and (run.started_at or 0) > newest and not job_report.changed_files:
                found |= find_outcomes(job_report.report, [test.nodeid for test in job_report.report.results])
                self._known_messages |= _failure_messages(job_report.report.failures)
        return found

    async def load(self, outcome: Outcome) -> bool:
        """Load the changed code. Always return true, because an edit is kept even if its load fails.

        Python tests may start at the same time, because they run in a separate process that reads the files. They start
        later if they may run in a REPL that Codriver did not start, because such a REPL needs the loaded code.
        """
        self._load_started_ms = self._call.services.now()
        if self._tests:
            self._call.services.tests.failure.start_dropping()
        if self._is_loaded:
            try:
                async with anyio.create_task_group() as tasks:
                    if self._tests and self._is_served_by_codriver(outcome):
                        tasks.start_soon(self._run_python_tests, outcome)
                    await self._load_code(outcome)
                    self._loaded.set()
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from errors
        return True

    async def _load_code(self, outcome: Outcome) -> None:
        """Load the changed code and record the failure, if any."""
        await self._loads.run(outcome.files)
        self.fields |= self._loads.failure
        if not self._loads.is_done and not self._loads.failure and self._undo_id:
            self.fields |= {"reason": "interrupted", "message": "the load was interrupted before it finished"}

    def _is_served_by_codriver(self, outcome: Outcome) -> bool:
        """Return whether all edited files are Python files, loaded only by REPLs that Codriver started."""
        paths = [result.change.path for result in outcome.files]
        repls = [self._serving_repl(path) for path in paths]
        return all(path.suffix == PYTHON_SUFFIX for path in paths) and all(
            isinstance(repl, str) or repl.is_owned for repl in repls
        )

    async def _run_python_tests(self, outcome: Outcome) -> Choice:
        """Choose the tests to run, and run those that are Python tests.

        The changed code may still be loading.
        """
        choice = await self._choose_tests(outcome)
        in_process = [run for run in choice.runs if self._is_python_run(run)]
        self._choice_made = choice
        self._python_fields = await self._test_python(outcome, in_process) if in_process else {}
        return choice

    async def test(self, outcome: Outcome) -> bool:
        """Run the tests that have not run yet, and return false if the edit broke one."""
        if not self._tests:
            return True
        choice = self._choice_made or await self._run_python_tests(outcome)
        in_repl = [run for run in choice.runs if not self._is_python_run(run)]
        if in_repl and not self._loads.is_done:
            self.fields.setdefault(
                "notTested", "the load has not finished. Wait for it with get_evaluation, then call run_tests"
            )
            return True
        ends_at = anyio.current_time() + self._limit_s
        self.fields = {**self._python_fields, **self.fields}
        if in_repl:
            await self._test_in_repls(in_repl, ends_at, outcome)
        self._add_verdict(choice, outcome)
        return not self._verdict.broken

    def _add_verdict(self, choice: Choice, outcome: Outcome) -> None:
        """Add the outcomes of the tests, and their consequences for the edit, to the fields of the answer."""
        verdict = self._verdict
        if not (verdict.passed or verdict.failed or verdict.unfinished):
            if "reason" not in self.fields:
                self.fields |= self._no_tests_fields(outcome)
            return
        answer_fields: dict[str, object] = {"tests": verdict.counts}
        if choice.words:
            answer_fields["chosen"] = choice.words
        if choice.notes:
            answer_fields["notes"] = list(choice.notes)
        for key, names in (("failedBefore", verdict.failed_before), ("flaky", verdict.flaky)):
            answer_fields |= {key: _abbreviate(names)} if names else {}
        if verdict.unfinished:
            answer_fields["notFinished"] = _abbreviate(test_files(verdict.unfinished))
        if verdict.failing and "reason" not in self.fields:
            answer_fields["reason"] = "tests-failed"
            if self._restores and not verdict.broken:
                answer_fields["kept"] = FAILED_BEFORE_MESSAGE if verdict.has_known_failures_only else NOT_KNOWN_MESSAGE
        elif verdict.unfinished and "reason" not in self.fields:
            answer_fields |= unfinished_edit_fields(
                choice.functions, verdict.unfinished, self._limit_s, self._running_at_end, self._run_error
            )
        self.fields = {**answer_fields, **self.fields}

    async def _test_python(self, outcome: Outcome, runs: Sequence[TestsRun]) -> dict[str, object]:
        """Run Python tests in a separate process, and return the fields of the answer about them.

        Failed tests are repeated, and run with the previous files if their earlier outcomes are unknown.
        """
        paths = run_paths(runs)
        given = {"paths": paths, "replSessionKey": runs[0].repl or None, "who": self._given_who}
        arguments = TestArguments.model_validate(given)
        try:
            location = await choose_test_location(self._call, arguments, self._who)
            if not isinstance(location, TestEnvironment):
                if self._is_loaded:
                    await self._loaded.wait()
                await self._test_in_repls(runs, anyio.current_time() + self._limit_s, outcome)
                return {}
            job = await make_job(self._call, arguments, location)
            spec = replace(job.spec, chosen=chosen_tests(runs, self._call.services.workspace, job.spec.directory))
            job = replace(job, spec=spec)
            name, job_report = await self._run_job(replace(job, limit_s=self._limit_s))
        except (RefusedError, ReplDisconnectedError) as error:
            return _error_fields(error)
        if job_report is None:
            return {
                "reason": "busy",
                "message": f"another test run did not finish in time: {NOT_TESTED_MESSAGE}",
            }
        report = job_report.report
        self._running_at_end = report.interruption.nodeid if report.interruption is not None else ""
        self._run_error = None if job_report.limit_passed else report.error
        failed = find_failed_tests(report)
        verdict = Verdict(report.counts.passed + report.counts.xfailed, failed, find_unfinished_tests(report))
        if failed and self._restores:
            verdict = await self._verify_failures(job, outcome, verdict)
        self._verdict = verdict
        if not report.results and report.error is not None:
            if is_usage_error(report.error):
                message, hint = describe_usage_error(report.error.message, self._call.services.workspace)
                return {"reason": "no-tests", "message": f"{message}: {NOT_TESTED_MESSAGE}", "hint": hint}
            reason = "no-tests" if report.error.kind == "usage" else "evaluation-failed"
            return {"reason": reason, "message": f"{report.error.message}: {NOT_TESTED_MESSAGE}"}
        rows = await self._failure_rows(job_report, outcome)
        return {"evaluationId": name, "results": rows} if rows else {}

    async def _failure_rows(self, job_report: JobReport, outcome: Outcome) -> list[dict[str, object]]:
        """Describe each new error in a JSON object for the answer.

        An error is new if the edit broke its test, or if a test that failed before the edit now fails with a different
        message.
        """
        verdict, services = self._verdict, self._call.services
        failures = job_report.report.failures
        messages = _failure_messages(failures)
        is_new = {test for test, known in self._known_messages.items() if messages.get(test) not in (None, known)}
        described = {*(verdict.broken or verdict.failed)} - {*verdict.failed_before, *verdict.flaky}
        described = described or is_new.intersection(verdict.failed_before)
        groups = failure_groups((failure for failure in failures if failure.nodeid in described), services.workspace)[
            :MAX_DESCRIBED_FAILURES
        ]
        if not groups:
            return []
        edit = Edit(edited_files(outcome.files), is_put_back=self._restores and bool(verdict.broken))
        # The edit is the cause of a test that it broke, so other functions are not suspicious.
        ranked = replace(job_report, suspects={}) if verdict.broken else job_report
        sources = await failure_sources(self._call, ranked, groups, edit)
        return failure_rows(groups, services.workspace, sources)

    async def _verify_failures(self, job: TestJob, outcome: Outcome, verdict: Verdict) -> Verdict:
        """Run failed tests again until one is known to be broken by the edit.

        Tests whose outcomes before the edit are unknown run with the previous files. Those that passed then run once
        more with the edited files. The returned verdict includes these outcomes.
        """
        known = {name: self._known_before[name] for name in verdict.failed if name in self._known_before}
        verdict = replace(verdict, before=known)
        # The tests that are known to have passed come first, because they need no run with the previous files.
        names = sorted(verdict.failed, key=lambda name: known.get(name) not in EXPECTED_OUTCOMES)
        for start in range(0, len(names), CHECK_BATCH_TESTS):
            checked = names[start : start + CHECK_BATCH_TESTS]
            if unknown := [name for name in checked if name not in known]:
                previous = await self._run_for_outcomes(job, unknown, previous_sources(outcome))
                verdict = replace(verdict, before={**verdict.before, **previous})
            if passed := [name for name in checked if verdict.before.get(name) in EXPECTED_OUTCOMES]:
                again = await self._run_for_outcomes(job, passed)
                verdict = replace(verdict, again={**verdict.again, **again})
            if verdict.broken:
                break
        return verdict

    async def _run_for_outcomes(
        self, job: TestJob, names: Sequence[str], sources: Mapping[str, bytes | None] | None = None
    ) -> dict[str, str]:
        """Run tests and return their outcomes, by name.

        `sources` replaces the contents of files by path during this run.
        """
        for check in verification_jobs(job, names, sources):
            _, job_report = await self._run_job(check)
            if job_report is None:
                return {}
            if job_report.report.results:
                return find_outcomes(job_report.report, names)
        return {}

    async def _run_job(self, job: TestJob) -> tuple[str, JobReport | None]:
        """Run a job until it finishes or its time is up, and return its id and its report, if it has one."""
        call = self._call
        name = start_job(call, self._who, job)
        self._runs.append(name)
        current = await wait_for_evaluation(call, name, (job.limit_s or self._limit_s) + RUN_GRACE_S)
        if not current.is_finished:
            with anyio.CancelScope(shield=True):
                await stop_evaluation(call, name, "the tests of the edit took too long")
        return name, call.services.tests.report(name)

    async def _test_in_repls(self, runs: Sequence[TestsRun], ends_at: float, outcome: Outcome) -> None:
        """Run tests in their REPLs one after the other, and repeat those that failed.

        Failed tests whose outcomes before the edit are unknown run with the previous definitions. Runs that cannot
        start before `ends_at` are recorded as unfinished.
        """
        for number, run in enumerate(runs):
            left_s = min(self._call.services.durations.tests_s, ends_at - anyio.current_time())
            if left_s < MIN_RUN_S:
                names = [pending.label for pending in runs[number:]]
                self._verdict = replace(self._verdict, unfinished=(*self._verdict.unfinished, *names))
                return
            before = await self._outcomes_in_repl(run)
            found = await self._run_in_repl(run, left_s)
            if found.get("reason") in NO_TESTS_REASONS:
                if not self._selects_affected:
                    self.fields = {**found, **self.fields}
                continue
            rows = [row for row in mappings_or_empty(found.get("results")) if row.get("outcome") != "pass"]
            failed = tuple(dict.fromkeys(_qualified_test_name(row) for row in rows))
            is_late = found.get("reason") == "timed-out"
            if not failed and not is_late and "message" in found:
                self.fields = {
                    **{key: found[key] for key in ("reason", "message", "hint") if key in found},
                    **self.fields,
                }
                continue
            again = await self._run_in_repl(run, left_s) if failed and self._restores and not is_late else {}
            again_rows = [row for row in mappings_or_empty(again.get("results")) if row.get("outcome") != "pass"]
            verdict, can_check = self._verdict, self._can_test_previous_definitions(run)
            repeated = dict.fromkeys(failed, "passed") if "passed" in again else {}
            repeated |= {_qualified_test_name(row): "failed" for row in again_rows}
            broken = [row for row in again_rows if before.get(_qualified_test_name(row)) == "passed"]
            if not can_check:
                before = {**dict.fromkeys(failed, "passed"), **before}
            elif again_rows and not broken:
                unknown = [row for row in again_rows if not before.get(_qualified_test_name(row))]
                before |= await self._outcomes_with_previous_definitions(run, unknown, outcome) if unknown else {}
            self._verdict = Verdict(
                verdict.passed + (int_or_none(found.get("passed")) or 0),
                (*verdict.failed, *failed),
                (*verdict.unfinished, *([run.label] if is_late else [])),
                {**verdict.before, **{name: last for name in failed if (last := before.get(name))}},
                {**verdict.again, **repeated},
            )
            if failed:
                self.fields.setdefault("evaluationId", found.get("evaluationId"))
                known = self.fields.get("results")
                described = [row for row in rows if before.get(_qualified_test_name(row)) != "failed"]
                self.fields["results"] = [*(known if isinstance(known, list) else []), *described][
                    :MAX_DESCRIBED_FAILURES
                ]
            if self._is_restored:  # the remaining tests would run without the edit, which is reverted anyway
                return

    async def _outcomes_in_repl(self, run: TestsRun) -> dict[str, str]:
        """Return the last outcome of each test that ran in a REPL, "passed" or "failed".

        An outcome from before the last change to a file is an empty string, because that change may have fixed or
        broken the test. If the tests cannot run with the previous definitions, earlier passes are trusted.
        """
        repl = next((candidate for candidate in self._call.state.repls.values() if candidate.key == run.repl), None)
        can_check = self._can_test_previous_definitions(run)
        found: dict[str, str] = {}
        for evaluation, report in await repl_runs(self._call, repl.id) if repl is not None else ():
            is_current = (evaluation.started_at or 0) >= self._changed_before_ms
            for row in report["results"]:
                outcome = "passed" if row["outcome"] == "pass" else "failed"
                is_trusted = is_current or (outcome == "passed" and not can_check)
                found.setdefault(_qualified_test_name(row), outcome if is_trusted else "")
        return found

    def _can_test_previous_definitions(self, run: TestsRun) -> bool:
        """Return whether the tests of a run can be repeated with the definitions that the edit replaced."""
        is_loaded = bool(self._undo_id) and self._loads.is_done and not self._loads.failure
        return is_loaded and not self._is_python_run(run)

    async def _outcomes_with_previous_definitions(
        self, run: TestsRun, rows: Sequence[Mapping[str, object]], outcome: Outcome
    ) -> dict[str, str]:
        """Run the tests in `rows` with the definitions that the edit replaced, and return their outcomes by name.

        If one of them passes, the edit broke it, and the previous definitions stay. Otherwise the edited code is loaded
        again.
        """
        state = self._call.state
        left, why = await self._end_undo_records(commit=False)
        found: dict[str, str] = {}
        if not left and not why:
            only = tuple(dict.fromkeys((str(row.get("ns") or ""), str(row.get("test") or "")) for row in rows))
            earlier = set(state.evaluations)
            answer = await self._run_in_repl(replace(run, only=only), CHECK_TIME_LIMIT_S, lists_passed=True)
            for row in mappings_or_empty(answer.get("results")):
                name = _qualified_test_name(row)
                found[name] = "passed" if row.get("outcome") == "pass" and found.get(name) != "failed" else "failed"
            for evaluation in state.evaluations.values():  # it says nothing about the edited code
                if evaluation.kind == "run-tests" and evaluation.id not in earlier:
                    self._call.services.ledger.tests.reverted[evaluation.id] = True
        self._is_restored = "passed" in found.values()
        if not self._is_restored:
            self._undo_id = uuid.uuid4().hex
            self._loads = self._new_loads()
            await self._load_code(outcome)
        return found

    async def _run_in_repl(self, run: TestsRun, left_s: float, *, lists_passed: bool = False) -> dict[str, object]:
        """Run tests in a REPL for at most `left_s` seconds, and return the fields of the answer."""
        given: dict[str, object] = {"namespace": run.namespace, "replSessionKey": run.repl, "who": self._given_who}
        given |= {"timeoutMs": int(left_s * 1000), "onTimeout": "interrupt", "detail": True}
        given |= {"passed": lists_passed}
        try:
            answer = await run_tests(self._call, TestArguments.model_validate(given), run.only)
        except (RefusedError, ReplDisconnectedError) as error:
            return _error_fields(error)
        return dict(answer.fields)

    def _is_python_run(self, run: TestsRun) -> bool:
        """Return whether a run consists of Python tests."""
        repl = next((candidate for candidate in self._call.state.repls.values() if candidate.key == run.repl), None)
        return repl is None or repl.dialect == "python"

    def _no_tests_fields(self, outcome: Outcome) -> dict[str, object]:
        """Return the fields of the answer about an edit that no test covers."""
        first, *others = [result.display_path for result in outcome.files]
        words = f"no test runs, imports or is named after {first}" + (f" or {len(others)} more" if others else "")
        if self._selects_affected:
            return {"notTested": f"{words}. Name the tests, or call run_tests"}
        return {"reason": "no-tests", "message": f"no test was found in {', '.join(self._tests)}: the edit is kept"}

    async def commit(self) -> None:
        """Release the previous definitions in each REPL, or restore them if a load failed."""
        is_loaded = self._loads.is_done
        left, why = await self._end_undo_records(commit=is_loaded)
        if self._undo_id and not is_loaded:
            self.fields["kept"] = f"{LOAD_FAILED_MESSAGE}{f', except that {why}' if why else ''}"
            if self.fields.get("hint") == PARTLY_EVALUATED_HINT and not why:
                self.fields["hint"] = PARTLY_RESTORED_HINT
            self.fields |= {"leftAsNewer": list(left)} if left else {}

    async def put_back(self) -> tuple[Sequence[str], str]:
        """Restore the previous definitions in each REPL.

        Returns the names that could not be restored, and the reasons why some REPLs restored nothing.
        """
        for name in self._runs:
            self._call.services.tests.record_reverted(name)
        for evaluation in self._call.state.evaluations.values():
            if (
                evaluation.kind == "run-tests"
                and evaluation.repl in self._loads.repls
                and (evaluation.started_at or 0) >= self._load_started_ms
            ):
                self._call.services.ledger.tests.reverted[evaluation.id] = True
        return ((), "") if self._is_restored else await self._end_undo_records(commit=False)

    async def _end_undo_records(self, *, commit: bool) -> tuple[Sequence[str], str]:
        """Make each REPL release the previous definitions (`commit`) or restore them.

        Returns the names that could not be restored, and the reasons why some REPLs restored nothing.
        """
        left: list[str] = []
        why = []
        for repl, (key, generation) in self._loads.repls.items() if self._undo_id else ():
            now = self._call.state.repls.get(repl)
            if now is None or now.phase != "connected" or now.generation != generation:
                why.append(f"the REPL {key} was restarted or has ended, so its definitions cannot be restored")
                continue
            try:
                stayed = await self._call.services.repls.adapter(repl).query(Restore(self._undo_id, commit))
                left += stayed
            except CodriverError as error:
                why.append(f"{key}: {error}")
        return left, "; ".join(why)

    async def _choose_tests(self, outcome: Outcome) -> Choice:
        """Choose the tests to run after the edit."""
        loaded = [key for key, _ in self._loads.repls.values()]
        serving_keys = [
            repl.key for file in outcome.files if not isinstance(repl := self._serving_repl(file.change.path), str)
        ]
        key = (loaded or serving_keys or [""])[0]
        named = [TestsRun(key, name) for name in self._tests if name != AFFECTED_SELECTOR]
        if not self._selects_affected:
            return Choice(tuple(named))
        choice = await choose_tests(self._call, outcome.files, self._serving_repl)
        return replace(choice, runs=tuple(dict.fromkeys([*named, *choice.runs])))

    def _serving_repl(self, path: Path) -> Repl | str:
        """Return the REPL that serves a file, or a message explaining why no REPL does."""
        call = self._call
        return repl_for_file(call, path, self._who, self._key) or ""


def _missing_tests(names: Sequence[str], workspace: Path, directory: Path, edited: Sequence[str]) -> list[str]:
    """Return the names of tests whose files do not exist and are not created by the edits.

    Checks files, so it blocks.
    """
    created = {os.path.normpath(workspace / file) for file in edited}
    found = []
    for name in names:
        path = directory / pytest_path(name, workspace, directory).partition("::")[0]
        if not path.exists() and os.path.normpath(path) not in created:
            found.append(name)
    return found


def _failure_messages(failures: Iterable[TestFinished]) -> dict[str, str]:
    return {
        failure.nodeid: ADDRESS_PATTERN.sub("", failure.failure.message)
        for failure in failures
        if failure.failure is not None
    }


def _qualified_test_name(row: Mapping[str, object]) -> str:
    """Return the name of the test in a result, with its namespace."""
    return "/".join(str(row[key]) for key in ("ns", "test") if row.get(key))


def _abbreviate(names: Sequence[str]) -> list[str]:
    """Return the first names, followed by the number of remaining ones, such as "3 more"."""
    more = [f"{len(names) - MAX_NAMED_TESTS} more"] if len(names) > MAX_NAMED_TESTS else []
    return [*names[:MAX_NAMED_TESTS], *more]


def restored_fields(put_back: RestoreResult) -> dict[str, object]:
    """Return the fields of an answer that describe which files and definitions were restored."""
    left = [*put_back.files, *put_back.names]
    form, them = (NOT_RESTORED_TEMPLATE, "files") if put_back.why else (RESTORED_TEMPLATE, "files and definitions")
    them = f"all {them} except leftAsNewer are" if left else f"{them} are"
    fields: dict[str, object] = {"restored": form.format(all=them, why=put_back.why)}
    if left:
        fields["leftAsNewer"] = left
    return fields


async def restore_files(call: Call, caller: str, outcome: Outcome) -> Sequence[str]:
    """Restore the files of an edit, and return the files that could not be restored.

    File watchers ignore the restored files.
    """
    services = call.services
    with services.ledger.saves.edit_in_progress():
        left = await services.editor.put_back(caller, outcome)
        for result in outcome.files:
            await services.work.files.run(call.client, partial(hide_save_from_watchers, services, result.change.path))
        return left


def _check_capability(repl: Repl, capability: str) -> None:
    """Check that a REPL has a capability. A REPL with unknown capabilities passes the check.

    Raises:
        CapabilityMissingError: the REPL lacks the capability.
    """
    profile = repl.profile
    if profile is not None and capability not in profile.capabilities:
        message = f"{repl.key} cannot {'run tests' if capability == 'test' else 'restore definitions'}"
        why = profile.missing.get(capability)
        raise CapabilityMissingError(capability, why, message=f"{message}, so nothing was written")


def _error_fields(error: RefusedError | ReplDisconnectedError) -> dict[str, object]:
    """Return the fields of an answer that describe an error."""
    if isinstance(error, RefusedError):
        return {"reason": error.reason, "message": error.message, "hint": error.hint}
    return {"reason": "repl-disconnected", "message": str(error), "hint": "see list_sessions"}
