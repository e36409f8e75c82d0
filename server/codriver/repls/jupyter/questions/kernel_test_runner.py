"""The tests of a Python project, run in a kernel: by our own program, on its main thread, silently.

What the tests print is told as it comes. The run waits for its turn as an evaluation does, and no client sees its code.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.values import Failure, TestSelection
from codriver.repls.contract.adapter_values import (
    UNKNOWN_TEST,
    CallsRecorded,
    Display,
    Interruption,
    Output,
    TestResult,
    TestRun,
)
from codriver.repls.contract.errors import EvaluationFailedError, NamespaceMissingError
from codriver.repls.contract.reports import TestProgress
from codriver.repls.dialects import WORKER_PYTHON
from codriver.repls.jupyter.questions.kernel_questions import silently, told_by
from codriver.repls.jupyter.questions.python_questions import read_answer, read_told
from codriver.repls.jupyter.running.execution import Execution, stop
from codriver.repls.jupyter.running.kernel import EXECUTE, Exchange
from codriver.repls.shared import TestEvaluations, alternatives, frames_of, marked, tests_of
from codriver.wire.untrusted import as_map, mapping_of, text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codriver.core.values import Request
    from codriver.repls.contract.adapter_values import Ended, Event, Listener
    from codriver.repls.jupyter.questions.python_questions import PythonQuestions
    from codriver.repls.jupyter.running.kernel import Kernel

IDLE_S: Final = 2.0
"""How long after its reply a run waits for what the tests printed last."""
WHAT: Final = "the test run"
STOPPED: Final = TestRun(0, 0, 0, 0, (), stopped=TestResult(UNKNOWN_TEST, UNKNOWN_TEST, "error"))


class KernelTestRunner:
    """Runs the tests of one Python kernel, for the life of its connection. `interrupt` stops what the kernel runs."""

    __test__ = False  # for pytest: it is none

    def __init__(
        self, kernel: Kernel, python: PythonQuestions, listener: Listener, interrupt: Callable[[], Awaitable[str]]
    ) -> None:
        self._kernel = kernel
        self._python = python
        self._listener = listener
        self._interrupt_kernel = interrupt
        self._under_way: list[_Run] = []
        self._evaluations = TestEvaluations(self._run, interrupt, listener)
        self.run_tests = self._evaluations.run_tests
        self.end = self._evaluations.end

    def start(self, request: Request, ended: Ended) -> None:
        """Run tests as an evaluation."""
        self._kernel.check_open()
        self._evaluations.start(request, ended)

    def so_far(self, evaluation: str) -> TestRun | None:
        """The tests that have ended of a run under way."""
        found = next((run.progress.run for run in self._under_way if run.evaluation == evaluation), None)
        return self._marked(found) if found is not None else None

    async def interrupt(self) -> Interruption:
        """Stop the run that was begun first, or take it back where it waits for its turn."""
        if not self._under_way:
            return Interruption("idle")
        run = self._under_way[0]
        return await stop(run.waiting, run.over, self._interrupt_kernel)

    async def _run(self, asked: TestSelection, session: str, evaluation: str | None) -> TestRun:
        del session  # a kernel has one
        run = _Run(evaluation, self._listener, self._kernel)
        self._under_way.append(run)
        try:
            run.waiting = anyio.CancelScope()
            with run.waiting:
                async with self._kernel.turn():
                    run.waiting = None
                    await self._python.bring_in_now()
                    is_recorded = asked.trace is not None or asked.covers
                    if is_recorded:
                        await self._python.record(asked.trace, covers=asked.covers)
                    try:
                        reply = await run.send(self._python.test_expression(code_of(asked)))
                    finally:
                        if is_recorded and evaluation is not None:
                            await self._tell_recorded(evaluation)
                return self._marked(run_of(reply, asked, "".join(run.printed)))
            return STOPPED
        finally:
            self._under_way.remove(run)
            run.over.set()

    async def _tell_recorded(self, evaluation: str) -> None:
        calls = await self._python.recorded()
        if calls is not None:
            self._listener(evaluation, CallsRecorded(calls))

    def _marked(self, run: TestRun) -> TestRun:
        """The run with the frames in files of the workspace as the user's."""
        workspace = self._python.workspace
        results = [replace(result, frames=marked(result.frames, workspace)) for result in run.results]
        return replace(run, results=tuple(results))


class _Run:
    """One test run under way."""

    def __init__(self, evaluation: str | None, listener: Listener, kernel: Kernel) -> None:
        self.printed: list[str] = []
        self.progress = TestProgress(partial(frames_of, dialect=WORKER_PYTHON))
        self.waiting: anyio.CancelScope | None = None
        """Of its wait for a turn, as long as the code can be taken back."""
        self.over = anyio.Event()
        self.evaluation = evaluation
        self._listener = listener
        self._kernel = kernel

    async def send(self, expression: str) -> Mapping[str, object]:
        """Send the expression, and wait for its end; what the kernel tells of it."""
        execution = Execution(self._heard, self._kernel.info.quirks)
        exchange = self._kernel.post("shell", EXECUTE, silently(expression), Exchange(execution.take))
        try:
            await exchange.replied.wait()
            with anyio.move_on_after(IDLE_S):
                await exchange.idle.wait()
        finally:
            self._kernel.finish(exchange)
        self._kernel.check_open()
        return told_by(exchange.reply)

    def _heard(self, event: Event) -> None:
        if isinstance(event, Output) and (text := self.progress.take(event.text)):
            self.printed.append(text)
            if self.evaluation is not None:
                self._listener(self.evaluation, Output("out", text))
        elif isinstance(event, Display) and self.evaluation is not None:
            self._listener(self.evaluation, event)


def code_of(asked: TestSelection) -> str:
    """The expression that runs the tests, in Python."""
    return WORKER_PYTHON.expression(
        "test-fresh" if asked.fresh else "test",
        ns=asked.namespace or "",
        name=asked.test or "",
        match=asked.match or "",
        words=alternatives(asked.match or ""),
        only=asked.only,
        root="",
        former=[one.words() for one in asked.former],
    )


def run_of(told: Mapping[str, object], asked: TestSelection, printed: str) -> TestRun:
    """The run that the kernel's answer reports.

    Raises:
        NamespaceMissingError: there is no such module or file.
        EvaluationFailedError: there is no such test, or it does not load.
    """
    if text_of(told, "ename") == "KeyboardInterrupt":
        return STOPPED
    answer = read_told(WHAT, told)
    if text_of(mapping_of(answer if isinstance(answer, dict) else {}, "failed"), "type") == "KeyboardInterrupt":
        return STOPPED
    data = as_map(read_answer(WHAT, answer))
    if not data:
        raise EvaluationFailedError(WHAT, Failure("unreadable", "the kernel told nothing of it"))
    if data.get("missing"):
        raise NamespaceMissingError(asked.namespace or "")
    return tests_of(data, WORKER_PYTHON, output=printed)
