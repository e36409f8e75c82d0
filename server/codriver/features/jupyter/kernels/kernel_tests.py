"""Run tests in a Python kernel.

A run is an expression that calls Codriver's program on the kernel's main thread. It waits for its turn like an
evaluation. Other clients do not see its code, and the tests' output is reported as it is printed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.evaluations import Failure
from codriver.features.jupyter.kernels.execution import Execution, stop_evaluation
from codriver.features.jupyter.kernels.kernel import EXECUTE_TYPE, Exchange, Kernel
from codriver.features.jupyter.kernels.python_programs import answer_data, parse_printed_json
from codriver.features.jupyter.kernels.silent_expressions import expression_value, silent_request
from codriver.repls.contract.adapter import EvaluationFailedError, missing_namespace_error
from codriver.repls.contract.display_data import Display
from codriver.repls.contract.events import Event, FeatureReport, Interruption, Listener, OnEnd, Output
from codriver.repls.contract.test_progress import TestProgress
from codriver.repls.contract.test_run_values import UNKNOWN_TEST_NAME, TestResult, TestRun
from codriver.repls.dialects import WORKER_PYTHON
from codriver.repls.stack_traces import mark_user_frames, parse_frame_maps
from codriver.repls.test_results import parse_test_run
from codriver.repls.test_runs import TestEvaluations, parse_selection
from codriver.wire.untrusted import mapping_at, mapping_or_empty, text_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from codriver.core.requests import Request, TestSelection
    from codriver.features.jupyter.kernels.python_queries import PythonQueries
    from codriver.repls.contract.evaluation_extensions import EvaluationExtension


LAST_OUTPUT_TIMEOUT_S: Final = 2.0
"""How long to wait for the tests' last output after the reply."""
CALL_SUBJECT: Final = "the test run"
STOPPED_RUN: Final = TestRun(0, 0, 0, 0, (), stopped=TestResult(UNKNOWN_TEST_NAME, UNKNOWN_TEST_NAME, "error"))
"""The result of a test run that was interrupted."""


class KernelTestRunner:
    """Runs tests in one connected Python kernel. `interrupt` is called to interrupt the kernel."""

    __test__ = False  # pytest would otherwise collect the class

    def __init__(
        self, kernel: Kernel, python: PythonQueries, listener: Listener, interrupt: Callable[[], Awaitable[str]]
    ) -> None:
        self._kernel = kernel
        self._python = python
        self._listener = listener
        self._interrupt_kernel = interrupt
        self._running: list[_RunningTests] = []
        self._evaluations = TestEvaluations(self._run, interrupt, listener)
        self.run_tests = self._evaluations.run_tests
        self.end = self._evaluations.end

    def start(self, request: Request, on_end: OnEnd) -> None:
        """Start a test run as an evaluation."""
        self._kernel.check_open()
        self._evaluations.start(request, on_end)

    def finished_tests(self, evaluation: str) -> TestRun | None:
        """Return the results so far of a running test run, or None if the evaluation is not running tests."""
        test_run = next((run.progress.run for run in self._running if run.evaluation == evaluation), None)
        return self._mark_user_frames(test_run) if test_run is not None else None

    async def interrupt(self) -> Interruption:
        """Interrupt the oldest test run, or withdraw it if it is still waiting for the shell."""
        if not self._running:
            return Interruption("idle")
        run = self._running[0]
        return await stop_evaluation(run.turn_scope, run.finished, self._interrupt_kernel)

    async def _run(self, selection: TestSelection, session: str, evaluation: str | None) -> TestRun:
        del session  # a kernel has only one namespace
        run = _RunningTests(evaluation, self._listener, self._kernel)
        self._running.append(run)
        try:
            run.turn_scope = anyio.CancelScope()
            with run.turn_scope:
                async with self._kernel.reserve_main_shell():
                    run.turn_scope = None
                    await self._python.load_modules_in_turn()
                    for extension in selection.extensions:
                        await self._python.start_extension(extension)
                    try:
                        reply = await run.send(self._python.test_expression(new_process_expression(selection)))
                    finally:
                        if evaluation is not None:
                            await self._end_extensions(evaluation, selection.extensions)
                return self._mark_user_frames(read_test_run(reply, selection, "".join(run.printed)))
            return STOPPED_RUN
        finally:
            self._running.remove(run)
            run.finished.set()

    async def _end_extensions(self, evaluation: str, extensions: Sequence[EvaluationExtension]) -> None:
        for extension in extensions:
            report = await self._python.end_extension(extension)
            if report is not None:
                self._listener(evaluation, FeatureReport(extension.report, report))

    def _mark_user_frames(self, run: TestRun) -> TestRun:
        """Mark the stack frames in workspace files as the user's."""
        workspace = self._python.workspace
        results = [replace(result, frames=mark_user_frames(result.frames, workspace)) for result in run.results]
        return replace(run, results=tuple(results))


class _RunningTests:
    """The state of a test run that has not ended."""

    def __init__(self, evaluation: str | None, listener: Listener, kernel: Kernel) -> None:
        self.printed: list[str] = []
        self.progress = TestProgress(partial(parse_frame_maps, dialect=WORKER_PYTHON))
        self.turn_scope: anyio.CancelScope | None = None
        """The scope of the wait for a turn. During this wait, the run can still be withdrawn."""
        self.finished = anyio.Event()
        self.evaluation = evaluation
        self._listener = listener
        self._kernel = kernel

    async def send(self, expression: str) -> Mapping[str, object]:
        """Evaluate an expression in the kernel and return its result."""
        execution = Execution(self._on_event, self._kernel.info.quirks)
        exchange = self._kernel.post("shell", EXECUTE_TYPE, silent_request(expression), Exchange(execution.receive))
        try:
            await exchange.replied.wait()
            with anyio.move_on_after(LAST_OUTPUT_TIMEOUT_S):
                await exchange.idle.wait()
        finally:
            self._kernel.finish(exchange)
        self._kernel.check_open()
        return expression_value(exchange.reply)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Output) and (text := self.progress.feed(event.text)):
            self.printed.append(text)
            if self.evaluation is not None:
                self._listener(self.evaluation, Output("out", text))
        elif isinstance(event, Display) and self.evaluation is not None:
            self._listener(self.evaluation, event)


def new_process_expression(selection: TestSelection) -> str:
    """Return the expression that runs the tests in a new process of the kernel's interpreter."""
    return WORKER_PYTHON.program_code(
        "test",
        ns=selection.namespace or "",
        name=selection.test or "",
        match=selection.match or "",
        words=parse_selection(selection.match or ""),
        only=selection.only,
        root="",
    )


def read_test_run(reply: Mapping[str, object], selection: TestSelection, printed: str) -> TestRun:
    """Parse the kernel's reply to a test run.

    Raises:
        RefusedError: the module or file does not exist.
        EvaluationFailedError: no such test exists, or its module cannot be loaded.
    """
    if text_at(reply, "ename") == "KeyboardInterrupt":
        return STOPPED_RUN
    answer = parse_printed_json(CALL_SUBJECT, reply)
    if text_at(mapping_at(answer if isinstance(answer, dict) else {}, "failed"), "type") == "KeyboardInterrupt":
        return STOPPED_RUN
    data = mapping_or_empty(answer_data(CALL_SUBJECT, answer))
    if not data:
        raise EvaluationFailedError(CALL_SUBJECT, Failure("unreadable", "the kernel returned no result"))
    if data.get("missing"):
        raise missing_namespace_error(selection.namespace or "")
    return parse_test_run(data, WORKER_PYTHON, output=printed)
