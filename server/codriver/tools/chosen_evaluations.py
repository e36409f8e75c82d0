"""Choose the evaluation that a call refers to if it gives no id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.evaluation_sessions import is_session_or_lane
from codriver.errors import refused
from codriver.tools.calls.evaluation_waits import find_evaluation

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.tools.calls.call import Call


def choose_evaluation(
    call: Call, evaluation_id: str | None, who: str | None, session_key: str | None, *, is_waiting: bool = False
) -> Evaluation:
    """Return the evaluation with the given id, or the caller's newest one if there is no id.

    Without an id, `session_key` limits the choice to one session, and `is_waiting` to evaluations that are waiting for
    input. Only one may be waiting.

    Raises:
        RefusedError: there is no such evaluation, or several are waiting for input.
    """
    if evaluation_id is not None:
        return find_evaluation(call.state, evaluation_id)
    caller = call.who(who)
    candidates = [evaluation for evaluation in call.state.evaluations.values() if call.belongs_to(evaluation, caller)]
    location = ""
    if session_key is not None:
        location = f" in the session {session_key}"
        candidates = [
            candidate
            for candidate in candidates
            if any(is_session_or_lane(key, session_key) for key in call.session_keys(candidate))
        ]
    if is_waiting:
        candidates = [candidate for candidate in candidates if candidate.status == "needs-input"]
    if not candidates or (is_waiting and len(candidates) > 1):
        if candidates:
            message = (
                f"several of your evaluations are waiting for input: {', '.join(found.id for found in candidates)}"
            )
        elif is_waiting:
            message = f"none of your evaluations{location} is waiting for input"
        else:
            message = f"none of your evaluations{location} is known"
        raise refused(
            "bad-arguments",
            message,
            hint='Pass evaluationId. status with about: "jobs" lists the ids.',
        )
    return candidates[-1]
