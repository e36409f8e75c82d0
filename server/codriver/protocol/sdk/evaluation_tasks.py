"""Tasks: evaluations that outlast their calls, for clients that declare support for tasks.

In 2025-11-25 a client declares support in the handshake, and requests a task with its call, which is answered at once.
Since 2026-07-28 tasks are an extension, `io.modelcontextprotocol/tasks`, which each request declares, and the server
decides: a call that finishes within `Durations.task_s` is answered as usual.

A task is another way to access the evaluation that its call started: `get_evaluation`, `send_input` and
`interrupt_evaluation` also work. A task can be used by anyone who knows its id, which cannot be guessed. It outlives
the connection of its client, which can access it after a restart. Only lists of tasks are limited to a connection.
Source: MCP 2025-11-25, tasks, and the extension of 2026-07-28, whose terms differ slightly.
"""

from __future__ import annotations

import json
import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY

from codriver.core.evaluations import OCCUPYING_STATUSES, Evaluation
from codriver.errors import CodriverError, RefusedError, ReplDisconnectedError
from codriver.net.task_set import TaskSet
from codriver.protocol.calls import ToolAnswer, ToolRunner, encode_result
from codriver.protocol.error_messages import (
    CALL,
    CAPABILITIES_KEY,
    INTERNAL_ERROR_MESSAGE,
    MODERN,
    OLDER,
    PROGRESS_TOKEN_KEY,
    SERVER_ERROR_CODE,
    TASKS_EXTENSION,
    request_meta,
)
from codriver.protocol.trust_question import supports_forms
from codriver.tools.calls.call import Call, LastingCall, Services
from codriver.tools.calls.evaluation_waits import send_line, stop_evaluation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from codriver.net.client_sessions import ClientSession
    from codriver.protocol.subscriptions import Subscriptions
    from codriver.tools.calls.tool import Tool

    Context = ServerRequestContext[ClientSession]


TASK_VERSIONS = frozenset({OLDER, MODERN})
VERSIONS_BY_METHOD: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "tasks/get": TASK_VERSIONS,
        "tasks/cancel": TASK_VERSIONS,
        "tasks/result": frozenset({OLDER}),
        "tasks/list": frozenset({OLDER}),
        "tasks/update": frozenset({MODERN}),
    }
)
"""The protocol versions that support each method for tasks."""


def supports_tasks(ctx: Context) -> bool:
    """Return whether the client that sent a request supports tasks."""
    if ctx.protocol_version == MODERN:
        extensions = declared_capabilities(ctx).get("extensions")
        return isinstance(extensions, dict) and isinstance(extensions.get(TASKS_EXTENSION), dict)
    return ctx.lifespan_context.accepts_tasks


def require_task_support(ctx: Context) -> None:
    """Check that the client may send requests about tasks.

    Raises:
        MCPError: the client does not support tasks, or its protocol version does not have this request.
    """
    if ctx.protocol_version not in VERSIONS_BY_METHOD.get(ctx.method, TASK_VERSIONS):
        raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
    if supports_tasks(ctx):
        return
    if ctx.protocol_version == MODERN:
        missing: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        words = f"declare the extension {TASKS_EXTENSION} in the request's client capabilities"
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, words, missing)
    raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)


def progress_token(ctx: Context) -> object:
    """Return the progress token of a request, or None if it does not request progress."""
    return request_meta(ctx.params).get(PROGRESS_TOKEN_KEY)


def declared_capabilities(ctx: Context) -> Mapping[str, Any]:
    """Return the client capabilities that an MCP 2026-07-28 request declares."""
    found = request_meta(ctx.params).get(CAPABILITIES_KEY)
    return found if isinstance(found, dict) else {}


logger = logging.getLogger(__name__)

RELATED_TASK_KEY = "io.modelcontextprotocol/related-task"
IMMEDIATE_RESPONSE_KEY = "io.modelcontextprotocol/model-immediate-response"
MAX_TASKS_PER_CLIENT = 32
"""Maximum number of one client's tasks.

A new task replaces the oldest finished one, or is refused if none is finished.
"""
MAX_TASKS_OF_ALL_CLIENTS = 512
"""Maximum number of tasks of all clients, even disconnected ones. The oldest finished tasks are discarded."""
MAX_TTL_MS, MIN_TTL_MS = 3_600_000, 1_000
"""Maximum and minimum time, in milliseconds, for which a task is stored after it started.

An unfinished task is stored for longer.
"""
MAX_ANSWER_BYTES = 16 * 2**20
"""Maximum total size in bytes of the answers to one client's tasks, most of which is images.

Beyond the limit, the oldest answers are discarded.
"""
MAX_PROMPT_CHARACTERS = 200
"""Maximum length, in characters, of the prompt in a request for user input."""
REFUSED_CODE = -32000
"""An error code from the range that JSON-RPC reserves for servers."""


class UpdateParams(types.RequestParams):
    """The parameters of `tasks/update`."""

    task_id: str
    input_responses: dict[str, Any]


class EvaluationTasks:
    """The tasks of all clients, for the lifetime of a server."""

    def __init__(
        self,
        services: Services,
        caller: ToolRunner,
        subscriptions: Subscriptions,
    ) -> None:
        self._services = services
        self._caller = caller
        self._subscriptions = subscriptions
        self._running = TaskSet()
        self._tasks: dict[str, Task] = {}
        """Tasks that clients know, by id, oldest first."""

    def handlers(self) -> Mapping[str, tuple[type[types.RequestParams], Callable[[Any, Any], Awaitable[Any]]]]:
        """Return the handlers of requests about tasks by method, with the models of their parameters."""
        return {
            "tasks/get": (types.GetTaskRequestParams, self._get),
            "tasks/cancel": (types.CancelTaskRequestParams, self._cancel),
            "tasks/result": (types.GetTaskRequestParams, self._await_result),
            "tasks/list": (types.PaginatedRequestParams, self._list),
            "tasks/update": (UpdateParams, self._update),
        }

    async def answer_call(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """If a call requests a task, answer it with the task. Pass on all other requests.

        Raises:
            MCPError: the tool cannot be called as a task, there are too many tasks, or the client supports none.
        """
        if ctx.method in VERSIONS_BY_METHOD:
            require_task_support(ctx)
        requested_task = (ctx.params or {}).get("task")
        is_modern = ctx.protocol_version == MODERN
        if ctx.method != CALL or requested_task is None or is_modern or not ctx.lifespan_context.accepts_tasks:
            return await call_next(ctx)
        params = types.CallToolRequestParams.model_validate(ctx.params, by_name=False)
        client = ctx.lifespan_context
        called = self._caller.find(params.name, params.arguments or {})
        if called is None or not called[0].may_be_task:
            raise MCPError(METHOD_NOT_FOUND, f"{params.name} cannot be called as a task. Omit the parameter `task`")
        if not self.can_add(client):
            raise MCPError(
                SERVER_ERROR_CODE,
                f"{MAX_TASKS_PER_CLIENT} of this client's tasks are still running, which is the limit. Cancel some "
                "of them, or wait for them to finish",
            )
        capabilities = ctx.session.client_capabilities
        elicitation = capabilities.elicitation if capabilities is not None else None
        accepts_input = elicitation is not None and supports_forms(elicitation.model_dump(exclude_none=True))
        ttl_ms = params.task.ttl if params.task is not None and params.task.ttl is not None else MAX_TTL_MS
        task = self._new(client, ttl_ms, accepts_input=accepts_input, fails=True)
        self._publish(task)
        self._begin(task, *called, token=progress_token(ctx))
        words = f"{params.name} is running as task {task.id}; its result follows."
        return {"task": task.to_2025_11_25(), "_meta": {IMMEDIATE_RESPONSE_KEY: words}}

    async def call(self, ctx: Context, tool: Tool, arguments: dict[str, Any]) -> ToolAnswer | dict[str, Any]:
        """Call a tool, and return its answer, or a task if the call takes long or needs input."""
        client, capabilities = ctx.lifespan_context, declared_capabilities(ctx)
        task = self._new(client, MAX_TTL_MS, accepts_input=supports_forms(capabilities.get("elicitation")), fails=False)
        self._begin(task, tool, arguments, token=progress_token(ctx))
        try:
            with anyio.move_on_after(self._services.durations.task_s):
                while task.status == "working":
                    await task.wait_changed()
        except anyio.get_cancelled_exc_class():
            task.scope.cancel()
            raise
        if task.error is not None:
            raise MCPError(task.error["code"], task.error["message"])
        if task.answered is not None:
            return task.answered
        self._publish(task)
        return {"resultType": "task", **task.to_extension()}

    def can_become_task(self, ctx: Context, tool: Tool) -> bool:
        """Return whether a call may become a task: its client supports tasks, and there is room for another one."""
        if not supports_tasks(ctx) or not tool.may_be_task:
            return False
        return self.can_add(ctx.lifespan_context)

    def can_add(self, client: ClientSession) -> bool:
        """Return whether a client may have another task.

        If necessary, the oldest finished task is discarded.
        """
        self._sweep()
        for tasks, most in (
            (self._client_tasks(client), MAX_TASKS_PER_CLIENT),
            (list(self._tasks.values()), MAX_TASKS_OF_ALL_CLIENTS),
        ):
            if len(tasks) >= most:
                oldest = next((task.id for task in tasks if task.is_final), None)
                if oldest is None:
                    return False
                del self._tasks[oldest]
        return True

    def _client_tasks(self, client: ClientSession) -> list[Task]:
        """Return the tasks that a client started over its connection, oldest first."""
        return [task for task in self._tasks.values() if task.client is client]

    async def wait_for_calls(self) -> None:
        """Wait until all calls have finished, because the server is stopping."""
        await self._running.end()

    def select_task_ids(self, ctx: Context, task_ids: Iterable[object]) -> frozenset[str]:
        """Return the ids of existing tasks among the requested ones.

        Raises:
            MCPError: the client does not support tasks.
        """
        if not task_ids:
            return frozenset()
        require_task_support(ctx)
        return frozenset(map(str, task_ids)) & self._tasks.keys()

    def _new(self, client: ClientSession, ttl_ms: int, *, accepts_input: bool, fails: bool) -> Task:
        ttl_ms = min(max(ttl_ms, MIN_TTL_MS), MAX_TTL_MS)
        return Task(client, ttl_ms, accepts_input, fails, self._services.now, self._notify)

    def _publish(self, task: Task) -> None:
        """Allow clients to query a task from now on."""
        self._tasks[task.id] = task
        task.is_detached = True

    def _begin(self, task: Task, tool: Tool, arguments: dict[str, Any], *, token: object) -> None:
        self._running.start(self._run(task, tool, arguments, token))

    async def _run(self, task: Task, tool: Tool, arguments: dict[str, Any], token: object) -> None:
        async def report(elapsed_s: float, words: str) -> None:
            words = self._caller.redactor(words)
            task.report_progress(words)
            # Tasks of 2026-07-28 have no progress.
            if token is not None and (task.fails or not task.is_detached):
                related = {"_meta": {RELATED_TASK_KEY: {"taskId": task.id}}} if task.fails else {}
                params = {PROGRESS_TOKEN_KEY: token, "progress": elapsed_s, "message": words, **related}
                _offer(task.client, "notifications/progress", params)

        gone = {"code": INTERNAL_ERROR, "message": "the call was abandoned, so there is no answer"}
        try:
            with task.scope:
                task.complete(await self._caller.run(task.client, tool, arguments, report, lasting=task))
        except Exception:
            logger.exception("the task of %s failed", tool.name)
            gone = {"code": INTERNAL_ERROR, "message": INTERNAL_ERROR_MESSAGE}
        finally:
            if not task.has_call_finished:
                task.fail(gone)

    async def _get(self, ctx: Context, params: types.GetTaskRequestParams) -> dict[str, Any]:
        task = self._find_task(params.task_id)
        return self._detailed_task(task) if ctx.protocol_version == MODERN else task.to_2025_11_25()

    async def _list(self, ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        if params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "unknown cursor. tasks/list returns all tasks at once, so omit cursor")
        self._sweep()
        return {"tasks": [task.to_2025_11_25() for task in self._client_tasks(ctx.lifespan_context)]}

    async def _cancel(self, ctx: Context, params: types.CancelTaskRequestParams) -> dict[str, Any]:
        task = self._find_task(params.task_id)
        if not task.is_final:
            task.cancel()
            self._running.start(self._stop(task, "its client cancelled the task"))
        elif ctx.protocol_version == OLDER:
            raise MCPError(INVALID_PARAMS, f"the task has already finished: its status is {task.status!r}")
        return task.to_2025_11_25() if ctx.protocol_version == OLDER else {}

    async def _await_result(self, ctx: Context, params: types.GetTaskRequestParams) -> dict[str, Any]:
        """Wait for the answer to a task's call, and ask the client for input that the code needs."""
        task = self._find_task(params.task_id)
        last_request = 0
        while not task.is_final:
            if task.status == "input_required" and task.request_number != last_request:
                last_request = task.request_number
                await self._request_input(ctx, task)
            else:
                await task.wait_changed()
        with anyio.move_on_after(2 * self._services.durations.settle_s):
            while not task.has_call_finished:
                await task.wait_changed()
        related = {RELATED_TASK_KEY: {"taskId": task.id}}
        if task.answered is None:
            error = task.error or {
                "code": REFUSED_CODE,
                "message": "the task was cancelled, and its evaluation has not ended yet",
            }
            raise MCPError(error["code"], error["message"], {"_meta": related})
        return {**self._as_json(task), "_meta": related}

    async def _update(self, _ctx: Context, params: UpdateParams) -> dict[str, Any]:
        task = self._find_task(params.task_id)
        answer = params.input_responses.get(task.input_request_name)
        if task.status == "input_required" and isinstance(answer, dict):
            await self._accept_input(task, answer.get("action"), answer.get("content"))
        return {}

    def _find_task(self, identity: str) -> Task:
        """Return the task with this id, whichever client started it.

        Raises:
            MCPError: there is no such task.
        """
        self._sweep()
        task = self._tasks.get(identity)
        if task is None:
            raise MCPError(INVALID_PARAMS, "unknown task. It has expired, or its server has stopped")
        return task

    def _sweep(self) -> None:
        """Discard finished tasks that have expired, or whose evaluation is no longer known.

        If the answers to a client's tasks are too large, its oldest finished tasks are discarded as well.
        """
        now, known = self._services.now(), self._services.core.state.evaluations
        for task in [task for task in self._tasks.values() if task.is_final and task.has_call_finished]:
            if task.created_ms + task.ttl_ms < now or (task.evaluation and task.evaluation not in known):
                del self._tasks[task.id]
        by_client: dict[ClientSession, list[Task]] = {}
        for task in self._tasks.values():
            if task.answer_bytes:
                by_client.setdefault(task.client, []).append(task)
        for large in by_client.values():
            excess = sum(task.answer_bytes for task in large) - MAX_ANSWER_BYTES
            for task in large[:-1]:
                if excess > 0:
                    excess -= task.answer_bytes
                    del self._tasks[task.id]

    async def _request_input(self, ctx: Context, task: Task) -> None:
        """Ask the client for a line of input, and return when the code is no longer waiting for it.

        Raises:
            MCPError: the REPL refused the line. The code is still waiting, with a new request.
        """
        number = task.request_number
        results: list[types.ElicitResult] = []

        async def elicit() -> None:
            params = {**task.to_elicitation(self._prompt(task)), "_meta": {RELATED_TASK_KEY: {"taskId": task.id}}}
            request = types.ElicitRequest(params=types.ElicitRequestFormParams.model_validate(params, by_name=False))
            with suppress(MCPError):  # the client cannot ask its user, but others may send input
                results.append(await ctx.session.send_request(request, types.ElicitResult))
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(elicit)
            while (task.status, task.request_number) == ("input_required", number):
                await task.wait_changed()
            tasks.cancel_scope.cancel()
        # Outside the scope, so that a line is always sent whole.
        if results and (task.status, task.request_number) == ("input_required", number):
            await self._accept_input(task, results[0].action, results[0].content)

    async def _accept_input(self, task: Task, action: object, content: object) -> None:
        """Send the user's input to the code. If the user declined, stop the code.

        Raises:
            MCPError: the REPL refused the line. The code is still waiting, with a new request.
        """
        if task.evaluation is None:
            return
        text = content.get(ANSWER_FIELD) if isinstance(content, dict) else None
        if action != "accept" or not isinstance(text, str):
            self._running.start(self._stop(task, "the user declined to enter the input that the code is waiting for"))
            return
        call = self._call_for_task(task)
        evaluation = call.state.evaluations.get(task.evaluation)
        if evaluation is None or evaluation.status != "needs-input":
            return
        try:
            with suppress(ReplDisconnectedError):  # the lost connection also ends the evaluation
                await send_line(LastingCall(task, call), evaluation, text)
        except RefusedError as error:
            words = f"the input was not accepted, and the code is still waiting for it: {error.message}; {error.hint}"
            raise MCPError(REFUSED_CODE, self._caller.redactor(words)) from error

    async def _stop(self, task: Task, why: str) -> None:
        if task.evaluation is None:
            task.scope.cancel()
            return
        with suppress(CodriverError):
            await stop_evaluation(self._call_for_task(task), task.evaluation, why)

    def _call_for_task(self, task: Task) -> Call:
        async def silent(_elapsed_s: float, _words: str) -> None:
            return

        return Call(self._services, task.client.id, task.client.name, silent)

    def _notify(self, task: Task) -> None:
        """Notify the client of a task's new status. In MCP 2026-07-28, the client must have subscribed to it."""
        transcript = self._services.transcripts.get(task.evaluation or "")
        if task.status == "working" and transcript is not None:
            task.read_until = transcript.out.total
        if task.fails:
            _offer(task.client, "notifications/tasks/status", task.to_2025_11_25())
        else:
            self._subscriptions.deliver_task(task.id, lambda: self._detailed_task(task))

    def _detailed_task(self, task: Task) -> dict[str, Any]:
        return task.to_detailed_extension(lambda _answered: self._as_json(task), self._prompt(task))

    def _as_json(self, task: Task) -> dict[str, Any]:
        """Return the answer to a task's call in the form in which the call would have returned it."""
        assert task.answered is not None  # noqa: S101 - requested only when it exists
        result: dict[str, Any] = json.loads(encode_result(task.client, task.answered))
        return result if task.fails else {**result, "resultType": "complete"}

    def _prompt(self, task: Task) -> str:
        """Return the last line that the code has printed since its last input, as the prompt for the next input."""
        transcript = self._services.transcripts.get(task.evaluation or "")
        if transcript is None:
            return ""
        last_output = transcript.out.last(min(MAX_PROMPT_CHARACTERS, transcript.out.total - task.read_until)).text
        return self._caller.redactor(last_output.rstrip().rsplit("\n", 1)[-1])


def _offer(client: ClientSession, method: str, params: dict[str, Any]) -> None:
    client.outbox.offer(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")


TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]

TASK_ID_BYTES = 16
"""Number of random bytes in a task's id, enough to make it impossible to guess."""
POLL_INTERVAL_MS = 1000
"""Time in milliseconds that clients should wait between two requests for a task's status."""
ANSWER_FIELD = "text"
"""Name of the field for the entered text in the answer to a request for user input."""


@dataclass(eq=False, slots=True)
class Task:
    """A call that continues in the background. Its client can query its status and its result."""

    client: ClientSession
    ttl_ms: int
    accepts_input: bool
    """Whether the client can ask its user for input. Otherwise the call ends when the code needs input."""
    fails: bool
    """Whether an answer with an error makes the task fail, as in MCP 2025-11-25."""
    now: Callable[[], int]
    on_change: Callable[[Task], None]
    """Called for each change of `status`, once the client knows about the task."""
    id: str = field(default_factory=lambda: secrets.token_hex(TASK_ID_BYTES))
    is_detached: bool = False
    """Whether the client knows about the task, in which case its evaluation is not stopped when the call ends."""
    status: TaskStatus = "working"
    words: str = ""
    """Description of the task's state."""
    evaluation: str | None = None
    request_number: int = 0
    """Number of the last request for input. Each request has a different number."""
    read_until: int = 0
    """Length of the code's output when input was last sent to the code."""
    answered: ToolAnswer | None = None
    """Answer to the call, once it has finished."""
    error: dict[str, Any] | None = None
    """JSON-RPC error that replaces the call's answer."""
    created_ms: int = field(init=False)
    updated_ms: int = field(init=False)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self.created_ms = self.updated_ms = self.now()

    @property
    def is_final(self) -> bool:
        """Return whether the status of the task will not change any more."""
        return self.status in ("completed", "failed", "cancelled")

    @property
    def has_call_finished(self) -> bool:
        """Return whether the call has finished. It may finish later than the task."""
        return self.answered is not None or self.error is not None

    @property
    def answer_bytes(self) -> int:
        """Return the approximate size of the call's answer in bytes."""
        given = self.answered
        return 0 if given is None else len(given.text) + sum(len(image.data) for image in given.images)

    @property
    def input_request_name(self) -> str:
        """Return the name of the last request for input."""
        return f"input-{self.request_number}"

    async def wait_changed(self) -> None:
        """Wait until the task changes."""
        await self._changed.wait()

    def follow_evaluation(self, evaluation: Evaluation) -> None:
        """Update the task's status to that of the evaluation that the call is waiting for."""
        self.evaluation = evaluation.id
        if self.is_final:
            return
        if evaluation.status == "needs-input" and self.accepts_input:
            if self.status != "input_required":
                self.request_number += 1
                self._become("input_required", f"evaluation {evaluation.id} is waiting for input")
        elif self.status == "input_required" or not self.words:
            state = "is running" if evaluation.status in OCCUPYING_STATUSES else "is queued"
            self._become("working", f"evaluation {evaluation.id} {state}: see get_evaluation")

    def report_progress(self, words: str) -> None:
        """Record a progress message."""
        if self.status == "working":
            self.words, self.updated_ms = words, self.now()

    def complete(self, answered: ToolAnswer) -> None:
        """Store the call's answer and mark the task as completed or failed."""
        self.answered = answered
        if not self.is_final:
            is_failed = self.fails and not answered.ok
            self._become("failed" if is_failed else "completed", "" if answered.ok else _failure_message(answered))
        self._wake()

    def fail(self, error: dict[str, Any]) -> None:
        """Mark the task as failed with a JSON-RPC error."""
        self.error = error
        if not self.is_final:
            self._become("failed", str(error["message"]))
        self._wake()

    def cancel(self) -> None:
        """Mark the task as cancelled. Its call may still run for a moment."""
        self._become("cancelled", "the client cancelled the task")

    def _become(self, status: TaskStatus, words: str) -> None:
        is_new = status != self.status
        self.status, self.words, self.updated_ms = status, words, self.now()
        self._wake()
        if is_new and self.is_detached:
            self.on_change(self)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def to_2025_11_25(self) -> dict[str, Any]:
        """Return the task in the form of MCP 2025-11-25."""
        return {**self._about(), "ttl": self.ttl_ms, "pollInterval": POLL_INTERVAL_MS}

    def to_extension(self) -> dict[str, Any]:
        """Return the task in the form of the tasks extension, without its result."""
        return {**self._about(), "ttlMs": self.ttl_ms, "pollIntervalMs": POLL_INTERVAL_MS}

    def to_detailed_extension(self, result: Callable[[ToolAnswer], dict[str, Any]], prompt: str) -> dict[str, Any]:
        """Return the task in the form of the tasks extension, with its result, error or request for input."""
        task = self.to_extension()
        if self.status == "input_required":
            task["inputRequests"] = {
                self.input_request_name: {"method": "elicitation/create", "params": self.to_elicitation(prompt)}
            }
        elif self.status == "completed" and self.answered is not None:
            task["result"] = result(self.answered)
        elif self.status == "failed":
            task["error"] = self.error
        return task

    def to_elicitation(self, prompt: str) -> dict[str, Any]:
        """Return the request for input as the parameters of an elicitation with a form."""
        form = {
            "type": "object",
            "properties": {ANSWER_FIELD: {"type": "string", "title": "Input"}},
            "required": [ANSWER_FIELD],
        }
        printed = f" It printed: {prompt}" if prompt else ""
        message = f"The code of evaluation {self.evaluation} is waiting for a line of input.{printed}"
        return {"mode": "form", "message": message, "requestedSchema": form}

    def _about(self) -> dict[str, Any]:
        about = {"taskId": self.id, "status": self.status, "statusMessage": self.words}
        times = {"createdAt": _time(self.created_ms), "lastUpdatedAt": _time(self.updated_ms)}
        return {key: value for key, value in (about | times).items() if value}


def _failure_message(answered: ToolAnswer) -> str:
    """Return the message from an answer, which explains why the call failed."""
    fields = json.loads(answered.text)
    error = fields.get("error")
    message = fields.get("message") or (error.get("message") if isinstance(error, dict) else None)
    return str(message or fields.get("reason", ""))


def _time(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
