"""`evaluate_code`: evaluate code in a session."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import anyio
from pydantic import Field

from codriver.core import evaluation_queue
from codriver.core.evaluations import TEST_JOBS_REPL, Evaluation
from codriver.core.requests import Request
from codriver.errors import format_count, refused
from codriver.tools.answers.evaluation_answers import EVALUATION_SCHEMA, describe_evaluation
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.answers.loaded_code_comparison import record_loaded_code
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY, WaitMs
from codriver.tools.calls.evaluation_waits import find_evaluation, send_line, stop_evaluation, wait_for_evaluation
from codriver.tools.calls.hooks import complete_answer, request_extensions
from codriver.tools.calls.session_choice import (
    Target,
    background_session,
    caller_lane,
    check_working_tree,
    choose_session,
    describe_choice,
    isolated_session,
)
from codriver.tools.calls.syntax_check import check_with_repl, possible_repls, readable_forms, speaks_lisp
from codriver.tools.calls.tool import Tool
from codriver.tools.execution.failed_test_frames import last_failed_run, start_in_frame
from codriver.tools.execution.failure_selection import frame_fields
from codriver.tools.execution.submission import MAX_ELEMENTS, MAX_LEVELS, print_limits_for_client, submit

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call


MAX_INPUT_CHARACTERS: Final = 100_000
"""Maximum number of characters of input in a call."""


class EvaluateArguments(Evaluating):
    """The arguments of the tool `evaluate_code`."""

    CHOOSES_SESSION: ClassVar[bool] = True

    code: str
    namespace: str | None = Field(
        None, description="The namespace to run in. In Python, a module, which is imported first."
    )
    frame: int | None = Field(
        None, ge=0, description="Run in a frame of the last error or failed test: 0 raised the error, 1 is its caller."
    )
    """Number of the last failure's frame in which the code is evaluated."""
    repl_session_key: str | None = Field(
        None, description="For all tools: the session. Default: the last one used, or the running application."
    )
    who: str | None = Field(None, description="For all tools: your name in the log, a slug of your task.")
    description: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """The purpose of the code, for the log."""
    timeout_ms: WaitMs | None = Field(None, description="Maximum wait in ms (25000). The code then continues.")
    on_timeout: Literal["continue", "interrupt"] = Field("continue", description="interrupt: stop the code instead.")
    allow_restart: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether an interrupt may end the REPL. The answer to an interrupt that had no effect mentions this argument."""
    isolate: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether the code runs in a namespace of its own. Modules and their state are still shared."""
    grep: str | None = Field(None, min_length=1, description="Return only output lines with this text or regex.")
    stdin: str | None = Field(None, max_length=MAX_INPUT_CHARACTERS, json_schema_extra={UNLISTED_KEY: True})
    """Lines for code that reads from standard input. An answer about such code mentions this argument."""
    background: bool = Field(default=False, description="Return at once. The session stays free for other code.")
    detail: bool | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    max_images: int = Field(10, ge=0, json_schema_extra={UNLISTED_KEY: True})
    """Maximum number of images. An answer that omits images mentions this argument."""
    max_length: int | None = Field(None, ge=1, le=MAX_ELEMENTS, json_schema_extra={UNLISTED_KEY: True})
    max_depth: int | None = Field(None, ge=1, le=MAX_LEVELS, json_schema_extra={UNLISTED_KEY: True})
    """Maximum printed depth of a value. An answer that truncates a value mentions how to read the rest."""


BACKGROUND_WAIT_MS: Final = 100
"""Time to wait for code in the background, in milliseconds. An earlier result is returned immediately."""


async def evaluate_code(call: Call, arguments: EvaluateArguments) -> Answer:
    """Evaluate code, wait for it, and return its result, or its state if it is still running."""
    who, core = call.who(arguments.who), call.services.core
    if arguments.frame is not None:
        run = last_failed_run(call, who, arguments.repl_session_key)
        if run is not None:
            return await _evaluate_in_test(call, who, run, arguments)
    state = core.state
    target = choose_session(call, arguments.repl_session_key, who)  # a wrong key is reported before the code is checked
    repl, readers = target.repl, possible_repls(state, arguments.repl_session_key, target)
    lisp = speaks_lisp(readers)
    if lisp:
        await record_loaded_code(call, repl, arguments.code)
    forms = await readable_forms(call, readers, arguments.code, lisp=lisp)
    if not lisp:
        await check_with_repl(call, repl, arguments.code)
    if core.state is not state:  # the state may have changed during the check
        target = choose_session(call, arguments.repl_session_key, who)
    check_working_tree(call, target, who, arguments.repl_session_key)
    target = await _choose_session(call, target, who, arguments)
    in_frame = {} if arguments.frame is None else frame_fields(call, target, arguments.frame)
    extensions = () if call.added is None else request_extensions(call, target.repl)
    request = Request(
        id=evaluation_queue.next_evaluation_id(core.state),
        code=arguments.code,
        session=target.session.name,
        namespace=None if in_frame else arguments.namespace,
        description=arguments.description,
        background=arguments.background,
        forms=forms,
        max_length=arguments.max_length,
        max_depth=arguments.max_depth,
        default_limits=print_limits_for_client(call, target),
        **in_frame,
        extensions=extensions,
        who=who,
    )
    timeout_ms = _timeout_ms(call, arguments)
    submit(call, target, who, request)
    current, input_notes = await _wait_with_input(call, request.id, timeout_ms / 1000, arguments)
    if current.status == "running" and arguments.on_timeout == "interrupt":
        return await _interrupt_after_timeout(call, request.id, timeout_ms, arguments)
    if lisp:
        await record_loaded_code(call, repl, arguments.code)
    key_in_use = target.key if arguments.repl_session_key is None and not arguments.isolate else None
    notes = (*describe_choice(call, current, target), *input_notes)
    images, grep = arguments.max_images, arguments.grep
    answer = await describe_evaluation(
        call, current, arguments, max_images=images, notes=notes, default_session=key_in_use, grep=grep
    )
    return answer if call.added is None else await complete_answer(call, answer, current.id)


async def _evaluate_in_test(call: Call, who: str, run: Evaluation, arguments: EvaluateArguments) -> Answer:
    """Evaluate code in a frame of a failed test whose process was retained, and wait for it."""
    if arguments.stdin is not None:
        raise refused(
            "bad-arguments",
            "code in a frame of a failed test has no standard input",
            hint="Omit stdin, or evaluate the code in a session.",
        )
    request_extensions(call, None)  # features refuse arguments that a frame of a test does not support
    code, frame = arguments.code, arguments.frame or 0
    identity = start_in_frame(call, who, run, code, frame, arguments.description)
    timeout_ms = _timeout_ms(call, arguments)
    current = await wait_for_evaluation(call, identity, timeout_ms / 1000, may_last=arguments.on_timeout == "continue")
    if current.status == "running" and arguments.on_timeout == "interrupt":
        return await _interrupt_after_timeout(call, identity, timeout_ms, arguments)
    return await describe_evaluation(call, current, arguments, default_session=TEST_JOBS_REPL, grep=arguments.grep)


async def _wait_with_input(
    call: Call, identity: str, timeout_s: float, arguments: EvaluateArguments
) -> tuple[Evaluation, tuple[str, ...]]:
    """Wait for an evaluation, and send it the requested lines of input whenever it waits for one.

    Return its state, and a note if it did not read all lines.
    """
    lines, deadline = deque((arguments.stdin or "").splitlines()), monotonic() + timeout_s
    while True:
        current = await wait_for_evaluation(
            call, identity, deadline - monotonic(), may_last=arguments.on_timeout == "continue"
        )
        repl = call.state.repls.get(current.repl)
        is_accepted = repl is not None and repl.profile is not None and "stdin" in repl.profile.capabilities
        if not (lines and current.status == "needs-input" and is_accepted):
            break
        await send_line(call, current, lines.popleft())
    return current, ((f"the code has not read {format_count(len(lines), 'line')} of stdin",) if lines else ())


def _timeout_ms(call: Call, arguments: EvaluateArguments) -> int:
    """Return the time that the call waits for the evaluation, in milliseconds."""
    return call.wait_ms(arguments.timeout_ms or (BACKGROUND_WAIT_MS if arguments.background else None))


async def _choose_session(call: Call, target: Target, who: str, arguments: EvaluateArguments) -> Target:
    """Choose the REPL session in which the code runs: a parallel one, an isolated one, or the caller's lane."""
    if arguments.background:
        return await background_session(call, target, who, call.wait_ms() / 1000)
    if arguments.isolate:
        return await isolated_session(call, target, who, call.wait_ms() / 1000)
    return caller_lane(call, target, who) if arguments.repl_session_key is None else target


async def _interrupt_after_timeout(
    call: Call, evaluation: str, timeout_ms: int, arguments: EvaluateArguments
) -> Answer:
    """Stop an evaluation that ran longer than `timeout_ms`, and return the answer about it."""
    # If the client disconnected now, the evaluation would go on. Each step has a time limit.
    with anyio.CancelScope(shield=True):
        did = await stop_evaluation(
            call, evaluation, f"the code ran longer than {timeout_ms} ms", allow_restart=arguments.allow_restart
        )
    current = find_evaluation(call.state, evaluation)
    images = arguments.max_images
    answer = await describe_evaluation(call, current, arguments, max_images=images, notes=did, grep=arguments.grep)
    answer = await complete_answer(call, answer, evaluation)
    if current.status == "done":
        return answer
    fields = {
        **answer.fields,
        "reason": "timed-out",
        "hint": "The notes describe the state of the session. Evaluate less code at once, or pass a longer timeoutMs.",
    }
    return replace(answer, fields=fields, ok=False)


TOOL = Tool(
    name="evaluate_code",
    other_names=("clojure_evaluate_code",),
    title="Evaluate code",
    description=(
        "Run code in a live session and return its value and output. Definitions persist; await works. Work one small "
        "form at a time. Slow code keeps running: get_evaluation waits for it. Never send code twice."
    ),
    arguments=EvaluateArguments,
    output=answer_schema(**EVALUATION_SCHEMA),
    run=evaluate_code,
    may_be_task=True,
    lists_output=True,
    needs=("evaluate",),
    setting="enable_mcp_repl_evaluation",
    destructive=True,
    open_world=True,
    is_core=True,
)
