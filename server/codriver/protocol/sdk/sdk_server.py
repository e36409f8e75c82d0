"""The server of the MCP SDK, for requests that Codriver does not answer without it.

A connection has two streams of messages to the SDK, one for each protocol era, because the SDK serves one era per
stream. Requests with their own envelope go to the stateless one, all others to the session opened by `initialize`. Both
write to the same client. Handlers serve both eras. If the SDK refuses a request with an error code alone, a message is
added.
"""

from __future__ import annotations

import base64
import json
import logging
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from codriver.net.client_sessions import ClientSession
from codriver.protocol.calls import encode_result
from codriver.protocol.error_messages import (
    CANCELLED,
    DISCOVER,
    HANDSHAKE_VERSIONS,
    INITIALIZE,
    INITIALIZED,
    INTERNAL_ERROR,
    INTERNAL_ERROR_MESSAGE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEVEL_KEY,
    LISTEN,
    METHOD_NOT_FOUND,
    MODERN,
    SERVER_ERROR_CODE,
    VERSION_KEY,
    Refusal,
    RequestRefusedError,
    client_description,
    is_stateless,
    refuse_invalid_line,
    request_meta,
)
from codriver.protocol.requests_without_sdk import REQUEST_KINDS
from codriver.protocol.results import NAME, TITLE
from codriver.protocol.sdk.evaluation_tasks import EvaluationTasks, supports_tasks
from codriver.protocol.skill_resources import GET, LIST, READ_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from mcp.server.context import CallNext, HandlerResult

    from codriver.protocol.calls import ToolAnswer
    from codriver.protocol.mcp_server import SharedParts
    from codriver.protocol.requests_without_sdk import PlainRequests


logger = logging.getLogger(__name__)

Context = ServerRequestContext[ClientSession]
R = TypeVar("R")


class DirectoryParams(types.PaginatedRequestParams):
    """The parameters of `resources/directory/read`."""

    uri: str


SHARED_REQUESTS: Mapping[str, type[types.RequestParams]] = MappingProxyType(
    {
        "ping": types.RequestParams,
        "server/discover": types.RequestParams,
        "tools/list": types.PaginatedRequestParams,
        "resources/list": types.PaginatedRequestParams,
        "resources/templates/list": types.PaginatedRequestParams,
        "prompts/list": types.PaginatedRequestParams,
        "resources/subscribe": types.SubscribeRequestParams,
        "resources/unsubscribe": types.UnsubscribeRequestParams,
        "logging/setLevel": types.SetLevelRequestParams,
        LIST: types.PaginatedRequestParams,
        GET: types.SubscribeRequestParams,
        READ_DIRECTORY: DirectoryParams,
    }
)
"""The model of the parameters for each method whose results are created as for plain requests."""
NO_CACHING: Mapping[str, Any] = MappingProxyType({})


class SdkServer:
    """The part of a server that uses the SDK. It is created when it is first needed."""

    def __init__(self, shared: SharedParts) -> None:
        self._results = shared.results
        self._caller = shared.caller
        self._resources = shared.resources
        self._prompts = shared.prompts
        self._log_messages = shared.log_messages
        self._redactor = shared.redactor
        self._tasks = EvaluationTasks(shared.services, shared.caller, shared.subscriptions)
        self._server = self._new_server(shared.results.version)

    def _new_server(self, version: str) -> Server[ClientSession]:
        server: Server[ClientSession] = Server(NAME, version=version, title=TITLE)
        server.middleware.clear()  # unused tracing takes a tenth of the time of every call
        server.middleware += [explain_errors, self._with_log_messages, self._handle_initialize, self._tasks.answer_call]
        for method, parameters in SHARED_REQUESTS.items():
            server.add_request_handler(method, parameters, _guarded(self._shared_handler(method)))
        handlers_by_method: dict[str, tuple[type[types.RequestParams], Callable[[Context, Any], Awaitable[Any]]]] = {
            "tools/call": (types.CallToolRequestParams, self._call_tool),
            "resources/read": (types.ReadResourceRequestParams, self._read_resource),
            "prompts/get": (types.GetPromptRequestParams, self._get_prompt),
            LISTEN: (types.SubscriptionsListenRequestParams, self._listen),
            **self._tasks.handlers(),
        }
        for method, (parameters, handler) in handlers_by_method.items():
            server.add_request_handler(method, parameters, _guarded(handler))
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)
        return server

    def connect(self, session: ClientSession, plain: PlainRequests) -> SdkConnection:
        """Create the part of a connection that uses the SDK."""
        return SdkConnection(self._server, session, plain, self._redactor.redact_json)

    async def end(self) -> None:
        """Stop the background tasks."""
        await self._tasks.wait_for_calls()

    def _shared_handler(self, method: str) -> Callable[[Context, Any], Awaitable[Any]]:
        """Return the handler for requests with this method, whose results are also created for plain requests."""
        making = REQUEST_KINDS[method].result
        assert making is not None  # noqa: S101 - none of them is a connection's own

        async def handle(ctx: Context, params: types.RequestParams) -> Any:
            self._introduce(ctx)
            given_params = params.model_dump(by_alias=True, exclude_none=True)
            given = making(self._results, ctx.lifespan_context, given_params, ctx.protocol_version)
            return given if isinstance(given, dict) else await given

        return handle

    async def _with_log_messages(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Send log messages while a request is processed, if the request enables them."""
        level = request_meta(ctx.params).get(LEVEL_KEY) if ctx.protocol_version == MODERN else None
        if level is None or ctx.request_id is None or ctx.method == LISTEN:
            return await call_next(ctx)
        with _converted_refusals(), self._log_messages.sending_to(ctx.lifespan_context, level):
            return await call_next(ctx)

    async def _handle_initialize(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Replace the SDK's `initialize` result with Codriver's. Other results are unchanged."""
        result = await call_next(ctx)
        if ctx.method != INITIALIZE or ctx.request_id is None:
            return result
        greeting = self._results.initialize(ctx.lifespan_context, ctx.params or {}, ctx.protocol_version)
        return greeting if isinstance(greeting, dict) else await greeting

    async def _initialized(self, ctx: Context, _params: types.NotificationParams | None) -> None:
        self._results.mark_initialized(ctx.lifespan_context)

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        self._introduce(ctx)
        client, meta, is_modern = ctx.lifespan_context, request_meta(ctx.params), ctx.protocol_version == MODERN
        called = self._caller.find(params.name, params.arguments or {})
        if called is None:
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name!r}. tools/list returns the available tools")
        tool, arguments = called
        client.update_conversation(meta)
        if is_modern and LEVEL_KEY not in meta and not supports_tasks(ctx):
            client.envelope = client_description(meta)
        decisions = self._caller.decisions
        if tool.name == decisions.tool and (
            elicitation := await decisions.replacement_request(client, ctx.params or {})
        ):
            return elicitation
        given: ToolAnswer | dict[str, Any]
        if is_modern and self._tasks.can_become_task(ctx, tool):
            given = await self._tasks.call(ctx, tool, arguments)
        else:
            run = self._caller.run
            given = await run(client, tool, arguments, self._progress(ctx), is_stateless=is_modern)
        if isinstance(given, dict):
            return given
        if given.handed_out is not None and not client.has_left:
            given.handed_out()
        result: dict[str, Any] = json.loads(
            encode_result(client, given, self._results.more_members if is_modern else "")
        )
        return result

    def _progress(self, ctx: Context) -> Callable[[float, str], Awaitable[None]]:
        async def report(elapsed_s: float, words: str) -> None:
            await ctx.session.report_progress(elapsed_s, None, self._redactor(words))

        return report

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        self._introduce(ctx)
        uri = str(params.uri)
        found = await self._resources.read(uri, ctx.protocol_version, ctx.lifespan_context)
        contents: list[dict[str, Any]] = [{"uri": uri, "mimeType": found.mime_type}]
        if isinstance(found.text, bytes):
            contents[0]["blob"] = base64.b64encode(found.text).decode()
        else:
            contents[0]["text"] = self._redactor(found.text).encode("utf-8", "replace").decode()
        if found.about:
            contents[0]["_meta"] = found.about
        if found.note:
            contents.append({"uri": f"{uri}#note", "mimeType": "text/plain", "text": found.note})
        return self._results.in_version_format(ctx.protocol_version, {"contents": contents})

    async def _listen(self, ctx: Context, params: types.SubscriptionsListenRequestParams) -> NoReturn:
        requested = params.notifications.model_dump(by_alias=True, exclude_none=True)
        tasks = self._tasks.select_task_ids(ctx, (params.notifications.model_extra or {}).get("taskIds") or ())
        self._results.open_stream(ctx.lifespan_context, ctx.request_id, requested, tasks)
        try:
            while True:
                await anyio.sleep_forever()
        finally:
            self._results.close_stream(ctx.lifespan_context, ctx.request_id)

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> dict[str, Any]:
        self._introduce(ctx)
        given = {name: self._redactor(value) for name, value in (params.arguments or {}).items()}
        filled = await self._prompts.fill_prompt(ctx.lifespan_context, params.name, given)
        return self._results.in_version_format(ctx.protocol_version, filled, NO_CACHING)

    def _introduce(self, ctx: Context) -> None:
        """Record the client that a stateless request describes."""
        if ctx.protocol_version == MODERN:
            info = ctx.session.client_params.client_info if ctx.session.client_params else None
            self._results.introduce_client(ctx.lifespan_context, info.name if info else None)


def _guarded(handler: Callable[[Context, Any], Awaitable[R]]) -> Callable[[Context, Any], Awaitable[R]]:
    """Wrap a handler so that unexpected exceptions become internal errors without details."""

    async def guarded(ctx: Context, params: Any) -> R:
        try:
            with _converted_refusals():
                return await handler(ctx, params)
        except MCPError:
            raise
        except Exception as error:
            logger.exception("%s failed", ctx.method)
            raise MCPError(INTERNAL_ERROR, INTERNAL_ERROR_MESSAGE) from error

    return guarded


@contextmanager
def _converted_refusals() -> Iterator[None]:
    """Convert refusals to SDK errors while the context is active."""
    try:
        yield
    except RequestRefusedError as error:
        raise MCPError(error.code, str(error), error.data) from error


MAX_DESCRIBED_ERRORS = 5
"""Maximum number of errors that are described for one request."""
METHODS_BEFORE_HANDSHAKE = frozenset({"initialize", "ping"})
"""Methods that a client may send before its handshake. Source: MCP, lifecycle, initialization."""


async def explain_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer a request, and replace bare error codes with messages that explain the error and suggest a fix.

    Raises:
        MCPError: the request is refused.
    """
    try:
        return await call_next(ctx)
    except ValidationError as error:
        if ctx.request_id is None:
            raise
        words = (
            _too_early_message(ctx.method) if _is_before_initialize(ctx) else f"{ctx.method}: {_describe_errors(error)}"
        )
        raise MCPError(INVALID_PARAMS, words) from error
    except MCPError as error:
        refused = error.error
        if refused.code == METHOD_NOT_FOUND and refused.data == ctx.method:
            raise MCPError(METHOD_NOT_FOUND, f"there is no method {ctx.method!r}", ctx.method) from error
        # Only the SDK refuses parameters with empty data.
        if refused.code == INVALID_PARAMS and refused.data == "" and _is_before_initialize(ctx):
            raise MCPError(INVALID_PARAMS, _too_early_message(ctx.method)) from error
        raise


def _is_before_initialize(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether a request needs a session, but `initialize` has not opened one yet."""
    is_of_session = ctx.method not in METHODS_BEFORE_HANDSHAKE and not is_stateless(ctx.method, ctx.params)
    return is_of_session and ctx.session.client_params is None


def _too_early_message(method: str) -> str:
    return (
        f"{method} was sent too early. Send initialize first and wait for its answer, or describe the client in "
        f"params._meta, with {VERSION_KEY!r}"
    )


def _describe_errors(error: ValidationError) -> str:
    found_errors = error.errors(include_url=False, include_input=False, include_context=False)
    messages = [
        f"{'.'.join(map(str, error_item['loc'])) or 'params'} "
        + ("is missing" if error_item["type"] == "missing" else f"is wrong: {error_item['msg']}")
        for error_item in found_errors[:MAX_DESCRIBED_ERRORS]
    ]
    if len(found_errors) > MAX_DESCRIBED_ERRORS:
        messages.append(f"and {len(found_errors) - MAX_DESCRIBED_ERRORS} more")
    return "; ".join(messages)


DEFAULT_INITIALIZE_PARAMS: dict[str, object] = {
    "protocolVersion": HANDSHAKE_VERSIONS[0],
    "capabilities": {},
    "clientInfo": {"name": "", "version": ""},
}
"""Parameters assumed for a client that does not describe itself, as some of Backseat Driver's clients do not."""


class SdkConnection:
    """The part of a connection that uses the SDK. It runs one of the SDK's loops for each protocol era.

    `plain` handles the requests of this client that are answered without the SDK, and sends all responses. `redact`
    removes secrets from errors, because errors quote parts of the request. Results are already redacted.
    """

    def __init__(
        self,
        server: Server[ClientSession],
        session: ClientSession,
        plain: PlainRequests,
        redact: Callable[[object], object],
    ) -> None:
        self._server = server
        self._session = session
        self._plain = plain
        self._replies = plain.replies
        self._redact = redact
        self._session_era, self._stateless_era = (
            anyio.create_memory_object_stream[SessionMessage | Exception](0) for _ in range(2)
        )
        self._awaited: tuple[str | int, anyio.Event] | None = None
        """Request whose answer must be sent before any other message is passed on."""
        self._is_hearing = False
        """Whether the client has already received that answer."""

    async def run(self) -> None:
        """Answer the accepted messages until the input ends."""
        serve = partial(serve_dual_era_loop, self._server, write_stream=self, lifespan_state=self._session)
        try:
            async with anyio.create_task_group() as loops:
                for _, messages in (self._session_era, self._stateless_era):
                    loops.start_soon(partial(serve, read_stream=messages))
        finally:
            for to_sdk, messages in (self._session_era, self._stateless_era):
                to_sdk.close()
                messages.close()

    def end_input(self) -> None:
        """Close the streams on which the SDK receives the client's messages."""
        for to_sdk, _ in (self._session_era, self._stateless_era):
            to_sdk.close()

    def discard_messages(self) -> None:
        """Discard the accepted messages, because no loop is running that would read them."""
        self.end_input()
        for _, messages in (self._session_era, self._stateless_era):
            messages.close()

    async def replay(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Process the messages with which the client introduced itself earlier, without answering them again."""
        self._is_hearing = True
        for message in messages:
            await self.accept(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)))
        self._is_hearing = False

    async def accept(self, item: SessionMessage) -> None:
        """Process a message, and return when the SDK has started processing it.

        A handshake is answered first, because later messages may depend on it. A cancellation is sent to the loops of
        both eras, because it does not specify to which one its request belongs.
        """
        message, answered = item.message, anyio.Event()
        is_end = isinstance(message, JSONRPCNotification) and message.method == INITIALIZED
        if is_end and not self._session.handshake_version:
            return  # it would open a session without a handshake
        if isinstance(message, JSONRPCRequest) and (self._is_hearing or message.method == INITIALIZE):
            self._awaited = message.id, answered
        else:
            answered.set()
        is_for_either = isinstance(message, JSONRPCNotification) and message.method == CANCELLED
        is_envelope = isinstance(message, JSONRPCRequest) and is_stateless(message.method, message.params)
        if is_envelope or is_for_either:
            await self._stateless_era[0].send(item)
        if not is_envelope:
            await self._session_era[0].send(item)
        await answered.wait()

    def read(self, line: bytes, *, in_batch: bool = False) -> SessionMessage | None:
        """Parse the message in a line, or send an error and return None."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            if (refused := refuse_invalid_line(line)) is not None:
                self._replies.refuse(refused)
            return None
        if isinstance(message, JSONRPCRequest):
            opened = self._open(message, len(line), in_batch=in_batch)
            return SessionMessage(opened) if opened is not None else None
        if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
            # Null, a fraction or a boolean is not an id, but the sender expects an answer.
            self._replies.refuse_line("the id of a request must be a string or an integer")
            return None
        if isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            # A cancelled request gets no answer, so it is no longer open.
            self._plain.cancel((message.params or {}).get("requestId"))
        return SessionMessage(message)

    def _open(self, request: JSONRPCRequest, size: int, *, in_batch: bool) -> JSONRPCRequest | None:
        if request.method == INITIALIZE and not request.params:
            request = request.model_copy(update={"params": DEFAULT_INITIALIZE_PARAMS})
        refused = self._find_refusal(request, size, in_batch=in_batch)
        if refused is not None:
            self._replies.refuse(refused)
            return None
        self._session.sends_envelopes |= is_stateless(request.method, request.params)
        if request.method != LISTEN or in_batch:
            self._replies.expect(request.id, size)
        return request

    def _find_refusal(self, request: JSONRPCRequest, size: int, *, in_batch: bool) -> Refusal | None:
        """Return the error response to a request that must not be processed, or None."""
        too_much = self._plain.limit_violation(size)
        if too_much is not None:
            return Refusal(request.id, SERVER_ERROR_CODE, too_much)
        if request.method == INITIALIZE and in_batch:
            return Refusal(
                request.id, INVALID_REQUEST, "initialize must not be part of a batch. Send it as a separate message"
            )
        if request.method == DISCOVER and not is_stateless(request.method, request.params):
            return Refusal(request.id, INVALID_PARAMS, f"{DISCOVER} needs params._meta with {VERSION_KEY!r}")
        return None

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message for the client.

        This never waits, because the outbox is bounded and disconnects a client that does not read.
        """
        message = item.message
        if isinstance(message, JSONRPCResponse | JSONRPCError) and self._awaited and message.id == self._awaited[0]:
            self._awaited[1].set()
            self._awaited = None
            if self._is_hearing:
                return
        if isinstance(message, JSONRPCError):
            cleared = self._redact(message.error.model_dump(by_alias=True, exclude_unset=True))
            message = message.model_copy(update={"error": ErrorData.model_validate(cleared)})
            if message.id is None:
                self._replies.refuse(Refusal(None, message.error.code, message.error.message))
                return
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if isinstance(message, JSONRPCNotification):
            self._session.outbox.offer(line)
        elif isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._replies.put(message.id, line)
        else:
            self._session.outbox.put(line)

    async def aclose(self) -> None:
        """Do nothing, because the listener owns the socket and closes it when everything is sent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        return None
