"""Submit code to a session: check that it may be queued, open the transcript, and send the request."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from codriver.core.actions import Evaluate
from codriver.core.evaluations import OCCUPYING_STATUSES
from codriver.core.print_limits import NO_PRINT_LIMITS, PrintLimits
from codriver.core.requests import execution_session_for
from codriver.core.state import evaluation_queue, session_queue
from codriver.errors import refused
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.calls.evaluation_waits import describe_callers_evaluation, ways_to_free_session
from codriver.tools.execution.queued_code_limits import check_limits

if TYPE_CHECKING:
    from codriver.core.requests import Kind, Request
    from codriver.tools.calls.call import Call
    from codriver.tools.calls.session_choice import Target


MAX_ELEMENTS, MAX_LEVELS = 100_000, 1000
"""Maximum number of elements and of levels in a collection that clients can request."""


def print_limits_for_client(call: Call, target: Target) -> PrintLimits | None:
    """Return the print limits for a client that receives values in full, or None for the limits in the settings."""
    if not find_traits(call.client_name).reads_whole:
        return None
    # Python collections are finite when printed. A Lisp sequence may be infinite.
    return NO_PRINT_LIMITS if target.repl.dialect == "python" else PrintLimits(MAX_ELEMENTS, MAX_LEVELS)


def check_not_blocked(call: Call, target: Target, who: str, *, kind: Kind = "evaluate") -> None:
    """Check that a request would not have to wait for another evaluation by the same caller.

    Raises:
        RefusedError: the caller's other evaluation is running or waiting for input.
    """
    state = call.services.core.state
    queue_key = execution_session_for(kind, target.session.name)
    queue = session_queue(state, target.repl.id, queue_key)
    for evaluation in state.unfinished():
        if (
            evaluation.is_answered
            and evaluation.status in OCCUPYING_STATUSES
            and evaluation_queue(state, evaluation) == queue
            and call.belongs_to(evaluation, who)
        ):
            since_s = max(0, call.services.now() - (evaluation.started_at or 0)) // 1000
            how = "has been waiting for input" if evaluation.status == "needs-input" else "has been running"
            raise refused(
                "busy",
                f"the code was not sent and will not run, because {describe_callers_evaluation(evaluation, who)} "
                f"{how} in {target.repl.key} for {since_s} s",
                hint=", or ".join(ways_to_free_session(call, evaluation)),
                details={"evaluationId": evaluation.id},
            )


def submit(call: Call, target: Target, who: str, request: Request) -> None:
    """Send an evaluation to a session, and start recording its output.

    Raises:
        RefusedError: too much code is waiting, or the evaluation would have to wait for another one by the same caller.
    """
    state = call.services.core.state
    if state.live:
        if not request.background:
            check_not_blocked(call, target, who, kind=request.kind)
        check_limits(state.unfinished(), call.client, request)
    code = hashlib.blake2b(request.code.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    location = (request.session, request.namespace, request.frame, request.file, request.part)
    source = (target.repl.id, *location, request.kind, code)
    displayed_code = f"load-file {request.file}" if request.file and request.part is None else request.code
    call.evaluations.append(request.id)
    transcript = call.services.transcripts.open(request.id, source, displayed_code)
    call.dispatch(Evaluate(target.repl.id, request, transcript.head, target.lane), who=who)
    for sent in call.services.hooks.sent:
        sent(call, target.repl, target.session, request)
