"""Run tests in a REPL as evaluations, which are interrupted when nobody is waiting for them."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import anyio

from codriver.core.evaluations import Failure
from codriver.core.log_facts import TestFacts
from codriver.core.requests import MAIN_SESSION, TestSelection
from codriver.errors import CodriverError
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.repls.contract.events import Ending, Value
from codriver.repls.contract.test_reports import encode_report, failed_test_names, stopped_test_name, summarize_run
from codriver.repls.evaluation_tasks import EvaluationTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codriver.core.requests import Request
    from codriver.repls.contract.events import Listener, OnEnd
    from codriver.repls.contract.test_run_values import TestRun


class RunTests(Protocol):
    """A function that runs tests in one REPL."""

    async def __call__(self, selection: TestSelection, session: str, evaluation: str | None) -> TestRun:
        """Run the selected tests. If `evaluation` is an id, the listener receives their events under that id."""
        ...


class TestEvaluations:
    """Runs tests in one REPL as evaluations. An instance lives as long as its adapter."""

    def __init__(self, run: RunTests, interrupt: Callable[[], Awaitable[object]], listener: Listener) -> None:
        self._run = run
        self._interrupt = interrupt
        self._listener = listener
        self._evaluations = EvaluationTasks()
        self.end = self._evaluations.end

    def start(self, request: Request, on_end: OnEnd) -> None:
        """Start a test run as an evaluation. Its value is the JSON that `encode_report` returns."""
        self._evaluations.start_task(on_end, self._evaluate(request))

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run tests and return their results. Interrupt the run if it is cancelled or exceeds `timeout_s`.

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
        selection = request.tests or TestSelection()
        run = await self._run(selection, request.session, request.id)
        self._listener(request.id, Value(encode_report(run)))
        failure = Failure("tests-failed", summarize_run(run)) if run.failed + run.errors else None
        log_line, data = f"{request.code}: {summarize_run(run)}", run_facts(request, run).to_data()
        ending = Ending("failed" if failure else "done", failure=failure, log_line=log_line, data=data)
        return replace(ending, status="interrupted") if run.stopped else ending


def run_facts(request: Request, run: TestRun) -> TestFacts:
    """Return the facts about a finished test run that are recorded in the log."""
    selection = request.tests or TestSelection()
    counts = {name: getattr(run, name) for name in ("passed", "failed", "errors", "skipped", "xfailed", "xpassed")}
    named = "/".join(part for part in (selection.namespace, selection.test) if part)
    return TestFacts(
        job=request.id,
        tests=request.code,
        counts=counts,
        failures=failed_test_names(run),
        paths=(named,) if named else (),
        is_partial=bool(selection.match or selection.only),
        stopped=None if run.stopped is None else stopped_test_name(run.stopped),
    )


def parse_selection(match: str) -> list[list[str]]:
    """Split a test selection such as `a and not b or c` into alternatives, each a list of words that must all match.

    The words are lowercase, and a leading `!` means that a word must not match. Returns an empty list for syntax that
    is not supported, such as parentheses.
    """
    if re.search(r"[()]", match) or not match.strip():
        return []
    either = re.split(r"\s+or\s+", match.strip().lower())
    each = [re.split(r"\s+and\s+", part) for part in either]
    words = [[re.sub(r"^not\s+", "!", word) for word in part] for part in each]
    return words if all(re.fullmatch(r"!?[^\s!]+", word) for part in words for word in part) else []
