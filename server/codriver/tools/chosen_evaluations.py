"""Choose the evaluation that a call refers to if it gives no id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.errors import refused
from codriver.tools.calls.evaluation_waits import find_evaluation

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.tools.calls.call import Call


def choose_evaluation(
    call: Call, evaluation_id: str | None, who: str | None, *, is_waiting: bool = False
) -> Evaluation:
    """Return the evaluation with the given id, or the caller's newest one.

    With `is_waiting` and without an id, return the caller's only evaluation that is waiting for input.

    Raises:
        RefusedError: there is no such evaluation, or several are waiting for input.
    """
    if evaluation_id is not None:
        return find_evaluation(call.state, evaluation_id)
    caller = call.who(who)
    candidates = [evaluation for evaluation in call.state.evaluations.values() if call.belongs_to(evaluation, caller)]
    if is_waiting:
        candidates = [candidate for candidate in candidates if candidate.status == "needs-input"]
    if not candidates or (is_waiting and len(candidates) > 1):
        what = "of your evaluations waits for input" if is_waiting else "evaluation of yours is known"
        raise refused(
            "bad-arguments",
            f"several evaluations of yours wait for input: {', '.join(candidate.id for candidate in candidates)}"
            if candidates
            else f"{'none' if is_waiting else 'no'} {what}",
            hint='Pass evaluationId. status with about: "jobs" lists the ids.',
        )
    return candidates[-1]
