"""Runs of a project's tests in its REPL, each an evaluation of its own, and the answers about them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import anyio
from pydantic import Field

from codriver.core import evaluation_queue
from codriver.core.values import Request, TestSelection
from codriver.errors import CodriverError, RefusedError
from codriver.repls.contract.errors import CapabilityMissingError
from codriver.repls.contract.test_report import report_text
from codriver.tools.acts.edited_python import Loaded, load_edited
from codriver.tools.acts.submission import begin
from codriver.tools.acts.test_reports import is_named, lean_run, report_of, row_json, run_json, runs_before
from codriver.tools.acts.tests_again import look_again, of_same_code, told_only_live
from codriver.tools.answers.answer_budget import budget, tail
from codriver.tools.answers.answer_notes import with_notes, with_outside
from codriver.tools.answers.error_reports import without_interruption, without_own_traceback
from codriver.tools.answers.evaluation_answers import describe, hint_again
from codriver.tools.answers.lean_answers import Evaluating, lean, reader_of, wants_detail
from codriver.tools.answers.telling import Telling
from codriver.tools.answers.trace_answers import Trace, check_tracing, with_trace
from codriver.tools.calls.base import UNLISTED, Answer, Call, unsaid_default
from codriver.tools.calls.evaluation_waits import stop, wait
from codriver.tools.calls.session_choice import check_tree, chosen, evaluation_of, in_lane, key_of
from codriver.tools.truth.drift_notes import notes_of_fresh, notes_of_tests, outcomes

if TYPE_CHECKING:
    from codriver.core.values import Evaluation
    from codriver.tools.calls.base import Json
    from codriver.tools.calls.session_choice import Target

ALL_TESTS = str(TestSelection())
STACKS_BYTES = 2000
HINTS = {
    "bad-arguments": "write words of test names with and, or and not before a word: parser and not slow or reader",
    "unknown-namespace": "load its file with load_file, or correct the name",
    "capability-missing": "leave out what this REPL cannot do, and call again",
    "evaluation-failed": "correct what was given and call again",
    "repl-disconnected": "see list_sessions; tests are never run twice by themselves",
}
"""By why tests could not be run."""

FAILED = "results lists errors and failures first; stacktrace with this evaluationId has all frames"
ONLY_LIVE = "onlyInThisRepl passes in a new process: the REPL holds what makes it fail; see what_changed, restart_repl"

HINT = "load the test file with load_file first, or in Python give its module or path as namespace"
HY_HINT = "give the test file, as tests/test_core.hy, as namespace: Hy's files are run where they are named or loaded"


class NoTestsError(RefusedError):
    """The run found no test."""

    reason = "no-tests"

    def __init__(self, selection: str, said: str, dialect: str = "") -> None:
        everywhere, _, match = selection.partition(" matching ")
        where = "" if match and everywhere == ALL_TESTS else f" in {everywhere}"
        where = " in the namespaces that are loaded" if selection == ALL_TESTS else where
        super().__init__(
            f"there are no tests{where}{f' that match {match}' if match else ''}",
            hint=("correct match, words of tests' names, or leave it out; else " if match else "")
            + (HY_HINT if dialect == "hy" else HINT),
            details={"stdout": said} if said else None,
        )


class NoFailuresError(RefusedError):
    """The tests that failed last were to be run, and none did."""

    reason = "no-tests"

    def __init__(self) -> None:
        super().__init__("no test failed in the last run of this session", hint="run the tests without failed")


class TestArguments(Evaluating):
    """Arguments of `run_tests`."""

    namespace: str | None = Field(None, description="Python: module, path or node id.")
    test: str | None = None
    match: str | None = Field(None, description="As pytest -k.")
    failed: bool = False
    fresh: bool = Field(default=False, description="In a new process.")
    load: bool = Field(default=True, json_schema_extra={UNLISTED: True})
    """Whether modules of Python that were edited since their load are loaded first."""
    again: bool = Field(default=True, json_schema_extra={UNLISTED: True})
    """Whether what is red in a REPL of Python runs again in a new process, unless it was red before the edit."""
    trace: Trace = None
    coverage: bool = False
    """Whether the changed lines are told that no test ran."""
    repl_session_key: str | None = None
    timeout_ms: int = Field(25_000, ge=100, le=600_000, json_schema_extra=unsaid_default)
    on_timeout: Literal["continue", "interrupt"] = Field("continue", json_schema_extra={UNLISTED: True})
    passed: bool = False
    """Whether those that passed are listed, too."""
    report: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether every result is wanted, and how long each test took, for a report of them: of `codriver test`."""


async def run_tests(
    call: Call, arguments: TestArguments, only: tuple[tuple[str, str], ...] = (), said: str = ""
) -> Answer:
    """Run tests, and say what failed first. `only`: none but these, by namespace and name, `said` in words."""
    who, ends_at = call.who(arguments.who), anyio.current_time() + arguments.timeout_ms / 1000
    file = (arguments.namespace or "").partition("::")[0]
    target = chosen(call, arguments.repl_session_key, who, file=file)
    check_tree(call, target, who, arguments.repl_session_key)
    if arguments.repl_session_key is None:
        target = in_lane(call, target, who)
    profile = target.repl.profile
    if profile is not None and "test" not in profile.capabilities:
        raise CapabilityMissingError("test", profile.missing.get("test"))
    check_tracing(target.repl, arguments.trace, measures=arguments.coverage)
    only = await _failed_last(call, target) if arguments.failed else only
    is_loaded_first = arguments.load and not arguments.fresh
    loaded = await load_edited(call, target, who, arguments.timeout_ms / 1000) if is_loaded_first else Loaded()
    is_fresh = arguments.fresh or loaded.needs_new_process
    trace = None if is_fresh else arguments.trace
    named = arguments.namespace, arguments.test, arguments.match, only, is_fresh
    tests = TestSelection(*named, trace=trace, covers=arguments.coverage and not is_fresh, said=said)
    request = Request(
        id=evaluation_queue.next_id(call.state),
        code=str(tests),
        session=target.session.name,
        kind="run-tests",
        tests=tests,
    )
    begin(call, target, who, request)
    is_limited = "timeout_ms" in arguments.model_fields_set
    current = await wait(call, request.id, max(0.0, ends_at - anyio.current_time()), may_last=not is_limited)
    if current.status != "running" or arguments.on_timeout == "continue":
        if arguments.again and not current.over:
            call.services.ledger.tests.put_off[current.id] = who
        elif arguments.again:
            await look_again(call, current, who, ends_at - anyio.current_time())
        return await _described(call, current, arguments, loaded)
    return await _timed_out(call, current, arguments, loaded)


async def _timed_out(call: Call, current: Evaluation, arguments: TestArguments, loaded: Loaded) -> Answer:
    """The answer about a run that is ended, as its time is over."""
    # A client that goes away now would otherwise leave running what it asked to be ended. Each step has a time limit.
    with anyio.CancelScope(shield=True):
        did = await stop(call, current.id, f"the tests ran longer than {arguments.timeout_ms} ms")
    over = evaluation_of(call.state, current.id)
    answer = await _described(call, over, arguments, loaded)
    where = (
        ", in no test that the REPL knows of" if "tests" in answer.fields and "stoppedIn" not in answer.fields else ""
    )
    fields = {
        **answer.fields,
        "reason": "timed-out",
        "message": f"the tests did not end within {arguments.timeout_ms} ms and were interrupted where the REPL can"
        + where,
        "hint": "give a longer timeoutMs, or run fewer tests",
        "notes": [*loaded.notes, *did],
    }
    return replace(answer, fields=fields, ok=False)


async def _described(call: Call, evaluation: Evaluation, arguments: TestArguments, loaded: Loaded) -> Answer:
    """The answer about a run, with what was loaded before it first among its notes."""
    answer = await describe_run(call, evaluation, arguments, passed=arguments.passed, whole=arguments.report)
    if not loaded.notes:
        return answer
    told = answer.fields.get("notes")
    notes = [*loaded.notes, *(told if isinstance(told, list | tuple) else ())]
    return replace(answer, fields={**answer.fields, "notes": list(dict.fromkeys(notes))})


async def describe_run(
    call: Call, evaluation: Evaluation, asked: Evaluating, *, passed: bool = False, whole: bool = False
) -> Answer:
    """The answer about an evaluation that runs tests: as any other's until it is over, then their results.

    `passed`: those that passed, too. `whole`: all there is to a report of the run.
    """
    transcript = call.services.transcripts.get(evaluation.id)
    report = await report_of(call, evaluation) if evaluation.over else None
    if not evaluation.over:
        return await _running(call, evaluation, asked)
    if transcript is None or not (report or evaluation.status == "failed"):
        return await describe(call, evaluation, asked, max_images=0, max_bytes=budget(call))
    said = transcript.out.last(budget(call)).text
    if report is None:
        message = evaluation.failure.message if evaluation.failure else ""
        return _refused(evaluation, tail(without_own_traceback(said, message), budget(call)).text)
    stopped = report.get("stopped")
    if stopped:
        said = without_interruption(said)
    repl = call.state.repls.get(evaluation.repl)
    if not report["tests"] and not report["results"] and not stopped:
        raise NoTestsError(evaluation.head, said, repl.dialect if repl is not None else "")
    telling = Telling(call, transcript, asked)
    if begin := telling.begin("stdout"):
        said = transcript.out.read(max(begin, transcript.out.total - budget(call)), transcript.out.total).text
        said = without_interruption(said) if stopped else said
    telling.reach("stdout", transcript.out.total)
    fields = run_json(report, said, call.services.workspace, passed=passed, whole=whole, max_bytes=budget(call))
    fields.update(telling.begins())
    notes = await _notes(call, evaluation, report)
    fields = with_notes(with_outside(fields, repl), notes)
    elapsed = max(0, (evaluation.ended_at or 0) - (evaluation.started_at or 0))
    session = key_of(call.state, evaluation)
    fields |= {"elapsedMs": elapsed, "sessionKey": session} | ({"evaluationId": evaluation.id} if whole else {})
    if stopped:
        if is_named(stopped):
            fields["stoppedIn"] = row_json(stopped, call.services.workspace)
        if "frames" not in stopped and transcript.own_stacks:
            fields["stacks"] = tail(transcript.own_stacks, STACKS_BYTES).text
    if not wants_detail(call, asked):
        reader = reader_of(call, asked, evaluation.who, evaluation, session)
        named = (reader.namespace or "").partition("::")[0]
        fields = lean_run(lean(fields, reader), call.services.workspace, "" if passed else named)
    if evaluation.status == "done":
        return await with_trace(call, Answer(fields, handed_out=telling.handed_out), evaluation.id)
    fields |= await _of_red(call, evaluation, report, is_lean=not wants_detail(call, asked))
    return await with_trace(call, Answer(fields, ok=False, handed_out=telling.handed_out), evaluation.id)


async def _of_red(call: Call, evaluation: Evaluation, report: Json, *, is_lean: bool) -> dict[str, object]:
    """The fields of an answer about a run that did not pass."""
    only_live = told_only_live(call, evaluation)
    hint = ONLY_LIVE if only_live else await _hint(call, evaluation, report)
    reason = "interrupted" if evaluation.status == "interrupted" else "tests-failed"
    said = {} if is_lean and hint == FAILED else {"hint": hint}
    return {**only_live, "evaluationId": evaluation.id, "reason": reason, **said}


async def _running(call: Call, evaluation: Evaluation, asked: Evaluating) -> Answer:
    """The answer about a run under way: how many tests have ended, and which of them did not pass."""
    answer = await describe(call, evaluation, asked, max_images=0, max_bytes=budget(call) // 2)
    so_far = None
    if evaluation.status == "running":
        with suppress(CodriverError):
            so_far = await call.services.repls.adapter(evaluation.repl).tests_so_far(evaluation.id)
    if so_far is None:
        return answer
    report = json.loads(report_text(so_far))
    fields = run_json(report, "", call.services.workspace, passed=False, max_bytes=budget(call) // 2)
    return replace(answer, fields={**answer.fields, **fields})


def _refused(evaluation: Evaluation, said: str) -> Answer:
    failure = evaluation.failure
    reason = failure.type if failure else "evaluation-failed"
    fields: dict[str, object] = {
        "reason": reason,
        "message": failure.message if failure else "the tests could not be run",
        "hint": HINTS.get(reason, HINTS["evaluation-failed"]),
    }
    return Answer({**fields, "stdout": said} if said else fields, ok=False)


async def _notes(call: Call, evaluation: Evaluation, report: Json) -> tuple[str, ...]:
    """The notes on a run of tests: on code that was not as the files say, or on other ends than in the REPL."""
    repl = call.state.repls.get(evaluation.repl)
    if repl is None:
        return ()
    if not report.get("fresh"):
        notes, is_current = await notes_of_tests(call, repl)
        call.services.ledger.tests.current.setdefault(evaluation.id, is_current)
        return notes
    runs = await of_same_code(call, await runs_before(call, evaluation.repl, evaluation.session))
    return notes_of_fresh(outcomes(report), [outcomes(told) for _, told in runs if not told.get("fresh")])


async def _hint(call: Call, evaluation: Evaluation, report: Json) -> str:
    """The hint on red tests: at the second failure of one, that its frames can be looked at."""
    return (await _fails_again(call, evaluation, report) and hint_again(call, evaluation)) or FAILED


async def _fails_again(call: Call, evaluation: Evaluation, report: Json) -> bool:
    """True where a test fails that failed in the run before, and not in the one before that."""
    runs = await runs_before(call, evaluation.repl, evaluation.session)
    before = [told for one, told in runs if one.number < evaluation.number and not told.get("fresh")]
    if report.get("fresh") or not before:
        return False
    again = _failed_in(report) & _failed_in(before[0])
    return bool(again - (_failed_in(before[1]) if len(before) > 1 else set()))


def _failed_in(report: Json) -> set[tuple[str, str]]:
    return {(row["ns"], row["test"]) for row in report["results"] if row["outcome"] != "pass"}


async def _failed_last(call: Call, target: Target) -> tuple[tuple[str, str], ...]:
    """Namespace and name of each test that failed in the last run of a session.

    Raises:
        NoFailuresError: there was none, or it is forgotten.
    """
    runs = await runs_before(call, target.repl.id, target.session.name)
    for report in [told for _, told in runs if not told.get("again")][:1]:
        rows = [row for row in report["results"] if row["outcome"] != "pass"]
        rows += [stopped] if (stopped := report.get("stopped")) and is_named(stopped) else []
        if rows:
            return tuple(dict.fromkeys((row["ns"], row["test"]) for row in rows))
    raise NoFailuresError
