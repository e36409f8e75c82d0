"""Run Python tests as jobs in separate processes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core import evaluation_queue
from codriver.core.actions import CancelQueued, StartJob
from codriver.core.evaluations import OCCUPYING_STATUSES
from codriver.core.requests import MAIN_SESSION, Request
from codriver.errors import refused
from codriver.systems.programs import quote_command_line
from codriver.testing.runs import RunSpec
from codriver.testing.test_jobs import FUNCTIONS_RECORDER, TestJob
from codriver.tools.answers.answer_notes import with_notes
from codriver.tools.calls.answer import Answer
from codriver.tools.calls.evaluation_waits import describe_queue, find_evaluation, stop_evaluation, wait_for_evaluation
from codriver.tools.execution.python_test_reports import describe_job
from codriver.tools.execution.queued_code_limits import check_limits
from codriver.tools.execution.test_arguments import (
    junit_options,
    pytest_arguments,
    run_directory,
    selected_paths,
    unittest_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.core.evaluations import Evaluation
    from codriver.testing.runs import Runner
    from codriver.testing.test_jobs import JobReport
    from codriver.tools.calls.call import Call
    from codriver.tools.execution.test_arguments import TestArguments
    from codriver.tools.execution.test_environments import TestEnvironment

DJANGO_SCRIPT: Final = "manage.py"
"""Name of the script with which a Django project runs its tests."""
STOP_TIMEOUT_S: Final = 8.0
"""Maximum time, in seconds, for a run to stop after its limit: 5 s for its fixtures and some spare time."""
QUEUED_RUN_HINT: Final = (
    "A workspace runs one set of tests at a time. Wait for that run, or stop it with interrupt_evaluation."
)
"""Hint about a run that is waiting for another one."""


async def run_python_tests(
    call: Call, arguments: TestArguments, who: str, environment: TestEnvironment, failed: Sequence[str] = ()
) -> Answer:
    """Run Python tests in a separate process, wait for them, and describe the results.

    If `failed` contains test ids, only these tests run.
    """
    job = await make_job(call, arguments, environment, failed)
    return await run_job(call, arguments, who, job, caution=environment.caution)


async def run_job(
    call: Call, arguments: TestArguments, who: str, job: TestJob, *, caution: str | None = None
) -> Answer:
    """Run a job, wait for it, and describe the results.

    `caution` is a warning about the interpreter, which is added to the notes once.
    """
    await _stop_outdated_run(call, who)
    identity = start_job(call, who, job)
    wait_ms = call.wait_ms(arguments.timeout_ms)
    current = await wait_for_evaluation(call, identity, wait_ms / 1000)
    if current.status == "queued":
        return _not_started_answer(call, current)
    if not current.is_finished and arguments.is_stopped_at_timeout:
        # If the client disconnected now, the run would go on. Each step has a time limit.
        with anyio.CancelScope(shield=True):
            await stop_evaluation(call, identity, f"the tests ran longer than {wait_ms} ms")
        current = find_evaluation(call.state, identity)
    notes = [caution] if caution and call.services.delivered.repls.is_new(current, caution) else []
    answer = await describe_job(call, current, arguments, whole=arguments.report)
    return replace(answer, fields=with_notes(dict(answer.fields), notes)) if notes else answer


async def make_job(
    call: Call, arguments: TestArguments, environment: TestEnvironment, failed: Sequence[str] = ()
) -> TestJob:
    """Create a test job from the arguments of a call.

    Raises:
        RefusedError: the directory does not exist.
    """

    def make() -> TestJob:
        added = {name: options for hook in call.services.hooks.recorders for name, options in hook(call).items()}
        workspace = call.services.workspace
        directory = run_directory(arguments, workspace, environment.directory)
        spec = RunSpec(
            python=environment.python,
            directory=directory,
            arguments=tuple(pytest_arguments(arguments, workspace, directory, failed)),
            environment={**environment.variables, **arguments.env},
            recorders={FUNCTIONS_RECORDER: {}, **added},
            roots=(str(workspace),),
            retains_failed_process=True,
        )
        limit_ms = arguments.run_limit_ms(call.wait_ms(arguments.timeout_ms))
        runner: Runner = "django" if (directory / DJANGO_SCRIPT).is_file() else "unittest"
        # Neither unittest nor Django writes JUnit XML, so the command that requested it renders its own.
        other_arguments = [argument for argument in spec.arguments if argument not in junit_options(arguments)]
        return TestJob(
            spec=spec,
            without_pytest=replace(spec, runner=runner, arguments=tuple(unittest_arguments(other_arguments, runner))),
            limit_s=None if limit_ms is None else limit_ms / 1000,
            is_plain=arguments.fresh,
            session_key=environment.session_key,
            paths=None if arguments.args else tuple(selected_paths(arguments, workspace, directory) or failed),
            variables=arguments.env,
            is_complete=not (spec.arguments or arguments.failed),
            repeat=arguments.repeat,
        )

    return await call.services.work.files.run(call.client, make)


def start_job(call: Call, who: str, job: TestJob, *, is_parallel: bool = False) -> str:
    """Queue a test run and return its id.

    With `is_parallel`, the run starts immediately instead of waiting for other runs.
    """
    if job.purpose != "comparison":
        call.services.tests.end_comparisons()
    state = call.services.core.state
    identity = evaluation_queue.next_evaluation_id(state)
    command = shell_command(job.spec)
    session = identity if is_parallel else MAIN_SESSION
    request = Request(identity, command, session, kind="run-tests", background=is_parallel, job=job)
    check_limits(state.unfinished(), call.client, request)
    transcript = call.services.transcripts.open(identity, code=command)
    call.dispatch(StartJob(request, transcript.head), who=who)
    return identity


def shell_command(spec: RunSpec) -> str:
    """Return the shell command that a run corresponds to."""
    return " ".join(filter(None, [spec.runner, quote_command_line(spec.arguments)]))


async def _stop_outdated_run(call: Call, who: str) -> None:
    """Stop the caller's earlier run if files have changed since it started."""
    for evaluation in call.state.unfinished():
        if not (
            evaluation.is_test_job and evaluation.status in OCCUPYING_STATUSES and call.belongs_to(evaluation, who)
        ):
            continue
        if await call.services.tests.changed_since(evaluation.started_at or 0):
            await stop_evaluation(
                call, evaluation.id, "files have changed since the run started, and its caller started a new run"
            )


def _not_started_answer(call: Call, job: Evaluation) -> Answer:
    """Cancel a queued run, and return an answer explaining why it could not start in time."""
    notes = describe_queue(call, job)
    call.dispatch(CancelQueued(job.id, "the run's caller stopped waiting"))
    fields = {"reason": "busy", "message": f"the tests did not start: {'; '.join(notes)}", "hint": QUEUED_RUN_HINT}
    return Answer(fields, ok=False)


def last_failed_tests(call: Call) -> tuple[tuple[str, ...], Path]:
    """Return the ids of the tests that failed in the last run, and the directory that the ids are relative to.

    Raises:
        RefusedError: no run is known, or no test failed.
    """
    last = last_report(call)
    if last is not None:
        stopped = last.report.interruption
        names = [failure.nodeid for failure in last.report.failures] + (
            [stopped.nodeid] if stopped and stopped.nodeid else []
        )
        if names:
            return tuple(dict.fromkeys(names)), last.job.spec.directory
    raise refused("no-tests", "no test failed in the last run", hint="Run the tests without failed.")


def last_report(call: Call) -> JobReport | None:
    """Return the report of the last finished run with results, or None."""
    return next(
        (job_report for _, job_report in call.services.tests.finished_runs() if job_report.report.results), None
    )
