"""Runs of tests as evaluations, whatever runs them: told to their end once, and interrupted where nobody waits."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import anyio

from codriver.core.values import MAIN_SESSION, Failure, TestSelection
from codriver.errors import CodriverError, ReplDisconnectedError
from codriver.net.tasks import TaskSet
from codriver.repls.contract.adapter_values import Ending, TestRun, Value
from codriver.repls.contract.errors import OpTimedOutError
from codriver.repls.contract.test_report import report_text, words_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codriver.core.values import Request
    from codriver.repls.contract.adapter_values import Ended, Listener


class RunTests(Protocol):
    """A way to run the tests of one REPL."""

    async def __call__(self, asked: TestSelection, session: str, evaluation: str | None) -> TestRun:
        """Run tests; the listener hears them under the id of an evaluation, where they are one."""
        ...


class TestEvaluations:
    """The runs of one REPL's tests. Lives as long as its adapter."""

    __test__ = False  # for pytest: it is none

    def __init__(self, run: RunTests, interrupt: Callable[[], Awaitable[object]], listener: Listener) -> None:
        self._run = run
        self._interrupt = interrupt
        self._listener = listener
        self._tasks = TaskSet()

    async def end(self) -> None:
        """End all that runs, when its connection is over."""
        await self._tasks.end()

    def start(self, request: Request, ended: Ended) -> None:
        """Run tests as an evaluation, whose value is the run as `test_report` writes it."""
        self._tasks.start(self._evaluate(request, ended))

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run tests. A run that is cancelled, or takes too long, is interrupted.

        Raises:
            OpTimedOutError: it took longer than `timeout_s`.
        """
        with anyio.move_on_after(timeout_s):
            try:
                return await self._run(TestSelection(namespace, test), session, None)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True), suppress(CodriverError):
                    await self._interrupt()
                raise
        raise OpTimedOutError("test", timeout_s)

    async def _evaluate(self, request: Request, ended: Ended) -> None:
        how: Ending | Exception = ReplDisconnectedError("it was closed by us")
        try:
            asked = request.tests or TestSelection()
            run = await self._run(asked, request.session, request.id)
            self._listener(request.id, Value(report_text(run, is_fresh=asked.fresh, is_again=asked.again)))
            failure = Failure("tests-failed", words_of(run)) if run.failed + run.errors else None
            how = Ending("failed" if failure else "done", failure=failure, said=f"{request.code}: {words_of(run)}")
            if run.stopped:
                how = replace(how, status="interrupted")
        except Exception as error:  # noqa: BLE001  # it goes to who is told of the end
            how = error
        finally:
            ended(how)


def alternatives(match: str) -> list[list[str]]:
    """The words of `match` as alternatives of words that all hold, `!` before what must not; empty where it has more.

    Small letters, as names are compared so.
    """
    if re.search(r"[()]", match) or not match.strip():
        return []
    either = re.split(r"\s+or\s+", match.strip().lower())
    each = [re.split(r"\s+and\s+", part) for part in either]
    words = [[re.sub(r"^not\s+", "!", word) for word in part] for part in each]
    return words if all(re.fullmatch(r"!?[^\s!]+", word) for part in words for word in part) else []
