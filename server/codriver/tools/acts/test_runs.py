"""Runs of a project's tests in its REPL, each an evaluation of its own, and the answers about them.

The report of a run is the value of its evaluation, and becomes the fields of an answer. Red tests of a Python REPL run
again in a new process, which has none of the REPL's state. The runs are compared if they ran the same code: the loaded
code equalled the files, and no file of the workspace was edited since.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import anyio
from pydantic import Field

from codriver.core import evaluation_queue
from codriver.core.values import Request, TestSelection
from codriver.errors import CodriverError, RefusedError, cut, refused
from codriver.files.working_trees import walk
from codriver.log.transcripts import read
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.adapter_values import UNKNOWN_TEST
from codriver.repls.contract.reports import report_text
from codriver.tools.acts.edited_files import Loaded, load_edited
from codriver.tools.acts.since_green import after
from codriver.tools.acts.submission import begin
from codriver.tools.answers.answer_budget import budget, fit, json_bytes, tail
from codriver.tools.answers.answer_notes import with_notes, with_outside
from codriver.tools.answers.answer_texts import Telling
from codriver.tools.answers.drift_notes import NEVER_LIVE, PASSES, notes_of_fresh, notes_of_tests, outcomes
from codriver.tools.answers.evaluation_answers import describe, hint_again
from codriver.tools.answers.lean_answers import (
    Evaluating,
    lean,
    lean_run,
    reader_of,
    wants_detail,
    without_interruption,
    without_own_traceback,
)
from codriver.tools.answers.trace_answers import Trace, check_tracing, with_trace
from codriver.tools.calls.base import UNLISTED, Answer, Call, unsaid_default
from codriver.tools.calls.evaluation_waits import evaluation_of, stop, wait
from codriver.tools.calls.session_choice import check_tree, chosen, in_lane, target_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.core.values import Evaluation, FormerFile
    from codriver.tools.calls.base import Json
    from codriver.tools.calls.session_choice import Target

    Run = tuple[Evaluation, Json]


ALL_TESTS = str(TestSelection())
STACKS_BYTES = 2000
HINTS = {
    "bad-arguments": "write words of test names with and, or and not before a word: parser and not slow or reader",
    "unknown-namespace": "load its file with load_file, or correct the name",
    "capability-missing": "leave out what this REPL cannot do, and call again",
    "evaluation-failed": "correct what was given and call again",
    "repl-disconnected": "see list_sessions; tests are never run twice by themselves",
}
"""By the reason why tests could not be run: the hint."""

FAILED = "results lists errors and failures first; stacktrace with this evaluationId has all frames"
ONLY_LIVE = "onlyInThisRepl passes in a new process: the REPL holds what makes it fail; see what_changed, restart_repl"

HINT = "load the test file with load_file first, or in Python give its module or path as namespace"
HY_HINT = "give the test file, as tests/test_core.hy, as namespace: Hy's files are run where they are named or loaded"


def _no_tests(selection: str, said: str, dialect: str) -> RefusedError:
    """The run found no test."""
    everywhere, _, match = selection.partition(" matching ")
    where = "" if match and everywhere == ALL_TESTS else f" in {everywhere}"
    where = " in the namespaces that are loaded" if selection == ALL_TESTS else where
    where = where.replace(f" in {ALL_TESTS} ", " ")  # in a new process
    return refused(
        "no-tests",
        f"there are no tests{where}{f' that match {match}' if match else ''}",
        hint=("correct match, words of tests' names, or leave it out; else " if match else "")
        + (HY_HINT if dialect == "hy" else HINT),
        details={"stdout": said} if said else None,
    )


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
    """Whether red tests of a Python REPL run again in a new process, unless they were red before the edit."""
    trace: Trace = None
    coverage: bool = False
    """Whether to tell the changed lines that no test ran."""
    repl_session_key: str | None = None
    timeout_ms: int = Field(25_000, ge=100, le=600_000, json_schema_extra=unsaid_default)
    on_timeout: Literal["continue", "interrupt"] = Field("continue", json_schema_extra={UNLISTED: True})
    passed: bool = False
    """Whether to list the passed tests, too."""
    report: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether to give every result, and the time of each test, for a report: for `codriver test`."""


async def run_tests(
    call: Call, arguments: TestArguments, only: tuple[tuple[str, str], ...] = (), said: str = ""
) -> Answer:
    """Run tests, and tell the failures first. `only`: these tests alone, by namespace and name, `said` in words."""
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
    """The answer about a run that is ended as its time is over."""
    # If the client went away now, the run that it wanted ended would go on. Each step has a time limit.
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
    """The answer about a run, with the loads before it first among its notes."""
    answer = await describe_run(call, evaluation, arguments, passed=arguments.passed, whole=arguments.report)
    if not loaded.notes:
        return answer
    found = answer.fields.get("notes")
    told: tuple[str, ...] = tuple(found) if isinstance(found, list | tuple) else ()
    # Load and run both tell a drift that the load left, and nobody asked for the new process.
    notes = [one for one in loaded.notes if not any(other.startswith(one) for other in told)]
    notes += [one for one in told if not (loaded.needs_new_process and one == NEVER_LIVE)]
    return replace(answer, fields={**answer.fields, "notes": list(dict.fromkeys(notes))})


async def describe_run(
    call: Call, evaluation: Evaluation, asked: Evaluating, *, passed: bool = False, whole: bool = False
) -> Answer:
    """The answer about an evaluation that runs tests: any evaluation's until it is over, then the tests' results.

    `passed`: the passed tests, too. `whole`: all facts for a report of the run.
    """
    transcript = call.services.transcripts.get(evaluation.id)
    report = await report_of(call, evaluation) if evaluation.over else None
    if not evaluation.over:
        return await _running(call, evaluation, asked)
    if transcript is None or not (report or evaluation.status == "failed"):
        return await describe(call, evaluation, asked)
    said = transcript.out.last(budget(call)).text
    if report is None:
        return _refused(evaluation, tail(without_own_traceback(said, _message(evaluation)), budget(call)).text)
    stopped = report.get("stopped")
    if stopped:
        said = without_interruption(said)
    repl = call.state.repls.get(evaluation.repl)
    if not report["tests"] and not report["results"] and not stopped:
        raise _no_tests(evaluation.head, said, repl.dialect if repl is not None else "")
    telling = Telling(call, transcript, asked)
    if begin := telling.begin("stdout"):
        said = transcript.out.read(max(begin, transcript.out.total - budget(call)), transcript.out.total).text
        said = without_interruption(said) if stopped else said
    telling.reach("stdout", transcript.out.total)
    fields = run_json(report, said, call.services.workspace, passed=passed, whole=whole, max_bytes=budget(call))
    fields.update(telling.begins())
    found = call.services.ledger.tests.take_differences(call.who(asked.who), evaluation.id)
    notes = [*found, *await _notes(call, evaluation, report)]
    fields = with_notes(with_outside(fields, repl), notes)
    elapsed = max(0, (evaluation.ended_at or 0) - (evaluation.started_at or 0))
    session = call.state.key_of(evaluation)
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
    answer = Answer(fields, ok=False, handed_out=after(call, evaluation.id, runs_of_repl, telling.handed_out))
    return await with_trace(call, answer, evaluation.id)


async def _of_red(call: Call, evaluation: Evaluation, report: Json, *, is_lean: bool) -> dict[str, object]:
    """The fields of an answer about a run that did not pass."""
    only_live = told_only_live(call, evaluation)
    hint = ONLY_LIVE if only_live else await _hint(call, evaluation, report)
    reason = "interrupted" if evaluation.status == "interrupted" else "tests-failed"
    said = {} if is_lean and hint == FAILED else {"hint": hint}
    return {**only_live, "evaluationId": evaluation.id, "reason": reason, **said}


async def _running(call: Call, evaluation: Evaluation, asked: Evaluating) -> Answer:
    """The answer about a run under way: the number of ended tests, and those among them that did not pass."""
    answer = await describe(call, evaluation, asked, max_bytes=budget(call) // 2)
    so_far = None
    if evaluation.status == "running":
        with suppress(CodriverError):
            so_far = await call.services.repls.adapter(evaluation.repl).tests_so_far(evaluation.id)
    if so_far is None:
        return answer
    report = json.loads(report_text(so_far))
    fields = run_json(report, "", call.services.workspace, passed=False, max_bytes=budget(call) // 2)
    if not wants_detail(call, asked):
        fields = lean_run(fields, call.services.workspace)
    return replace(answer, fields={**answer.fields, **fields})


def _message(evaluation: Evaluation) -> str:
    return evaluation.failure.message if evaluation.failure else ""


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
    """The notes on a run of tests: on code that differed from the files, or on outcomes other than the REPL's."""
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
    """The hint on red tests: at the second failure of a test, that its frames can be looked at."""
    return (await _fails_again(call, evaluation, report) and hint_again(call, evaluation)) or FAILED


async def _fails_again(call: Call, evaluation: Evaluation, report: Json) -> bool:
    """True if a test fails again that failed in the run before, and not in the run before that."""
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
        RefusedError: there was no run, or it is forgotten.
    """
    runs = await runs_before(call, target.repl.id, target.session.name)
    for report in [told for _, told in runs if not told.get("again")][:1]:
        rows = [row for row in report["results"] if row["outcome"] != "pass"]
        rows += [stopped] if (stopped := report.get("stopped")) and is_named(stopped) else []
        if rows:
            return tuple(dict.fromkeys((row["ns"], row["test"]) for row in rows))
    raise refused("no-tests", "no test failed in the last run of this session", hint="run the tests without failed")


MOST_AGAIN: Final = 50
"""Tests that run again: the first few of very many red ones tell as much."""
MOST_S: Final = 20.0
LATE_S: Final = 10.0
"""How long a rerun may take for a run that outlasted its call."""
LEAST_S: Final = 0.5
MAX_ENTRIES: Final = 20_000
PYTHON: Final = ".py"
COLLECTION: Final = "(collection)"


async def look_again(call: Call, evaluation: Evaluation, who: str, wait_s: float, *, is_all: bool = False) -> None:
    """Run the red tests of a run again in a new process, within `wait_s`, except those red before the edits.

    `is_all`: these, too. The ledger gets the tests that pass there. A run that is known, or was stopped, is left alone.
    """
    repl, known = call.state.repls.get(evaluation.repl), call.services.ledger.tests
    is_meant = repl is not None and repl.dialect == "python" and evaluation.status == "failed"
    if not is_meant or evaluation.id in known.only_live or wait_s < LEAST_S:
        return
    report = await report_of(call, evaluation)
    if report is None or report.get("fresh") or report.get("stopped"):
        return
    rows = await _in_question(call, evaluation, report, is_all=is_all)
    if not rows:
        return
    tests = TestSelection(only=tuple((row["ns"], row["test"]) for row in rows), fresh=True, again=True)
    begun = await _run(call, evaluation, who, tests, min(wait_s, MOST_S))
    if begun.over and (fresh := await report_of(call, begun)) is not None:
        ended = outcomes(fresh)
        files = {file for file, _ in ended}
        alone = [row for row in rows if _passes(row, ended, files)]
        known.only_live[evaluation.id] = tuple(row["test"] for row in alone)
        is_short = (evaluation.ended_at or 0) - (evaluation.started_at or 0) < MOST_S * 1000
        if alone and is_short and not is_all:
            await _look_at_green(call, evaluation, who, report, dict.fromkeys(row["ns"] for row in alone))


async def _look_at_green(call: Call, evaluation: Evaluation, who: str, report: Json, homes: Mapping[str, None]) -> None:
    """Run all tests of namespaces in a new process: a REPL that makes some fail may make others pass."""
    tests = TestSelection(only=tuple((home, COLLECTION) for home in homes), fresh=True, again=True)
    begun = await _run(call, evaluation, who, tests, MOST_S)
    if begun.over and (fresh := await report_of(call, begun)) is not None:
        ended = outcomes(fresh)
        green = [row for row in report["results"] if row["outcome"] == PASSES]
        red = (row["test"] for row in green if ended.get((row.get("file") or row["ns"], row["test"]), PASSES) != PASSES)
        call.services.ledger.tests.only_fresh[evaluation.id] = tuple(red)


def _passes(row: Json, ended: Mapping[tuple[str, str], str], files: set[str]) -> bool:
    """Whether a red test passed in a new process; for a file that was not collected, whether it was there."""
    place = row.get("file") or row["ns"]
    if row["test"] == COLLECTION:
        return place in files and (place, COLLECTION) not in ended
    return ended.get((place, row["test"])) == PASSES


async def look_again_late(call: Call, evaluation: Evaluation) -> None:
    """Run the red tests of a run that outlasted its call again, once it is over, if no file was edited meanwhile."""
    known = call.services.ledger.tests
    who = known.put_off.get(evaluation.id)
    if who is None or not evaluation.over:
        return
    edited = await call.services.work.files.run(call.client, partial(newest_edit, call.services.workspace))
    if edited < (evaluation.started_at or 0):
        await look_again(call, evaluation, who, LATE_S)
    known.put_off.pop(evaluation.id, None)


async def _run(call: Call, evaluation: Evaluation, who: str, tests: TestSelection, wait_s: float) -> Evaluation:
    """The run in a new process, which is ended after `wait_s`."""
    identity = evaluation_queue.next_id(call.state)
    request = Request(identity, str(tests), session=evaluation.session, kind="run-tests", tests=tests)
    begin(call, target_of(call.state, evaluation), who, request)
    current = await wait(call, identity, wait_s)
    if not current.over:
        with anyio.CancelScope(shield=True):
            await stop(call, identity, f"the red tests ran longer than {wait_s:g} s in a new process")
    return evaluation_of(call.state, identity)


async def _in_question(call: Call, evaluation: Evaluation, report: Json, *, is_all: bool) -> list[Json]:
    """The red tests that may be red in this REPL alone: proven so before, or green before, or without an edit since."""
    red = {known for known, outcome in outcomes(report).items() if outcome != PASSES}
    runs = [one for one in await runs_before(call, evaluation.repl, evaluation.session) if one[0].id != evaluation.id]
    same = await of_same_code(call, runs)
    again = [outcomes(told) for _, told in same if told.get("again")]
    known_alone = call.services.ledger.tests.only_live
    rows: dict[tuple[str, str], Json] = {}
    for row in report["results"]:
        known = (row.get("file") or row["ns"], row["test"])
        if known not in red or known in rows or not row.get("file"):
            continue
        last = next((run for run in runs if not run[1].get("fresh") and known in outcomes(run[1])), None)
        was_red = (
            last is not None
            and outcomes(last[1])[known] != PASSES
            and row["test"] not in known_alone.get(last[0].id, ())
        )
        if is_all or not was_red or (last in same and not any(one.get(known, PASSES) != PASSES for one in again)):
            rows[known] = row
    return list(rows.values())[:MOST_AGAIN]


async def of_same_code(call: Call, runs: Sequence[Run]) -> list[Run]:
    """The runs, among those given, of the files' present code, whether in the REPL or in a new process."""
    current = call.services.ledger.tests.current
    known = [run for run in runs if run[1].get("fresh") or current.get(run[0].id)]
    if not known:
        return []
    edited = await call.services.work.files.run(call.client, partial(newest_edit, call.services.workspace))
    return [run for run in known if (run[0].started_at or 0) >= edited]


def newest_edit(workspace: Path) -> int:
    """The moment of the newest edit of a file of Python, in epoch milliseconds. Blocks."""
    newest = 0
    for _, _, entries in walk(workspace, max_entries=MAX_ENTRIES):
        for entry in entries:
            if entry.name.endswith(PYTHON):
                try:
                    status = entry.stat()
                except OSError:
                    continue
                newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
    return newest // 10**6


async def ended_anew(
    call: Call,
    evaluation: Evaluation,
    who: str,
    tests: Iterable[tuple[str, str]],
    wait_s: float,
    former: Sequence[FormerFile] = (),
) -> dict[tuple[str, str], str]:
    """The outcomes of tests, by namespace and name, in a new process with the present files, or the former ones.

    Tests not reached within `wait_s` are left out, except the one at which the run was ended.
    """
    selection = TestSelection(only=tuple(tests), fresh=True, again=True, former=tuple(former))
    begun = await _run(call, evaluation, who, selection, min(wait_s, MOST_S))
    report = await report_of(call, begun) if begun.over else None
    ended: dict[tuple[str, str], str] = {}
    for row in report["results"] if report is not None else ():
        if ended.get((row["ns"], row["test"]), PASSES) == PASSES:
            ended[row["ns"], row["test"]] = row["outcome"]
    stopped = report.get("stopped") if report is not None else None
    return {**ended, (stopped["ns"], stopped["test"]): "error"} if stopped else ended


def told_only_live(call: Call, evaluation: Evaluation) -> dict[str, object]:
    """The fields that name the tests of a run that are red in this REPL alone, and those green in it alone."""
    known = call.services.ledger.tests
    names, others = known.only_live.get(evaluation.id), known.only_fresh.get(evaluation.id)
    told: dict[str, object] = {"onlyInThisRepl": list(names)} if names else {}
    return told | ({"redInNewProcess": list(others)} if others else {})


MAX_RESULTS: Final = 100
"""The results of one answer: a caller with more failures reads the first ones first."""
MAX_FRAMES: Final = 5
MOST_WHOLE: Final = 3
"""Results with all facts: further ones, which mostly fail for the same reason, have the place and the first words."""
FIRST_CHARACTERS: Final = 100
MAX_READ_CHARACTERS: Final = 32 * 2**20


async def runs_before(call: Call, repl: str, session: str) -> list[tuple[Evaluation, Json]]:
    """A session's finished runs that still have their reports, the newest first."""
    runs = [
        one
        for one in call.state.evaluations.values()
        if one.kind == "run-tests" and one.over and (one.repl, one.session) == (repl, session)
    ]
    reports = [(one, await report_of(call, one)) for one in reversed(runs)]
    return [(one, report) for one, report in reports if report is not None and not report.get("former")]


async def runs_of_repl(call: Call, repl: str, *, with_fresh: bool = False) -> list[tuple[Evaluation, Json]]:
    """The finished runs of a REPL's sessions that still have their reports, the newest first.

    `with_fresh`: runs in new processes too, except reruns.
    """
    runs = [one for one in call.state.evaluations.values() if one.kind == "run-tests" and one.over and one.repl == repl]
    reports = [(one, await report_of(call, one)) for one in reversed(runs)]
    kinds = ("again",) if with_fresh else ("fresh", "again")
    return [(one, report) for one, report in reports if report is not None and not any(map(report.get, kinds))]


async def report_of(call: Call, evaluation: Evaluation) -> Json | None:
    """The report of a finished run; None if the run gave none, or is forgotten."""
    transcript = call.services.transcripts.get(evaluation.id)
    if transcript is None or not transcript.values():
        return None
    piece = await read(partial(transcript.result.read, 0, MAX_READ_CHARACTERS), transcript)
    report: Json = json.loads(piece.text)
    return report


def run_json(
    report: Json, said: str, workspace: Path, *, passed: bool, max_bytes: int, whole: bool = False
) -> dict[str, object]:
    """A test run under the keys of an answer; the output from its end. `whole`: every result, and the tests' times."""
    listed = [row for row in report["results"] if whole or passed or row["outcome"] != "pass"]
    output = tail(said, max_bytes // 4).text
    max_bytes -= json_bytes(output)
    shown = [
        row_json(row, workspace) | ({"skipped": True} if whole and row.get("skipped") else {})
        for row in listed[: None if whole else MAX_RESULTS]
    ]
    if not (whole or passed):
        shown = [*shown[:MOST_WHOLE], *map(_in_short, shown[MOST_WHOLE:])]
    rows, note, _ = fit(shown, max_bytes)
    counts = {key: report[key] for key in ("tests", "passed", "failed", "errors")}
    if "of" in report:
        counts["of"] = report["of"]
    fields: dict[str, object] = {**counts, "results": rows, "count": len(rows)}
    if len(listed) > len(rows):
        fields["omitted"] = len(listed) - len(rows)
    if whole:
        fields["times"] = fit(report.get("times", []), max_bytes // 4)[0]
    if note:
        fields["notes"] = [note.partition(":")[0]]
    if said:
        fields["stdout"] = output
    return fields


def row_json(row: Json, workspace: Path) -> dict[str, object]:
    """A result, with the project's frames alone, innermost first."""
    frames = [_words(frame, workspace) for frame in row.get("frames", ()) if not frame.get("tooling")]
    kept = {key: value for key, value in row.items() if key not in ("frames", "skipped")}
    return {**kept, "frames": frames[:MAX_FRAMES]} if frames else kept


def _in_short(row: dict[str, object]) -> dict[str, object]:
    """A result by its name, its line and its first words."""
    actual = str(row.get("actual", "")).partition("\n")[0]
    actual = cut(actual, FIRST_CHARACTERS)
    kept: dict[str, object] = {name: row[name] for name in ("test", "ns", "outcome", "line") if name in row}
    return {**kept, "actual": actual} if actual else kept


def is_named(stopped: Json) -> bool:
    """Whether the REPL knows the test at which it was stopped; while it looked for tests there was none."""
    return bool(stopped["test"] != UNKNOWN_TEST)


def _words(frame: Mapping[str, object], workspace: Path) -> str:
    file = Path(str(frame.get("file")))
    shown = file.relative_to(workspace) if file.is_relative_to(workspace) else file
    return f"{shown}:{frame.get('line')} in {frame.get('function')}"
