"""Evaluations: accepted, queued, run one at a time in each lane, ended.

Within a lane (`core.lanes`) evaluations run in the order they were accepted. An evaluation accepted while its REPL is
on its way waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core import orphans, sessions
from codriver.core.actions import (
    CancelQueued,
    Evaluate,
    EvaluationEnded,
    InputGiven,
    InputWanted,
    StopAsked,
)
from codriver.core.dispatch import Action, Context, Effect, Outcome
from codriver.core.effects import Append, RunEvaluation, SettleEvaluation
from codriver.core.lanes import holder, lane
from codriver.core.records import replace
from codriver.core.state import HELD, MAIN, Evaluation, Failure, Repl, Session, State, with_item

if TYPE_CHECKING:
    from collections.abc import Mapping

KEPT = 1000
"""How many evaluations that are over can still be asked about."""
HEAD_CHARACTERS = 200

EvaluationAction = Evaluate | EvaluationEnded | CancelQueued | StopAsked | InputWanted | InputGiven


def next_id(state: State) -> str:
    """The id of the next evaluation: unique also across restarts, as it begins with the server's own."""
    return f"{state.life.session_id[:4]}-{state.evaluated + 1}"


def session_key(repl: Repl, session: str) -> str:
    """The name clients know a session by: the REPL's key, and behind a slash the name of an isolated one."""
    return repl.key if session == MAIN else f"{repl.key}/{session}"


def handle(state: State, action: EvaluationAction, context: Context) -> Outcome:
    """The state after an action about an evaluation."""
    del context
    if isinstance(action, Evaluate):
        return _accept(state, action)
    evaluation = state.evaluations.get(action.evaluation)
    if evaluation is None or evaluation.over:
        return Outcome(state)
    match action:
        case EvaluationEnded():
            return _end(state, evaluation, action)
        case CancelQueued() if evaluation.status == "queued":
            ended = EvaluationEnded(evaluation.id, "interrupted", notes=(action.why,), now=action.now)
            return _end(state, evaluation, ended)
        case StopAsked():
            return Outcome(_put(state, replace(evaluation, stop_asked=action.why)))
        case InputWanted():
            return _want_input(state, replace(evaluation, status="needs-input"))
        case InputGiven() if evaluation.status == "needs-input":
            return _set_status(state, replace(evaluation, status="running"))
    return Outcome(state)


def endings(state: State, repl: str, cause: str, *, restarted: bool) -> tuple[Action, ...]:
    """The actions that end all of a REPL's evaluations because its connection is gone.

    What ran may have done its work; what was queued was never sent.
    """
    actions: list[Action] = []
    for evaluation in state.unfinished():
        if evaluation.repl != repl:
            continue
        if evaluation.status == "queued":
            text = f"{cause}; this evaluation was still queued, so its code was never sent"
            failure = Failure("repl-disconnected", text)
            actions.append(EvaluationEnded(evaluation.id, "lost", failure=failure))
        elif restarted:
            note = f"{cause}: what was defined in it is gone"
            actions.append(EvaluationEnded(evaluation.id, "interrupted", notes=(note,)))
        else:
            text = f"{cause}; the code was sent and may have run, in part or whole, and is not sent again"
            failure = Failure("repl-disconnected", text)
            actions.append(EvaluationEnded(evaluation.id, "lost", failure=failure))
    return tuple(actions)


def fill_lanes(state: State, repl: str, now: int, follow_ups: tuple[Action, ...] = ()) -> Outcome:
    """Start the oldest queued evaluation of each free lane of a connected REPL."""
    effects: list[Effect] = []
    taken = {lane(state, e) for e in state.unfinished() if e.repl == repl and e.status in HELD}
    for evaluation in state.unfinished():
        if evaluation.repl != repl or evaluation.status != "queued":
            continue
        own = lane(state, evaluation)
        if own not in taken:
            taken.add(own)
            started = _begin(state, evaluation, now)
            state = started.state
            effects += started.effects
    return Outcome(state, tuple(effects), follow_ups)


def _accept(state: State, action: Evaluate) -> Outcome:
    number = state.evaluated + 1
    repl = state.repls[action.repl]
    # A session that ended in this very moment: the REPL refuses the evaluation, and that ends what is put here.
    session = repl.sessions.get(action.session, Session(action.session, is_leaving=True))
    evaluation = Evaluation(
        id=action.evaluation,
        number=number,
        repl=action.repl,
        session=action.session,
        who=action.who,
        client=action.client,
        request=action.request,
        head=action.head[:HEAD_CHARACTERS],
        status="queued",
        requested_at=action.now,
        generation=repl.generation,
        previous=session.last_evaluation_by.get(action.who, 0),
    )
    session = replace(
        session,
        last_activity=action.now,
        last_evaluation_by=with_item(session.last_evaluation_by, action.who, number),
    )
    repl = replace(repl, sessions=with_item(repl.sessions, session.name, session))
    state = replace(
        state,
        repls=with_item(state.repls, repl.id, repl),
        evaluations=with_item(_trimmed(state.evaluations), evaluation.id, evaluation),
        live=(*state.live, evaluation.id),
        evaluated=number,
    )
    if state.life.phase in ("stopping", "stopped"):
        # A connected client goes on calling until its connection is closed, which is the last thing.
        failure = Failure("server-stopped", "the server stops, so this code was never sent")
        return Outcome(state, follow_ups=(EvaluationEnded(evaluation.id, "lost", failure=failure),))
    if repl.phase == "connected" and holder(state, evaluation) is None:
        return _begin(state, evaluation, action.now)
    return orphans.end_unwanted(state)


def _trimmed(evaluations: Mapping[str, Evaluation]) -> Mapping[str, Evaluation]:
    if len(evaluations) < 2 * KEPT:
        return evaluations
    excess = len(evaluations) - KEPT
    old = [evaluation.id for evaluation in evaluations.values() if evaluation.over][:excess]
    dropped = set(old)
    return {name: evaluation for name, evaluation in evaluations.items() if name not in dropped}


def _begin(state: State, evaluation: Evaluation, now: int) -> Outcome:
    """Run it now. The log gets its description, then its code, before anything it prints.

    It is sent first: the log is written while the REPL works, and what that says is heard in a later turn.
    """
    repl = state.repls[evaluation.repl]
    request = evaluation.request
    if request is None:  # only what is over has none
        return Outcome(state)
    key = session_key(repl, evaluation.session)
    running = replace(evaluation, status="running", started_at=now, generation=repl.generation)
    effects: list[Effect] = [
        RunEvaluation(
            evaluation=evaluation.id,
            repl=repl.id,
            session=evaluation.session,
            generation=repl.generation,
            request=request,
        )
    ]
    if request.description:
        effects.append(
            Append(
                category="otherOutput",
                text=request.description,
                who=evaluation.who,
                session_key=key,
                evaluation=evaluation.id,
            )
        )
    effects.append(
        Append(
            category="evaluatedCode",
            text=request.code,
            who=evaluation.who,
            ns=request.namespace or repl.sessions[evaluation.session].namespace,
            session_key=key,
            evaluation=evaluation.id,
        )
    )
    return Outcome(_put(state, running), tuple(effects))


def _put(state: State, evaluation: Evaluation) -> State:
    return replace(state, evaluations=with_item(state.evaluations, evaluation.id, evaluation))


def _set_status(state: State, evaluation: Evaluation) -> Outcome:
    return Outcome(_put(state, evaluation), effects=(SettleEvaluation(evaluation=evaluation.id),))


def _want_input(state: State, evaluation: Evaluation) -> Outcome:
    waiting = _set_status(state, evaluation)
    ended = orphans.end_unwanted(waiting.state)
    return replace(ended, effects=(*waiting.effects, *ended.effects))


def _stopped_by(evaluation: Evaluation, action: EvaluationEnded) -> tuple[str, ...]:
    """Who ended it and why, where somebody did; code that ended by itself meanwhile says nothing of that."""
    if evaluation.stop_asked is None or action.status not in ("interrupted", "failed"):
        return ()
    how = "it was interrupted" if action.status == "interrupted" else "it failed after an interrupt"
    return (f"{how}: {evaluation.stop_asked}",)


def _end(state: State, evaluation: Evaluation, action: EvaluationEnded) -> Outcome:
    ended = replace(
        evaluation,
        status=action.status,
        ended_at=action.now,
        namespace=action.session_namespace,
        failure=action.failure,
        notes=(*evaluation.notes, *action.notes, *_stopped_by(evaluation, action)),
        request=None,
    )
    live = tuple(name for name in state.live if name != ended.id)
    state = replace(_put(state, ended), live=live)
    repl = state.repls.get(evaluation.repl)
    settle = SettleEvaluation(evaluation=evaluation.id)
    if repl is None:
        return Outcome(state, (settle,))
    session = repl.sessions.get(evaluation.session)
    if session is not None:
        namespace = action.session_namespace or session.namespace
        session = replace(session, namespace=namespace, last_activity=action.now)
        repl = replace(repl, sessions=with_item(repl.sessions, session.name, session))
        state = replace(state, repls=with_item(state.repls, repl.id, repl))
    effects = (settle, *sessions.settle(state, repl.id, evaluation.session))
    if repl.phase != "connected":
        return Outcome(state, effects)
    filled = fill_lanes(state, repl.id, action.now)
    return Outcome(filled.state, (*effects, *filled.effects))
