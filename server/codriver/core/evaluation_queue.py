"""Queues of evaluations, each of which runs one evaluation at a time.

Within a queue (`core.state.evaluation_queue`), the evaluations of one client run in the order in which they arrived,
and clients take turns. An evaluation that is accepted while its REPL is starting waits for the REPL.

A turn is one evaluation, no matter how long it runs. Each evaluation gets a position in the order of turns when it
arrives. When an evaluation finishes, the same client's next one moves behind everything that has arrived so far. So a
client waits at most for the running evaluation and for one evaluation from each other waiting client, and cannot starve
the others. A client is a connection. Callers that share one also share its turns, regardless of their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from codriver.core import orphans, recent_repls
from codriver.core.actions import (
    Action,
    CancelQueued,
    Evaluate,
    EvaluationFinished,
    ExternalEvaluationStarted,
    InputRequested,
    InputSent,
    RunningReported,
    StartJob,
    StopRequested,
)
from codriver.core.checkpoints import CHECKPOINT_PREFIX, checkpoint_name
from codriver.core.dispatch import Handler, Outcome
from codriver.core.effects import AppendEntry, Effect, RunEvaluation, RunJob, StoreDocument, WakeWaiters
from codriver.core.evaluations import EXTERNAL_CALLER, OCCUPYING_STATUSES, TEST_JOBS_REPL, Evaluation, Failure
from codriver.core.log_facts import FINISHED_KIND, LOAD_KIND, PURPOSE_KIND, encode_facts
from codriver.core.records import replace
from codriver.core.requests import MAIN_SESSION, SUMMARIZED_KINDS
from codriver.core.state import (
    Repl,
    Session,
    State,
    evaluation_queue,
    queue_occupant,
    with_evaluation,
    with_item,
    with_session,
)
from codriver.errors import NOT_SENT_AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.core.requests import Request


MAX_FINISHED = 1000
"""Maximum number of finished evaluations that are retained, so that callers can still fetch their results."""
MAX_EXCESS_FINISHED = 250
"""How far `MAX_FINISHED` may be exceeded before the oldest evaluations are dropped together.

Every change copies the mapping, which takes 3 µs at this size.
"""
MAX_HEAD_CHARACTERS = 200
"""Maximum number of characters from the beginning of an evaluation's code that are displayed."""


def next_evaluation_id(state: State) -> str:
    """Return the id of the next evaluation.

    It starts with a part of the server's id, so that it differs from earlier servers' ids.
    """
    return evaluation_id(state, state.evaluated + 1)


def evaluation_id(state: State, number: int) -> str:
    """Return the id of the evaluation with the given number."""
    return f"{state.lifecycle.session_id[:4]}-{number}"


def for_unfinished_evaluation(handle: Callable[[State, Evaluation, Any], Outcome]) -> Handler:
    """Wrap a handler so that it receives the evaluation of its action.

    The handler is not called if the evaluation is unknown or has finished.
    """

    def handled(state: State, action: Any) -> Outcome:
        evaluation = state.evaluations.get(action.evaluation)
        return Outcome(state) if evaluation is None or evaluation.is_finished else handle(state, evaluation, action)

    return handled


def actions_ending_evaluations(state: State, repl: str, cause: str, *, restarted: bool = False) -> tuple[Action, ...]:
    """Return actions that end all unfinished evaluations of a REPL whose connection is lost."""
    return tuple(
        _finish_action(evaluation, cause, restarted=restarted)
        for evaluation in state.unfinished()
        if evaluation.repl == repl
    )


def _finish_action(evaluation: Evaluation, cause: str, *, restarted: bool) -> EvaluationFinished:
    """Return the action that ends an evaluation whose REPL is gone, with a message about whether its code ran."""
    if evaluation.is_others:
        return _finished_as_lost(evaluation, f"{cause}. It is unknown how much of the code ran")
    if evaluation.status == "queued":
        return _finished_as_lost(evaluation, f"{cause}. This evaluation was still queued, so its code was never sent")
    if restarted:
        return EvaluationFinished(evaluation.id, "interrupted", notes=(f"{cause}, so its definitions are lost",))
    return _finished_as_lost(evaluation, f"{cause}. The code was sent and {NOT_SENT_AGAIN}")


def _finished_as_lost(evaluation: Evaluation, why: str, kind: str = "repl-disconnected") -> EvaluationFinished:
    return EvaluationFinished(evaluation.id, "lost", failure=Failure(kind, why))


def fill_queues(state: State, repl: str, now: int) -> Outcome:
    """Start the next evaluation in each free queue of a connected REPL."""
    if not state.live:
        return Outcome(state)
    effects: list[Effect] = []
    for evaluation in startable_evaluations(state, repl):
        if evaluation.request is not None:
            started = _as_running(evaluation, state.repls[repl], now)
            state = with_evaluation(state, started)
            effects += _run_effects(started, evaluation.request, state.repls[repl])
    return Outcome(state, tuple(effects))


def accept_evaluation(state: State, action: Evaluate) -> Outcome:
    """Run an evaluation immediately if its queue is free, or add it to the queue."""
    repl = state.repls[action.repl]
    # If the session has just been closed, the REPL rejects the evaluation, which ends it.
    name = action.request.session
    session = repl.sessions.get(name) or Session(name, is_leaving=True)
    state = recent_repls.with_recent_repl(state, action.client, action.who, repl.id)
    evaluation = _new_evaluation(state, action, repl, session)
    if state.lifecycle.phase in ("stopping", "stopped"):
        # Connections are closed last, so connected clients can still call.
        why = "the server is stopping, so this code was never sent"
        state = _put_new(state, evaluation, repl, session, action.now)
        return Outcome(state, follow_ups=(_finished_as_lost(evaluation, why, "server-stopped"),))
    if repl.phase != "connected" or queue_occupant(state, evaluation) is not None:
        return orphans.stop_unwanted_orphans(_put_new(state, evaluation, repl, session, action.now))
    evaluation = _as_running(evaluation, repl, action.now)
    state = _put_new(state, evaluation, repl, session, action.now)
    return Outcome(state, _run_effects(evaluation, action.request, repl))


def accept_job(state: State, action: StartJob) -> Outcome:
    """Start a job immediately if its queue is free, or add it to the queue.

    Test runs share one queue. Code in frames of failed tests uses another one, so that neither waits for the other.
    Test runs in the background wait for nothing.
    """
    client = state.clients.get(action.client or "")
    job = Evaluation(
        id=action.request.id,
        number=state.evaluated + 1,
        repl=TEST_JOBS_REPL,
        session=action.request.session,
        who=action.who,
        client=action.client,
        request=action.request,
        head=action.head[:MAX_HEAD_CHARACTERS],
        status="queued",
        turn=state.turns + 1,
        previous=client.since if client else 0,
        kind=action.request.kind,
        is_in_frame=action.request.frame is not None,
        is_background=action.request.background,
    )
    if state.lifecycle.phase in ("stopping", "stopped"):
        why = "the server is stopping, so this run was never started"
        return Outcome(_with_new(state, job), follow_ups=(_finished_as_lost(job, why, "server-stopped"),))
    if queue_occupant(state, job) is not None:
        return orphans.stop_unwanted_orphans(_with_new(state, job))
    job = replace(job, status="running", started_at=action.now)
    return Outcome(_with_new(state, job), _job_effects(job, action.request))


def _job_effects(job: Evaluation, request: Request) -> tuple[Effect, ...]:
    """Return the effects that start a job.

    The code of a job is logged when it starts, but a test run is logged when it finishes.
    """
    run = RunJob(request=request)
    if request.kind in SUMMARIZED_KINDS:
        return (run,)
    text = request.text
    code = AppendEntry(category="evaluatedCode", text=text, who=job.who, session_key=TEST_JOBS_REPL, evaluation=job.id)
    return (code, run)


def _start_next_jobs(state: State, now: int) -> Outcome:
    """Start the next job in each free queue."""
    effects: list[Effect] = []
    for job in startable_evaluations(state, TEST_JOBS_REPL):
        if job.request is not None:
            effects += _job_effects(job, job.request)
            state = with_evaluation(state, replace(job, status="running", started_at=now))
    return Outcome(state, tuple(effects))


def _new_evaluation(state: State, action: Evaluate, repl: Repl, session: Session) -> Evaluation:
    client = state.clients.get(action.client or "")
    known = repl.with_shared_record(session)
    return Evaluation(
        id=action.request.id,
        number=state.evaluated + 1,
        repl=action.repl,
        session=session.name,
        who=action.who,
        client=action.client,
        request=action.request,
        head=action.head[:MAX_HEAD_CHARACTERS],
        status="queued",
        generation=repl.generation,
        turn=state.turns + 1,
        previous=max(known.last_evaluation_by.get(action.who, 0), client.since if client else 0),
        kind=action.request.kind,
        file=action.request.file,
        is_in_frame=action.request.frame is not None,
        is_background=action.request.background,
        lane=action.lane,
    )


def record_external_evaluation(state: State, action: ExternalEvaluationStarted) -> Outcome:
    """Record an evaluation that was not sent through this server. It occupies its queue, and its code is logged."""
    repl = state.repls.get(action.repl)
    if repl is None:
        return Outcome(state)
    session = repl.sessions[MAIN_SESSION]
    evaluation = Evaluation(
        id=action.evaluation,
        number=state.evaluated + 1,
        repl=repl.id,
        session=session.name,
        who=EXTERNAL_CALLER,
        client=None,
        request=None,
        head=action.code[:MAX_HEAD_CHARACTERS],
        status="running",
        started_at=action.now,
        generation=repl.generation,
        turn=state.turns + 1,
        is_others=True,
    )
    code = AppendEntry(
        category="evaluatedCode",
        text=action.code,
        who=EXTERNAL_CALLER,
        session_key=repl.session_key(session.name),
        evaluation=evaluation.id,
        document=repl.document,
    )
    return Outcome(_put_new(state, evaluation, repl, session, action.now), (code,))


def _put_new(state: State, evaluation: Evaluation, repl: Repl, session: Session, now: int) -> State:
    known = repl.with_shared_record(session)
    newest = with_item(known.last_evaluation_by, evaluation.who, evaluation.number)
    if known is session:
        session = replace(session, last_activity=now, last_evaluation_by=newest)
        sessions = with_item(repl.sessions, session.name, session)
    else:
        session, known = replace(session, last_activity=now), replace(known, last_evaluation_by=newest)
        sessions = with_item(with_item(repl.sessions, session.name, session), known.name, known)
    repl = replace(repl, sessions=sessions)
    return _with_new(replace(state, repls=with_item(state.repls, repl.id, repl)), evaluation)


def _with_new(state: State, evaluation: Evaluation) -> State:
    return replace(
        state,
        evaluations=with_item(_retained_evaluations(state), evaluation.id, evaluation),
        live=(*state.live, evaluation.id),
        evaluated=evaluation.number,
        turns=evaluation.turn,
    )


def _retained_evaluations(state: State) -> Mapping[str, Evaluation]:
    """Return all unfinished evaluations and the newest finished ones."""
    excess = len(state.evaluations) - MAX_FINISHED
    if excess < MAX_EXCESS_FINISHED:
        return state.evaluations
    dropped = set([name for name in state.evaluations if name not in state.live][:excess])
    return {name: evaluation for name, evaluation in state.evaluations.items() if name not in dropped}


def _as_running(evaluation: Evaluation, repl: Repl, now: int) -> Evaluation:
    return replace(evaluation, status="running", started_at=now, generation=repl.generation)


def _run_effects(evaluation: Evaluation, request: Request, repl: Repl) -> tuple[Effect, ...]:
    """Return the effects that run an evaluation, and that log its description and code.

    The code is sent first, and logged while the REPL works. The REPL's output is read later, in another turn of the
    event loop, so it follows the code in the log.
    """
    session = repl.sessions.get(evaluation.session)
    code = AppendEntry(
        category="evaluatedCode",
        text=request.text,
        who=evaluation.who,
        ns=request.namespace or (session.namespace if session else None),
        session_key=repl.session_key(evaluation.session),
        evaluation=evaluation.id,
        file=request.file if request.kind == "load-file" else None,
    )
    run = RunEvaluation(repl=repl.id, request=request)
    if request.kind in SUMMARIZED_KINDS:
        return (run,)  # test runs are logged when they end
    if not request.description:
        return (run, code)
    described = replace(code, category="otherOutput", text=request.description, ns=None, file=None)
    return (
        run,
        _with_description_data(described, request),
        *_checkpoint_effects(evaluation, request.description, repl),
        code,
    )


def _with_description_data(described: AppendEntry, request: Request) -> AppendEntry:
    if request.kind != "evaluate":
        return replace(described, kind=LOAD_KIND, data=encode_facts(file=request.file))
    return replace(described, kind=CHECKPOINT_PREFIX if checkpoint_name(described.text) else PURPOSE_KIND)


def _checkpoint_effects(evaluation: Evaluation, description: str, repl: Repl) -> tuple[Effect, ...]:
    """Return the effect that stores a checkpoint, if the description of an evaluation sets one."""
    name = checkpoint_name(description)
    if not name:
        return ()
    key = repl.session_key(evaluation.session)
    facts = encode_facts(name=name, who=evaluation.who, session=key, evaluation=evaluation.id)
    return (StoreDocument(CHECKPOINT_PREFIX, name, f"by {evaluation.who} in {key} ({evaluation.id})", facts),)


def record_running_reported(state: State, evaluation: Evaluation, _action: RunningReported) -> Outcome:
    """Record that the caller knows that its evaluation is running.

    The caller's other calls then do not have to wait for the evaluation.
    """
    return Outcome(with_evaluation(state, replace(evaluation, is_answered=True)))


def request_stop(state: State, evaluation: Evaluation, action: StopRequested) -> Outcome:
    """Record who requested that the evaluation stop and why, for the answer about it."""
    return Outcome(with_evaluation(state, replace(evaluation, stop_requested=action.why)))


def cancel_queued(state: State, evaluation: Evaluation, action: CancelQueued) -> Outcome:
    """End an evaluation that is still queued, so that it does not run."""
    if evaluation.status != "queued":
        return Outcome(state)
    return finish_evaluation(
        state, evaluation, EvaluationFinished(evaluation.id, "interrupted", notes=(action.why,), now=action.now)
    )


def record_input_request(state: State, evaluation: Evaluation, _action: InputRequested) -> Outcome:
    """Mark an evaluation as waiting for input, and wake the callers whose evaluations are queued behind it.

    The evaluation is stopped if no connected client can send input.
    """
    waiting = _set_status(state, replace(evaluation, status="needs-input"))
    finished = orphans.stop_unwanted_orphans(waiting.state)
    queue = evaluation_queue(state, evaluation)
    behind = [
        other for other in state.unfinished() if other.status == "queued" and evaluation_queue(state, other) == queue
    ]
    end_effects = tuple(WakeWaiters(evaluation=other.id) for other in behind)
    return replace(finished, effects=(*waiting.effects, *end_effects, *finished.effects))


def record_input_sent(state: State, evaluation: Evaluation, _action: InputSent) -> Outcome:
    """Mark an evaluation that received input as running."""
    if evaluation.status != "needs-input":
        return Outcome(state)
    return _set_status(state, replace(evaluation, status="running"))


def finish_evaluation(state: State, evaluation: Evaluation, action: EvaluationFinished) -> Outcome:
    """Record the outcome of an evaluation, wake the callers waiting for it, and start the next one in its queue."""
    state = _with_finished(state, evaluation, action)
    wake = WakeWaiters(evaluation=evaluation.id)
    if evaluation.is_job:
        message = _end_effects(state.evaluations[evaluation.id], action, TEST_JOBS_REPL)
        started = _start_next_jobs(state, action.now)
        return Outcome(started.state, (wake, *message, *started.effects))
    repl = state.repls.get(evaluation.repl)
    if repl is None:
        return Outcome(state, (wake,))
    end_effects = _end_effects(state.evaluations[evaluation.id], action, repl.session_key(evaluation.session))
    session = repl.sessions.get(evaluation.session)
    if session is not None:
        # Code that names a namespace does not change the namespace of its session.
        is_in_other_namespace = evaluation.request is not None and evaluation.request.namespace is not None
        namespace = session.namespace if is_in_other_namespace else action.session_namespace or session.namespace
        session = replace(session, namespace=namespace, last_activity=action.now, is_used=True)
        state = with_session(state, repl.id, session)
    effects: tuple[Effect, ...] = (wake, *end_effects)
    if session is not None and session.is_leaving:
        effects += orphans.close_if_unused(state, repl.id, session.name)
    if repl.phase != "connected":
        return Outcome(state, effects)
    filled = fill_queues(state, repl.id, action.now)
    return Outcome(filled.state, (*effects, *filled.effects))


def _end_effects(evaluation: Evaluation, action: EvaluationFinished, session_key: str) -> tuple[Effect, ...]:
    """Return the effects that log the end of a test run, or of an evaluation that was interrupted or lost."""
    of = f"evaluation {evaluation.id} of {evaluation.who}"
    is_wrong, cause = action.status != "done", ""
    if evaluation.kind == "run-tests":
        words = f"{action.failure.message}" if action.failure else action.status
        text = f"{evaluation.who} ran {action.summary or f'{evaluation.head}: {words}'}"
    elif action.status == "interrupted":
        cause = "; ".join(evaluation.notes) or "the code was interrupted"
        text = f"{of}: {cause}"
    elif action.status == "lost":
        cause = action.failure.message if action.failure else "the outcome is unknown"
        text = f"{of} was lost: {cause}"
    else:
        return ()
    category: Literal["otherOutput", "otherErrorOutput"] = "otherErrorOutput" if is_wrong else "otherOutput"
    entry = AppendEntry(
        category=category, text=text, who=evaluation.who, session_key=session_key, evaluation=evaluation.id
    )
    if action.data is not None:
        return (replace(entry, kind=evaluation.kind, data=action.data),)
    if cause:
        return (replace(entry, kind=FINISHED_KIND, data=encode_facts(status=action.status, cause=cause)),)
    return (entry,)


def _with_finished(state: State, evaluation: Evaluation, action: EvaluationFinished) -> State:
    finished = replace(
        evaluation,
        status=action.status,
        finished_at=action.now,
        namespace=action.session_namespace,
        failure=action.failure,
        notes=(*evaluation.notes, *action.notes, *_stop_notes(evaluation, action)),
        request=None,
    )
    live = tuple([name for name in state.live if name != finished.id])
    state = replace(state, evaluations=with_item(state.evaluations, finished.id, finished), live=live)
    return pass_turn_to_next(state, evaluation)


def _stop_notes(evaluation: Evaluation, action: EvaluationFinished) -> tuple[str, ...]:
    """Return a note about who stopped an evaluation and why, or nothing if nobody did."""
    if evaluation.stop_requested is None or action.status not in ("interrupted", "failed"):
        return ()
    subject = "the test run" if evaluation.kind == "run-tests" else "the code"
    how = "was interrupted" if action.status == "interrupted" else "failed after an interrupt"
    return (f"{subject} {how}: {evaluation.stop_requested}",)


def _set_status(state: State, evaluation: Evaluation) -> Outcome:
    return Outcome(with_evaluation(state, evaluation), effects=(WakeWaiters(evaluation=evaluation.id),))


def startable_evaluations(state: State, repl: str) -> list[Evaluation]:
    """Return a REPL's evaluations that should start now: in each free queue, the one with the lowest turn."""
    unfinished = [evaluation for evaluation in state.unfinished() if evaluation.repl == repl]
    busy = {evaluation_queue(state, evaluation) for evaluation in unfinished if evaluation.status in OCCUPYING_STATUSES}
    first: dict[tuple[tuple[str, str], str | None], Evaluation] = {}
    for evaluation in unfinished:
        queue = evaluation_queue(state, evaluation)
        if evaluation.status == "queued" and evaluation.request is not None and queue not in busy:
            first.setdefault((queue, evaluation.client), evaluation)
    chosen: dict[tuple[str, str], Evaluation] = {}
    for (queue, _), evaluation in first.items():
        known = chosen.get(queue)
        chosen[queue] = evaluation if known is None or evaluation.turn < known.turn else known
    return list(chosen.values())


def pass_turn_to_next(state: State, evaluation: Evaluation) -> State:
    """Pass the turn of a finished evaluation to the same client's next one in the queue.

    If the finished evaluation ran, the next one moves to the end of the order of turns. If it was cancelled, the next
    one gets its position, unless it already has a later one.
    """
    if not state.live:
        return state
    queue = evaluation_queue(state, evaluation)
    for other in state.unfinished():
        if other.client == evaluation.client and other.status == "queued" and evaluation_queue(state, other) == queue:
            turn = state.turns + 1 if evaluation.status in OCCUPYING_STATUSES else max(other.turn, evaluation.turn)
            return replace(with_evaluation(state, replace(other, turn=turn)), turns=max(state.turns, turn))
    return state
