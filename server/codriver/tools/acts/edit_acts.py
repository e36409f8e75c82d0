"""Acts of `edit_files` in a live REPL: edited definitions are loaded and tested, and put back if that fails.

Putting back runs no code of the user's a second time: the REPL kept the objects that the load replaced.
"""

from __future__ import annotations

import hashlib
import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.values import MAIN_SESSION, FormerFile
from codriver.errors import CodriverError, RefusedError, ReplDisconnectedError, refused
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.questions import Restore
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.acts.affected_tests import COLLECTION, Choice, TestsRun, choose, with_no_time, words_of_passes
from codriver.tools.acts.edited_files import in_new_process
from codriver.tools.acts.file_loads import EditLoads, Gone, unwatched_save
from codriver.tools.acts.submission import check_free
from codriver.tools.acts.test_runs import TestArguments, ended_anew, is_named, look_again, report_of, run_tests
from codriver.tools.answers.drift_notes import PASSES, drift_or_none, told_of_lost
from codriver.tools.calls.evaluation_waits import evaluation_of, wait
from codriver.tools.calls.gate import await_search
from codriver.tools.calls.session_choice import Target, await_server, in_lane, server_of, used_repls
from codriver.wire.untrusted import as_int, as_maps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation
    from codriver.editing import Outcome, PutBack
    from codriver.tools.acts.affected_tests import Test
    from codriver.tools.answers.lean_answers import Evaluating
    from codriver.tools.calls.base import Call

AFFECTED: Final = "affected"
"""In place of tests' names: see `affected_tests`."""
TESTS_S: Final = 50.0
"""The time for all tests of one act: a client waits a minute."""
LEAST_S: Final = 1.0
LATE_S: Final = 10.0
MOST_NAMED: Final = 20
MOST_RED: Final = 5
"""Tests that are named although they fail without the edit too: run_tests tells all of them."""
MOST_FORMER_BYTES: Final = 2**20
"""The bytes of an act's files in their former state, which travel with the question whether a test was red then."""
TOLD: Final = ("reason", "message", "hint", "evaluationId", "failed", "errors", "results", "omitted", "stdout", "notes",
               "stoppedIn", "stacks", "onlyInThisRepl")  # fmt: skip
"""The fields that an answer tells of failed tests."""
ONLY_HERE: Final = (
    "{words}; that is of this REPL alone, as the tests pass in a new process: the edit is kept, the REPL has the "
    "former definitions; load_file with whole, or restart_repl"
)
NO_TESTS: Final = ("no-tests", "unknown-namespace")
NONE_NAMED: Final = "give names in test, or leave test out: then only a load that fails is put back"
PUT_BACK: Final = "{all} as before; what loading or tests did beyond them is not undone"
NOT_PUT_BACK: Final = "{all} as before; definitions were not put back: {why}"


class LiveSteps:
    """The steps of one act in the REPLs that serve its files. See `codriver.editing.editor.LiveSide`.

    `rows` is the answer's part on each file's load by the file's place, `fields` its part on tests and failures.
    """

    def __init__(
        self,
        call: Call,
        who: str,
        asked: Evaluating,
        tests: Sequence[str],
        gone: Callable[[Outcome], Mapping[int, Sequence[Gone]]],
        *,
        restores: bool,
    ) -> None:
        self.fields: dict[str, object] = {}
        self._call = call
        self._tests = tests
        self._gone = gone
        self._hold = uuid.uuid4().hex if restores else ""
        self._loads = EditLoads(call, who, asked, hold=self._hold)
        self._given_who = asked.who
        self._has_run_anew = False
        """True once the tests passed in a new process, after the load failed in the REPL alone."""
        self._who = who
        self._began_ms = 0
        """The time at which the load began."""
        self._greened: set[Test] = set()
        """The tests that were red last, and pass."""
        self._red_before: dict[Test, None] = {}
        """The tests that fail, and failed without the edit too."""

    @property
    def rows(self) -> Mapping[int, Mapping[str, object]]:
        """The row of each load, by the place of its file among those edited."""
        return self._loads.rows

    @property
    def _is_affected(self) -> bool:
        return list(self._tests) == [AFFECTED]

    async def check(self, files: Iterable[str]) -> None:
        """Check, before anything is written, that all steps can be done.

        Raises:
            RefusedError: a step cannot be done.
        """
        await await_search(self._call.services.core)
        for file in dict.fromkeys(files):
            path = self._call.services.workspace / file
            if not dialects_by_suffix().get(path.suffix):
                continue
            if self._hold or self._tests:
                await await_server(self._call, path, self._call.services.live.settings.evaluate_timeout_ms / 1000)
            repl = self._server(path)
            if not isinstance(repl, str):
                shared = Target(repl, repl.sessions[MAIN_SESSION])
                check_free(self._call, in_lane(self._call, shared, self._who), self._who)
                for capability in (*(["restore"] if self._hold else []), *(["test"] if self._tests else [])):
                    _require(repl, capability)
            elif self._hold or self._tests:
                raise refused(
                    "no-repl",
                    f"{repl or f'no connected REPL serves {file}'}, so nothing was written",
                    hint="start one (see list_sessions), or leave test and onFailure out",
                )

    async def load(self, outcome: Outcome) -> bool:
        """Load the changed code."""
        self._began_ms = self._call.services.now()
        await self._loads.run(outcome.files, self._gone(outcome))
        self.fields = dict(self._loads.failure)
        if not self._loads.is_done and not self.fields and self._hold:
            self.fields = {"reason": "interrupted", "message": "the load was ended before it was done"}
        elif not self._loads.is_done and not self.fields and self._tests:
            self.fields = {"notTested": "the load is not done: get_evaluation waits for it, then run_tests"}
        if not self._loads.is_done and self._hold and await self._passes_anew(outcome):
            self._has_run_anew = True
        return self._loads.is_done or self._has_run_anew

    async def test(self, outcome: Outcome) -> bool:
        """Run the tests: in a new process if a module holds a name that the edit took away, else in the REPL."""
        if not self._tests or self._has_run_anew:
            return True
        choice = await self._choice(outcome)
        lost = await self._lost(outcome)
        is_well = await self._tests_anew(outcome, choice) if lost else None
        notes = lost if is_well is None else in_new_process(lost)
        if is_well is None:
            is_well = await self._tests_here(outcome, choice)
        if notes:
            told = self.fields.get("notes")
            self.fields = {**self.fields, "notes": [*notes, *(told if isinstance(told, list | tuple) else ())]}
        return is_well

    async def _lost(self, outcome: Outcome) -> Sequence[str]:
        """Notes on names that modules hold and the edit took away: tests that pass here by them fail elsewhere."""
        repls = [self._call.state.repls.get(one) for one in self._loads.repls]
        found = [one for repl in repls if repl for one in await drift_or_none(self._call, repl, "old")]
        return told_of_lost(found, [result.change.path for result in outcome.files])

    async def _tests_anew(self, outcome: Outcome, choice: Choice) -> bool | None:
        """True if the tests pass in a new process; None if unknown, as no test ran there or one was late."""
        count, failed = await self._run_anew(outcome, choice)
        if _is_late(failed) if failed is not None else not count:
            return None
        self.fields = {**(words_of_passes(count, choice) if failed is None else failed), **self._told_red_before()}
        return failed is None

    async def _tests_here(self, outcome: Outcome, choice: Choice) -> bool:
        """Run the tests in the REPL, one run after the other, until one fails."""
        is_affected = self._is_affected
        passed: list[str] = []
        only_here: list[str] = []
        count, has_run = 0, False
        left: Sequence[TestsRun] = ()
        ends_at = anyio.current_time() + TESTS_S
        for number, run in enumerate(choice.runs):
            left_s = min(self._call.services.durations.tests_s, ends_at - anyio.current_time())
            if left_s < LEAST_S and has_run and is_affected:
                left = choice.runs[number:]
                break
            if left_s < LEAST_S:
                self.fields = {"reason": "timed-out", "message": f"no time was left for the tests of {run.shown}"}
                return False
            found, is_well = await self._run(run, left_s)
            if not is_well and is_affected and found.get("reason") in NO_TESTS:
                continue
            is_late = found.get("reason") == "timed-out"
            is_kept = is_well or (is_affected and has_run and _is_late(found))
            if not is_kept and not (is_affected and await self._is_blameless(found, run, choice, outcome)):
                self.fields = {**_failure(found, run.shown), **self.fields}
                return False
            if is_well:
                self._greened |= choice.red.intersection(run.only)
            named = found.get("onlyInThisRepl")
            only_here += named if isinstance(named, list) else []
            count += as_int(found.get("passed")) or 0
            if is_late:
                left = choice.runs[number:]
                break
            has_run = True
            passed += [f"{row['ns']}/{row['test']}" for row in as_maps(found.get("results"))]
        if not has_run and not left:
            return self._found_none(outcome)
        more = [f"{len(passed) - MOST_NAMED} more"] if len(passed) > MOST_NAMED else []
        self.fields = words_of_passes(count, choice) if is_affected else {"tests": [*passed[:MOST_NAMED], *more]}
        self.fields |= {"onlyInThisRepl": list(dict.fromkeys(only_here))} if only_here else {}
        self.fields |= self._told_red_before()
        self.fields = with_no_time(self.fields, left) if left else self.fields
        return True

    async def _run(self, run: TestsRun, left_s: float, *, is_fresh: bool = False) -> tuple[dict[str, object], bool]:
        """The fields of the answer about one run, and whether all passed."""
        given: dict[str, object] = {"namespace": run.namespace, "replSessionKey": run.repl, "who": self._given_who}
        # A load of a file outside the act could change objects that the act could not put back.
        given |= {
            "timeoutMs": int(left_s * 1000),
            "passed": True,
            "load": False,
            "again": False,
            "fresh": is_fresh,
            "onTimeout": "interrupt",
        }
        try:
            answer = await run_tests(
                self._call, TestArguments.model_validate(given), run.only, run.shown if run.only else ""
            )
        except (RefusedError, ReplDisconnectedError) as error:
            return _words_of(error), False
        fields, is_well = dict(answer.fields), answer.ok
        if is_well or is_fresh or fields.get("reason") != "tests-failed":
            return fields, is_well
        return await self._with_only_here(fields, left_s)

    async def _with_only_here(self, fields: dict[str, object], left_s: float) -> tuple[dict[str, object], bool]:
        """The fields of a run that failed; all is well if each failure of this REPL passes in a new process."""
        call, ledger = self._call, self._call.services.ledger.tests
        evaluation = evaluation_of(call.state, str(fields["evaluationId"]))
        with suppress(RefusedError, ReplDisconnectedError):
            await look_again(call, evaluation, self._who, left_s, is_all=True)
        names = ledger.only_live.get(evaluation.id, ())
        count = (as_int(fields.get("failed")) or 0) + (as_int(fields.get("errors")) or 0)
        if not names:
            return fields, False
        told = {**fields, "onlyInThisRepl": list(names)}
        if len(names) < count:
            return told, False
        passed = [row for row in as_maps(fields.get("results")) if row.get("outcome") == "pass"]
        return {**told, "results": passed}, True

    async def _passes_anew(self, outcome: Outcome) -> bool:
        """Whether the tests pass in a new process of Python, after the load failed in the live REPL."""
        if not self._tests or self.fields.get("reason") != "evaluation-failed":
            return False
        if any(result.change.path.suffix != ".py" for result in outcome.files):
            return False
        choice = await self._choice(outcome)
        failure = self.fields
        count, failed = await self._run_anew(outcome, choice)
        if failed is not None or not count:
            self.fields = failure
            return False
        error = failure.get("error")
        words = f"{error['class']}: {error['message']}" if isinstance(error, dict) else "its load failed"
        self.fields = {**words_of_passes(count, choice), "loadFailedHere": ONLY_HERE.format(words=words)}
        self.fields |= self._told_red_before()
        return True

    async def _run_anew(self, outcome: Outcome, choice: Choice) -> tuple[int, Mapping[str, object] | None]:
        """The number of tests that pass in a new process, and the first of the failures there that the edit caused."""
        count = 0
        for run in choice.runs:
            found, is_well = await self._run(run, self._call.services.durations.tests_s, is_fresh=True)
            if not is_well and found.get("reason") in NO_TESTS:
                continue
            if not is_well and not (self._is_affected and await self._is_blameless(found, run, choice, outcome)):
                return count, _failure(found, run.shown)
            self._greened |= choice.red.intersection(run.only) if is_well else set()
            count += as_int(found.get("passed")) or 0
        return count, None

    async def _is_blameless(self, found: Mapping[str, object], run: TestsRun, choice: Choice, outcome: Outcome) -> bool:
        """True if all that failed in a run, or ended it, did so before the edit too.

        An edit that mends none of the red tests that it may be there to mend is to blame for them.
        """
        if not self._hold or "evaluationId" not in found:
            return False
        # The words of an ended run come late on a busy machine.
        evaluation = await wait(self._call, str(found["evaluationId"]), LATE_S)
        report = await report_of(self._call, evaluation) if evaluation.over else None
        if report is None:
            return False
        only_here = found.get("onlyInThisRepl")
        here = set(only_here) if isinstance(only_here, list) else set()
        failed = {(row["ns"], row["test"]) for row in report["results"] if row["outcome"] != PASSES}
        ran = {(row["ns"], row["test"]) for row in report["results"]}
        self._greened |= {one for one in choice.red.intersection(run.only) if one not in failed and _is_in(one, ran)}
        failed -= {one for one in failed if one[1] in here}
        stays = failed & choice.red
        if stays & choice.mended and not self._greened:
            passing = {one for one in choice.red.intersection(run.only) if one[1] in here}
            former = await self._ended_before(evaluation, outcome, passing)
            self._greened = {one for one in passing if former.get(one, PASSES) != PASSES}
            if not self._greened:
                return False
        asked = failed - choice.red
        slow: set[Test] = set()
        stopped = report.get("stopped")
        if stopped and not (is_named(stopped) or report["passed"]):
            return False
        if stopped and is_named(stopped) and (late := (stopped["ns"], stopped["test"])) not in choice.red:
            slow = set() if await self._passes_alone(evaluation, late) else {late}
        before = await self._ended_before(evaluation, outcome, asked, slow - asked)
        was_red = {one for one in asked | slow if before.get(one, PASSES) != PASSES}
        self._red_before |= dict.fromkeys(sorted({*stays, *was_red}))
        self.fields = self._told_red_before()
        return was_red == asked | slow

    async def _passes_alone(self, evaluation: Evaluation, test: Test) -> bool:
        """True if a test that was ended for its time passes in a new process: it was slow, and does not hang."""
        with suppress(RefusedError, ReplDisconnectedError):
            ended = await ended_anew(self._call, evaluation, self._who, [test], self._call.services.durations.tests_s)
            return ended.get(test) == PASSES
        return False

    async def _ended_before(self, evaluation: Evaluation, outcome: Outcome, *groups: set[Test]) -> Mapping[Test, str]:
        """The outcomes of tests with the files in their state before the edit, each group in a new process of Python.

        The files on the disk stay as the edit left them: others read them, and this server may be killed.
        """
        call, repl = self._call, self._call.state.repls.get(evaluation.repl)
        asked = [group for group in groups if group]
        ended: dict[Test, str] = {}
        if not asked or repl is None or repl.dialect != "python":
            return ended
        former = former_files(outcome)
        with suppress(RefusedError, ReplDisconnectedError):
            for group in asked if former else ():
                wait_s = call.services.durations.tests_s
                ended |= await ended_anew(call, evaluation, self._who, group, wait_s, former)
        return ended

    def _told_red_before(self) -> dict[str, object]:
        names = [test for _, test in self._red_before]
        more = [f"{len(names) - MOST_RED} more"] if len(names) > MOST_RED else []
        return {"redBefore": [*names[:MOST_RED], *more]} if names else {}

    def _found_none(self, outcome: Outcome) -> bool:
        """The end of an edit without a test that ran: false if only a passing edit is to be kept."""
        first, *others = [result.shown for result in outcome.files]
        words = f"no test runs, imports or is named after {first}" + (f" or {len(others)} more" if others else "")
        if self._hold:
            self.fields = {"reason": "no-tests", "message": words, "hint": NONE_NAMED}
        else:
            self.fields = {"notTested": f"{words}: give names, or run_tests"}
        return not self._hold

    async def keep(self) -> None:
        """Let go of the former definitions."""
        await self._end_holds(keep=True)

    async def put_back(self) -> tuple[Sequence[str], str]:
        """Put back the former definitions."""
        for one in self._call.state.evaluations.values():
            if one.kind == "run-tests" and one.repl in self._loads.repls and (one.started_at or 0) >= self._began_ms:
                self._call.services.ledger.tests.taken_back[one.id] = True
        return await self._end_holds(keep=False)

    async def _end_holds(self, *, keep: bool) -> tuple[Sequence[str], str]:
        left: list[str] = []
        why = []
        for repl, (key, generation) in self._loads.repls.items() if self._hold else ():
            now = self._call.state.repls.get(repl)
            if now is None or now.phase != "connected" or now.generation != generation:
                why.append(f"the REPL {key} is another one now, or none, and holds nothing of this")
                continue
            try:
                stayed = await self._call.services.repls.adapter(repl).ask(Restore(self._hold, keep))
                left += stayed
            except CodriverError as error:
                why.append(f"{key}: {error}")
        return left, "; ".join(why)

    async def _choice(self, outcome: Outcome) -> Choice:
        """The runs of tests."""
        if self._is_affected:
            return await choose(self._call, outcome.files, self._server)
        loaded = [key for key, _ in self._loads.repls.values()]
        own = [repl.key for one in outcome.files if not isinstance(repl := self._server(one.change.path), str)]
        key = (loaded or own or [""])[0]
        return Choice(tuple(TestsRun(key, name) for name in self._tests))

    def _server(self, path: Path) -> Repl | str:
        """The REPL that serves a file, or in words why none does."""
        call = self._call
        used = used_repls(call, self._who)
        return server_of(path, call.state.repls.values(), call.services.workspace, used) or ""


def told(put_back: PutBack) -> dict[str, object]:
    """The fields of an answer about an act that was put back."""
    left = [*put_back.files, *put_back.names]
    form, them = (NOT_PUT_BACK, "files") if put_back.why else (PUT_BACK, "files and definitions")
    them = f"all {them} but leftAsNewer are" if left else f"{them} are"
    fields: dict[str, object] = {"restored": form.format(all=them, why=put_back.why)}
    if left:
        fields["leftAsNewer"] = left
    return fields


async def put_files(call: Call, caller: str, outcome: Outcome) -> Sequence[str]:
    """Put the files of a batch back, so that no watcher loads them; the files that stay."""
    services = call.services
    with services.ledger.saves.writing():
        left = await services.editor.put_back(caller, outcome)
        for result in outcome.files:
            await services.work.files.run(call.client, partial(unwatched_save, services, result.change.path))
        return left


def former_files(outcome: Outcome) -> list[FormerFile]:
    """The files of a batch in their state before it; none if they are too large to be sent, or one was removed."""
    changes = [result.change for result in outcome.files]
    if sum(len(change.before.data or b"") for change in changes) > MOST_FORMER_BYTES:
        return []
    if any(change.after is None for change in changes):
        return []
    return [
        FormerFile(str(change.path), change.before.data, hashlib.sha256(change.after or b"").hexdigest())
        for change in changes
    ]


def _require(repl: Repl, capability: str) -> None:
    profile = repl.profile
    if profile is not None and capability not in profile.capabilities:
        message = f"{repl.key} cannot {'run tests' if capability == 'test' else 'put definitions back'}"
        why = profile.missing.get(capability)
        raise CapabilityMissingError(capability, why, message=f"{message}: nothing was written")


def _failure(found: Mapping[str, object], name: str) -> dict[str, object]:
    """The failures of a test run, without the tests that passed."""
    failed = [row for row in as_maps(found.get("results")) if row.get("outcome") != "pass"]
    fields = {key: found[key] for key in TOLD if key in found and key != "results"}
    if failed:
        fields["results"] = failed
    return fields if failed or "message" in fields else {**fields, "message": f"the tests of {name} did not pass"}


def _is_late(found: Mapping[str, object]) -> bool:
    """True if the time alone ended a run of tests, without a failure."""
    return found.get("reason") == "timed-out" and not (found.get("failed") or found.get("errors"))


def _is_in(test: Test, ran: Iterable[Test]) -> bool:
    """True if a test ran; for a file's collection, if any of its tests did."""
    return test in ran or (test[1] == COLLECTION and any(home == test[0] for home, _ in ran))


def _words_of(error: RefusedError | ReplDisconnectedError) -> dict[str, object]:
    if isinstance(error, RefusedError):
        return {"reason": error.reason, "message": error.message, "hint": error.hint}
    return {"reason": "repl-disconnected", "message": str(error), "hint": "see list_sessions"}
