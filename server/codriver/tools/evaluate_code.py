"""`evaluate_code`, `load_file` and `run_tests`: code goes to a REPL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

import anyio
from pydantic import Field

from codriver.core import evaluation_queue
from codriver.core.values import Request
from codriver.tools.acts.file_loads import LoadFileArguments, load_file
from codriver.tools.acts.submission import MOST_ELEMENTS, MOST_LEVELS, begin, default_limits, frame_fields
from codriver.tools.acts.test_runs import TestArguments, run_tests
from codriver.tools.answers.evaluation_answers import EVALUATION, describe
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.answers.trace_answers import Trace, check_tracing, with_trace
from codriver.tools.calls.base import ROWS, TEXTS, UNLISTED, Answer, Call, Tool, answer_schema
from codriver.tools.calls.evaluation_waits import evaluation_of, stop, wait
from codriver.tools.calls.session_choice import check_tree, chosen, in_background, in_lane, isolated, notes_of_choice
from codriver.tools.calls.syntax_check import check_by_repl, meant, readable_forms, speaks_lisp
from codriver.tools.truth.drift_notes import look_at_load

if TYPE_CHECKING:
    from codriver.tools.calls.session_choice import Target


class EvaluateArguments(Evaluating):
    """Arguments of `evaluate_code`."""

    code: str
    namespace: str | None = Field(None, description="Python: module.")
    frame: int | None = Field(None, ge=0, description="Of stacktrace.")
    """Where the code is evaluated in a frame of the last failure."""
    repl_session_key: str | None = Field(None, description="Any tool.")
    who: str | None = Field(None, description="Your slug, any tool.")
    description: str | None = None
    """Why, for the log."""
    timeout_ms: int | None = Field(None, ge=100, le=600_000, description="Wait: 25000.")
    on_timeout: Literal["continue", "interrupt"] = "continue"
    allow_restart: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether an interrupt may end the REPL. The answer about one that did not help names it."""
    isolate: bool = Field(default=False, description="Own session.")
    background: bool = Field(default=False, json_schema_extra={UNLISTED: True})
    """Whether it runs beside what runs. The answers `running` and `busy` name it, when it is of use."""
    detail: bool | None = None
    trace: Trace = Field(None, description="true or names.")
    profile: bool = False
    """Whether the slowest functions of the project are told."""
    max_images: int = Field(10, ge=0, json_schema_extra={UNLISTED: True})
    """The answer names it, where there are more."""
    max_length: int | None = Field(None, ge=1, le=MOST_ELEMENTS, json_schema_extra={UNLISTED: True})
    max_depth: int | None = Field(None, ge=1, le=MOST_LEVELS, json_schema_extra={UNLISTED: True})
    """How much of a value is printed. The answers that cut one say how to have it."""


BACKGROUND_MS: Final = 100
"""The wait for code in the background: what is over at once is told at once."""


async def evaluate_code(call: Call, arguments: EvaluateArguments) -> Answer:
    """Evaluate, wait, and say how it stands."""
    who, core = call.who(arguments.who), call.services.core
    state = core.state
    target = chosen(call, arguments.repl_session_key, who)  # a wrong key is told before the code is judged
    repl, readers = target.repl, meant(state, arguments.repl_session_key, target)
    lisp = speaks_lisp(readers)
    if lisp:
        await look_at_load(call, repl, arguments.code)
    forms = await readable_forms(call, readers, arguments.code, lisp=lisp)
    if not lisp:
        await check_by_repl(call, repl, arguments.code)
    if core.state is not state:  # judging it took a while
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
    settings = call.services.live.settings
    timeout_ms = arguments.timeout_ms or (BACKGROUND_MS if arguments.background else settings.evaluate_timeout_ms)
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


async def _session(call: Call, target: Target, who: str, arguments: EvaluateArguments) -> Target:
    """The session in the REPL of `target` that the code runs in: one beside what runs, one of its own, or the lane."""
    if arguments.background:
        return await in_background(call, target, who, call.services.live.settings.evaluate_timeout_ms / 1000)
    if arguments.isolate:
        return await isolated(call, target, who)
    return in_lane(call, target, who) if arguments.repl_session_key is None else target


async def _interrupt_late(call: Call, evaluation: str, timeout_ms: int, arguments: EvaluateArguments) -> Answer:
    # A client that goes away now would otherwise leave running what it asked to be ended. Each step has a time limit.
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
        title="Evaluate code",
        description=(
            "Evaluate in the live REPL: one small form, look, build on it; then write the file and load_file. "
            "Running: get_evaluation waits; never send twice."
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
        title="Load file",
        description="Load a source file.",
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
        description="Run tests in the REPL (Python: pytest).",
        arguments=TestArguments,
        output=answer_schema(
            tests="integer",
            passed="integer",
            failed="integer",
            errors="integer",
            results=ROWS,
            count="integer",
            omitted="integer",
            stdout="string",
            onlyInThisRepl=TEXTS,
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
