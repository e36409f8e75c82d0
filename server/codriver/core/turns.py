"""Turns: the evaluations of a client run in the order in which they came, and clients that wait for a queue take turns.

A turn is one evaluation, however long. Its place in the order is a number, that each evaluation gets as it comes. Where
more of a client's wait as one of them ends, the first of these goes behind all that has come until then. So nobody
waits longer than for the one that runs and one of each client that waits, and whoever comes anew overtakes nobody for
ever. A client is a connection: callers that share one share its turns, under whatever names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.records import replace
from codriver.core.state import queue_of, with_evaluation
from codriver.core.values import HELD

if TYPE_CHECKING:
    from codriver.core.state import State
    from codriver.core.values import Evaluation


def next_in(state: State, repl: str) -> list[Evaluation]:
    """The evaluations of a REPL that are to run now: of each queue that is free, the one whose turn it is."""
    unfinished = [one for one in state.unfinished() if one.repl == repl]
    taken = {queue_of(state, one) for one in unfinished if one.status in HELD}
    first: dict[tuple[tuple[str, str], str | None], Evaluation] = {}
    for one in unfinished:
        queue = queue_of(state, one)
        if one.status == "queued" and one.request is not None and queue not in taken:
            first.setdefault((queue, one.client), one)
    chosen: dict[tuple[str, str], Evaluation] = {}
    for (queue, _), one in first.items():
        known = chosen.get(queue)
        chosen[queue] = one if known is None or one.turn < known.turn else known
    return list(chosen.values())


def pass_on(state: State, evaluation: Evaluation) -> State:
    """The state after the end of an evaluation, in which its client's next in the same queue has its place.

    Of one that ran that is the last place; of one that was taken back, its own, so that this brings no turn forward.
    """
    if not state.live:
        return state
    queue = queue_of(state, evaluation)
    for one in state.unfinished():
        if one.client == evaluation.client and one.status == "queued" and queue_of(state, one) == queue:
            place = state.turns + 1 if evaluation.status in HELD else max(one.turn, evaluation.turn)
            return replace(with_evaluation(state, replace(one, turn=place)), turns=max(state.turns, place))
    return state
