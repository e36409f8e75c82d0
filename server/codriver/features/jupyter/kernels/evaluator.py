"""The evaluator of a kernel: sends code when it is its turn, and reports its events and its end.

One execution runs at a time. It is complete when its reply was received and the kernel is idle again. Some kernels send
the value even later. If a kernel discards code without running it, because code of another client failed before, the
code is sent again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from codriver.core.records import Recent
from codriver.core.values import MAIN_SESSION, Failure
from codriver.features.jupyter.kernels.cell_outputs import CellOutputs
from codriver.features.jupyter.kernels.execution import AFTER_INTERRUPT_S, CUT_BY_SERVER, Execution, omission_note, stop
from codriver.features.jupyter.kernels.kernel import EXECUTE, Exchange, Kernel
from codriver.features.jupyter.kernels.kernel_failures import KernelError, failure_of, format_report, not_run_failure
from codriver.repls.contract.adapter import CapabilityMissingError, SeamChecks, SessionNotOpenError
from codriver.repls.contract.adapter_values import LOAD_IT, CellRun, Ending, Interruption, Output, Reported
from codriver.repls.evaluation_tasks import Evaluations, in_order
from codriver.repls.form_positions import placed
from codriver.repls.namespace_failures import one_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from codriver.core.values import Form, Request
    from codriver.features.jupyter.kernels.messages import Message
    from codriver.repls.contract.adapter_values import Event, Listener, OnEnd
    from codriver.repls.contract.extras import Extra


IDLE_S: Final = 2.0
"""The wait for the kernel's `idle` after the reply and the last message of an execution: the `idle` may have been
dropped.
"""

REPLY_S: Final = 10.0
"""The wait of an execution for its reply after the kernel's `idle`."""

LATE_S: Final = 2.0
"""The longest wait after an execution's end for a value behind a flood of output."""

MAX_ATTEMPTS: Final = 4
"""The most times that code is sent when the kernel drops it unread."""

MAX_CELLS: Final = 100
END_OF_INPUT: Final = "\x04"
"""The line that ipykernel takes for the end of the input."""

NO_IDLE: Final = "the kernel answered and never said that it is idle again: some of the output may be missing"
LOST: Final = (
    "{:,} messages of the kernel never came, as it drops what a busy machine takes too slowly: some of the output is "
    "missing"
)
NO_REPLY: Final = "the kernel is idle and never answered: whether the code ran to its end is not known"
STILL_RUNS: Final = "the kernel took the interrupt and its code still runs"


@dataclass(slots=True, eq=False)
class _Work:
    """One evaluation under way."""

    request: Request
    execution: Execution | None = None
    """The form that was sent and has not ended."""
    waiting: anyio.CancelScope | None = None
    """The wait for a turn, in which the code can still be taken back."""
    over: anyio.Event = field(default_factory=anyio.Event)
    is_stopping: bool = False
    started_extras: list[Extra] = field(default_factory=list)
    """The extras that the kernel has started."""
    cell: CellOutputs | None = None
    input_ahead: list[str] = field(default_factory=list)
    """Lines of input given before the code asked for them."""


class Programs(Protocol):
    """Our own programs in a kernel: for loading files, and for details of a failure."""

    def load_code(self, request: Request) -> str:
        """Return the code that loads a request's file."""
        ...

    def frame_code(self, request: Request) -> str:
        """Return the code that evaluates a request's code in a frame."""
        ...

    async def prepare_load(self) -> None:
        """Prepare the kernel for code that is about to be sent, in our turn."""
        ...

    def edited_modules_expressions(self, code: str) -> Mapping[str, str]:
        """The expressions sent with code that tell the modules which it used and which were edited since their load."""
        ...

    def edited_modules(self, values: Mapping[str, object]) -> tuple[str, ...]:
        """Return the modules told by the values of these expressions, in words."""
        ...

    async def begin(self, extra: Extra) -> None:
        """Have the kernel begin what an extra of a request needs, in our turn."""
        ...

    async def end(self, extra: Extra) -> str | None:
        """End it; the report, as JSON, or None without one. In our turn."""
        ...

    async def plain_locals(self, failure: Failure, cell: int | None) -> tuple[str, ...]:
        """The first few plain locals at the place where the execution of that number failed, in our turn."""
        ...


class Evaluator:
    """Runs the evaluations of one adapter, for its life."""

    stores_history = True
    """Whether the code counts as a cell of the kernel's history."""
    accepts_input = True

    def __init__(
        self,
        kernel: Kernel,
        listener: Listener,
        programs: Programs,
        *,
        seam_checks: SeamChecks | None = None,
    ) -> None:
        self._kernel = kernel
        self._listener = listener
        self._programs = programs
        self._seam_checks = seam_checks
        self._quirks = kernel.info.quirks
        self._works: list[_Work] = []
        """Evaluations in their order; the first is under way."""
        self._order = anyio.Lock()
        self._cells: Recent[str, CellOutputs] = Recent(MAX_CELLS)
        self._evaluations = Evaluations()
        self.end = self._evaluations.end
        self._subshell: str | None = None
        """The subshell to which the code is sent; None for the main shell."""

    def start(self, request: Request, on_end: OnEnd) -> None:
        """Send code to be run, form by form, or a file to be loaded."""
        if request.session != MAIN_SESSION:
            raise SessionNotOpenError(request.session)
        self._kernel.check_open()
        if request.kind == "load-file":
            request = replace(request, code=self._programs.load_code(request), forms=())
        elif request.frame is not None:
            request = replace(request, code=self._programs.frame_code(request), forms=())
        work = _Work(request)
        if request.cell is not None:
            work.cell = self._cells[request.id] = CellOutputs()
        self._works.append(work)
        self._evaluations.start_reporting(on_end, self._run(work))

    def cell_run(self, evaluation: str) -> CellRun | None:
        """Return the outputs of a cell's evaluation. Given only once."""
        outputs = self._cells.pop(evaluation, None)
        return outputs.run() if outputs else None

    async def _run(self, work: _Work) -> Ending:
        try:
            async with self._order:
                if self._seam_checks is not None:
                    await self._seam_checks.before()
                ending = self._misplaced(work.request)
                ending = ending or await in_order(work.request.sent_forms, partial(self._evaluate_form, work))
                if work.started_extras:
                    await self._end_extras(work)
                if self._seam_checks is not None and self._seam_checks.is_last(work.request):
                    await self._seam_checks.after()
                return ending
        finally:
            await self._leave()
            self._works.remove(work)
            work.over.set()

    def _turn(self) -> AbstractAsyncContextManager[None]:
        """Return the shell for one request, when it is free."""
        return self._kernel.turn()

    async def _leave(self) -> None:
        """Leave the shell after an evaluation. Never raises."""

    async def _end_extras(self, work: _Work) -> None:
        """End the extras of an evaluation, and pass on their reports."""
        for extra in work.started_extras:
            async with self._kernel.turn():
                report = await self._programs.end(extra)
            if report is not None:
                self._listener(work.request.id, Reported(extra.report, report))

    def _misplaced(self, request: Request) -> Ending | None:
        """Return the ending of code for another namespace: a kernel has only one."""
        main = "__main__" if self._kernel.info.language == "python" else None
        if request.namespace in (None, "", main) or request.kind != "evaluate":
            return None
        return Ending("failed", failure=one_namespace(request.namespace))

    async def _evaluate_form(self, work: _Work, form: Form, number: int) -> Ending:
        execution, notes = await self._execute(work, form)
        if execution is None or execution.is_interrupted or (work.is_stopping and self._was_stopped(execution)):
            return Ending("interrupted", notes=notes)
        if execution.error is None and execution.status != "aborted":
            return Ending("done", notes=notes)
        failure = self._failure(work.request, execution, number)
        if execution.error is not None:
            report = format_report(failure, language=self._kernel.info.language)
            self._listener(work.request.id, Output("err", report))
        return Ending("failed", failure=failure, notes=notes)

    def _was_stopped(self, execution: Execution) -> bool:
        """Return whether an interrupt ended the code: in Python, other errors are the code's own."""
        return execution.error is None or not self._quirks.supports_expressions

    def _failure(self, request: Request, execution: Execution, number: int) -> Failure:
        if execution.error is None or execution.status == "aborted":
            return not_run_failure()
        failure = replace(self._read(execution.error, execution), locals=execution.locals)
        if request.kind != "evaluate" and failure.file is None:
            failure = replace(failure, file=request.file)
        return failure if request.cell else placed(failure, request, number, counts_lines=False)

    def _read(self, error: KernelError, execution: Execution) -> Failure:
        return failure_of(error, language=self._kernel.info.language, cell=execution.count)

    async def _execute(self, work: _Work, form: Form) -> tuple[Execution | None, tuple[str, ...]]:
        """Return the course of a form, and notes on it; no course for a form taken back before it was sent."""
        execution: Execution | None = None
        notes: tuple[str, ...] = ()
        for _ in range(MAX_ATTEMPTS):
            with anyio.CancelScope() as waiting:
                work.waiting = waiting
                if work.is_stopping:
                    waiting.cancel()
                async with self._turn():
                    work.waiting = None
                    if work.request.kind == "load-file" or work.request.frame is not None:
                        await self._programs.prepare_load()
                    for extra in work.request.extras[len(work.started_extras) :]:
                        await self._programs.begin(extra)
                        work.started_extras.append(extra)
                    execution, notes = await self._send(work, form.text)
                    if execution.error is not None and not (execution.is_interrupted or work.is_stopping):
                        failure = self._read(execution.error, execution)
                        execution.locals = await self._programs.plain_locals(failure, execution.count)
            if execution is None or execution.status != "aborted":
                break
        return execution, notes

    async def _send(self, work: _Work, code: str) -> tuple[Execution, tuple[str, ...]]:
        request = work.request
        work.execution = execution = Execution(partial(self._receive, work), self._quirks)
        content = {
            "code": code,
            "silent": False,
            "store_history": self.stores_history,
            "user_expressions": dict(self._programs.edited_modules_expressions(code))
            if request.kind == "evaluate"
            else {},
            "allow_stdin": self.accepts_input,
            "stop_on_error": False,  # a failure of ours must not abort code that a human sent meanwhile
        }
        lost_before = self._kernel.channel.lost_messages
        metadata: dict[str, object] = {"cellId": request.cell} if request.cell else {}
        if request.who and self._seam_checks is not None and self._seam_checks.accepts_origin:
            metadata["codriver/origin"] = {"who": request.who, "evaluation": request.id}
        exchange = Exchange(_taking(execution, work.cell))
        self._kernel.post("shell", EXECUTE, content, exchange, metadata=metadata, subshell=self._subshell)
        try:
            notes = await self._settle(exchange, execution)
            if lost := self._kernel.channel.lost_messages - lost_before:
                notes = (*notes, LOST.format(lost))
        finally:
            self._kernel.finish(exchange)
            execution.is_over = True
            work.execution = None
        return execution, notes

    async def _settle(self, exchange: Exchange, execution: Execution) -> tuple[str, ...]:
        """Wait for both signs of the end, in any order; notes on a missing one."""
        await exchange.replied_or_idle.wait()
        if exchange.replied.is_set():
            notes = () if await exchange.wait(exchange.idle, IDLE_S, self._progress) else (NO_IDLE,)
        else:
            notes = () if await exchange.wait(exchange.replied, REPLY_S, self._progress) else (NO_REPLY,)
        if notes:
            self._kernel.forget_running(exchange.id)
        self._kernel.check_open()
        if self._quirks.late_value_s and execution.error is None:
            with anyio.move_on_after(LATE_S):
                await self._wait_for_value(execution, self._quirks.late_value_s)
        if execution.is_cut:
            notes = (*notes, CUT_BY_SERVER)
        if edited := self._programs.edited_modules(execution.expressions):
            notes = (*notes, *(f"{one}{LOAD_IT}" for one in edited))
        if execution.omitted_bytes or execution.read_error_cause:
            notes = (*notes, omission_note(execution.omitted_bytes, execution.read_error_cause))
        return notes

    def _progress(self) -> int:
        return self._kernel.channel.received_bytes

    async def _wait_for_value(self, execution: Execution, silence_s: float) -> None:
        """Wait for a value that comes after the end, until the kernel is silent for a moment."""
        while not execution.has_value.is_set():
            received = self._kernel.received
            with anyio.move_on_after(silence_s):
                await execution.has_value.wait()
            if received == self._kernel.received:
                break

    def _receive(self, work: _Work, event: Event) -> None:
        self._listener(work.request.id, event)
        execution = work.execution
        if execution is not None and execution.waits_for_input and work.input_ahead:
            self._reply_input(execution, work.input_ahead.pop(0))

    async def send_input(self, text: str) -> None:
        """Give lines to code that reads from stdin; further lines wait. An empty text is the input's end."""
        work = self._works[0] if self._works else None
        if work is None:
            return
        lines = text.splitlines() or [END_OF_INPUT if self._quirks.supports_expressions else ""]
        work.input_ahead += lines
        if work.execution is not None and work.execution.waits_for_input:
            self._reply_input(work.execution, work.input_ahead.pop(0))

    def _reply_input(self, execution: Execution, line: str) -> None:
        execution.waits_for_input = False
        self._kernel.channel.post("stdin", "input_reply", {"value": line})

    async def interrupt(self) -> Interruption:
        """Stop our running code, or take back unsent code; others' evaluations continue."""
        work = self._works[0] if self._works else None
        if work is None:
            return Interruption("idle")
        work.is_stopping = True
        return await stop(work.waiting, work.over, self.interrupt_kernel)

    async def interrupt_others(self) -> Interruption:
        """Stop another client's evaluation."""
        running = self._kernel.running_for_others
        if running is None:
            return Interruption("idle")
        note = await self.interrupt_kernel()
        if await self._kernel.wait_finished(running, AFTER_INTERRUPT_S):
            return Interruption("interrupted")
        return Interruption("requested", note=note)

    async def interrupt_kernel(self) -> str:
        """Interrupt the kernel in its working way; a sentence on the limits of that way."""
        quirks, channel = self._quirks, self._kernel.channel
        note = f"{STILL_RUNS}{'; ' if quirks.interrupt_note else ''}{quirks.interrupt_note}"
        # A kernel interrupted by a message may signal itself alone, and go on waiting for its child process.
        if (quirks.interrupt_by == "signal" or quirks.survives_signal) and await channel.interrupt():
            return note
        if quirks.interrupt_by == "none" or not quirks.answers_on_control:
            raise CapabilityMissingError("interrupt", quirks.interrupt_note)
        await self._kernel.request("interrupt_request", {}, socket="control", timeout_s=AFTER_INTERRUPT_S)
        return note


def _taking(execution: Execution, cell: CellOutputs | None) -> Callable[[Message], None]:
    """Return the listener of an execution's messages: the execution's own, and the notebook cell's."""
    if cell is None:
        return execution.receive

    def receive(message: Message) -> None:
        execution.receive(message)
        cell.receive(message)

    return receive
