"""Run Python tests as jobs in processes of their own, and describe the results."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core import evaluation_queue
from codriver.core.actions import CancelQueued, StartJob
from codriver.core.evaluations import OCCUPYING_STATUSES
from codriver.core.requests import MAIN_SESSION, Request
from codriver.errors import refused, truncate
from codriver.repls.contract.stack_trace_values import StackFrame, StackTrace
from codriver.systems.programs import quote_command_line
from codriver.testing.runs import NO_TESTS_STATUS, RunSpec
from codriver.testing.test_jobs import FUNCTIONS_RECORDER, TestJob
from codriver.tools.acts.edit_verdict import test_files
from codriver.tools.acts.failure_frames import display_path, frame_location, is_in_project
from codriver.tools.acts.failure_groups import failure_groups
from codriver.tools.acts.failure_sources import MAX_DETAILED_ERRORS, failed_line, failure_frames, failure_sources
from codriver.tools.acts.submission import check_limits
from codriver.tools.acts.test_arguments import pytest_arguments, run_directory, selected_paths, unittest_arguments
from codriver.tools.acts.test_frames import FRAMES_HINT, no_frames_reason
from codriver.tools.acts.test_starts import repeat_command
from codriver.tools.acts.unfinished_tests import find_unfinished_tests, stopped_run_fields
from codriver.tools.answers.answer_budget import cut_to_tail, default_budget, fit_rows, json_size, leading_rows
from codriver.tools.answers.answer_notes import with_notes
from codriver.tools.answers.lean_answers import wants_detail
from codriver.tools.answers.new_output import Delivery
from codriver.tools.calls.answer import Answer
from codriver.tools.calls.evaluation_waits import describe_queue, find_evaluation, stop_evaluation, wait_for_evaluation
from codriver.tools.calls.hooks import complete_answer
from codriver.wire.untrusted import int_or_none, mappings_or_empty

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.core.evaluations import Evaluation
    from codriver.testing.runs import (
        FailureFrame,
        Interruption,
        LinkedError,
        RunError,
        Runner,
        TestFailure,
        TestFinished,
    )
    from codriver.testing.test_jobs import JobReport
    from codriver.tools.acts.failure_groups import FailureGroup
    from codriver.tools.acts.failure_sources import FailureSource
    from codriver.tools.acts.test_arguments import TestArguments
    from codriver.tools.acts.test_environments import TestEnvironment
    from codriver.tools.answers.lean_answers import Evaluating
    from codriver.tools.calls.call import Call

MAX_FAILURES: Final = 15
"""Maximum number of failures in an answer. The others are counted."""
MAX_MESSAGE_CHARACTERS: Final = 500
"""Maximum number of characters in the first failure's message."""
MAX_LATER_MESSAGE_CHARACTERS: Final = 250
"""Maximum number of characters in the messages of later failures."""
MAX_SHORT_MESSAGE_CHARACTERS: Final = 100
"""Maximum number of characters in the messages of a briefly described failure and its causes."""
MAX_OUTPUT_CHARACTERS: Final = 300
"""Maximum number of characters of a failed test's output."""
MAX_DETAILS_CHARACTERS: Final = 4000
"""Maximum number of characters of a failure as pytest prints it, in a report."""
STRING_ASSERTION_PATTERN: Final = re.compile(
    r"assert (?P<quote>['\"])(?:(?!\.\.\.).)*(?P=quote) == ['\"](?:(?!\.\.\.).)*['\"]$"
)
"""Matches an assertion that compares two strings, neither of which is shortened."""
COMPARISON_PREFIXES: Final = ("", "  ", "  - ", "  + ", "  ? ")
"""Prefixes of the lines in which pytest compares two strings."""
UNITTEST_STRINGS_PATTERN: Final = re.compile(
    r"(?:AssertionError: )?(?P<quote>['\"])(?:(?!\[\d+ chars\]).)*(?P=quote) != ['\"](?:(?!\[\d+ chars\]).)*['\"]$"
)
"""Matches the unittest message that compares two strings, neither of which is shortened."""
UNITTEST_PREFIXES: Final = ("", "- ", "+ ", "? ")
"""Prefixes of the lines in which unittest compares two strings."""
WHERE_PREFIX: Final = "\n +  where "
"""Start of pytest's explanation of calls in an assertion message. The explanation makes the statement redundant."""
FUNCTION_OBJECT_PATTERN: Final = re.compile(
    r" \+ +where (?P<object><(?:function|bound method|built-in \w+) .+>) = (?P<name>\S.*)$"
)
"""Matches the line in pytest's message that explains which function object an earlier line means."""
MAX_FRAMES: Final = 5
"""Maximum number of frames that an answer has for a failure or interruption."""
CORRECT_NAME_HINT: Final = "Correct the name of the test, or name its file."
UNKNOWN_OPTION_HINT: Final = (
    "Correct args. If addopts of the project's settings has them, install the plugin that defines them, or pass "
    'args: ["-o", "addopts="].'
)
OPTION_PLUGINS: Final = MappingProxyType(
    {
        "--count": "pytest-repeat",
        "--cov": "pytest-cov",
        "--reruns": "pytest-rerunfailures",
        "--timeout": "pytest-timeout",
        "-n": "pytest-xdist",
    }
)
"""Plugins that define options which are often used, by the start of the option."""
MAX_LOCALS: Final = 3
"""Maximum number of local variables that an answer has for a failure."""
MAX_LOCAL_CHARACTERS: Final = 120
"""Maximum number of characters in a variable's value."""
MAX_REPEATED_LOCAL_CHARACTERS: Final = 40
"""Maximum number of characters in a variable's value that is displayed even if the message contains it."""
CLASS_ONLY_PATTERN: Final = re.compile(r"<[\w.<>]+>")
"""Matches a printed value that reveals only its class."""
MAX_NAMED_FILES: Final = 5
"""Maximum number of changed files that an answer names."""
DJANGO_SCRIPT: Final = "manage.py"
"""Name of the script with which a Django project runs its tests."""
DEBUGGER_OPTION: Final = "--pdb"
"""The pytest option that starts a debugger when a test fails."""
ALWAYS_COUNTED: Final = ("passed", "failed")
"""Counts that an answer includes even if they are zero."""
COUNT_FIELDS: Final = (
    "passed",
    "failed",
    "errors",
    "skipped",
    "xfailed",
    "xpassed",
    "deselected",
    "collected",
    "warnings",
)
"""Fields for counts in an answer, in order. Zeros are omitted, except for passed and failed."""
OUTCOME_COUNT_FIELDS: Final = ("passed", "failed", "errors", "skipped", "xfailed", "xpassed", "deselected")
"""Counts that add up to the number of collected tests if all of them ran."""
FAILED_STATUS: Final = 1
"""pytest's exit status for a run with failed tests."""
SILENT_OPTIONS: Final = frozenset({
    "-x", "--exitfirst", "--maxfail", "-k", "-m", "--lf", "--last-failed", "--ff", "--failed-first", "--nf",
    "--new-first", "--sw", "--stepwise", "--stepwise-skip", "--deselect", "--ignore", "--ignore-glob", "-p", "-n",
    "--numprocesses", "--dist", "-q", "--quiet", "--no-cov", "--strict-markers", "--runxfail", "--pyargs", "--rootdir",
    "--confcutdir", "--import-mode", "-c", "--count", "--reruns", "--timeout", "-o", "--override-ini", "--junitxml",
    "--pdb",
})  # fmt: skip
"""pytest options that do not request output on the terminal."""
STOP_TIMEOUT_S: Final = 8.0
"""Maximum time, in seconds, for a run to stop after its limit: 5 s for its fixtures and some spare time."""
STILL_RUNNING_HINT: Final = "still running: get_evaluation waits for it, interrupt_evaluation stops it"
"""Hint about a run that continues after its call."""
FAILED_HINT: Final = 'status with about: "error" has all frames'
QUEUED_RUN_HINT: Final = (
    "A workspace runs one set of tests at a time. Wait for that run, or stop it with interrupt_evaluation."
)
"""Hint about a run that is waiting for another one."""


async def run_python_tests(
    call: Call, arguments: TestArguments, who: str, environment: TestEnvironment, failed: Sequence[str] = ()
) -> Answer:
    """Run Python tests in a separate process, wait for them, and describe the results.

    If `failed` has test ids, only these tests run.
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
        return TestJob(
            spec=spec,
            without_pytest=replace(spec, runner=runner, arguments=tuple(unittest_arguments(spec.arguments, runner))),
            limit_s=None if limit_ms is None else limit_ms / 1000,
            is_plain=arguments.fresh,
            session_key=environment.session_key,
            paths=None if arguments.args else tuple(selected_paths(arguments, workspace, directory) or failed),
            variables=arguments.env,
            is_complete=not (spec.arguments or arguments.failed),
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
                call, evaluation.id, "files changed since it started, and its caller started a new run"
            )


def _not_started_answer(call: Call, job: Evaluation) -> Answer:
    """Cancel a queued run, and return an answer explaining why it could not start in time."""
    notes = describe_queue(call, job)
    call.dispatch(CancelQueued(job.id, "its caller stopped waiting"))
    fields = {"reason": "busy", "message": f"the tests did not start: {'; '.join(notes)}", "hint": QUEUED_RUN_HINT}
    return Answer(fields, ok=False)


async def describe_job(call: Call, job: Evaluation, arguments: Evaluating, *, whole: bool = False) -> Answer:
    """Return the answer about a queued, running or finished test job.

    With `whole`, the answer includes the result of every test.
    """
    job_report = call.services.tests.report(job.id)
    if job.status == "queued":
        return Answer({"evaluationId": job.id, "status": job.status, "notes": describe_queue(call, job)})
    if job_report is None:
        if job.is_finished and job.failure is None:
            return Answer({"evaluationId": job.id, "status": job.status, "notes": [*job.notes, "its report is gone"]})
        return _refused_answer(job) if job.is_finished else Answer({"evaluationId": job.id, "status": job.status})
    sources: Mapping[str, FailureSource] = {}
    if not whole:
        groups = failure_groups(job_report.report.failures, call.services.workspace)
        sources = await failure_sources(call, job_report, groups)
    fields = report_fields(call, job_report, whole=whole, sources=sources)
    is_detailed = whole or wants_detail(call, arguments)
    if is_detailed:
        fields["elapsedMs"] = max(0, (job.finished_at or call.services.now()) - (job.started_at or 0))
    if not job.is_finished:
        about = {"evaluationId": job.id, "status": job.status, "notes": [STILL_RUNNING_HINT]}
        printed = _output_field(call, job, Delivery(call, None, arguments), whole=True) if whole else {}
        return Answer({**about, **fields, **_progress_fields(job_report), **printed})
    delivery = Delivery(call, call.services.transcripts.get(job.id), arguments)
    if whole or _shows_output(job_report):
        fields |= _output_field(call, job, delivery, whole=whole)
    if job_report.changed_files:
        fields["changedDuring"] = list(job_report.changed_files[:MAX_NAMED_FILES])
    found = call.services.ledger.tests.pop_differences(call.who(arguments.who), job.id)
    fields = with_notes(fields, [*job.notes, *found, *_debugging_hints(call, job, job_report)])
    seed = job_report.report.finished.hash_seed if job_report.report.finished is not None else None
    if is_detailed or (seed is not None and job_report.report.failures):
        fields |= {"hashSeed": seed} if seed is not None else {}
        fields["repeat"] = repeat_command(job_report, call.services.workspace)
    if is_detailed:
        fields |= {"evaluationId": job.id, "status": job.status, "exitStatus": job_report.report.exit_status}
        fields |= {"sessionKey": job_report.job.session_key} if job_report.job.session_key else {}
    if job.status == "done":
        return await complete_answer(call, Answer(fields, handed_out=delivery.on_sent), job.id)
    fields = _omit_usual_fields(
        {"evaluationId": job.id, **_failure_fields(call, job, job_report), **fields}, is_whole=is_detailed
    )
    return await complete_answer(call, Answer(fields, ok=False, handed_out=delivery.on_sent), job.id)


def _omit_usual_fields(fields: Mapping[str, object], *, is_whole: bool) -> dict[str, object]:
    """Omit fields whose values are the same for nearly every failed run, unless `is_whole` is true."""
    left = dict(fields)
    if is_whole:
        return left
    if left.get("reason") == "tests-failed" and left.get("exitStatus") == FAILED_STATUS:
        del left["exitStatus"]
    if left.get("collected") == sum(int_or_none(left.get(key)) or 0 for key in OUTCOME_COUNT_FIELDS):
        del left["collected"]
    if rows := mappings_or_empty(left.get("results")):
        left["results"] = [
            {key: value for key, value in row.items() if (key, value) != ("outcome", "failed")} for row in rows
        ]
    return left


def _debugging_hints(call: Call, job: Evaluation, job_report: JobReport) -> list[str]:
    """Explain how to evaluate code in the frames of a failure, if the run was started with `--pdb`."""
    if DEBUGGER_OPTION not in job_report.job.spec.arguments or not job_report.report.failures:
        return []
    return [no_frames_reason(call, job.id) or FRAMES_HINT]


def _refused_answer(job: Evaluation) -> Answer:
    """Return the answer about a run that was refused."""
    failure = job.failure
    message = failure.message if failure else "the run was not started"
    return Answer({"evaluationId": job.id, "status": job.status, "reason": "evaluation-failed", "message": message,
                   "hint": "Correct the arguments and call again."}, ok=False)  # fmt: skip


def _progress_fields(job_report: JobReport) -> dict[str, object]:
    """Return answer fields about the progress of an unfinished run."""
    report = job_report.report
    of = report.counts.collected - report.counts.deselected
    fields: dict[str, object] = {"finished": len(report.results)}
    fields |= {"of": of} if of else {}
    fields |= {"running": list(report.running[:MAX_NAMED_FILES])} if report.running else {}
    return fields


def _failure_fields(call: Call, job: Evaluation, job_report: JobReport) -> dict[str, object]:
    """Return answer fields that explain why a run did not pass."""
    report, error = job_report.report, job_report.report.error
    fields: dict[str, object] = {"exitStatus": report.exit_status}
    if job_report.limit_passed:
        fields |= stopped_run_fields(job_report.limit_passed)
    elif job.status == "interrupted":
        fields["reason"] = "interrupted"
    elif error is not None and not report.failures:
        fields |= _error_fields(error, call.services.workspace)
    elif report.exit_status == NO_TESTS_STATUS:
        fields |= {
            "reason": "no-tests",
            "message": _no_tests_message(job_report),
            "hint": "Correct paths, or the options in args.",
        }
    else:
        fields["reason"] = "tests-failed"
        fields |= {"problem": error.message} if error is not None else {}
    if (job.status == "interrupted" or error is not None) and (unfinished := find_unfinished_tests(report)):
        fields |= {"unfinished": len(unfinished), "notFinished": list(test_files(unfinished)[:MAX_NAMED_FILES])}
    if job.status == "interrupted" and report.interruption is not None:
        fields["stoppedIn"] = _interruption_fields(report.interruption, call.services.workspace)
    return {key: value for key, value in fields.items() if value is not None}


def _error_fields(error: RunError, workspace: Path) -> dict[str, object]:
    """Return answer fields that explain why a run could not be completed."""
    if is_usage_error(error):
        message, hint = describe_usage_error(error.message, workspace)
        return {"reason": "bad-arguments", "message": message, "hint": hint}
    reason = "bad-arguments" if error.kind == "usage" else "evaluation-failed"
    if error.kind.startswith(("no-", "old-")):
        reason = "capability-missing"
    hint = error.hint or "See the last lines of stdout."
    return {"reason": reason, "message": error.message, "hint": hint}


def is_usage_error(error: RunError) -> bool:
    """Return whether pytest rejected its arguments."""
    return error.kind == "usage" and error.failure is None


def describe_usage_error(message: str, workspace: Path) -> tuple[str, str]:
    """Return pytest's message about wrong arguments in a short form, and a hint about how to correct them."""
    lines = [line.strip() for line in message.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("usage: ", "inifile: ", "rootdir: ", "(no match"))]
    text = "; ".join(lines).replace(f"{workspace}{os.sep}", "")
    text = text.rpartition(": error: ")[2] or text
    if text.startswith("not found: "):
        file, _, name = text.removeprefix("not found: ").partition("::")
        return f"there is no test {name} in {file}", CORRECT_NAME_HINT
    if "unrecognized arguments" in text:
        return text, _unknown_option_hint(text.partition("unrecognized arguments:")[2].split())
    return text, "Correct paths, or the options in args."


def _unknown_option_hint(options: Sequence[str]) -> str:
    """Explain what to do about options that pytest does not know, and name the plugins that define them."""
    plugins = {
        plugin for start, plugin in OPTION_PLUGINS.items() if any(option.startswith(start) for option in options)
    }
    missing = f"Not installed: {', '.join(sorted(plugins))}. " if plugins else ""
    limit = "To end the whole run after a time, pass limitMs. " if OPTION_PLUGINS["--timeout"] in plugins else ""
    return f"{missing}{limit}{UNKNOWN_OPTION_HINT}"


def _no_tests_message(job_report: JobReport) -> str:
    spec = job_report.job.spec
    where = f" in {quote_command_line(spec.arguments)}" if spec.arguments else ""
    if job_report.report.counts.deselected:
        return f"all {job_report.report.counts.deselected} tests were deselected"
    return f"no test was found{where}"


def _interruption_fields(interruption: Interruption, workspace: Path) -> dict[str, object]:
    """Return answer fields about the test and the frames in which a run was interrupted."""
    frames = [frame_location(frame, workspace) for frame in interruption.frames[:MAX_FRAMES]]
    named = {"test": interruption.nodeid} if interruption.nodeid else {}
    return {**named, **({"frames": frames} if frames else {})}


def report_fields(
    call: Call, job_report: JobReport, *, whole: bool = False, sources: Mapping[str, FailureSource] | None = None
) -> dict[str, object]:
    """Return the counts and failures of a report as answer fields.

    `sources` has the source code to add to the failures, by test. With `whole`, every result is included.
    """
    report, workspace = job_report.report, call.services.workspace
    counts = asdict(report.counts)
    fields: dict[str, object] = {} if job_report.job.spec.runner == "pytest" else {"runner": job_report.job.spec.runner}
    for key in COUNT_FIELDS:
        if counts[key] or key in ALWAYS_COUNTED:
            fields[key] = counts[key]
    if whole:
        fields["results"] = fit_rows(
            [_detailed_row(result, workspace) for result in report.results], default_budget(call)
        )[0]
        return fields
    groups = failure_groups(report.failures, workspace)
    first: list[object] = [
        failure_row(group, workspace, sources, is_first=not index)
        for index, group in enumerate(groups[:MAX_DETAILED_ERRORS])
    ]
    others: list[object] = [_short_row(group, workspace) for group in groups[MAX_DETAILED_ERRORS:MAX_FAILURES]]
    if groups:
        rows, note, _ = fit_rows(first, default_budget(call))
        rows += leading_rows(others, default_budget(call) - json_size(rows))
        fields["results"] = rows
        omitted = sum(1 + len(group.others) for group in groups[len(rows) :])
        fields |= {"omitted": omitted} if omitted else {}
        fields |= {"notes": [note.partition(":")[0]]} if note else {}
    return fields


def failure_row(
    group: FailureGroup,
    workspace: Path,
    sources: Mapping[str, FailureSource] | None = None,
    *,
    is_first: bool = True,
) -> dict[str, object]:
    """Return the answer row of a failed test.

    It has the failure's message, the project's frames with the innermost first, local variables, and source code from
    `sources`. It also names the other tests in the group. Rows after the first have a shorter message, and no variables
    of the test itself.
    """
    test = group.test
    source = (sources or {}).get(test.nodeid)
    failure = test.failure
    row: dict[str, object] = {"test": test.nodeid, "outcome": test.outcome, **_location_fields(test, workspace)}
    row |= group.fields
    if failure is None:
        return row
    if failure.phase not in ("call", "collect"):
        row["in"] = failure.phase
    if failure.part:
        row["subtest"] = failure.part
    row["message"] = truncate(
        _failure_message(failure), MAX_MESSAGE_CHARACTERS if is_first else MAX_LATER_MESSAGE_CHARACTERS
    )
    if source is not None and source.statement and WHERE_PREFIX not in failure.message:
        row["statement"] = source.statement
    project_frames = [frame for frame in failure.frames if is_in_project(frame, workspace)]
    frames = [frame_location(frame, workspace) for frame in project_frames if frame.file != test.file][:MAX_FRAMES]
    displayed_frames = {excerpt.partition("\n")[0] for excerpt in (source.excerpts if source is not None else ())}
    if callers := frames[1:] if displayed_frames.intersection(frames[:1]) else frames:
        row["frames"] = callers
    displayed = (
        _informative_locals(frame, failure) for frame in (*failure_frames(test, workspace)[:1], *project_frames[:1])
    )
    if (is_first or frames) and (found := next(filter(None, displayed), [])):
        row["locals"] = ", ".join(found)
    if source is not None and source.excerpts:
        row["source"] = "\n".join(source.excerpts)
    if source is not None and source.suspects:
        row["suspects"] = source.suspects
    if causes := [_describe_cause(cause, workspace) for cause in failure.chain]:
        row["causes"] = causes
    output = "\n".join(text.strip() for title, text in failure.sections if text.strip() and "log" not in title)
    if output:
        row["output"] = output if len(output) <= MAX_OUTPUT_CHARACTERS else f"…{output[-MAX_OUTPUT_CHARACTERS:]}"
    return row


def _informative_locals(frame: FailureFrame, failure: TestFailure) -> list[str]:
    """Return the first local variables of a frame whose values are worth displaying.

    Values that reveal only their class, and long values that the message contains, are left out.
    """
    known = f"{failure.message}{''.join(text for _, text in failure.sections)}"
    return [
        f"{name}={truncate(text, MAX_LOCAL_CHARACTERS)}"
        for name, text in frame.locals.items()
        if CLASS_ONLY_PATTERN.fullmatch(text) is None
        and (len(text) <= MAX_REPEATED_LOCAL_CHARACTERS or text not in known)
    ][:MAX_LOCALS]


def _describe_cause(error: LinkedError, workspace: Path) -> str:
    """Describe an error that led to a failure in one line, with its location in the project."""
    line = truncate(f"{error.type}: {error.message}", MAX_SHORT_MESSAGE_CHARACTERS)
    frame = next((candidate for candidate in error.frames if is_in_project(candidate, workspace)), None)
    return line if frame is None else f"{line} ({frame_location(frame, workspace)})"


def _short_row(group: FailureGroup, workspace: Path) -> dict[str, object]:
    """Return the answer row of a failed test with only the beginning of the failure's message."""
    test = group.test
    row = {"test": test.nodeid, "outcome": test.outcome, **_location_fields(test, workspace), **group.fields}
    if test.failure is not None:
        row["message"] = truncate(_failure_message(test.failure).partition("\n")[0], MAX_SHORT_MESSAGE_CHARACTERS)
    return row


def _failure_message(failure: TestFailure) -> str:
    """Return the class and the message of a failure.

    The lines that compare two strings are left out if the first line contains both strings in full.
    """
    message = _without_function_objects(failure.message)
    first, _, rest = message.partition("\n")
    lines = rest.splitlines()
    is_known = STRING_ASSERTION_PATTERN.search(first) and all(line[:4] in COMPARISON_PREFIXES for line in lines)
    if is_known or (UNITTEST_STRINGS_PATTERN.match(first) and all(line[:2] in UNITTEST_PREFIXES for line in lines)):
        message = first
    return message if not failure.type or message.startswith(failure.type) else f"{failure.type}: {message}"


def _without_function_objects(message: str) -> str:
    """Replace function objects in an assertion's message with the names used in the test.

    pytest explains each function object on a separate line, such as `where <function f at 0x7f0a> = shop.f`. These
    lines are removed.
    """
    lines: list[str] = []
    for line in message.split("\n"):
        found = FUNCTION_OBJECT_PATTERN.match(line)
        if found is not None and any(found["object"] in earlier for earlier in lines):
            lines = [earlier.replace(found["object"], found["name"]) for earlier in lines]
        else:
            lines.append(line)
    return "\n".join(lines)


def _detailed_row(test: TestFinished, workspace: Path) -> dict[str, object]:
    """Return the answer row of a test with all details."""
    row: dict[str, object] = {"test": test.nodeid, "outcome": test.outcome, **_location_fields(test, workspace)}
    row["seconds"] = round(test.seconds, 6)
    if test.reason:
        row["reason"] = test.reason
    for failure in test.failures[:1]:
        row["message"] = truncate(_failure_message(failure), MAX_MESSAGE_CHARACTERS)
        row["text"] = truncate(failure.text or failure.message, MAX_DETAILS_CHARACTERS)
    return row


def _location_fields(test: TestFinished, workspace: Path) -> dict[str, object]:
    """Return answer fields for the line at which a test failed, or else for the line of its definition.

    The file is included if the test's id does not contain it.
    """
    failed_at = failed_line(test)
    line = test.line if failed_at is None else failed_at
    file = display_path(test.file, workspace) if test.file else ""
    location: dict[str, object] = {} if not file or test.nodeid.startswith(file) else {"file": file}
    return location | ({"line": line} if line is not None else {})


def _shows_output(job_report: JobReport) -> bool:
    """Return whether the answer should include the terminal output of a run.

    It should if a pytest option produces output, or if only the output explains what happened.
    """
    report = job_report.report
    if report.error is not None and is_usage_error(report.error):
        return False
    if not report.results or (report.error is not None and not report.failures):
        return True
    options = [argument.partition("=")[0] for argument in job_report.job.spec.arguments if argument.startswith("-")]
    return any(option not in SILENT_OPTIONS and option[:2] not in ("-k", "-m", "-n", "-p", "-o") for option in options)


def _output_field(call: Call, job: Evaluation, delivery: Delivery, *, whole: bool) -> dict[str, object]:
    """Return the end of a run's terminal output as an answer field."""
    transcript = call.services.transcripts.get(job.id)
    if transcript is None:
        return {}
    most = default_budget(call) if whole else default_budget(call) // 2
    text = cut_to_tail(transcript.out.last(most).text, most).text
    delivery.record_delivered("stdout", transcript.out.total)
    return {"stdout": text} if text else {}


def first_failure_trace(call: Call, job: str) -> StackTrace | None:
    """Return the stack trace of the first failure of a run, or None if no test failed.

    If the process of a failed test is retained for evaluating code in its frames, the failure of that test is returned
    instead, with numbered frames.
    """
    job_report, process = call.services.tests.report(job), call.services.tests.failure.process_of_run(job)
    failures = (
        [test for test in job_report.report.failures if test.failure is not None] if job_report is not None else []
    )
    found = next((test for test in failures if process is not None and test.nodeid == process.nodeid), None)
    found = found or next(iter(failures), None)
    if found is None or found.failure is None:
        return None
    failure, workspace = found.failure, call.services.workspace
    chain = [StackTrace(cause.type, cause.message, _stack_frames(cause.frames, workspace), relation=cause.relation)
             for cause in failure.chain]  # fmt: skip
    frames = _stack_frames(failure.frames, workspace)
    if process is not None and process.nodeid == found.nodeid:
        frames = _number_frames(frames, len(frames) - len(process.frames))
    return StackTrace(
        failure.type or found.outcome, failure.message, frames, f"test {found.nodeid}", chain=tuple(chain)
    )


def _number_frames(frames: Sequence[StackFrame], start: int) -> tuple[StackFrame, ...]:
    """Number frames from 0, starting at the index `start`.

    The entries before it, such as the location of a syntax error, are not frames.
    """
    return tuple(replace(frame, number=at - start if at >= start else None) for at, frame in enumerate(frames))


def _stack_frames(frames: Sequence[FailureFrame], workspace: Path) -> tuple[StackFrame, ...]:
    """Convert the frames of a failure to frames of a stack trace."""
    return tuple(
        StackFrame(
            f"{frame.function} ({frame.file}:{frame.line})", frame.file, frame.line, frame.function,
            tooling=not is_in_project(frame, workspace), locals=frame.locals,
        )
        for frame in frames
    )  # fmt: skip


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
