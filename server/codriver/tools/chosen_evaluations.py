"""The evaluation that a call without an id means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.errors import refused
from codriver.tools.calls.evaluation_waits import evaluation_of

if TYPE_CHECKING:
    from codriver.core.values import Evaluation
    from codriver.tools.calls.call import Call


def own_evaluation(call: Call, evaluation_id: str | None, who: str | None, *, is_waiting: bool = False) -> Evaluation:
    """Return the evaluation of the given id, otherwise the caller's newest, or its only one that waits for input.

    Raises:
        RefusedError: there is no such evaluation, or several wait for input.
    """
    if evaluation_id is not None:
        return evaluation_of(call.state, evaluation_id)
    caller = call.who(who)
    own = [one for one in call.state.evaluations.values() if call.is_own(one, caller)]
    if is_waiting:
        own = [one for one in own if one.status == "needs-input"]
    if not own or (is_waiting and len(own) > 1):
        what = "code of yours waits for input" if is_waiting else "evaluation of yours is known"
        raise refused(
            "bad-arguments",
            f"several evaluations of yours wait for input: {', '.join(one.id for one in own)}" if own else f"no {what}",
            hint='give evaluationId; status with about: "jobs" lists them',
        )
    return own[-1]
