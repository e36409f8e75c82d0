"""Evaluate code in a kernel, one request at a time, and report events and outcomes.

One execution runs at a time. It is complete when its reply has been received and the kernel is idle again. Some kernels
send the value even later. If a kernel discards code without running it, because another client's code failed before,
the code is sent again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from codriver.core.requests import MAIN_SESSION
from codriver.features.jupyter.kernels.cell_outputs import CellOutputs, CellRuns
from codriver.features.jupyter.kernels.execution import (
    CUT_BY_SERVER_MESSAGE,
    INTERRUPT_TIMEOUT_S,
    Execution,
    omission_note,
    stop_evaluation,
)
from codriver.features.jupyter.kernels.kernel import EXECUTE_TYPE, Exchange, Kernel
from codriver.features.jupyter.kernels.kernel_failures import (
    KernelError,
    failure_from_error,
    format_report,
    not_run_failure,
)
from codriver.repls.contract.adapter import CapabilityMissingError, SessionNotOpenError
from codriver.repls.contract.companions import EvaluationSteps
from codriver.repls.contract.events import LOAD_IT_SUFFIX, Ending, FeatureReport, Interruption, Output
from codriver.repls.evaluation_tasks import EvaluationTasks, evaluate_in_order
from codriver.repls.form_positions import add_position
from codriver.repls.namespace_failures import single_namespace_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from codriver.core.evaluations import Failure
    from codriver.core.requests import Form, Request
    from codriver.features.jupyter.kernels.messages import Message
    from codriver.repls.contract.evaluation_extensions import EvaluationExtension
    from codriver.repls.contract.events import Event, Listener, OnEnd


IDLE_TIMEOUT_S: Final = 2.0
"""How long to wait for the kernel's `idle` after the reply and the last message of an execution. The `idle` may have
been dropped.
"""

REPLY_TIMEOUT_S: Final = 10.0
"""How long to wait for an execution's reply after the kernel's `idle`."""

LATE_VALUE_TIMEOUT_S: Final = 2.0
"""Maximum time to wait for a value after a flood of output, once the execution has ended."""

MAX_SEND_ATTEMPTS: Final = 4
"""Maximum number of attempts to send code that the kernel discards without running it."""

END_OF_INPUT: Final = "\x04"
"""The line that ipykernel interprets as the end of the input."""

NO_IDLE_MESSAGE: Final = "the kernel replied but did not report that it is idle. Some of the output may be missing"
LOST_MESSAGES_TEMPLATE: Final = (
    "{:,} messages from the kernel were lost, so some of the output is missing. A kernel drops messages if the "
    "machine is too busy to receive them"
)
NO_REPLY_MESSAGE: Final = "the kernel is idle but did not reply. It is not known whether the code ran to completion"
STILL_RUNS_MESSAGE: Final = "the kernel was interrupted, but the code is still running"


@dataclass(slots=True, eq=False)
class _RunningEvaluation:
    """The state of an evaluation that has not ended."""

    request: Request
    execution: Execution | None = None
    """The execution of the form that was sent and is still running."""
    turn_scope: anyio.CancelScope | None = None
    """The scope of the wait for a turn. During this wait, the code can still be withdrawn."""
    finished: anyio.Event = field(default_factory=anyio.Event)
    is_stopping: bool = False
    started_extensions: list[EvaluationExtension] = field(default_factory=list)
    """The extensions that the kernel has started."""
    cell: CellOutputs | None = None
    input_ahead: list[str] = field(default_factory=list)
    """Lines of input received before the code requested them."""


class Programs(Protocol):
    """Code that Codriver runs in a kernel to load files, evaluate in frames and describe failures.

    The coroutines run code on the main shell, which their caller must have reserved.
    """

    def loading_code(self, request: Request) -> str:
        """Return the code that loads the file named by a request."""
        ...

    def frame_evaluation_code(self, request: Request) -> str:
        """Return the code that evaluates a request in the stack frame that it selects."""
        ...

    async def prepare_load(self) -> None:
        """Prepare the kernel for code returned by `loading_code` or `frame_evaluation_code`."""
        ...

    def edited_modules_expressions(self, code: str) -> Mapping[str, str]:
        """Return `user_expressions` that find outdated modules, to be sent together with `code`.

        A module is outdated if `code` uses it and its file has been edited since it was loaded.
        """
        ...

    def edited_modules(self, values: Mapping[str, object]) -> tuple[str, ...]:
        """Return the names of outdated modules from the values of `edited_modules_expressions`."""
        ...

    async def start_extension(self, extension: EvaluationExtension) -> None:
        """Start an extension of a request, such as a trace."""
        ...

    async def end_extension(self, extension: EvaluationExtension) -> str | None:
        """End an extension, and return its report as JSON, or None if it has no report."""
        ...

    async def simple_locals(self, failure: Failure, cell: int | None) -> tuple[str, ...]:
        """Return a few local variables with simple values from the frame in which an execution failed.

        `cell` is the execution count of the failed execution.
        """
        ...


class Evaluator:
    """Runs the evaluations of one adapter on the kernel's main shell, one after another."""

    stores_history = True
    """Whether code is stored in the kernel's history."""
    accepts_input = True

    def __init__(
        self,
        kernel: Kernel,
        listener: Listener,
        programs: Programs,
        steps: EvaluationSteps | None = None,
        cells: CellRuns | None = None,
    ) -> None:
        self._kernel = kernel
        self._listener = listener
        self._programs = programs
        self._steps = steps or EvaluationSteps()
        self._quirks = kernel.info.quirks
        self._queue: list[_RunningEvaluation] = []
        """The queued evaluations, in order. The first one is running."""
        self._order = anyio.Lock()
        self._cells = cells or CellRuns()
        self._evaluations = EvaluationTasks()
        self.end = self._evaluations.end
        self._subshell: str | None = None
        """The id of the subshell that code is sent to, or None for the main shell."""

    def start(self, request: Request, on_end: OnEnd) -> None:
        """Start an evaluation, which runs code form by form or loads a file.

        `on_end` is called when it has ended.
        """
        if request.session != MAIN_SESSION:
            raise SessionNotOpenError(request.session)
        self._kernel.check_open()
        if request.kind == "load-file":
            request = replace(request, code=self._programs.loading_code(request), forms=())
        elif request.frame is not None:
            request = replace(request, code=self._programs.frame_evaluation_code(request), forms=())
        evaluation = _RunningEvaluation(request)
        if request.part is not None:
            evaluation.cell = self._cells.start(request.id)
        self._queue.append(evaluation)
        self._evaluations.start_task(on_end, self._run(evaluation))

    async def _run(self, evaluation: _RunningEvaluation) -> Ending:
        try:
            async with self._order:
                await self._steps.prepare()
                ending = self._check_namespace(evaluation.request)
                ending = ending or await evaluate_in_order(
                    evaluation.request.sent_forms, partial(self._evaluate_form, evaluation)
                )
                if evaluation.started_extensions:
                    await self._end_extensions(evaluation)
                await self._steps.run_follow_ups(evaluation.request)
                return ending
        finally:
            await self._clean_up()
            self._queue.remove(evaluation)
            evaluation.finished.set()

    def _reserve_shell(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager that waits for the shell, and reserves it for one request."""
        return self._kernel.reserve_main_shell()

    async def _clean_up(self) -> None:
        """Release resources after an evaluation. Subclasses override this method, which must not raise."""

    async def _end_extensions(self, evaluation: _RunningEvaluation) -> None:
        """End the extensions of an evaluation, and pass their reports to the listener."""
        for extension in evaluation.started_extensions:
            async with self._kernel.reserve_main_shell():
                report = await self._programs.end_extension(extension)
            if report is not None:
                self._listener(evaluation.request.id, FeatureReport(extension.report, report))

    def _check_namespace(self, request: Request) -> Ending | None:
        """Return a failure if a request is for a namespace that does not exist. Otherwise, return None.

        A kernel has only one namespace.
        """
        main = "__main__" if self._kernel.info.language == "python" else None
        if request.namespace in (None, "", main) or request.kind != "evaluate":
            return None
        return Ending("failed", failure=single_namespace_failure(request.namespace))

    async def _evaluate_form(self, evaluation: _RunningEvaluation, form: Form, number: int) -> Ending:
        execution, notes = await self._execute(evaluation, form)
        if execution is None or execution.is_interrupted or (evaluation.is_stopping and self._was_stopped(execution)):
            return Ending("interrupted", notes=notes)
        if execution.error is None and execution.status != "aborted":
            return Ending("done", notes=notes)
        failure = self._failure_of_form(evaluation.request, execution, number)
        if execution.error is not None:
            report = format_report(failure, language=self._kernel.info.language)
            self._listener(evaluation.request.id, Output("err", report))
        return Ending("failed", failure=failure, notes=notes)

    def _was_stopped(self, execution: Execution) -> bool:
        """Return whether an interrupt ended the code.

        An interrupted Python kernel may still report an error that the code itself raised. Code that awaits is
        cancelled.
        """
        error = execution.error
        return error is None or error.name == "CancelledError" or not self._quirks.supports_expressions

    def _failure_of_form(self, request: Request, execution: Execution, number: int) -> Failure:
        if execution.error is None or execution.status == "aborted":
            return not_run_failure()
        failure = replace(self._convert_error(execution.error, execution), locals=execution.locals)
        if request.kind != "evaluate" and failure.file is None:
            failure = replace(failure, file=request.file)
        return failure if request.part else add_position(failure, request, number, counts_lines=False)

    def _convert_error(self, error: KernelError, execution: Execution) -> Failure:
        return failure_from_error(error, language=self._kernel.info.language, cell=execution.count)

    async def _execute(self, evaluation: _RunningEvaluation, form: Form) -> tuple[Execution | None, tuple[str, ...]]:
        """Run a form. Return its execution, and notes about it.

        The execution is None if the evaluation was interrupted before the form was sent.
        """
        execution: Execution | None = None
        notes: tuple[str, ...] = ()
        for _ in range(MAX_SEND_ATTEMPTS):
            with anyio.CancelScope() as turn_scope:
                evaluation.turn_scope = turn_scope
                if evaluation.is_stopping:
                    turn_scope.cancel()
                async with self._reserve_shell():
                    evaluation.turn_scope = None
                    if evaluation.request.kind == "load-file" or evaluation.request.frame is not None:
                        await self._programs.prepare_load()
                    for extension in evaluation.request.extensions[len(evaluation.started_extensions) :]:
                        await self._programs.start_extension(extension)
                        evaluation.started_extensions.append(extension)
                    execution, notes = await self._send_form(evaluation, form.text)
                    if execution.error is not None and not (execution.is_interrupted or evaluation.is_stopping):
                        failure = self._convert_error(execution.error, execution)
                        execution.locals = await self._programs.simple_locals(failure, execution.count)
            if execution is None or execution.status != "aborted":
                break
        return execution, notes

    async def _send_form(self, evaluation: _RunningEvaluation, code: str) -> tuple[Execution, tuple[str, ...]]:
        request = evaluation.request
        evaluation.execution = execution = Execution(partial(self._on_event, evaluation), self._quirks)
        expressions = self._programs.edited_modules_expressions(code) if request.kind == "evaluate" else {}
        content = {
            "code": code,
            "silent": False,
            "store_history": self.stores_history,
            "user_expressions": dict(expressions),
            "allow_stdin": self.accepts_input,
            "stop_on_error": False,  # a failure must not abort code that a person has sent in the meantime
        }
        lost_before = self._kernel.channel.lost_messages
        metadata: dict[str, object] = {"cellId": request.part} if request.part else {}
        metadata |= self._steps.additional_fields(request)
        exchange = Exchange(_message_handler(execution, evaluation.cell))
        self._kernel.post("shell", EXECUTE_TYPE, content, exchange, metadata=metadata, subshell=self._subshell)
        try:
            notes = await self._wait_for_end(exchange, execution)
            if lost := self._kernel.channel.lost_messages - lost_before:
                notes = (*notes, LOST_MESSAGES_TEMPLATE.format(lost))
        finally:
            self._kernel.finish(exchange)
            execution.is_finished = True
            evaluation.execution = None
        return execution, notes

    async def _wait_for_end(self, exchange: Exchange, execution: Execution) -> tuple[str, ...]:
        """Wait for the kernel's reply and its `idle` status, in either order. Return notes about the execution."""
        await exchange.replied_or_idle.wait()
        channel = self._kernel.channel
        if exchange.replied.is_set():
            notes = () if await exchange.wait(exchange.idle, IDLE_TIMEOUT_S, channel) else (NO_IDLE_MESSAGE,)
        else:
            notes = () if await exchange.wait(exchange.replied, REPLY_TIMEOUT_S, channel) else (NO_REPLY_MESSAGE,)
        if notes:
            self._kernel.forget_running(exchange.id)
        self._kernel.check_open()
        if self._quirks.late_value_s and execution.error is None:
            with anyio.move_on_after(LATE_VALUE_TIMEOUT_S):
                await self._wait_for_value(execution, self._quirks.late_value_s)
        if execution.is_cut:
            notes = (*notes, CUT_BY_SERVER_MESSAGE)
        if edited := self._programs.edited_modules(execution.expressions):
            notes = (*notes, *(f"{module}{LOAD_IT_SUFFIX}" for module in edited))
        if execution.omitted_bytes or execution.read_error_cause:
            notes = (*notes, omission_note(execution.omitted_bytes, execution.read_error_cause))
        return notes

    async def _wait_for_value(self, execution: Execution, silence_s: float) -> None:
        """Wait for a value that may follow the end of an execution. Stop if no message is received for `silence_s`."""
        while not execution.has_value.is_set():
            received = self._kernel.received
            with anyio.move_on_after(silence_s):
                await execution.has_value.wait()
            if received == self._kernel.received:
                break

    def _on_event(self, evaluation: _RunningEvaluation, event: Event) -> None:
        self._listener(evaluation.request.id, event)
        execution = evaluation.execution
        if execution is not None and execution.waits_for_input and evaluation.input_ahead:
            self._reply_input(execution, evaluation.input_ahead.pop(0))

    async def send_input(self, text: str) -> None:
        """Send text to code that is reading from stdin. Lines that it has not requested yet are queued.

        An empty text signals the end of the input.
        """
        evaluation = self._queue[0] if self._queue else None
        if evaluation is None:
            return
        lines = text.splitlines() or [END_OF_INPUT if self._quirks.supports_expressions else ""]
        evaluation.input_ahead += lines
        if evaluation.execution is not None and evaluation.execution.waits_for_input:
            self._reply_input(evaluation.execution, evaluation.input_ahead.pop(0))

    def _reply_input(self, execution: Execution, line: str) -> None:
        execution.waits_for_input = False
        self._kernel.channel.post("stdin", "input_reply", {"value": line})

    async def interrupt(self) -> Interruption:
        """Interrupt Codriver's running evaluation, or withdraw it if its code has not been sent yet."""
        evaluation = self._queue[0] if self._queue else None
        if evaluation is None:
            return Interruption("idle")
        evaluation.is_stopping = True
        return await stop_evaluation(evaluation.turn_scope, evaluation.finished, self.interrupt_kernel)

    async def interrupt_others(self) -> Interruption:
        """Interrupt the code that the kernel is running for another client."""
        request_id = self._kernel.foreign_request_id
        if request_id is None:
            return Interruption("idle")
        note = await self.interrupt_kernel()
        if await self._kernel.wait_finished(request_id, INTERRUPT_TIMEOUT_S):
            return Interruption("interrupted")
        return Interruption("requested", note=note)

    async def interrupt_kernel(self) -> str:
        """Interrupt the kernel with a signal or a message, depending on the implementation.

        Return a note to use if the code continues to run.
        """
        quirks, channel = self._quirks, self._kernel.channel
        note = f"{STILL_RUNS_MESSAGE}{'; ' if quirks.interrupt_note else ''}{quirks.interrupt_note}"
        # A kernel that gets a message may interrupt only itself and continue to wait for a child process.
        if (quirks.interrupt_by == "signal" or quirks.survives_signal) and await channel.interrupt():
            self._kernel.wake_main_shell()
            return note
        if quirks.interrupt_by == "none" or not quirks.answers_on_control:
            raise CapabilityMissingError("interrupt", quirks.interrupt_note)
        await self._kernel.request("interrupt_request", {}, socket="control", timeout_s=INTERRUPT_TIMEOUT_S)
        self._kernel.wake_main_shell()
        return note


def _message_handler(execution: Execution, cell: CellOutputs | None) -> Callable[[Message], None]:
    """Return a callback that passes each message to the execution, and to the cell's outputs if there is a cell."""
    if cell is None:
        return execution.receive

    def receive(message: Message) -> None:
        execution.receive(message)
        cell.receive(message)

    return receive
