"""`interrupt_evaluation`: stop running code or tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from codriver.core.values import MAIN_SESSION, OCCUPYING, TEST_JOBS, Evaluation
from codriver.errors import refused
from codriver.tools.acts.test_runs import describe_run
from codriver.tools.answers.evaluation_answers import EVALUATION, describe
from codriver.tools.answers.lean_answers import Evaluating, wants_detail
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.evaluation_waits import evaluation_of, stop
from codriver.tools.calls.session_choice import Target, resolve
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from codriver.core.state import State
    from codriver.tools.calls.call import Call


class InterruptArguments(Evaluating):
    """Arguments of `interrupt_evaluation`."""

    asks_status: ClassVar[bool] = True

    evaluation_id: str | None = None
    repl_session_key: str | None = None
    allow_restart: bool = Field(
        default=False, description="If nothing else ends it, restart the REPL: its variables are lost."
    )


async def interrupt_evaluation(call: Call, arguments: InterruptArguments) -> Answer:
    """End an evaluation, or the running one of a session."""
    if arguments.evaluation_id is not None:
        evaluation = evaluation_of(call.state, arguments.evaluation_id).id
    elif (job := _job_of(call, arguments.repl_session_key)) is not None:
        evaluation = job.id
    elif arguments.repl_session_key is not None:
        target = resolve(call.state, arguments.repl_session_key, may_leave=True)
        held = [e for e in call.state.unfinished() if e.status in OCCUPYING and _is_in(e, target)]
        running = [e.id for e in sorted(held, key=lambda e: e.is_others)]
        if not running:
            about = {"sessionKey": target.key} if wants_detail(call, arguments) else {}
            return Answer({**about, "notes": [f"nothing runs in this session{_beside(call.state, target)}"]})
        evaluation = running[0]
    else:
        evaluation = _only_own(call, call.who(arguments.who))
    why = f"{call.who(arguments.who)} asked for it with interrupt_evaluation"
    did = await stop(call, evaluation, why, allow_restart=arguments.allow_restart)
    current = evaluation_of(call.state, evaluation)
    if current.is_test_job:
        described = await describe_run(call, current, arguments)
        return replace(described, ok=current.over)
    described = await describe(call, current, arguments, notes=did)
    if current.over:
        kept = {key: value for key, value in described.fields.items() if key not in ("reason", "hint")}
        if not wants_detail(call, arguments):  # a caller that asked for the end knows of it
            kept["notes"] = [note for note in kept["notes"] if not note.endswith(why)]
        return replace(described, fields=kept, ok=True)
    fields = {
        **described.fields,
        "reason": "not-interrupted",
        "hint": "it still runs: see notes for what can end it",
    }
    return replace(described, fields=fields, ok=False)


def _job_of(call: Call, session_key: str | None) -> Evaluation | None:
    """The running test run of a session's interpreter, if nothing else runs in the session; `tests` names any."""
    state = call.state
    held = [one for one in state.unfinished() if one.status in OCCUPYING]
    if session_key is None or any(state.key_of(one) == session_key and not one.is_job for one in held):
        return None
    for one in held:
        kept = call.services.tests.report(one.id) if one.is_job else None
        if one.is_job and session_key in (TEST_JOBS, kept.job.session_key if kept is not None else ""):
            return one
    return None


def _only_own(call: Call, who: str) -> str:
    """Return the id of the caller's only running evaluation, or if none runs, of the only waiting one.

    Raises:
        RefusedError: there is no such evaluation, or there are several.
    """
    unfinished = call.state.unfinished()
    mine = [one for one in unfinished if call.is_own(one, who)]
    own = [one.id for one in mine if one.status in OCCUPYING] or [one.id for one in mine]
    if len(own) != 1:
        others = [f"{one.id} of {one.who}" for one in unfinished if one.status in OCCUPYING and one not in mine]
        beside = f"; of others: {', '.join(others)}" if others else ""
        raise refused(
            "bad-arguments",
            "interrupt_evaluation needs to know what to end: "
            + (f"of yours there are {', '.join(own)}" if own else "nothing of yours runs"),
            hint=f"give evaluationId, or replSessionKey to end whatever runs in that session{beside}",
        )
    return own[0]


def _is_in(evaluation: Evaluation, target: Target) -> bool:
    """Whether an evaluation runs in a session; tests begun in a lane run in the session that all tests share."""
    if evaluation.repl != target.repl.id:
        return False
    begun = target.repl.sessions.get(evaluation.session)
    is_of_all = evaluation.kind == "run-tests" and begun is not None and begun.lane is not None
    return evaluation.session == target.session.name or (is_of_all and target.session.name == MAIN_SESSION)


def _beside(state: State, target: Target) -> str:
    """Return the evaluations that run in lanes next to a shared session, in words; empty for none."""
    if target.session.name != MAIN_SESSION:
        return ""
    lanes = {session.name for session in target.repl.sessions.values() if session.lane is not None}
    held = [one for one in state.unfinished() if one.status in OCCUPYING and one.repl == target.repl.id]
    told = [f"{one.id} of {one.who} in {state.key_of(one)}" for one in held if one.session in lanes]
    return f"; in lanes: {', '.join(told)}" if told else ""


TOOL = Tool(
    name="interrupt_evaluation",
    title="Interrupt evaluation",
    description="Stop running code or tests. The session keeps its variables.",
    arguments=InterruptArguments,
    output=answer_schema(**EVALUATION),
    run=interrupt_evaluation,
    needs=("interrupt", "restart"),
    setting="enable_mcp_repl_evaluation",
    destructive=True,
    search_hint="stop cancel endless loop",
)
