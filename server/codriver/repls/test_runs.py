"""Test runs in a REPL, and the one shape of their results, whichever program ran them.

A test run is an evaluation, and is interrupted if nobody waits for it. Results of cider-nrepl have the same shape.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, Protocol

import anyio

from codriver.core.values import MAIN_SESSION, Failure, TestSelection
from codriver.errors import CodriverError
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.repls.contract.adapter_values import Ending, TestResult, TestRun, TestTime, Value
from codriver.repls.contract.questions import read_file
from codriver.repls.contract.reports import report_text, words_of
from codriver.repls.evaluation_tasks import Evaluations
from codriver.repls.stack_traces import frames_of
from codriver.wire.untrusted import as_int, as_list, as_map, as_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from codriver.core.values import Request
    from codriver.repls.contract.adapter_values import Ended, Listener
    from codriver.repls.dialects.server_dialect import Dialect


class RunTests(Protocol):
    """A way to run the tests of one REPL."""

    async def __call__(self, asked: TestSelection, session: str, evaluation: str | None) -> TestRun:
        """Run tests; the listener gets their events under the id of an evaluation, if they are one."""
        ...


class TestEvaluations:
    """The runs of one REPL's tests. Lives as long as its adapter."""

    __test__ = False  # for pytest, which would take it for a test

    def __init__(self, run: RunTests, interrupt: Callable[[], Awaitable[object]], listener: Listener) -> None:
        self._run = run
        self._interrupt = interrupt
        self._listener = listener
        self._evaluations = Evaluations()
        self.end = self._evaluations.end

    def start(self, request: Request, ended: Ended) -> None:
        """Run tests as an evaluation, whose value is the run as `report_text` writes it."""
        self._evaluations.begin(ended, self._evaluate(request))

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run tests. A run that is cancelled, or takes too long, is interrupted.

        Raises:
            OpTimedOutError: the run took longer than `timeout_s`.
        """
        with anyio.move_on_after(timeout_s):
            try:
                return await self._run(TestSelection(namespace, test), session, None)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True), suppress(CodriverError):
                    await self._interrupt()
                raise
        raise OpTimedOutError("test", timeout_s)

    async def _evaluate(self, request: Request) -> Ending:
        asked = request.tests or TestSelection()
        run = await self._run(asked, request.session, request.id)
        self._listener(request.id, Value(report_text(run, is_fresh=asked.fresh)))
        failure = Failure("tests-failed", words_of(run)) if run.failed + run.errors else None
        ending = Ending("failed" if failure else "done", failure=failure, said=f"{request.code}: {words_of(run)}")
        return replace(ending, status="interrupted") if run.stopped else ending


def alternatives(match: str) -> list[list[str]]:
    """The words of `match` as alternatives of words that all hold, `!` before forbidden ones; empty for more.

    In small letters, as names are compared in them.
    """
    if re.search(r"[()]", match) or not match.strip():
        return []
    either = re.split(r"\s+or\s+", match.strip().lower())
    each = [re.split(r"\s+and\s+", part) for part in either]
    words = [[re.sub(r"^not\s+", "!", word) for word in part] for part in each]
    return words if all(re.fullmatch(r"!?[^\s!]+", word) for part in words for word in part) else []


COLLECTION: Final = "(collection)"
"""The row of a test file that pytest could not read, or skipped as a whole: no test."""
_WORST_FIRST: Final = {"error": 0, "fail": 1, "pass": 2}
OUTPUT_CHARS: Final = 50_000


def tests_of(data: object, dialect: Dialect, *, output: str) -> TestRun:
    """The run in the answer to our own question."""
    fields = as_map(data)
    results = [result_of(as_map(item), dialect) for item in as_list(fields.get("results"))]
    times = tuple(time for item in as_list(fields.get("times")) for time in _times(item))
    run = run_of(results, tests=as_int(fields.get("tests")), output=output)
    run = replace(run, times=times, of=as_int(fields.get("of")))
    stopped = as_map(fields.get("stopped"))
    return replace(run, stopped=result_of(stopped, dialect)) if stopped else run


def _times(item: object) -> Iterator[TestTime]:
    """The time of a test, told as its namespace, its name and seconds; nothing for another form."""
    match item:
        case [str(namespace), str(test), float() | int() as seconds]:
            yield TestTime(namespace, test, float(seconds))


def run_of(results: list[TestResult], *, tests: int | None, output: str) -> TestRun:
    """The run of these results, the worst first; of `tests` tests, or as many as the results name."""
    outcomes = [result.outcome for result in results]
    hows = Counter(result.how for result in results if result.test != COLLECTION)
    return TestRun(
        tests=len({(result.namespace, result.test) for result in results}) if tests is None else tests,
        passed=sum(one.outcome == "pass" and one.test != COLLECTION and not one.how for one in results),
        failed=outcomes.count("fail"),
        errors=outcomes.count("error"),
        results=tuple(sorted(results, key=lambda result: _WORST_FIRST[result.outcome])),
        output=output[-OUTPUT_CHARS:],
        skipped=hows["skipped"],
        xfailed=hows["xfailed"],
        xpassed=hows["xpassed"],
    )


def _how(told: object) -> Literal["", "skipped", "xfailed", "xpassed"]:
    match told:
        case "skipped" | "xfailed" | "xpassed":
            return told
        case _:
            return ""


def result_of(fields: Mapping[str, object], dialect: Dialect) -> TestResult:
    """The result in these parts."""
    outcome = as_text(fields.get("outcome")) or as_text(fields.get("type"))
    file, line = read_file(as_text(fields.get("file"))), as_int(fields.get("line"))
    # An error is reported at its throw, which may be in a library; the test's own place says more.
    if fields.get("var-file") and (file is None or outcome == "error"):
        file, line = read_file(as_text(fields.get("var-file"))), as_int(fields.get("var-line"))
    context, message = as_text(fields.get("context")), as_text(fields.get("message"))
    return TestResult(
        test=as_text(fields.get("test")) or as_text(fields.get("var")) or "?",
        namespace=as_text(fields.get("ns")) or "?",
        outcome="pass" if outcome == "pass" else "fail" if outcome == "fail" else "error",
        message=": ".join(part for part in (context, message) if part) or None,
        expected=(as_text(fields.get("expected")) or "").rstrip() or None,
        actual=(as_text(fields.get("actual")) or as_text(fields.get("error")) or "").rstrip() or None,
        file=file,
        line=line,
        frames=frames_of(fields, dialect),
        how=_how(fields.get("how")),
    )
