"""The SDK's server: what is not plain is read and answered by it, with the results of the plain way where both have it.

Older clients make the `initialize` handshake; newer ones say who they are in every request and ask for changes with
`subscriptions/listen`. The SDK tells them apart; handlers serve both alike.
"""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from codriver.net.client_sessions import ClientSession
from codriver.protocol import prompts
from codriver.protocol.error_messages import FAULT, INTERNAL_ERROR, INVALID_PARAMS, RequestRefusedError
from codriver.protocol.first_answers import NAME, TITLE
from codriver.protocol.plain_requests import METHODS
from codriver.protocol.sdk.completions import Completions
from codriver.protocol.sdk.evaluation_tasks import EvaluationTasks
from codriver.protocol.sdk.refusal_words import worded
from codriver.protocol.sdk.sdk_connection import SdkConnection
from codriver.protocol.sdk.task_offers import offered
from codriver.protocol.versions import INITIALIZE, LEVEL_KEY, LISTEN, MODERN, envelope, meta_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from mcp.server.context import CallNext, HandlerResult

    from codriver.protocol.calls import Answered
    from codriver.protocol.mcp_server import Shared
    from codriver.protocol.plain_requests import PlainRequests

logger = logging.getLogger(__name__)

Context = ServerRequestContext[ClientSession]
R = TypeVar("R")

SHARED: Mapping[str, type[types.RequestParams]] = MappingProxyType(
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
    }
)
"""The requests whose results are those of the plain way, with the models of their parameters."""
NOT_KEPT: Mapping[str, Any] = MappingProxyType({})


class SdkServer:
    """The SDK's side of one server, for all its clients. Lives as long as the server, from the first that needs it."""

    def __init__(self, shared: Shared) -> None:
        self._results = shared.results
        self._caller = shared.caller
        self._resources = shared.resources
        self._log_messages = shared.log_messages
        self._redactor = shared.redactor
        self._tasks = EvaluationTasks(shared.services, shared.caller, shared.subscriptions)
        self._completions = Completions(shared.services, shared.skills, shared.redactor)
        self._server = self._new_server(shared.results.version)

    def _new_server(self, version: str) -> Server[ClientSession]:
        server: Server[ClientSession] = Server(NAME, version=version, title=TITLE)
        server.middleware.clear()  # tracing that nobody exports costs a tenth of every call
        server.middleware += [worded, self._heard, self._greeted, self._tasks.augmented]
        for method, parameters in SHARED.items():
            server.add_request_handler(method, parameters, _guarded(self._shared(method)))
        own: dict[str, tuple[type[types.RequestParams], Callable[[Context, Any], Awaitable[Any]]]] = {
            "tools/call": (types.CallToolRequestParams, self._call_tool),
            "resources/read": (types.ReadResourceRequestParams, self._read_resource),
            "prompts/get": (types.GetPromptRequestParams, self._get_prompt),
            "completion/complete": (types.CompleteRequestParams, self._complete),
            LISTEN: (types.SubscriptionsListenRequestParams, self._listen),
            **self._tasks.handlers(),
        }
        for method, (parameters, handler) in own.items():
            server.add_request_handler(method, parameters, _guarded(handler))
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)
        return server

    def connect(self, session: ClientSession, plain: PlainRequests) -> SdkConnection:
        """The SDK's side of a client's connection."""
        return SdkConnection(self._server, session, plain, self._redactor.redact_json, self._tasks.leave)

    async def end(self) -> None:
        """End what goes on by itself, as the server stops."""
        await self._tasks.end()

    def _shared(self, method: str) -> Callable[[Context, Any], Awaitable[Any]]:
        """The handler of a request whose result is that of the plain way."""
        making = METHODS[method].result
        assert making is not None  # noqa: S101 - none of them is a connection's own

        async def handle(ctx: Context, params: types.RequestParams) -> Any:
            self._introduce(ctx)
            given = making(self._results, ctx.lifespan_context, params.model_dump(by_alias=True, exclude_none=True))
            return given if isinstance(given, dict) else await given

        return handle

    async def _heard(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The answer to a request, during which its client is told log messages, if the request asks for them."""
        wanted = meta_of(ctx.params).get(LEVEL_KEY) if ctx.protocol_version == MODERN else None
        if wanted is None or ctx.request_id is None or ctx.method == LISTEN:
            return await call_next(ctx)
        with _as_the_sdks(), self._log_messages.heard_by(ctx.lifespan_context, wanted):
            return await call_next(ctx)

    async def _greeted(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The answer to `initialize`, if the SDK lets it in; any other as it is."""
        result = await call_next(ctx)
        if ctx.method != INITIALIZE or ctx.request_id is None:
            return result
        return self._results.initialize(ctx.lifespan_context, ctx.params or {})

    async def _initialized(self, ctx: Context, _params: types.NotificationParams | None) -> None:
        self._results.initialized(ctx.lifespan_context)

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        self._introduce(ctx)
        client, meta = ctx.lifespan_context, meta_of(ctx.params)
        called = self._caller.find(client, params.name, params.arguments or {})
        if called is None:
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name!r}: tools/list names those there are")
        tool, arguments = called
        client.note_conversation(meta)
        if ctx.protocol_version == MODERN and LEVEL_KEY not in meta and not offered(ctx):
            client.envelope = envelope(meta)
        questions = self._caller.questions
        if tool.name == questions.tool and (asked := await questions.required(client, responses_of(ctx.params))):
            return asked
        given: Answered | dict[str, Any]
        if ctx.protocol_version == MODERN and self._tasks.is_able(ctx, tool):
            given = await self._tasks.call(ctx, tool, arguments)
        else:
            given = await self._caller.run(client, tool, arguments, self._progress(ctx))
        if isinstance(given, dict):
            return given
        if given.handed_out is not None and not client.has_left:
            given.handed_out()
        result: dict[str, Any] = json.loads(self._results.call(client, given))
        return result

    def _progress(self, ctx: Context) -> Callable[[float, str], Awaitable[None]]:
        async def report(elapsed_s: float, words: str) -> None:
            await ctx.session.report_progress(elapsed_s, None, self._redactor(words))

        return report

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        self._introduce(ctx)
        uri = str(params.uri)
        found = await self._resources.read(uri, ctx.protocol_version, ctx.lifespan_context)
        text = self._redactor(found.text).encode("utf-8", "replace").decode()
        contents: list[dict[str, Any]] = [{"uri": uri, "mimeType": found.mime_type, "text": text}]
        if found.about:
            contents[0]["_meta"] = found.about
        if found.note:
            contents.append({"uri": f"{uri}#note", "mimeType": "text/plain", "text": found.note})
        return self._results.told(ctx.lifespan_context, {"contents": contents})

    async def _listen(self, ctx: Context, params: types.SubscriptionsListenRequestParams) -> NoReturn:
        asked = params.notifications.model_dump(by_alias=True, exclude_none=True)
        tasks = self._tasks.listened(ctx, (params.notifications.model_extra or {}).get("taskIds") or ())
        self._results.listen(ctx.lifespan_context, ctx.request_id, asked, tasks)
        try:
            while True:
                await anyio.sleep_forever()
        finally:
            self._results.unlisten(ctx.lifespan_context, ctx.request_id)

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> dict[str, Any]:
        self._introduce(ctx)
        given = {name: self._redactor(value) for name, value in (params.arguments or {}).items()}
        told = ""
        if params.name == prompts.HANDOFF:
            told = self._redactor(await self._resources.handoff(ctx.lifespan_context, given.get("who")))
        return self._results.told(ctx.lifespan_context, prompts.filled(params.name, given, told=told), NOT_KEPT)

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return await self._completions.complete(ctx.lifespan_context.id, params)

    def _introduce(self, ctx: Context) -> None:
        """Note who the client is that makes no handshake, as it says so in each request."""
        if ctx.protocol_version == MODERN:
            info = ctx.session.client_params.client_info if ctx.session.client_params else None
            self._results.introduce(ctx.lifespan_context, info.name if info else None)


def responses_of(params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The answers to questions before that came with a request. Source: MCP 2026-07-28, `inputResponses`."""
    found = (params or {}).get("inputResponses")
    return found if isinstance(found, dict) else None


def _guarded(handler: Callable[[Context, Any], Awaitable[R]]) -> Callable[[Context, Any], Awaitable[R]]:
    """The handler, with every fault of ours turned into an internal error that tells nothing of our insides."""

    async def guarded(ctx: Context, params: Any) -> R:
        try:
            with _as_the_sdks():
                return await handler(ctx, params)
        except MCPError:
            raise
        except Exception as error:
            logger.exception("%s failed", ctx.method)
            raise MCPError(INTERNAL_ERROR, FAULT) from error

    return guarded


@contextmanager
def _as_the_sdks() -> Iterator[None]:
    """Within this context a request that is refused is refused in the SDK's way."""
    try:
        yield
    except RequestRefusedError as error:
        raise MCPError(error.code, str(error), error.data) from error
