"""Lanes, which run one evaluation at a time: a session, or the whole REPL where that keeps nothing apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.values import HELD, MAIN_SESSION

if TYPE_CHECKING:
    from codriver.core.state import State
    from codriver.core.values import Evaluation


def lane(state: State, evaluation: Evaluation) -> tuple[str, str]:
    """The lane of an evaluation."""
    repl = state.repls.get(evaluation.repl)
    profile = repl.profile if repl is not None else None
    shared = profile is not None and (profile.is_serial or profile.isolation == "none")
    return (evaluation.repl, MAIN_SESSION if shared else evaluation.session)


def holder(state: State, evaluation: Evaluation) -> Evaluation | None:
    """The evaluation that holds the lane in which this one waits, if any."""
    own = lane(state, evaluation)
    for other in state.unfinished():
        if other.status in HELD and other.id != evaluation.id and lane(state, other) == own:
            return other
    return None
