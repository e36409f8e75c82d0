"""Start evaluations in an nREPL server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.repls.evaluation_tasks import EvaluationTasks
from codriver.repls.nrepl.evaluation import Evaluation, ServerContext
from codriver.repls.nrepl.request_fields import RequestFields

if TYPE_CHECKING:
    from codriver.core.print_limits import PrintLimits
    from codriver.core.requests import Request
    from codriver.repls.contract.companions import EvaluationSteps
    from codriver.repls.contract.evaluation_extensions import Programs
    from codriver.repls.contract.events import Listener, OnEnd
    from codriver.repls.nrepl.introspection import Introspection
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import SessionPool
    from codriver.repls.nrepl.undo_records import UndoRecords


class Evaluator:
    """Starts the evaluations of one adapter. The caller must not start two at a time in the same session.

    The methods raise the errors of `Evaluation.__init__`. Later errors are passed to `on_end`.
    """

    def __init__(
        self,
        sessions: SessionPool,
        probed: ProbeResult,
        listener: Listener,
        introspection: Introspection,
        undo_records: UndoRecords,
        programs: Programs,
        *,
        steps: EvaluationSteps,
        op_timeout_s: float,
    ) -> None:
        tasks = EvaluationTasks()
        self._shared = ServerContext(
            sessions,
            sessions.main.connection,
            probed,
            listener,
            introspection,
            undo_records,
            programs,
            RequestFields(probed, undo_records, steps),
            steps,
            tasks,
            op_timeout_s,
        )
        self.end = tasks.end

    def start(self, request: Request, on_end: OnEnd, limits: PrintLimits) -> None:
        """Start to evaluate the forms of a request in order."""
        Evaluation(self._shared, request, on_end, limits).start()

    def start_load(self, request: Request, on_end: OnEnd, limits: PrintLimits, op: str) -> None:
        """Start to load a whole file with the server's op `op`."""
        Evaluation(self._shared, request, on_end, limits).start_load(op)

    def start_forms(self, request: Request, on_end: OnEnd, limits: PrintLimits, op: str | None) -> None:
        """Start to evaluate the forms of a file. If their namespace is missing, load the whole file with `op`."""
        Evaluation(self._shared, request, on_end, limits).start_forms(op)
