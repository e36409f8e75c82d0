"""Run Python tests in separate processes and tests of other languages in their REPL, and describe the results.

A run in a REPL is an evaluation. Its value is the report, which becomes the fields of an answer.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core import evaluation_queue
from codriver.core.profiles import PYTHON
from codriver.core.requests import Request, TestSelection
from codriver.editing.editable_paths import PYTHON_SUFFIXES
from codriver.errors import CodriverError, RefusedError, refused, truncate
from codriver.log.evaluation_transcripts import read_transcripts
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.test_reports import encode_report
from codriver.repls.contract.test_run_values import UNKNOWN_TEST_NAME
from codriver.repls.launch.recipes import acceptance_instruction
from codriver.repls.nrepl.test_runner import find_test_namespaces
from codriver.testing.test_paths import find_python_test_file
from codriver.tools.answers.answer_budget import cut_to_tail, default_budget, fit_rows, json_bytes
from codriver.tools.answers.answer_notes import with_notes, with_outside_packages_note
from codriver.tools.answers.drift_notes import outdated_test_notes
from codriver.tools.answers.evaluation_answers import describe_evaluation, second_failure_hint
from codriver.tools.answers.lean_answers import (
    Evaluating,
    make_reader,
    omit_known_fields,
    wants_detail,
    without_codriver_traceback,
    without_interruption,
)
from codriver.tools.answers.lean_runs import lean_run_fields
from codriver.tools.answers.new_output import Delivery
from codriver.tools.calls.answer import Answer
from codriver.tools.calls.evaluation_waits import find_evaluation, stop_evaluation, wait_for_evaluation
from codriver.tools.calls.hooks import complete_answer, notify_of_failures, request_extensions
from codriver.tools.calls.session_choice import caller_lane, check_working_tree, choose_session
from codriver.tools.execution.lisp_failure_sources import find_failure_source
from codriver.tools.execution.python_test_reports import describe_job
from codriver.tools.execution.python_tests import last_failed_tests, run_python_tests
from codriver.tools.execution.submission import submit
from codriver.tools.execution.test_environments import TestEnvironment, project_environment, session_environment
from codriver.tools.execution.unfinished_tests import interrupted_run_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl
    from codriver.tools.calls.arguments import Json
    from codriver.tools.calls.call import Call
    from codriver.tools.calls.session_choice import Target
    from codriver.tools.execution.test_arguments import TestArguments

    Run = tuple[Evaluation, Json]


ALL_TESTS_LABEL = str(TestSelection())
"""Description of the selection for a run of all tests."""
MAX_STACKS_BYTES = 2000
"""Maximum size of the stack dumps in the answer about a stopped run, in bytes."""
HINTS_BY_REASON = {
    "bad-arguments": 'Combine parts of test names with "and", "or" and "not", as in "parser and not slow".',
    "unknown-namespace": "Load the namespace's file with load_file, or correct the name.",
    "capability-missing": "Omit the arguments that this REPL does not support, and call again.",
    "evaluation-failed": "Correct the arguments and call again.",
    "repl-disconnected": "See list_sessions. Tests are never repeated automatically.",
}
"""Hints about runs whose tests could not run, by the reason."""

FAILED_HINT = 'Errors and failures come first in results. status with about: "error" has all frames.'

LOAD_HINT = "Load the test file with load_file first."
PYTHON_HINT = "Pass the project's test files as paths, such as tests/test_shop.py."
HY_HINT = "Pass the test file in paths, such as tests/test_core.hy. Hy runs files that are named or loaded."


def _no_tests_error(selection: str, output: str, repl: Repl | None, hint: str) -> RefusedError:
    """Create the error for a run that found no tests."""
    everywhere, _, match = selection.partition(" matching ")
    where = "" if everywhere == ALL_TESTS_LABEL else f" in {everywhere}"
    if not where and not match and (repl is None or repl.dialect != PYTHON):
        where = " in the loaded namespaces"
    return refused(
        "no-tests",
        f"there are no tests{where}{f' that match {match}' if match else ''}",
        hint=("Correct or omit match, which selects tests by name. " if match else "") + hint,
        details={"stdout": output} if output else None,
    )


async def _test_names_hint(call: Call, repl: Repl | None) -> str:
    """Return a hint about how to name tests that a REPL can run."""
    if repl is None or repl.dialect != PYTHON:
        return HY_HINT if repl is not None and repl.dialect == "hy" else LOAD_HINT
    if await call.services.work.files.run(call.client, call.services.may_run_files):
        return PYTHON_HINT
    return (
        f"{PYTHON_HINT} Codriver runs no program of a workspace that is not accepted, so {repl.key} started pytest, "
        f"without its options and reports. For those, {acceptance_instruction(call.services.workspace)}"
    )


async def run_tests(call: Call, arguments: TestArguments, only: tuple[tuple[str, str], ...] = ()) -> Answer:
    """Run Python tests in a separate process, or tests of other languages in their REPL.

    `only` contains namespaces and names of tests. If it is not empty, a run in a REPL is limited to them.
    """
    who = call.who(arguments.who)
    where = await choose_test_location(call, arguments, who)
    if isinstance(where, TestEnvironment):
        if not arguments.failed:
            return with_comparison(call, await run_python_tests(call, arguments, who, where))
        failed, directory = last_failed_tests(call)
        at = where if arguments.directory is not None else replace(where, directory=directory)
        return with_comparison(call, await run_python_tests(call, arguments, who, at, failed))
    if arguments.args or arguments.env or arguments.directory is not None or arguments.repeat > 1:
        raise refused(
            "bad-arguments",
            f"{where.repl.key} runs tests itself and does not accept args, env, directory or repeat",
            hint=await _test_names_hint(call, where.repl)
            if where.repl.dialect == PYTHON
            else "Pass only paths (namespaces or files) or match.",
        )
    if arguments.fresh and where.repl.dialect != PYTHON:
        raise CapabilityMissingError("test", message="only Python tests can be run in a new process")
    paths = arguments.all_paths
    if len(paths) <= 1:
        return await _run_in_repl(call, arguments, where, who, paths[0] if paths else None, only)
    answers = []
    for path in paths:
        answers.append(await _run_in_repl(call, arguments, where, who, path))
        if answers[-1].fields.get("status") == "running":
            break
    return merge_answers(answers)


def with_comparison(call: Call, answer: Answer) -> Answer:
    """Return the answer with a hook that compares failed tests with a run in which they passed, once it is sent."""
    job = answer.fields.get("evaluationId")
    if not job or answer.ok:
        return answer
    return replace(answer, handed_out=partial(notify_of_failures, call, str(job), answer.handed_out))


async def choose_test_location(call: Call, arguments: TestArguments, who: str) -> TestEnvironment | Target:
    """Return the environment of a new process for the tests, or the session that runs them.

    Raises:
        RefusedError: no session can be chosen, or the project's environment must not be used.
    """
    key = arguments.repl_session_key
    file = (arguments.all_paths[0] if arguments.all_paths else "").partition("::")[0]
    is_python = Path(file).suffix in PYTHON_SUFFIXES
    try:
        target = choose_session(call, key, who, file=file)
    except RefusedError as error:
        if key is None and error.reason == "no-repl" and PYTHON in call.state.languages():
            return await project_environment(call)
        raise
    if key is None and target.repl.dialect != PYTHON:
        find = partial(_has_only_python_tests, call.services.workspace, file, target.repl.dialect)
        if is_python or (file and await call.services.work.files.run(call.client, find)):
            return await project_environment(call)
    check_working_tree(call, target, who, key)
    if target.repl.dialect in (PYTHON, "unknown") and (target.repl.profile is None or target.repl.dialect == PYTHON):
        environment = await session_environment(call, target.repl)
        if environment is not None:
            return replace(environment, session_key=target.key)
    target = caller_lane(call, target, who) if key is None else target
    profile = target.repl.profile
    if profile is not None and "test" not in profile.capabilities:
        message = f"no test was run, because {target.key} cannot run tests"
        raise CapabilityMissingError("test", profile.missing.get("test"), message=message)
    return target


def _has_only_python_tests(workspace: Path, name: str, dialect: str) -> bool:
    """Return whether a name is that of a directory with Python tests, but without tests in a dialect. Blocks."""
    directory = workspace / name
    return (
        directory.is_dir()
        and not find_test_namespaces(workspace, dialect, name)
        and find_python_test_file(directory) is not None
    )


async def _run_in_repl(
    call: Call,
    arguments: TestArguments,
    target: Target,
    who: str,
    namespace: str | None,
    only: tuple[tuple[str, str], ...] = (),
) -> Answer:
    """Run the tests of a namespace or file through a REPL.

    A Lisp REPL runs them itself. A Python REPL starts a new process for them.
    """
    ends_at = anyio.current_time() + call.wait_ms(arguments.timeout_ms) / 1000
    extensions = request_extensions(call, target.repl)
    only = await _last_failed_tests(call, target) if arguments.failed else only
    is_in_repl = target.repl.dialect != PYTHON
    tests = TestSelection(namespace, arguments.test, arguments.match, only, extensions if is_in_repl else ())
    request = Request(
        id=evaluation_queue.next_evaluation_id(call.state),
        code=str(tests),
        session=target.session.name,
        kind="run-tests",
        tests=tests,
        who=who,
    )
    submit(call, target, who, request)
    is_limited = arguments.timeout_ms is not None
    current = await wait_for_evaluation(
        call, request.id, max(0.0, ends_at - anyio.current_time()), may_last=not is_limited
    )
    if current.status != "running" or arguments.on_timeout == "continue":
        return await describe_run(call, current, arguments, passed=arguments.passed, whole=arguments.report)
    return await _stop_run(call, current, arguments)


def merge_answers(answers: Sequence[Answer]) -> Answer:
    """Combine the answers about several runs into one, adding up counts and concatenating lists."""
    fields: dict[str, object] = {}
    for answer in answers:
        for key, value in answer.fields.items():
            known = fields.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and isinstance(known, int):
                fields[key] = known + value
            elif isinstance(value, list) and isinstance(known, list):
                fields[key] = [*known, *value]
            elif key not in fields:
                fields[key] = value
    return replace(answers[-1], fields=fields, ok=all(answer.ok for answer in answers))


async def _stop_run(call: Call, current: Evaluation, arguments: TestArguments) -> Answer:
    """Stop a run that exceeded its time limit, and return the answer about it."""
    wait_ms = call.wait_ms(arguments.timeout_ms)
    # If the client disconnected now, the run would go on. Each step has a time limit.
    with anyio.CancelScope(shield=True):
        did = await stop_evaluation(call, current.id, f"the tests ran longer than {wait_ms} ms")
    over = find_evaluation(call.state, current.id)
    answer = await describe_run(call, over, arguments, passed=arguments.passed, whole=arguments.report)
    where = ", outside of any test" if "tests" in answer.fields and "stoppedIn" not in answer.fields else ""
    fields = {**answer.fields, **interrupted_run_fields(wait_ms, where), "notes": did}
    return replace(answer, fields=fields, ok=False)


async def describe_run(
    call: Call, evaluation: Evaluation, arguments: Evaluating, *, passed: bool = False, whole: bool = False
) -> Answer:
    """Return the answer about an evaluation that runs tests.

    With `passed`, the answer lists passed tests. With `whole`, it contains all details of every test.
    """
    if evaluation.is_test_job:
        return await describe_job(call, evaluation, arguments, whole=whole)
    if not evaluation.is_finished:
        return await _describe_unfinished_run(call, evaluation, arguments)
    return await _describe_repl_run(call, evaluation, arguments, passed=passed, whole=whole)


async def _describe_repl_run(
    call: Call, evaluation: Evaluation, arguments: Evaluating, *, passed: bool, whole: bool
) -> Answer:
    """Return the answer about a finished run in a REPL.

    Raises:
        RefusedError: the run found no tests.
    """
    transcript = call.services.transcripts.get(evaluation.id)
    report = await read_report(call, evaluation)
    if transcript is None or not (report or evaluation.status == "failed"):
        return await describe_evaluation(call, evaluation, arguments)
    output = transcript.out.last(default_budget(call)).text
    if report is None:
        rest = cut_to_tail(without_codriver_traceback(output, _failure_message(evaluation)), default_budget(call)).text
        return await _refused_answer(call, evaluation, rest)
    stopped = report.get("stopped")
    if stopped:
        output = without_interruption(output)
    repl = call.state.repls.get(evaluation.repl)
    if not report["tests"] and not report["results"] and not stopped:
        raise _no_tests_error(evaluation.head, output, repl, await _test_names_hint(call, repl))
    delivery = Delivery(call, transcript, arguments)
    if begin := delivery.start_position("stdout"):
        output = transcript.out.read(max(begin, transcript.out.total - default_budget(call)), transcript.out.total).text
        output = without_interruption(output) if stopped else output
    delivery.record_delivered("stdout", transcript.out.total)
    fields = run_fields(
        report, output, call.services.workspace, passed=passed, whole=whole, max_bytes=default_budget(call)
    )
    fields.update(delivery.start_fields())
    if not whole and repl is not None and repl.dialect != PYTHON:
        await _add_source(call, repl, evaluation, report, fields)
    notes = await outdated_test_notes(call, repl) if repl is not None and repl.dialect != PYTHON else ()
    fields = with_notes(with_outside_packages_note(fields, repl), notes)
    elapsed = max(0, (evaluation.finished_at or 0) - (evaluation.started_at or 0))
    session = call.state.evaluation_session_key(evaluation)
    fields |= {"elapsedMs": elapsed, "sessionKey": session} | ({"evaluationId": evaluation.id} if whole else {})
    if stopped:
        if has_current_test(stopped):
            fields["stoppedIn"] = result_row(stopped, call.services.workspace)
        if "frames" not in stopped and transcript.user_stacks:
            fields["stacks"] = cut_to_tail(transcript.user_stacks, MAX_STACKS_BYTES).text
    if not wants_detail(call, arguments):
        reader = make_reader(call, arguments, evaluation.who, evaluation, session)
        named = (reader.namespace or "").partition("::")[0]
        fields = lean_run_fields(omit_known_fields(fields, reader), call.services.workspace, "" if passed else named)
    if evaluation.status == "done":
        return await complete_answer(call, Answer(fields, handed_out=delivery.on_sent), evaluation.id)
    fields |= await _failure_fields(call, evaluation, report, is_lean=not wants_detail(call, arguments))
    answer = Answer(fields, ok=False, handed_out=delivery.on_sent)
    return await complete_answer(call, answer, evaluation.id)


async def _add_source(
    call: Call, repl: Repl, evaluation: Evaluation, report: Json, fields: Mapping[str, object]
) -> None:
    """Add the source code that most likely caused the failure to the first failed test of an answer."""
    rows = fields.get("results")
    failed = next((row for row in report["results"] if row["outcome"] != "pass"), None)
    if failed is None or not isinstance(rows, list):
        return
    row = next((item for item in rows if item.get("test") == failed.get("test") and item["outcome"] != "pass"), None)
    if row is not None and (source := await find_failure_source(call, repl, evaluation.session, failed)):
        row["source"] = source


async def _failure_fields(call: Call, evaluation: Evaluation, report: Json, *, is_lean: bool) -> dict[str, object]:
    """Return the fields of an answer about a run that was interrupted or in which tests failed."""
    hint = await _failed_tests_hint(call, evaluation, report)
    reason = "interrupted" if evaluation.status == "interrupted" else "tests-failed"
    hint_field = {} if is_lean and hint == FAILED_HINT else {"hint": hint}
    return {"evaluationId": evaluation.id, "reason": reason, **hint_field}


async def _describe_unfinished_run(call: Call, evaluation: Evaluation, arguments: Evaluating) -> Answer:
    """Return the answer about an unfinished run, with the results so far."""
    answer = await describe_evaluation(call, evaluation, arguments, max_bytes=default_budget(call) // 2)
    so_far = None
    if evaluation.status == "running":
        with suppress(CodriverError):
            so_far = await call.services.repls.adapter(evaluation.repl).finished_tests(evaluation.id)
    if so_far is None:
        return answer
    report = json.loads(encode_report(so_far))
    fields = run_fields(report, "", call.services.workspace, passed=False, max_bytes=default_budget(call) // 2)
    if not wants_detail(call, arguments):
        fields = lean_run_fields(fields, call.services.workspace)
    return replace(answer, fields={**answer.fields, **fields})


def _failure_message(evaluation: Evaluation) -> str:
    """Return the message of a failed evaluation, or an empty string if it did not fail."""
    return evaluation.failure.message if evaluation.failure else ""


async def _refused_answer(call: Call, evaluation: Evaluation, output: str) -> Answer:
    """Return the answer about a run that could not start, including its output."""
    failure, repl = evaluation.failure, call.state.repls.get(evaluation.repl)
    reason = failure.type if failure else "evaluation-failed"
    message = failure.message if failure else "the tests could not be run"
    hint = HINTS_BY_REASON.get(reason, HINTS_BY_REASON["evaluation-failed"])
    if reason == "unknown-namespace" and repl is not None and repl.dialect == PYTHON:
        message, hint = f"{evaluation.head} does not exist", await _test_names_hint(call, repl)
    fields: dict[str, object] = {"reason": reason, "message": message, "hint": hint}
    return Answer({**fields, "stdout": output} if output else fields, ok=False)


async def _failed_tests_hint(call: Call, evaluation: Evaluation, report: Json) -> str:
    """Return a hint for failed tests. When a test fails repeatedly, it suggests inspecting the frames."""
    return (await _fails_again(call, evaluation, report) and second_failure_hint(call, evaluation)) or FAILED_HINT


async def _fails_again(call: Call, evaluation: Evaluation, report: Json) -> bool:
    """Return whether a test failed in this run and the previous one, but not in the run before those."""
    runs = await session_runs(call, evaluation.repl, evaluation.session)
    before = [earlier for job, earlier in runs if job.number < evaluation.number]
    repl = call.state.repls.get(evaluation.repl)
    if not before or repl is None or repl.dialect == PYTHON:
        return False
    again = _failed_tests(report) & _failed_tests(before[0])
    return bool(again - (_failed_tests(before[1]) if len(before) > 1 else set()))


def _failed_tests(report: Json) -> set[tuple[str, str]]:
    """Return the namespace and name of each test in a report that did not pass."""
    return {(row["ns"], row["test"]) for row in report["results"] if row["outcome"] != "pass"}


async def _last_failed_tests(call: Call, target: Target) -> tuple[tuple[str, str], ...]:
    """Return the namespace and name of each test that failed in the last run of a session.

    Raises:
        RefusedError: no run is known, or no test failed.
    """
    runs = await session_runs(call, target.repl.id, target.session.name)
    for _, report in runs[:1]:
        rows = [row for row in report["results"] if row["outcome"] != "pass"]
        rows += [stopped] if (stopped := report.get("stopped")) and has_current_test(stopped) else []
        if rows:
            return tuple(dict.fromkeys((row["ns"], row["test"]) for row in rows))
    raise refused("no-tests", "no test failed in the last run of this session", hint="Run the tests without failed.")


MAX_RESULTS: Final = 100
"""Maximum number of results in an answer."""
MAX_FRAMES: Final = 5
"""Maximum number of frames per result in an answer."""
MAX_DETAILED_RESULTS: Final = 3
"""Maximum number of results with all details. The others, usually with the same cause, get one line each."""
MAX_SHORT_MESSAGE_CHARACTERS: Final = 100
"""Maximum number of characters in the message of a briefly described result."""
MAX_READ_CHARACTERS: Final = 32 * 2**20
"""Maximum number of characters read from a report."""


async def session_runs(call: Call, repl: str, session: str) -> list[tuple[Evaluation, Json]]:
    """Return the finished test runs of a session whose reports are still stored, newest first."""
    runs = [
        evaluation
        for evaluation in call.state.evaluations.values()
        if evaluation.kind == "run-tests"
        and evaluation.is_finished
        and (evaluation.repl, evaluation.session) == (repl, session)
    ]
    reports = [(run, await read_report(call, run)) for run in reversed(runs)]
    return [(job, report) for job, report in reports if report is not None]


async def repl_runs(call: Call, repl: str) -> list[tuple[Evaluation, Json]]:
    """Return the finished test runs of a REPL whose reports are still stored, newest first.

    Runs that tested an undone edit are left out.
    """
    undone = call.services.ledger.tests.reverted
    runs = [
        evaluation
        for evaluation in call.state.evaluations.values()
        if evaluation.kind == "run-tests"
        and evaluation.is_finished
        and evaluation.repl == repl
        and evaluation.id not in undone
    ]
    reports = [(run, await read_report(call, run)) for run in reversed(runs)]
    return [(job, report) for job, report in reports if report is not None]


async def read_report(call: Call, evaluation: Evaluation) -> Json | None:
    """Read the report of a finished run, or return None if it has none or is no longer stored."""
    transcript = call.services.transcripts.get(evaluation.id)
    if transcript is None or not transcript.values():
        return None
    stored = await read_transcripts(partial(transcript.result.read, 0, MAX_READ_CHARACTERS), transcript)
    report: Json = json.loads(stored.text)
    return report


def run_fields(
    report: Json, output_text: str, workspace: Path, *, passed: bool, max_bytes: int, whole: bool = False
) -> dict[str, object]:
    """Return the report of a run as fields of an answer, with the end of the run's output.

    The fields have at most `max_bytes` bytes of JSON. With `passed`, passed tests are listed. With `whole`, every
    result and the durations of the tests are included.
    """
    listed = [row for row in report["results"] if whole or passed or row["outcome"] != "pass"]
    output = cut_to_tail(output_text, max_bytes // 4).text
    max_bytes -= json_bytes(output)
    rows_to_fit = [
        result_row(row, workspace) | ({"skipped": True} if whole and row.get("skipped") else {})
        for row in listed[: None if whole else MAX_RESULTS]
    ]
    if not (whole or passed):
        rows_to_fit = [*rows_to_fit[:MAX_DETAILED_RESULTS], *map(_short_row, rows_to_fit[MAX_DETAILED_RESULTS:])]
    rows, note, _ = fit_rows(rows_to_fit, max_bytes)
    counts = {key: report[key] for key in ("tests", "passed", "failed", "errors")}
    counts |= {key: report[key] for key in ("skipped", "xfailed", "xpassed") if key in report}
    if "of" in report:
        counts["of"] = report["of"]
    fields: dict[str, object] = {**counts, "results": rows, "count": len(rows)}
    if len(listed) > len(rows):
        fields["omitted"] = len(listed) - len(rows)
    if whole:
        fields["times"] = fit_rows(report.get("times", []), max_bytes // 4)[0]
    if note:
        fields["notes"] = [note.partition(":")[0]]
    if output_text:
        fields["stdout"] = output
    return fields


def result_row(row: Json, workspace: Path) -> dict[str, object]:
    """Describe a test result in a JSON object, with only the project's frames, innermost first."""
    frames = [_format_location(frame, workspace) for frame in row.get("frames", ()) if not frame.get("tooling")]
    result = {key: value for key, value in row.items() if key not in ("frames", "skipped")}
    return {**result, "frames": frames[:MAX_FRAMES]} if frames else result


def _short_row(row: dict[str, object]) -> dict[str, object]:
    """Describe a test result in a JSON object, without frames and with only the first line of its message."""
    actual = str(row.get("actual", "")).partition("\n")[0]
    actual = truncate(actual, MAX_SHORT_MESSAGE_CHARACTERS)
    short: dict[str, object] = {name: row[name] for name in ("test", "ns", "outcome", "line") if name in row}
    return {**short, "actual": actual} if actual else short


def has_current_test(stopped: Json) -> bool:
    """Return whether a stopped run was executing a test. It has none while collecting tests."""
    return bool(stopped["test"] != UNKNOWN_TEST_NAME)


def _format_location(frame: Mapping[str, object], workspace: Path) -> str:
    """Format the location of a frame as `FILE:LINE in FUNCTION`."""
    file = Path(str(frame.get("file")))
    displayed = file.relative_to(workspace) if file.is_relative_to(workspace) else file
    return f"{displayed}:{frame.get('line')} in {frame.get('function')}"
