"""Describe Python test runs as answers: their progress, counts, failures and output."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from codriver.errors import join_first
from codriver.systems.programs import quote_command_line
from codriver.testing.runs import NO_TESTS_STATUS
from codriver.tools.answers.answer_budget import cut_to_tail, default_budget, fit_rows, json_size, leading_rows
from codriver.tools.answers.answer_notes import with_notes
from codriver.tools.answers.lean_answers import wants_detail
from codriver.tools.answers.new_output import Delivery
from codriver.tools.calls.answer import Answer
from codriver.tools.calls.evaluation_waits import describe_queue
from codriver.tools.calls.hooks import complete_answer
from codriver.tools.execution.edit_verdict import test_files
from codriver.tools.execution.failed_test_frames import FRAMES_HINT, no_frames_reason
from codriver.tools.execution.failure_frames import display_path, frame_location, is_project_file
from codriver.tools.execution.failure_groups import failure_groups
from codriver.tools.execution.failure_sources import MAX_DETAILED_ERRORS, failure_sources
from codriver.tools.execution.pytest_usage_errors import describe_usage_error, is_usage_error
from codriver.tools.execution.python_failure_rows import (
    MAX_FRAMES,
    MAX_MESSAGE_CHARACTERS,
    MAX_VERBOSE_MESSAGE_CHARACTERS,
    detailed_row,
    failure_rows,
)
from codriver.tools.execution.start_rows import repeat_command
from codriver.tools.execution.unfinished_tests import find_unfinished_tests, stopped_run_fields
from codriver.wire.untrusted import int_or_none, mappings_or_empty

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.core.evaluations import Evaluation
    from codriver.testing.runs import Interruption, RunError, TestReport
    from codriver.testing.test_jobs import JobReport
    from codriver.tools.answers.lean_answers import Evaluating
    from codriver.tools.calls.call import Call
    from codriver.tools.execution.failure_sources import FailureSource

MAX_FAILURES: Final = 8
"""Maximum number of failures in an answer. The others are counted."""
MAX_NAMED_FILES: Final = 5
"""Maximum number of changed files that an answer names."""
MAX_COUNTED_FAILURES: Final = 5
"""Maximum number of tests in repeated runs whose failures are counted."""
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
FULL_DIFFERENCES_PATTERN: Final = re.compile(r"-vv+")
"""Matches pytest options that print differences in full."""
MISSING_MODULE_PATTERN: Final = re.compile(r"No module named '(?P<name>\w+)")
"""Matches Python's message about a module that was not found. Source: CPython's `Lib/importlib/_bootstrap.py`."""
STILL_RUNNING_HINT: Final = "the run continues. get_evaluation waits for it, and interrupt_evaluation stops it"
"""Hint about a test run that continues after its call."""


async def describe_job(call: Call, job: Evaluation, arguments: Evaluating, *, whole: bool = False) -> Answer:
    """Return the answer about a queued, running or finished test job.

    With `whole`, the answer includes the result of every test.
    """
    job_report = call.services.tests.report(job.id)
    if job.status == "queued":
        return Answer({"evaluationId": job.id, "status": job.status, "notes": describe_queue(call, job)})
    if job_report is None:
        if job.is_finished and job.failure is None:
            return Answer(
                {
                    "evaluationId": job.id,
                    "status": job.status,
                    "notes": [*job.notes, "the report of this run is no longer stored"],
                }
            )
        return _refused_answer(job) if job.is_finished else Answer({"evaluationId": job.id, "status": job.status})
    sources: Mapping[str, FailureSource] = {}
    if not whole:
        groups = failure_groups(job_report.report.failures, call.services.workspace)
        sources = await failure_sources(call, job_report, groups)
    fields = _repetition_fields(job_report) | report_fields(call, job_report, whole=whole, sources=sources)
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
    hints = [*_unawaited_notes(call, job_report), *_debugging_hints(call, job, job_report)]
    fields = with_notes(fields, [*job.notes, *found, *hints])
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


def _repetition_fields(job_report: JobReport) -> dict[str, object]:
    """Return the fields of an answer about how many runs of a repeated job failed, and how often each test failed."""
    repetitions = job_report.repetitions
    if job_report.job.repeat == 1:
        return {}
    most_frequent = sorted(repetitions.failures.items(), key=lambda failure: -failure[1])[:MAX_COUNTED_FAILURES]
    named = {"failures": dict(most_frequent)} if most_frequent else {}
    return {
        "runs": {"finished": repetitions.finished, "of": job_report.job.repeat, "failed": repetitions.failed, **named}
    }


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


def _unawaited_notes(call: Call, job_report: JobReport) -> list[str]:
    """Return notes about coroutines that the project never awaited in a failed run. They may have caused failures."""
    finished, workspace = job_report.report.finished, call.services.workspace
    if finished is None or job_report.report.passed:
        return []
    return [
        call.services.log.redact(f"{display_path(unawaited.file, workspace)}:{unawaited.line}: {unawaited.message}")
        for unawaited in finished.unawaited
        if is_project_file(unawaited.file, workspace)
    ]


def _debugging_hints(call: Call, job: Evaluation, job_report: JobReport) -> list[str]:
    """Explain how to evaluate code in the frames of a failure if the run was started with `--pdb`."""
    if DEBUGGER_OPTION not in job_report.job.spec.arguments or not job_report.report.failures:
        return []
    return [no_frames_reason(call, job.id) or FRAMES_HINT]


def _refused_answer(job: Evaluation) -> Answer:
    """Return the answer about a run that was refused."""
    failure = job.failure
    message = failure.message if failure else "the test run was not started"
    return Answer({"evaluationId": job.id, "status": job.status, "reason": "evaluation-failed", "message": message,
                   "hint": "Correct the arguments and call again."}, ok=False)  # fmt: skip


def _progress_fields(job_report: JobReport) -> dict[str, object]:
    """Return the fields of an answer about the progress of an unfinished run."""
    report = job_report.report
    of = report.counts.collected - report.counts.deselected
    fields: dict[str, object] = {"finished": len(report.results)}
    fields |= {"of": of} if of else {}
    fields |= {"running": list(report.running[:MAX_NAMED_FILES])} if report.running else {}
    return fields


def _failure_fields(call: Call, job: Evaluation, job_report: JobReport) -> dict[str, object]:
    """Return the fields of an answer that explain why a run did not pass."""
    report, error = job_report.report, job_report.report.error
    fields: dict[str, object] = {"exitStatus": report.exit_status}
    if job_report.limit_passed:
        fields |= stopped_run_fields(job_report.limit_passed, is_longest=job_report.is_longest_limit)
    elif job.status == "interrupted":
        fields["reason"] = "interrupted"
    elif error is not None and not report.failures:
        fields |= _error_fields(error, call.services.workspace) | _death_fields(report, "message")
    elif report.exit_status == NO_TESTS_STATUS:
        fields |= {
            "reason": "no-tests",
            "message": _no_tests_message(job_report),
            "hint": "Correct paths, or the options in args.",
        }
    else:
        fields["reason"] = "tests-failed"
        if error is not None:
            fields |= {"problem": error.message} | _death_fields(report, "problem")
        elif report.interruption is not None and report.interruption.reason:
            fields["problem"] = f"pytest.exit ended the run: {report.interruption.reason}"
    if (job.status == "interrupted" or error is not None) and (unfinished := find_unfinished_tests(report)):
        fields |= {"unfinished": len(unfinished), "notFinished": list(test_files(unfinished)[:MAX_NAMED_FILES])}
    if job.status == "interrupted" and report.interruption is not None:
        fields["stoppedIn"] = _interruption_fields(report.interruption, call.services.workspace)
    return {key: value for key, value in fields.items() if value is not None}


def _error_fields(error: RunError, workspace: Path) -> dict[str, object]:
    """Return the fields of an answer that explain why a run could not be completed."""
    if is_usage_error(error):
        message, hint = describe_usage_error(error.message, workspace)
        return {"reason": "bad-arguments", "message": message, "hint": hint}
    reason = "bad-arguments" if error.kind == "usage" else "evaluation-failed"
    if error.kind.startswith(("no-", "old-")):
        reason = "capability-missing"
    hint = error.hint or _missing_source_hint(error.message, workspace) or "See the last lines of stdout."
    return {"reason": reason, "message": error.message, "hint": hint}


def _death_fields(report: TestReport, key: str) -> dict[str, object]:
    """Return the field `key`, which names the test that was running when the process ended, if one was."""
    if report.error is None or report.error.kind != "died" or not report.running:
        return {}
    return {key: f"{report.error.message}, while {join_first(report.running, MAX_NAMED_FILES)} was running"}


def _missing_source_hint(message: str, workspace: Path) -> str:
    """Return a hint if a module was not found that is in the directory `src`, where only the REPL finds it."""
    found = MISSING_MODULE_PATTERN.search(message)
    if found is None or not any((workspace / "src" / f"{found['name']}{end}").exists() for end in ("", ".py")):
        return ""
    return (
        f"Only the REPL imports from src. Install the project, set pytest's pythonpath, or pass "
        f'env: {{"PYTHONPATH": "{workspace / "src"}"}}.'
    )


def _no_tests_message(job_report: JobReport) -> str:
    spec = job_report.job.spec
    where = f" in {quote_command_line(spec.arguments)}" if spec.arguments else ""
    if job_report.report.counts.deselected:
        return f"all {job_report.report.counts.deselected} tests were deselected"
    if spec.runner != "pytest":
        runner = "unittest" if spec.runner == "unittest" else "manage.py test"
        install = quote_command_line([spec.python, "-m", "pip", "install", "pytest"])
        why = f"{runner} ran the tests, because pytest is not installed. For tests written for pytest, run `{install}`"
        return f"no test was found{where}: {why}"
    return f"no test was found{where}"


def _interruption_fields(interruption: Interruption, workspace: Path) -> dict[str, object]:
    """Return the fields of an answer about the test and the frames in which a run was interrupted."""
    frames = [frame_location(frame, workspace) for frame in interruption.frames[:MAX_FRAMES]]
    named = {"test": interruption.nodeid} if interruption.nodeid else {}
    return {**named, **({"frames": frames} if frames else {})}


def report_fields(
    call: Call, job_report: JobReport, *, whole: bool = False, sources: Mapping[str, FailureSource] | None = None
) -> dict[str, object]:
    """Return the counts and failures of a report as fields of an answer.

    `sources` contains the source code to add to the failures, by test. With `whole`, every result is included.
    """
    report, workspace = job_report.report, call.services.workspace
    counts = asdict(report.counts)
    fields: dict[str, object] = {} if job_report.job.spec.runner == "pytest" else {"runner": job_report.job.spec.runner}
    for key in COUNT_FIELDS:
        if counts[key] or key in ALWAYS_COUNTED:
            fields[key] = counts[key]
    if whole:
        fields["results"] = fit_rows(
            [detailed_row(result, workspace) for result in report.results], default_budget(call)
        )[0]
        return fields
    groups = failure_groups(report.failures, workspace)
    is_verbose = any(FULL_DIFFERENCES_PATTERN.fullmatch(option) for option in job_report.job.spec.arguments)
    most = MAX_VERBOSE_MESSAGE_CHARACTERS if is_verbose else MAX_MESSAGE_CHARACTERS
    described = failure_rows(groups[:MAX_FAILURES], workspace, sources, message_characters=most)
    if groups:
        rows, note, _ = fit_rows(described[:MAX_DETAILED_ERRORS], default_budget(call))
        rows += leading_rows(described[MAX_DETAILED_ERRORS:], default_budget(call) - json_size(rows))
        fields["results"] = rows
        omitted = sum(1 + len(group.others) for group in groups[len(rows) :])
        fields |= {"omitted": omitted} if omitted else {}
        fields |= {"notes": [note.partition(":")[0]]} if note else {}
    return fields


def _shows_output(job_report: JobReport) -> bool:
    """Return whether the answer should include the terminal output of a run.

    It should if a pytest option produces output, or if only the output explains what happened. If tests failed, the
    answer contains the differences that `-vv` prints, and the output would repeat them.
    """
    report = job_report.report
    if report.error is not None and is_usage_error(report.error):
        return False
    if not report.results or (report.error is not None and not report.failures):
        return True
    options = [argument.partition("=")[0] for argument in job_report.job.spec.arguments if argument.startswith("-")]
    if report.failures:
        options = [option for option in options if not FULL_DIFFERENCES_PATTERN.fullmatch(option)]
    return any(option not in SILENT_OPTIONS and option[:2] not in ("-k", "-m", "-n", "-p", "-o") for option in options)


def _output_field(call: Call, job: Evaluation, delivery: Delivery, *, whole: bool) -> dict[str, object]:
    """Return the end of a run's terminal output as a field of an answer."""
    transcript = call.services.transcripts.get(job.id)
    if transcript is None:
        return {}
    most = default_budget(call) if whole else default_budget(call) // 2
    text = cut_to_tail(transcript.out.last(most).text, most).text
    delivery.record_delivered("stdout", transcript.out.total)
    return {"stdout": text} if text else {}
