"""Tasks: evaluations that outlast their calls, for clients that declare that they know tasks; for others nothing.

In 2025-11-25 a client declares that it knows tasks in the handshake, and asks for one with its call, which is answered
at once. Since 2026-07-28 they are an extension, `io.modelcontextprotocol/tasks`, which each request declares, and the
server decides: a call that is over within `Durations.task_s` is answered as ever. A client that declares nothing is
offered nothing.

A task is another door to the evaluation that its call began: `get_evaluation`, `send_input` and `interrupt_evaluation`
work beside the task. A task belongs to whoever knows its id, which nobody guesses: it outlives the connection of its
client, which finds it again after a restart. Only lists of tasks are a connection's own. Source: MCP 2025-11-25, tasks,
and the extension of 2026-07-28, whose words for the same things differ a little.
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

from codriver.core.values import OCCUPYING, Evaluation
from codriver.errors import CodriverError, RefusedError, ReplDisconnectedError
from codriver.net.task_set import TaskSet
from codriver.protocol.calls import Answered, Caller, result_of
from codriver.protocol.error_messages import (
    CALL,
    CAPABILITIES_KEY,
    FAULT,
    MODERN,
    OLDER,
    TASKS,
    TOKEN,
    TOO_MANY,
    meta_of,
)
from codriver.protocol.results import WITH_TASKS
from codriver.protocol.trust_question import takes_forms
from codriver.tools.calls.call import Call, LastingCall, Services
from codriver.tools.calls.evaluation_waits import give_input, stop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from codriver.net.client_sessions import ClientSession
    from codriver.protocol.subscriptions import Subscriptions
    from codriver.tools.calls.tool import Tool

    Context = ServerRequestContext[ClientSession]


ABLE = WITH_TASKS | {"codriver"}
"""The tools whose calls may become tasks."""
BOTH = frozenset({OLDER, MODERN})
ERAS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "tasks/get": BOTH,
        "tasks/cancel": BOTH,
        "tasks/result": frozenset({OLDER}),
        "tasks/list": frozenset({OLDER}),
        "tasks/update": frozenset({MODERN}),
    }
)
"""The requests about tasks, by method, with the versions that have it."""


def offered(ctx: Context) -> bool:
    """Return whether there are tasks for the client of this request."""
    if ctx.protocol_version == MODERN:
        extensions = capabilities_of(ctx).get("extensions")
        return isinstance(extensions, dict) and isinstance(extensions.get(TASKS), dict)
    return ctx.lifespan_context.accepts_tasks


def check_offered(ctx: Context) -> None:
    """Let pass a client's request about tasks.

    Raises:
        MCPError: the client has no tasks, or asks for them in another way.
    """
    if ctx.protocol_version not in ERAS.get(ctx.method, BOTH):
        raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
    if offered(ctx):
        return
    if ctx.protocol_version == MODERN:
        missing: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        words = f"declare the extension {TASKS} in the request's client capabilities"
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, words, missing)
    raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)


def token_of(ctx: Context) -> object:
    """Return the token that ties progress to the request, if the request asks for progress."""
    return meta_of(ctx.params).get(TOKEN)


def capabilities_of(ctx: Context) -> Mapping[str, Any]:
    """Return the capabilities that a request of 2026-07-28 declares."""
    found = meta_of(ctx.params).get(CAPABILITIES_KEY)
    return found if isinstance(found, dict) else {}


logger = logging.getLogger(__name__)

RELATED = "io.modelcontextprotocol/related-task"
IMMEDIATELY = "io.modelcontextprotocol/model-immediate-response"
MOST = 32
"""Tasks of one client; the oldest finished one makes room. Without a finished one there is no further task."""
MAX_OF_ALL = 512
"""Tasks of all clients, also of those that have left; the oldest finished one makes room."""
MAX_TTL_MS, MIN_TTL_MS = 3_600_000, 1_000
"""How long a task is kept from its beginning; an unfinished one is kept for longer."""
MAX_BYTES = 16 * 2**20
"""The bytes of the answers of one client's tasks, images above all: beyond them the oldest go, up to the last."""
PROMPT_CHARACTERS = 200
REFUSED = -32000
"""A code of those that JSON-RPC leaves to servers."""


class UpdateParams(types.RequestParams):
    """The parameters of `tasks/update`."""

    task_id: str
    input_responses: dict[str, Any]


class EvaluationTasks:
    """The tasks of one server, for all its clients. Lives as long as the server."""

    def __init__(
        self,
        services: Services,
        caller: Caller,
        subscriptions: Subscriptions,
    ) -> None:
        self._services = services
        self._caller = caller
        self._subscriptions = subscriptions
        self._running = TaskSet()
        self._tasks: dict[str, Task] = {}
        """The tasks that clients know, by id, the oldest first."""

    def handlers(self) -> Mapping[str, tuple[type[types.RequestParams], Callable[[Any, Any], Awaitable[Any]]]]:
        """Return the handlers of the requests about tasks, by method, each with the model of its parameters."""
        return {
            "tasks/get": (types.GetTaskRequestParams, self._get),
            "tasks/cancel": (types.CancelTaskRequestParams, self._cancel),
            "tasks/result": (types.GetTaskRequestParams, self._await_result),
            "tasks/list": (types.PaginatedRequestParams, self._list),
            "tasks/update": (UpdateParams, self._update),
        }

    async def augmented(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Return the answer to a call that asks for a task: the task. Any other answer unchanged.

        Raises:
            MCPError: the tool is not called as a task, there are too many tasks, or the client knows of none.
        """
        if ctx.method in ERAS:
            check_offered(ctx)
        asked = (ctx.params or {}).get("task")
        is_modern = ctx.protocol_version == MODERN
        if ctx.method != CALL or asked is None or is_modern or not ctx.lifespan_context.accepts_tasks:
            return await call_next(ctx)
        params = types.CallToolRequestParams.model_validate(ctx.params, by_name=False)
        client = ctx.lifespan_context
        called = self._caller.find(params.name, params.arguments or {})
        if called is None or called[0].name not in WITH_TASKS:
            raise MCPError(METHOD_NOT_FOUND, f"{params.name} cannot be called as a task: leave out task")
        if not self.has_room(client):
            raise MCPError(TOO_MANY, f"{MOST} tasks of this client are not over: cancel some, or wait for their ends")
        capabilities = ctx.session.client_capabilities
        elicitation = capabilities.elicitation if capabilities is not None else None
        accepts_input = elicitation is not None and takes_forms(elicitation.model_dump(exclude_none=True))
        ttl_ms = params.task.ttl if params.task is not None and params.task.ttl is not None else MAX_TTL_MS
        task = self._new(client, ttl_ms, accepts_input=accepts_input, fails=True)
        self._publish(task)
        self._begin(task, *called, token=token_of(ctx))
        words = f"{params.name} runs as task {task.id}; its result follows."
        return {"task": task.older(), "_meta": {IMMEDIATELY: words}}

    async def call(self, ctx: Context, tool: Tool, arguments: dict[str, Any]) -> Answered | dict[str, Any]:
        """The answer to a call of a client with the extension, or a task if the call takes long or wants input."""
        client, capabilities = ctx.lifespan_context, capabilities_of(ctx)
        task = self._new(client, MAX_TTL_MS, accepts_input=takes_forms(capabilities.get("elicitation")), fails=False)
        self._begin(task, tool, arguments, token=token_of(ctx))
        try:
            with anyio.move_on_after(self._services.durations.task_s):
                while task.status == "working":
                    await task.wait_changed()
        except anyio.get_cancelled_exc_class():
            task.scope.cancel()
            raise
        if task.fault is not None:
            raise MCPError(task.fault["code"], task.fault["message"])
        if task.answered is not None:
            return task.answered
        self._publish(task)
        return {"resultType": "task", **task.newer()}

    def is_able(self, ctx: Context, tool: Tool) -> bool:
        """Return whether this call may become a task: its client declares that it knows tasks."""
        if not offered(ctx) or tool.name not in ABLE:
            return False
        return self.has_room(ctx.lifespan_context)

    def has_room(self, client: ClientSession) -> bool:
        """Return whether the client may have one more task; the oldest finished one makes room."""
        self._sweep()
        for tasks, most in ((self._of(client), MOST), (list(self._tasks.values()), MAX_OF_ALL)):
            if len(tasks) >= most:
                oldest = next((task.id for task in tasks if task.is_over), None)
                if oldest is None:
                    return False
                del self._tasks[oldest]
        return True

    def _of(self, client: ClientSession) -> list[Task]:
        """Return the tasks that a client started over its connection, the oldest first."""
        return [task for task in self._tasks.values() if task.client is client]

    async def end(self) -> None:
        """Wait until no call runs any more, as the server stops."""
        await self._running.end()

    def listened(self, ctx: Context, asked: Iterable[object]) -> frozenset[str]:
        """Return the ids of tasks among those that a client asks to follow.

        Raises:
            MCPError: the client does not declare that it knows tasks.
        """
        if not asked:
            return frozenset()
        check_offered(ctx)
        return frozenset(map(str, asked)) & self._tasks.keys()

    def _new(self, client: ClientSession, ttl_ms: int, *, accepts_input: bool, fails: bool) -> Task:
        ttl_ms = min(max(ttl_ms, MIN_TTL_MS), MAX_TTL_MS)
        return Task(client, ttl_ms, accepts_input, fails, self._services.now, self._tell)

    def _publish(self, task: Task) -> None:
        """Make a task known to its client, which may ask for it from now on."""
        self._tasks[task.id] = task
        task.is_detached = True

    def _begin(self, task: Task, tool: Tool, arguments: dict[str, Any], *, token: object) -> None:
        self._running.start(self._run(task, tool, arguments, token))

    async def _run(self, task: Task, tool: Tool, arguments: dict[str, Any], token: object) -> None:
        async def report(elapsed_s: float, words: str) -> None:
            words = self._caller.redactor(words)
            task.say(words)
            # In 2026-07-28 tasks have no progress.
            if token is not None and (task.fails or not task.is_detached):
                related = {"_meta": {RELATED: {"taskId": task.id}}} if task.fails else {}
                params = {TOKEN: token, "progress": elapsed_s, "message": words, **related}
                _offer(task.client, "notifications/progress", params)

        gone = {"code": INTERNAL_ERROR, "message": "the call was given up, and has no answer"}
        try:
            with task.scope:
                task.end(await self._caller.run(task.client, tool, arguments, report, lasting=task))
        except Exception:
            logger.exception("the task of %s failed", tool.name)
            gone = {"code": INTERNAL_ERROR, "message": FAULT}
        finally:
            if not task.is_answered:
                task.fail(gone)

    async def _get(self, ctx: Context, params: types.GetTaskRequestParams) -> dict[str, Any]:
        task = self._known(params.task_id)
        return self._in_detail(task) if ctx.protocol_version == MODERN else task.older()

    async def _list(self, ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        if params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "there is no such cursor: all tasks come at once")
        self._sweep()
        return {"tasks": [task.older() for task in self._of(ctx.lifespan_context)]}

    async def _cancel(self, ctx: Context, params: types.CancelTaskRequestParams) -> dict[str, Any]:
        task = self._known(params.task_id)
        if not task.is_over:
            task.cancel()
            self._running.start(self._stop(task, "its client cancelled the task"))
        elif ctx.protocol_version == OLDER:
            raise MCPError(INVALID_PARAMS, f"the task is over already: its status is {task.status!r}")
        return task.older() if ctx.protocol_version == OLDER else {}

    async def _await_result(self, ctx: Context, params: types.GetTaskRequestParams) -> dict[str, Any]:
        """The call's answer, when it is over; until then the client is asked for any input that the code wants."""
        task = self._known(params.task_id)
        asked = 0
        while not task.is_over:
            if task.status == "input_required" and task.question != asked:
                asked = task.question
                await self._ask(ctx, task)
            else:
                await task.wait_changed()
        with anyio.move_on_after(2 * self._services.durations.settle_s):
            while not task.is_answered:
                await task.wait_changed()
        related = {RELATED: {"taskId": task.id}}
        if task.answered is None:
            fault = task.fault or {"code": REFUSED, "message": "cancelled, and its evaluation has not ended yet"}
            raise MCPError(fault["code"], fault["message"], {"_meta": related})
        return {**self._as_json(task), "_meta": related}

    async def _update(self, _ctx: Context, params: UpdateParams) -> dict[str, Any]:
        task = self._known(params.task_id)
        answer = params.input_responses.get(task.key)
        if task.status == "input_required" and isinstance(answer, dict):
            await self._take(task, answer.get("action"), answer.get("content"))
        return {}

    def _known(self, identity: str) -> Task:
        """Return the task of this id, whoever started it.

        Raises:
            MCPError: there is no such task.
        """
        self._sweep()
        task = self._tasks.get(identity)
        if task is None:
            raise MCPError(INVALID_PARAMS, "there is no such task: it was kept long enough, or its server has ended")
        return task

    def _sweep(self) -> None:
        """Forget finished tasks that were kept long enough, and tasks whose evaluation has no record any more."""
        now, known = self._services.now(), self._services.core.state.evaluations
        for task in [task for task in self._tasks.values() if task.is_over and task.is_answered]:
            if task.created_ms + task.ttl_ms < now or (task.evaluation and task.evaluation not in known):
                del self._tasks[task.id]
        by_client: dict[ClientSession, list[Task]] = {}
        for task in self._tasks.values():
            if task.bytes:
                by_client.setdefault(task.client, []).append(task)
        for large in by_client.values():
            excess = sum(task.bytes for task in large) - MAX_BYTES
            for task in large[:-1]:
                if excess > 0:
                    excess -= task.bytes
                    del self._tasks[task.id]

    async def _ask(self, ctx: Context, task: Task) -> None:
        """Ask the client for the line that the code waits for; return as soon as the code waits for the line no more.

        Raises:
            MCPError: the REPL refused the line. The code waits on, under a new question.
        """
        number = task.question
        told: list[types.ElicitResult] = []

        async def ask() -> None:
            params = {**task.asked(self._prompt(task)), "_meta": {RELATED: {"taskId": task.id}}}
            request = types.ElicitRequest(params=types.ElicitRequestFormParams.model_validate(params, by_name=False))
            with suppress(MCPError):  # the client cannot ask: others may still give input
                told.append(await ctx.session.send_request(request, types.ElicitResult))
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while (task.status, task.question) == ("input_required", number):
                await task.wait_changed()
            tasks.cancel_scope.cancel()
        # Beyond the scope: a line that is being sent is sent whole.
        if told and (task.status, task.question) == ("input_required", number):
            await self._take(task, told[0].action, told[0].content)

    async def _take(self, task: Task, action: object, content: object) -> None:
        """Give the client's answer to the code. A refusal to answer ends the code: nobody else will think of answering.

        Raises:
            MCPError: the REPL refused the line. The code waits on, under a new question.
        """
        if task.evaluation is None:
            return
        text = content.get(ANSWER) if isinstance(content, dict) else None
        if action != "accept" or not isinstance(text, str):
            self._running.start(self._stop(task, "the input that it waits for was declined"))
            return
        call = self._as_call(task)
        evaluation = call.state.evaluations.get(task.evaluation)
        if evaluation is None or evaluation.status != "needs-input":
            return
        try:
            with suppress(ReplDisconnectedError):  # the lost connection ends the evaluation, too
                await give_input(LastingCall(task, call), evaluation, text)
        except RefusedError as error:
            words = f"the input was not taken, and the code still waits for it: {error.message}; {error.hint}"
            raise MCPError(REFUSED, self._caller.redactor(words)) from error

    async def _stop(self, task: Task, why: str) -> None:
        if task.evaluation is None:
            task.scope.cancel()
            return
        with suppress(CodriverError):
            await stop(self._as_call(task), task.evaluation, why)

    def _as_call(self, task: Task) -> Call:
        async def silent(_elapsed_s: float, _words: str) -> None:
            return

        return Call(self._services, task.client.id, task.client.name, silent)

    def _tell(self, task: Task) -> None:
        """Tell the client that the status has changed: unasked in 2025-11-25, by subscription in 2026-07-28."""
        transcript = self._services.transcripts.get(task.evaluation or "")
        if task.status == "working" and transcript is not None:
            task.heard = transcript.out.total
        if task.fails:
            _offer(task.client, "notifications/tasks/status", task.older())
        else:
            self._subscriptions.deliver_task(task.id, lambda: self._in_detail(task))

    def _in_detail(self, task: Task) -> dict[str, Any]:
        return task.newer_in_detail(lambda _answered: self._as_json(task), self._prompt(task))

    def _as_json(self, task: Task) -> dict[str, Any]:
        """Return the call's answer, in the form that the call would have given it."""
        assert task.answered is not None  # noqa: S101 - asked for when it is there
        result: dict[str, Any] = json.loads(result_of(task.client, task.answered))
        return result if task.fails else {**result, "resultType": "complete"}

    def _prompt(self, task: Task) -> str:
        """The last line that the code printed before it asked for input, and after it was last given input."""
        transcript = self._services.transcripts.get(task.evaluation or "")
        if transcript is None:
            return ""
        said = transcript.out.last(min(PROMPT_CHARACTERS, transcript.out.total - task.heard)).text
        return self._caller.redactor(said.rstrip().rsplit("\n", 1)[-1])


def _offer(client: ClientSession, method: str, params: dict[str, Any]) -> None:
    client.outbox.offer(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")


TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]

ID_BYTES = 16
"""The bytes of a task's id: nobody guesses 128 random bits."""
POLL_MS = 1000
ANSWER = "text"
"""The name of the typed text, in an answer to a question for input."""


@dataclass(eq=False, slots=True)
class Task:
    """A call that goes on by itself, for as long as its client may ask for it."""

    client: ClientSession
    ttl_ms: int
    accepts_input: bool
    """Whether the client can ask its user for input. Else the call ends when the code wants input."""
    fails: bool
    """Whether an answer that tells of an error makes the task a failed one, as 2025-11-25 has it."""
    now: Callable[[], int]
    on_change: Callable[[Task], None]
    """Called at each change of `status`, once the client knows of the task."""
    id: str = field(default_factory=lambda: secrets.token_hex(ID_BYTES))
    is_detached: bool = False
    """Whether the client knows of the task, and its call is answered: then the call's end ends nothing else."""
    status: TaskStatus = "working"
    words: str = ""
    """The state of the task in words."""
    evaluation: str | None = None
    question: int = 0
    """The number of the last question for input. Each has a number of its own."""
    heard: int = 0
    """The length of the code's output when the code was last given input."""
    answered: Answered | None = None
    """The call's answer, once it is over."""
    fault: dict[str, Any] | None = None
    """The JSON-RPC error that is the call's answer instead."""
    created_ms: int = field(init=False)
    updated_ms: int = field(init=False)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self.created_ms = self.updated_ms = self.now()

    @property
    def is_over(self) -> bool:
        """Return whether the task's status is final."""
        return self.status in ("completed", "failed", "cancelled")

    @property
    def is_answered(self) -> bool:
        """Return whether the task's call has finished, too."""
        return self.answered is not None or self.fault is not None

    @property
    def bytes(self) -> int:
        """Return the size of the task's answer, about."""
        given = self.answered
        return 0 if given is None else len(given.text) + sum(len(image.data) for image in given.images)

    @property
    def key(self) -> str:
        """Return the name of the last question."""
        return f"input-{self.question}"

    async def wait_changed(self) -> None:
        """Wait until the task has changed."""
        await self._changed.wait()

    def note(self, evaluation: Evaluation) -> None:
        """Follow the evaluation that the call waits for."""
        self.evaluation = evaluation.id
        if self.is_over:
            return
        if evaluation.status == "needs-input" and self.accepts_input:
            if self.status != "input_required":
                self.question += 1
                self._become("input_required", f"evaluation {evaluation.id} waits for input")
        elif self.status == "input_required" or not self.words:
            state = "is running" if evaluation.status in OCCUPYING else "is queued"
            self._become("working", f"evaluation {evaluation.id} {state}: get_evaluation tells more")

    def say(self, words: str) -> None:
        """Tell the task's progress."""
        if self.status == "working":
            self.words, self.updated_ms = words, self.now()

    def end(self, answered: Answered) -> None:
        """Take the call's answer, and end the task."""
        self.answered = answered
        if not self.is_over:
            is_failed = self.fails and not answered.ok
            self._become("failed" if is_failed else "completed", "" if answered.ok else _reason(answered))
        self._wake()

    def fail(self, error: dict[str, Any]) -> None:
        """End the task as failed, by a fault of ours, or as given up."""
        self.fault = error
        if not self.is_over:
            self._become("failed", str(error["message"]))
        self._wake()

    def cancel(self) -> None:
        """Cancel the task for its client. Its call may take a little longer."""
        self._become("cancelled", "cancelled by its client")

    def _become(self, status: TaskStatus, words: str) -> None:
        is_new = status != self.status
        self.status, self.words, self.updated_ms = status, words, self.now()
        self._wake()
        if is_new and self.is_detached:
            self.on_change(self)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def older(self) -> dict[str, Any]:
        """Return the task in the form of 2025-11-25."""
        return {**self._about(), "ttl": self.ttl_ms, "pollInterval": POLL_MS}

    def newer(self) -> dict[str, Any]:
        """Return the task in the form of the extension, without the members that `newer_in_detail` adds."""
        return {**self._about(), "ttlMs": self.ttl_ms, "pollIntervalMs": POLL_MS}

    def newer_in_detail(self, result: Callable[[Answered], dict[str, Any]], prompt: str) -> dict[str, Any]:
        """Return the task in the form of the extension, with its result, its error or its question."""
        told = self.newer()
        if self.status == "input_required":
            told["inputRequests"] = {self.key: {"method": "elicitation/create", "params": self.asked(prompt)}}
        elif self.status == "completed" and self.answered is not None:
            told["result"] = result(self.answered)
        elif self.status == "failed":
            told["error"] = self.fault
        return told

    def asked(self, prompt: str) -> dict[str, Any]:
        """Return the question for input, as an elicitation by a form."""
        form = {"type": "object", "properties": {ANSWER: {"type": "string", "title": "Input"}}, "required": [ANSWER]}
        printed = f" It printed: {prompt}" if prompt else ""
        message = f"The code of evaluation {self.evaluation} waits for a line of input.{printed}"
        return {"mode": "form", "message": message, "requestedSchema": form}

    def _about(self) -> dict[str, Any]:
        about = {"taskId": self.id, "status": self.status, "statusMessage": self.words}
        times = {"createdAt": _time(self.created_ms), "lastUpdatedAt": _time(self.updated_ms)}
        return {key: value for key, value in (about | times).items() if value}


def _reason(answered: Answered) -> str:
    """Return the reason, in the tool's own words, why the tool refused the call."""
    fields = json.loads(answered.text)
    error = fields.get("error")
    said = fields.get("message") or (error.get("message") if isinstance(error, dict) else None)
    return str(said or fields.get("reason", ""))


def _time(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
