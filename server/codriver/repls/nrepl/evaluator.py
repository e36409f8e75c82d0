"""Start the evaluations of one nREPL server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.repls.evaluation_tasks import Evaluations
from codriver.repls.nrepl.evaluation import Evaluation, Shared
from codriver.repls.nrepl.request_fields import RequestFields

if TYPE_CHECKING:
    from codriver.core.values import PrintLimits, Request
    from codriver.repls.contract.adapter import SeamChecks
    from codriver.repls.contract.adapter_values import Listener, OnEnd
    from codriver.repls.contract.extras import Programs
    from codriver.repls.nrepl.definition_holds import UndoRecords
    from codriver.repls.nrepl.introspection import Introspection
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import SessionPool


class Evaluator:
    """Starts the evaluations of one adapter, for its life. The caller sees to it that each session has one at a time.

    Each method raises what the initializer of `Evaluation` raises; every later error goes to `on_end`.
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
        seam_checks: SeamChecks,
        op_timeout_s: float,
    ) -> None:
        tasks = Evaluations()
        self._shared = Shared(
            sessions,
            sessions.main.connection,
            probed,
            listener,
            introspection,
            undo_records,
            programs,
            RequestFields(probed, undo_records, accepts_origin=lambda: seam_checks.accepts_origin),
            seam_checks,
            tasks,
            op_timeout_s,
        )
        self.end = tasks.end

    def start(self, request: Request, on_end: OnEnd, limits: PrintLimits) -> None:
        """Send code to be run, form by form."""
        Evaluation(self._shared, request, on_end, limits).start()

    def start_load(self, request: Request, on_end: OnEnd, limits: PrintLimits, op: str) -> None:
        """Send a whole file by the server's `op` for files."""
        Evaluation(self._shared, request, on_end, limits).start_load(op)

    def start_forms(self, request: Request, on_end: OnEnd, limits: PrintLimits, op: str | None) -> None:
        """Send the forms of a file, or the whole file if its namespace is missing and there is an `op` for files."""
        Evaluation(self._shared, request, on_end, limits).start_forms(op)
