"""Report evaluations by other clients of a kernel, such as cells that a person runs.

A kernel publishes its messages to all clients, but sends replies and requests for input only to the client that sent
the code. Silent code and widget messages do not count as evaluations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent
from codriver.features.jupyter.kernels.execution import Execution
from codriver.features.jupyter.kernels.kernel_failures import failure_from_error, format_report
from codriver.repls.contract.events import ForeignCodeFinished, ForeignCodeStarted, Output
from codriver.wire.untrusted import text_at

if TYPE_CHECKING:
    from codriver.features.jupyter.kernels.kernel import KernelInfo
    from codriver.features.jupyter.kernels.messages import Message
    from codriver.repls.contract.events import Event, Listener

MAX_PAST_EXECUTIONS: Final = 200
"""Maximum number of past executions that late output can be attributed to."""


class ForeignEvaluations:
    """Reports the executions that other clients request from one kernel."""

    def __init__(self, listener: Listener, info: KernelInfo) -> None:
        self._listener = listener
        self._info = info
        self._executions: Recent[str, Execution] = Recent(MAX_PAST_EXECUTIONS)

    def receive(self, message: Message) -> None:
        """Process a message on iopub that does not belong to a request of this connection."""
        execution = self._executions.get(message.parent_id)
        if message.type == "execute_input" and execution is None:
            self._start(message)
        elif execution is None:
            self._report_unowned_output(message)
        else:
            execution.receive(message)
            if message.state == "idle" and not execution.is_finished:
                self._end(message.parent_id, execution)

    def _start(self, message: Message) -> None:
        event_id = message.parent_id

        def notify(event: Event) -> None:
            self._listener(event_id, event)

        execution = self._executions[event_id] = Execution(notify, self._info.quirks)
        notify(ForeignCodeStarted(message.text("code")))
        execution.receive(message)

    def _end(self, event_id: str, execution: Execution) -> None:
        execution.is_finished = True
        ending = ForeignCodeFinished("done")
        if execution.is_interrupted:
            ending = ForeignCodeFinished("interrupted")
        elif execution.error is not None:
            failure = failure_from_error(execution.error, language=self._info.language, cell=execution.count)
            self._listener(event_id, Output("err", format_report(failure, language=self._info.language)))
            ending = ForeignCodeFinished("failed", failure)
        self._listener(event_id, ending)

    def _report_unowned_output(self, message: Message) -> None:
        """Report output that belongs to no known execution.

        It was printed while the kernel was starting, or by code that was already running when Codriver connected.
        """
        if message.type == "stream" and (text := text_at(message.content, "text")):
            self._listener(None, Output("err" if message.text("name") == "stderr" else "out", text))
