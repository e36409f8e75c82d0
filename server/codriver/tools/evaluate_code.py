"""`evaluate_code`, `load_file`, `run_tests`: code goes to a REPL, and is waited for, interrupted, or given input.

`get_evaluation`, `interrupt_evaluation` and `send_input` are about earlier evaluations.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, cast

import anyio
from pydantic import Field

from codriver.core import evaluation_queue
from codriver.core.values import HELD, MAIN_SESSION, TEST_JOBS, Evaluation, PrintLimits, Request, ValuePart
from codriver.errors import RefusedError, refused
from codriver.log.transcripts import Part, Transcript, read
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.tools.acts.file_loads import LoadFileArguments, load_file
from codriver.tools.acts.submission import MOST_ELEMENTS, MOST_LEVELS, begin, default_limits, frame_fields
from codriver.tools.acts.test_arguments import TestArguments
from codriver.tools.acts.test_frames import begin_in_frame, last_failed_run
from codriver.tools.acts.test_runs import describe_run, run_tests
from codriver.tools.answers.answer_budget import budget, budget_asked, head
from codriver.tools.answers.answer_texts import difference, excerpt, matching
from codriver.tools.answers.drift_notes import look_at_load
from codriver.tools.answers.evaluation_answers import EVALUATION, describe, one_image
from codriver.tools.answers.lean_answers import Evaluating, wants_detail
from codriver.tools.answers.trace_answers import Trace, check_tracing, trace_part, with_trace
from codriver.tools.calls.base import ROWS, TEXTS, UNLISTED, Answer, Call, Tool, answer_schema, unsaid_default
from codriver.tools.calls.evaluation_waits import evaluation_of, give_input, stop, wait
from codriver.tools.calls.session_choice import (
    Target,
    check_tree,
    chosen,
    in_background,
    in_lane,
    isolated,
    notes_of_choice,
    resolve,
)
from codriver.tools.calls.syntax_check import check_by_repl, meant, readable_forms, speaks_lisp

if TYPE_CHECKING:
    from codriver.core.state import State


class EvaluateArguments(Evaluating):
    """Arguments of `evaluate_code`."""

    code: str
    namespace: str | None = Field(None, description="Run inside this namespace; in Python inside this module.")
    frame: int | None = Field(
        None, ge=0, description="Run in a frame of the last error or failed test: 0 is its place."
    )
    """The frame of the last failure in which the code is evaluated."""
    repl_session_key: str | None = Field(
        None, description="The session, for any tool. Default: the one you used last, or the running application."
    )
    who: str | None = Field(None, description="Your name in the log, for any tool: a slug of your task, as fix-login.")
    description: str | None = Field(None, description="What the code is for; people read it in the log.")
    timeout_ms: int | None = Field(
        None, ge=100, le=600_000, description="How long to wait for the result, in ms: 25000. The code goes on."
    )
    on_timeout: Literal["continue", "interrupt"] = Field("continue", description="interrupt: end the code instead.")
    allow_restart: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether an interrupt may end the REPL. The answer about an interrupt that did not help names this argument."""
    isolate: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether the code runs in a namespace of the caller's own; modules and their state are shared all the same."""
    background: bool = Field(default=False, description="Return at once; the session stays free for other code.")
    detail: bool | None = Field(None, json_schema_extra={UNLISTED: True})
    trace: Trace = Field(
        None, description="List the calls of these functions, with arguments and results: names, or true for all."
    )
    profile: bool = Field(default=False, description="Measure which functions take the time.")
    max_images: int = Field(10, ge=0, json_schema_extra={UNLISTED: True})
    """An answer that leaves images out names this argument."""
    max_length: int | None = Field(None, ge=1, le=MOST_ELEMENTS, json_schema_extra={UNLISTED: True})
    max_depth: int | None = Field(None, ge=1, le=MOST_LEVELS, json_schema_extra={UNLISTED: True})
    """The printed depth of a value. An answer that cuts one says how to have it."""


BACKGROUND_MS: Final = 100
"""The wait for code in the background: a result within it is told at once."""


async def evaluate_code(call: Call, arguments: EvaluateArguments) -> Answer:
    """Evaluate, wait, and tell the evaluation's standing."""
    who, core = call.who(arguments.who), call.services.core
    if arguments.frame is not None:
        run = last_failed_run(call, who, arguments.repl_session_key)
        if run is not None:
            return await _evaluate_in_test(call, who, run, arguments)
    state = core.state
    target = chosen(call, arguments.repl_session_key, who)  # a wrong key is told before the code is checked
    repl, readers = target.repl, meant(state, arguments.repl_session_key, target)
    lisp = speaks_lisp(readers)
    if lisp:
        await look_at_load(call, repl, arguments.code)
    forms = await readable_forms(call, readers, arguments.code, lisp=lisp)
    if not lisp:
        await check_by_repl(call, repl, arguments.code)
    if core.state is not state:  # the check took a while
        target = chosen(call, arguments.repl_session_key, who)
    check_tree(call, target, who, arguments.repl_session_key)
    target = await _session(call, target, who, arguments)
    in_frame = {} if arguments.frame is None else frame_fields(call, target, arguments.frame)
    is_recorded = arguments.trace is not None or arguments.profile
    if is_recorded:
        check_tracing(target.repl, arguments.trace, measures=arguments.profile)
    request = Request(
        id=evaluation_queue.next_id(core.state),
        code=arguments.code,
        session=target.session.name,
        namespace=None if in_frame else arguments.namespace,
        description=arguments.description,
        background=arguments.background,
        forms=forms,
        max_length=arguments.max_length,
        max_depth=arguments.max_depth,
        default_limits=default_limits(call, target),
        **in_frame,
        trace=arguments.trace,
        profiles=arguments.profile,
    )
    timeout_ms = _timeout_ms(call, arguments)
    begin(call, target, who, request)
    current = await wait(call, request.id, timeout_ms / 1000, may_last=arguments.on_timeout == "continue")
    if current.status == "running" and arguments.on_timeout == "interrupt":
        return await _interrupt_late(call, request.id, timeout_ms, arguments)
    if lisp:
        await look_at_load(call, repl, arguments.code)
    own = target.key if arguments.repl_session_key is None and not arguments.isolate else None
    notes = notes_of_choice(call, current, target)
    images = arguments.max_images
    answer = await describe(call, current, arguments, max_images=images, notes=notes, own_session=own)
    return await with_trace(call, answer, current.id) if is_recorded else answer


async def _evaluate_in_test(call: Call, who: str, run: Evaluation, arguments: EvaluateArguments) -> Answer:
    """Evaluate in a frame of a failed test, whose process is kept, and wait."""
    if arguments.trace is not None or arguments.profile:
        raise refused(
            "bad-arguments",
            "calls are not recorded in the frames of a failed test",
            hint='run_tests with trace: "true" records the calls of the test',
        )
    code, frame = arguments.code, arguments.frame or 0
    identity = begin_in_frame(call, who, run, code, frame, arguments.description)
    timeout_ms = _timeout_ms(call, arguments)
    current = await wait(call, identity, timeout_ms / 1000, may_last=arguments.on_timeout == "continue")
    if current.status == "running" and arguments.on_timeout == "interrupt":
        return await _interrupt_late(call, identity, timeout_ms, arguments)
    return await describe(call, current, arguments, own_session=TEST_JOBS)


def _timeout_ms(call: Call, arguments: EvaluateArguments) -> int:
    return call.wait_ms(arguments.timeout_ms or (BACKGROUND_MS if arguments.background else None))


async def _session(call: Call, target: Target, who: str, arguments: EvaluateArguments) -> Target:
    """The session in the REPL of `target` for the code: one beside running code, one of its own, or the lane."""
    if arguments.background:
        return await in_background(call, target, who, call.wait_ms() / 1000)
    if arguments.isolate:
        return await isolated(call, target, who)
    return in_lane(call, target, who) if arguments.repl_session_key is None else target


async def _interrupt_late(call: Call, evaluation: str, timeout_ms: int, arguments: EvaluateArguments) -> Answer:
    # If the client went away now, the evaluation that it wanted ended would run on. Each step has a time limit.
    with anyio.CancelScope(shield=True):
        did = await stop(call, evaluation, f"it ran longer than {timeout_ms} ms", allow_restart=arguments.allow_restart)
    current = evaluation_of(call.state, evaluation)
    answer = await describe(call, current, arguments, max_images=arguments.max_images, notes=did)
    answer = await with_trace(call, answer, evaluation)
    if current.status == "done":
        return answer
    fields = {
        **answer.fields,
        "reason": "timed-out",
        "hint": "read notes for the state of the session; evaluate less at once, or with a longer timeoutMs",
    }
    return replace(answer, fields=fields, ok=False)


TOOLS = (
    Tool(
        name="evaluate_code",
        other_names=("clojure_evaluate_code",),
        title="Evaluate code",
        description=(
            "Run code in a live session; the answer has its value and output. Definitions stay, await works. Start "
            "with one small form and build on it. Code that is still running goes on: get_evaluation waits for it. "
            "Never send code twice."
        ),
        arguments=EvaluateArguments,
        output=answer_schema(**EVALUATION),
        run=evaluate_code,
        lists_output=True,
        needs=("evaluate",),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        is_core=True,
    ),
    Tool(
        name="load_file",
        other_names=("clojure_load_file",),
        title="Load file",
        description="Load a source file that changed into the live session. Variables stay.",
        arguments=LoadFileArguments,
        output=answer_schema(**EVALUATION),
        run=load_file,
        needs=("load-file", "evaluate"),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        is_core=True,
    ),
)

TESTING = (
    Tool(
        name="run_tests",
        title="Run tests",
        description="Run tests: counts, and for each failure its values and the code behind it. Tests of Python run by "
        "pytest in a new process, those of a Lisp in its session.",
        arguments=TestArguments,
        output=answer_schema(
            passed="integer",
            failed="integer",
            errors="integer",
            skipped="integer",
            xfailed="integer",
            xpassed="integer",
            deselected="integer",
            collected="integer",
            warnings="integer",
            exitStatus="integer",
            results=ROWS,
            omitted="integer",
            stdout="string",
            changedDuring=TEXTS,
            evaluationId="string",
            status="string",
            elapsedMs="integer",
            sessionKey="string",
        ),
        run=run_tests,
        needs=("test",),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        search_hint="run unit tests pytest clojure.test",
    ),
)


def _value_not_kept(evaluation: str, why: str) -> RefusedError:
    """The value of an evaluation, or the wanted part of it, cannot be had."""
    return refused(
        "forgotten",
        f"no such part of the value of evaluation {evaluation}: {why}",
        hint="evaluate the part that is wanted; maxLength and maxDepth say how much of a value is printed",
    )


class GetArguments(Evaluating):
    """Arguments of `get_evaluation`."""

    asks_status: ClassVar[bool] = True

    evaluation_id: str | None = Field(None, description="Default: your newest.")
    wait_ms: int = Field(0, ge=0, le=600_000)
    part: str = Field(
        "result", pattern=r"^(result|std(out|err)|stacks|trace|image-\d\d?)$", json_schema_extra=unsaid_default
    )
    start: int | None = Field(None, alias="from", ge=0)
    length: int | None = Field(None, ge=0)
    grep: str | None = Field(None, min_length=1)
    diff_with: str | None = None
    path: list[int | str] | None = Field(None, description="Keys and indexes to a part of a value that was cut.")
    depth: int | None = Field(None, ge=1, le=1000)
    max_images: int = Field(10, ge=0, json_schema_extra={UNLISTED: True})
    report: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """For a run of tests: see `run_tests`."""


class InterruptArguments(Evaluating):
    """Arguments of `interrupt_evaluation`."""

    asks_status: ClassVar[bool] = True

    evaluation_id: str | None = None
    repl_session_key: str | None = None
    allow_restart: bool = Field(
        default=False, description="If nothing else ends it, restart the REPL: its variables are lost."
    )


class InputArguments(Evaluating):
    """Arguments of `send_input`."""

    evaluation_id: str | None = Field(None, description="Default: your code that waits.")
    text: str


async def get_evaluation(call: Call, arguments: GetArguments) -> Answer:
    """The standing of an evaluation, after waiting for it if asked to."""
    current = _meant(call, arguments)
    if arguments.wait_ms and not current.over:
        current = await wait(call, current.id, arguments.wait_ms / 1000, owns=False)
    if arguments.part == "trace":
        return await _trace_of(call, current, arguments)
    if arguments.path is not None or arguments.depth is not None:
        return await _part_of_value(call, current, arguments)
    if arguments.part.startswith("image-"):
        return await one_image(call, current, int(arguments.part.removeprefix("image-")))
    length = arguments.length
    max_bytes = budget(call) if length is None else budget_asked(call, "get_evaluation")
    if arguments.part == "stacks" and current.status in HELD and not current.is_job:
        return await _stacks_now(call, current, arguments, max_bytes)
    asked = await _asked_part(call, current.id, arguments, max_bytes)
    if asked is not None:
        about = {"evaluationId": current.id} if wants_detail(call, arguments) else {}
        return Answer({**about, "status": current.status, **asked})
    if current.kind == "run-tests":
        return await describe_run(call, current, arguments, whole=arguments.report)
    answer = await describe(call, current, arguments, max_images=arguments.max_images)
    return await with_trace(call, answer, current.id)


def _meant(call: Call, arguments: GetArguments | InputArguments, *, is_waiting: bool = False) -> Evaluation:
    """Return the evaluation of the given id, otherwise the caller's newest, or its only one that waits for input.

    Raises:
        RefusedError: there is no such evaluation, or several wait for input.
    """
    if arguments.evaluation_id is not None:
        return evaluation_of(call.state, arguments.evaluation_id)
    who = call.who(arguments.who)
    own = [one for one in call.state.evaluations.values() if call.is_own(one, who)]
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


async def _trace_of(call: Call, current: Evaluation, arguments: GetArguments) -> Answer:
    """The recorded calls of an evaluation at a place, or their differences from another's."""
    most = None if arguments.length is None else budget_asked(call, "get_evaluation")
    path, start = arguments.path or (), arguments.start or 0
    told = await trace_part(call, current.id, path, start=start, diff_with=arguments.diff_with, most_bytes=most)
    return Answer({"status": current.status, **told})


async def _asked_part(call: Call, evaluation: str, arguments: GetArguments, max_bytes: int) -> dict[str, object] | None:
    """The wanted part of the evaluation's text; None if the whole was asked for."""
    ranged = arguments.start is not None or arguments.length is not None or arguments.part != "result"
    if not ranged and arguments.grep is None and arguments.diff_with is None:
        return None
    transcript, work = _transcript(call, evaluation), call.services.work.texts
    if arguments.grep is not None:
        return await work.run(call.client, partial(matching, transcript, arguments.grep, max_bytes=max_bytes))
    if arguments.diff_with is not None:
        other = _transcript(call, evaluation_of(call.state, arguments.diff_with).id)
        return await work.run(call.client, partial(difference, transcript, other, max_bytes=max_bytes))
    start, length = arguments.start or 0, arguments.length
    part = cast("Part", arguments.part)
    asked = partial(excerpt, transcript, part, start=start, length=length, max_bytes=max_bytes)
    return await read(asked, transcript)


async def _part_of_value(call: Call, current: Evaluation, arguments: GetArguments) -> Answer:
    """A part of a value that printing cut, told by the REPL that keeps the value."""
    settings, repl = call.services.live.settings, call.state.repls.get(current.repl)
    max_bytes = budget(call) if arguments.length is None else budget_asked(call, "get_evaluation")
    if repl is None or repl.generation != current.generation:
        raise _value_not_kept(current.id, "its REPL was restarted since, or is gone")
    limits = PrintLimits(
        arguments.length or settings.max_length,
        arguments.depth or settings.max_depth,
        max_bytes,
        length_is_asked=arguments.length is not None,
        depth_is_asked=arguments.depth is not None,
    )
    start = arguments.start or 0
    part = ValuePart(tuple(arguments.path or ()), start, limits)
    told = await call.services.repls.adapter(repl.id).read_value(current.id, part)
    if isinstance(told, str):
        raise _value_not_kept(current.id, told)
    fields: dict[str, object] = {"evaluationId": current.id, "status": current.status, "result": told.text}
    if told.cut:
        fields["notes"] = [f"cut: {told.cut}"]
    if told.truncated:
        fields["notes"] = [f"the first {max_bytes} bytes: ask with a smaller length or depth"]
    return Answer(fields)


async def _stacks_now(call: Call, current: Evaluation, arguments: GetArguments, max_bytes: int) -> Answer:
    """The present stacks of the threads and tasks of an evaluation's REPL, which is not disturbed.

    Raises:
        CapabilityMissingError: the REPL cannot tell while code runs.
    """
    dump = await call.services.repls.stacks(current)
    if dump is None:
        raise CapabilityMissingError("stacks", "this REPL does not tell its stacks while code runs")
    start = arguments.start or 0
    text = head(dump.whole[start : start + (arguments.length or max_bytes)], max_bytes).text
    about = {"evaluationId": current.id} if wants_detail(call, arguments) else {}
    fields = {**about, "status": current.status, "part": "stacks", "text": text, "from": start}
    return Answer({**fields, "totalCharacters": len(dump.whole)})


def _transcript(call: Call, evaluation: str) -> Transcript:
    transcript = call.services.transcripts.get(evaluation)
    if transcript is None:
        raise refused(
            "forgotten",
            f"what evaluation {evaluation} said is forgotten: too much was evaluated since",
            hint="the newest of it may still be in repl_output_log",
        )
    return transcript


async def interrupt_evaluation(call: Call, arguments: InterruptArguments) -> Answer:
    """End an evaluation, or the running one of a session."""
    if arguments.evaluation_id is not None:
        evaluation = evaluation_of(call.state, arguments.evaluation_id).id
    elif (job := _job_of(call, arguments.repl_session_key)) is not None:
        evaluation = job.id
    elif arguments.repl_session_key is not None:
        target = resolve(call.state, arguments.repl_session_key, may_leave=True)
        held = [e for e in call.state.unfinished() if e.status in HELD and _is_in(e, target)]
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
    held = [one for one in state.unfinished() if one.status in HELD]
    if session_key is None or any(state.key_of(one) == session_key and not one.is_job for one in held):
        return None
    for one in held:
        kept = call.services.tests.report(one.id) if one.is_job else None
        if one.is_job and session_key in (TEST_JOBS, kept.job.session_key if kept is not None else ""):
            return one
    return None


def _only_own(call: Call, who: str) -> str:
    """The id of the caller's only running evaluation, or if none runs, of the only waiting one.

    Raises:
        RefusedError: there is no such evaluation, or there are several.
    """
    unfinished = call.state.unfinished()
    mine = [one for one in unfinished if call.is_own(one, who)]
    own = [one.id for one in mine if one.status in HELD] or [one.id for one in mine]
    if len(own) != 1:
        others = [f"{one.id} of {one.who}" for one in unfinished if one.status in HELD and one not in mine]
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
    """The evaluations that run in lanes beside a shared session, in words; empty for none."""
    if target.session.name != MAIN_SESSION:
        return ""
    lanes = {session.name for session in target.repl.sessions.values() if session.lane is not None}
    held = [one for one in state.unfinished() if one.status in HELD and one.repl == target.repl.id]
    told = [f"{one.id} of {one.who} in {state.key_of(one)}" for one in held if one.session in lanes]
    return f"; in lanes: {', '.join(told)}" if told else ""


async def send_input(call: Call, arguments: InputArguments) -> Answer:
    """Give a line to code that reads, and tell the evaluation's standing after that."""
    current = _meant(call, arguments, is_waiting=True)
    if current.status != "needs-input":
        raise refused(
            "not-waiting-for-input",
            f"evaluation {current.id} has status {current.status} and does not wait for input",
            hint="send_input is for an evaluation with status needs-input",
        )
    await give_input(call, current, arguments.text)
    current = await wait(call, current.id, call.services.durations.settle_s, owns=False)
    return await describe(call, current, arguments)


BEGUN = (
    Tool(
        name="get_evaluation",
        title="Get evaluation",
        description=(
            "The result and the new output of an evaluation or test run, or the rest of an answer that was cut. waitMs "
            "waits for its end."
        ),
        arguments=GetArguments,
        output=answer_schema(**EVALUATION),
        run=get_evaluation,
        setting="enable_mcp_repl_evaluation",
        read_only=True,
        is_core=True,
    ),
    Tool(
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
    ),
    Tool(
        name="send_input",
        title="Send input",
        description="Send a line to code that waits for input, such as input() or a debugger prompt.",
        arguments=InputArguments,
        output=answer_schema(**EVALUATION),
        run=send_input,
        needs=("stdin",),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        search_hint="stdin answer prompt debugger",
    ),
)
