"""`interrupt_evaluation`: interrupt code or tests that are running, or restart the REPL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from codriver.core.evaluations import OCCUPYING_STATUSES, Evaluation
from codriver.core.requests import MAIN_SESSION
from codriver.errors import refused
from codriver.tools.answers.evaluation_answers import EVALUATION_SCHEMA, describe_evaluation
from codriver.tools.answers.lean_answers import Evaluating, wants_detail
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY
from codriver.tools.calls.evaluation_waits import find_evaluation, stop_evaluation
from codriver.tools.calls.session_choice import Target, resolve_session
from codriver.tools.calls.tool import Tool
from codriver.tools.execution.test_runs import describe_run
from codriver.tools.restart_repl import RestartArguments, restart_repl

if TYPE_CHECKING:
    from codriver.core.state import State
    from codriver.tools.calls.call import Call


class InterruptArguments(Evaluating):
    """The arguments of the tool `interrupt_evaluation`."""

    requests_status: ClassVar[bool] = True

    evaluation_id: str | None = Field(None, description="Default: what runs now.")
    repl_session_key: str | None = None
    restart: bool = Field(default=False, description="Restart the REPL instead. Its variables are lost.")
    allow_restart: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether to restart the REPL if nothing else ends the code. Answers mention this argument where it would help."""


async def interrupt_evaluation(call: Call, arguments: InterruptArguments) -> Answer:
    """Stop an evaluation, or the code or tests currently running in a session, or restart the session's REPL."""
    if arguments.restart:
        key = arguments.repl_session_key or _session_of_evaluation(call, arguments.evaluation_id)
        restart_arguments = {"who": arguments.who, "replSessionKey": key}
        return await restart_repl(call, RestartArguments.model_validate(restart_arguments))
    if arguments.evaluation_id is not None:
        evaluation = find_evaluation(call.state, arguments.evaluation_id).id
    elif (job := _find_running_job(call, arguments.repl_session_key)) is not None:
        evaluation = job.id
    elif arguments.repl_session_key is not None:
        target = resolve_session(call.state, arguments.repl_session_key, may_leave=True)
        occupying = [
            e for e in call.state.unfinished() if e.status in OCCUPYING_STATUSES and target.key in call.session_keys(e)
        ]
        running = [e.id for e in sorted(occupying, key=lambda e: (e.is_job, e.is_others))]
        if not running:
            about = {"sessionKey": target.key} if wants_detail(call, arguments) else {}
            return Answer(
                {**about, "notes": [f"nothing is running in this session{_running_lanes_note(call.state, target)}"]}
            )
        evaluation = running[0]
    else:
        evaluation = _only_evaluation(call, call.who(arguments.who))
    why = f"{call.who(arguments.who)} called interrupt_evaluation"
    did = await stop_evaluation(call, evaluation, why, allow_restart=arguments.allow_restart)
    current = find_evaluation(call.state, evaluation)
    if current.is_test_job:
        described = await describe_run(call, current, arguments)
        return replace(described, ok=current.is_finished)
    described = await describe_evaluation(call, current, arguments, notes=did)
    if current.is_finished:
        answer_fields = {key: value for key, value in described.fields.items() if key not in ("reason", "hint")}
        if not wants_detail(call, arguments):  # the caller requested the interrupt
            answer_fields["notes"] = [note for note in answer_fields["notes"] if not note.endswith(why)]
        return replace(described, fields=answer_fields, ok=True)
    fields = {
        **described.fields,
        "reason": "not-interrupted",
        "hint": "The code is still running. The notes describe ways to stop it.",
    }
    return replace(described, fields=fields, ok=False)


def _session_of_evaluation(call: Call, evaluation_id: str | None) -> str | None:
    """Return the key of the session in which an evaluation runs, or None if no evaluation is named.

    Raises:
        RefusedError: the evaluation is unknown, or is a test run with a process of its own.
    """
    if evaluation_id is None:
        return None
    evaluation = find_evaluation(call.state, evaluation_id)
    if evaluation.is_test_job:
        raise refused(
            "bad-arguments",
            f"{evaluation.id} is a test run in a separate process, so there is no REPL to restart",
            hint="Omit restart to stop the test run.",
        )
    return call.state.evaluation_session_key(evaluation)


def _find_running_job(call: Call, session_key: str | None) -> Evaluation | None:
    """Return the running test run that uses a session's interpreter, unless other code is running in the session.

    The key `tests` matches any test run.
    """
    if session_key is None:
        return None
    running = [
        evaluation
        for evaluation in call.state.unfinished()
        if evaluation.status in OCCUPYING_STATUSES and session_key in call.session_keys(evaluation)
    ]
    return running[0] if running and all(evaluation.is_job for evaluation in running) else None


def _only_evaluation(call: Call, who: str) -> str:
    """Return the id of the caller's only running evaluation, or of its only queued one if none is running.

    Raises:
        RefusedError: there is no such evaluation, or there are several.
    """
    unfinished = call.state.unfinished()
    mine = [evaluation for evaluation in unfinished if call.belongs_to(evaluation, who)]
    of_caller = [evaluation.id for evaluation in mine if evaluation.status in OCCUPYING_STATUSES] or [
        evaluation.id for evaluation in mine
    ]
    if len(of_caller) != 1:
        others = [
            f"{evaluation.id} of {evaluation.who}"
            for evaluation in unfinished
            if evaluation.status in OCCUPYING_STATUSES and evaluation not in mine
        ]
        of_others = f"; of others: {', '.join(others)}" if others else ""
        raise refused(
            "bad-arguments",
            "interrupt_evaluation does not know which evaluation to stop: "
            + (f"you have {', '.join(of_caller)}" if of_caller else "none of your evaluations is running"),
            hint=f"Pass evaluationId, or replSessionKey to stop whatever is running in that session{of_others}.",
        )
    return of_caller[0]


def _running_lanes_note(state: State, target: Target) -> str:
    """Return a note about evaluations running in lanes of the same REPL, or an empty string."""
    if target.session.name != MAIN_SESSION:
        return ""
    lanes = {session.name for session in target.repl.sessions.values() if session.lane is not None}
    running = [
        evaluation
        for evaluation in state.unfinished()
        if evaluation.status in OCCUPYING_STATUSES and evaluation.repl == target.repl.id
    ]
    descriptions = [
        f"{evaluation.id} of {evaluation.who} in {state.evaluation_session_key(evaluation)}"
        for evaluation in running
        if evaluation.session in lanes
    ]
    return f"; running in separate sessions: {', '.join(descriptions)}" if descriptions else ""


TOOL = Tool(
    name="interrupt_evaluation",
    title="Interrupt evaluation",
    description="Stop running code or tests. The session keeps its variables.",
    arguments=InterruptArguments,
    output=answer_schema(**EVALUATION_SCHEMA, phase="string"),
    run=interrupt_evaluation,
    needs=("interrupt", "restart"),
    destructive=True,
    search_hint="stop cancel endless loop",
)
