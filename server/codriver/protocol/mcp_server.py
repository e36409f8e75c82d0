"""The MCP server: the manifest listed and called, resources and prompts served, in both protocol eras.

Older clients make the `initialize` handshake; newer ones say who they are in every request and ask for changes with
`subscriptions/listen`. The SDK tells them apart; handlers serve both alike.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS

from codriver.net.client_sessions import ClientSession
from codriver.protocol import prompts
from codriver.protocol.broadcast import Broadcast
from codriver.protocol.calls import FAULT, Answered, Caller, PlainCalls, envelope, meta_of
from codriver.protocol.completions import Completions
from codriver.protocol.error_messages import worded
from codriver.protocol.evaluation_tasks import EvaluationTasks
from codriver.protocol.log_messages import LogMessages
from codriver.protocol.replies import Replies
from codriver.protocol.resources import Resources
from codriver.protocol.stream import INITIALIZE, MessageStream
from codriver.protocol.subscriptions import Subscriptions
from codriver.protocol.task_offers import CAPABILITY, EXTENSION, LISTED, OLDER, offered
from codriver.tools.calls.client_traits import LIFTED_CHARACTERS, LIFTED_TOOLS, is_lean, traits_of
from codriver.tools.calls.gate import LOOK_S, await_languages, await_search, on_offer
from codriver.tools.lean_toolset import LEAN
from codriver.tools.manifest import MANIFEST
from codriver.wire.framing import LineRoom

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.context import CallNext, HandlerResult

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import Clients
    from codriver.skills import SkillLibrary
    from codriver.tools.calls.base import Services, Tool

logger = logging.getLogger(__name__)

MODERN = "2026-07-28"
NAME, TITLE = "codriver", "Codriver"

LIFT = "anthropic/maxResultSizeChars"
"""In the `_meta` of a tool: the longest answer that is handed on. Source: Claude Code 2.1.330, observed."""
TOOLSETS = MappingProxyType({False: MANIFEST, True: LEAN})
"""The tools, by whether the client gets the lean set."""
CHANGES = NotificationOptions(tools_changed=True, resources_changed=True)
"""The lists that may change. That of the prompts is part of the program."""

SETTLING_S = 1.5
"""So long after the start a list of tools waits for the REPLs on their way: there are clients that ask for it once, as
soon as they started the server, and never again. The embedded REPLs need half a second; a JVM may need more, but an
agent that was given its task at once goes without the tools of a server that takes long."""
LINE_ROOM = 4
"""The begun lines of all clients may have as many bytes as this number of longest lines."""
LEAST_LINE_ROOM_BYTES = 2**20

Context = ServerRequestContext[ClientSession]
R = TypeVar("R")


class Protocol:
    """The MCP side of one server, shared by all its connections."""

    def __init__(
        self,
        services: Services,
        clients: Clients,
        *,
        version: str,
        instructions: Callable[[str], str],
        starting: Callable[[str], str],
        keep: Callable[[ClientSession, str, Mapping[str, object]], None],
        redactor: Redactor,
        skills: SkillLibrary,
    ) -> None:
        """`instructions`: those of a client, by its name. `starting`: those that hold while its server starts.

        `keep` is given the latter, and the answer to its `tools/list`.
        """
        self._services = services
        self._clients = clients
        self._instructions = instructions
        self._starting = starting
        self._keep = keep
        self._redactor = redactor
        self._subscriptions = Subscriptions()
        self.broadcast = Broadcast(clients, self._subscriptions, services.log)
        self.log_messages = LogMessages(redactor)
        info = {"name": NAME, "title": TITLE, "version": version}
        self.caller = Caller(services, redactor=redactor, tell_of_log=self.broadcast.log_grew_for, server_info=info)
        self._tasks = EvaluationTasks(services, self.caller, self._subscriptions, _result)
        self._resources = Resources(services, skills)
        self._completions = Completions(services, skills, redactor)
        self._room = LineRoom(max(LEAST_LINE_ROOM_BYTES, LINE_ROOM * services.settings.max_line_bytes))
        self._server = self._new_server(version)
        self._about = self._server.create_initialization_options(CHANGES)
        """The initialization options that all clients are told first; each gets instructions of its own besides."""
        self._listed = {is_lean: tuple(map(_listed, tools)) for is_lean, tools in TOOLSETS.items()}
        self._settled_at = time.monotonic() + SETTLING_S

    def _new_server(self, version: str) -> Server[ClientSession]:
        """The SDK's server with our handlers, of which the tool calls, tasks and log levels are not in its own list."""
        server: Server[ClientSession] = Server(
            NAME,
            version=version,
            title=TITLE,
            on_list_tools=_guarded(self._list_tools),
            on_list_resources=_guarded(self._list_resources),
            on_list_resource_templates=_guarded(self._list_templates),
            on_read_resource=_guarded(self._read_resource),
            on_subscribe_resource=_guarded(self._subscribe),
            on_unsubscribe_resource=_guarded(self._unsubscribe),
            on_list_prompts=_guarded(self._list_prompts),
            on_get_prompt=_guarded(self._get_prompt),
            on_completion=_guarded(self._complete),
            on_subscriptions_listen=_guarded(self._listen),
        )
        server.middleware.clear()  # tracing that nobody exports costs a tenth of every call
        server.middleware += [worded, self.log_messages.scoped, self._instructed, self._tasks.augmented]
        server.add_request_handler("server/discover", types.RequestParams, self._discover)
        server.add_request_handler("tools/call", types.CallToolRequestParams, _guarded(self._call_tool))
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _guarded(self._set_level))
        for method, (parameters, handler) in self._tasks.handlers().items():
            server.add_request_handler(method, parameters, _guarded(handler))
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)
        return server

    async def serve(self, session: ClientSession, receive: Callable[[], Awaitable[bytes | None]]) -> None:
        """Serve one connection until its client has left and is answered."""
        settings = self._services.settings
        most = settings.max_requests_per_client
        calls = PlainCalls(session, self.caller, Replies(session), max_open_requests=most)
        stream = MessageStream(
            session,
            receive,
            max_line_bytes=settings.max_line_bytes,
            redact=self._redactor.redact_json,
            calls=calls,
            threads=self._services.work.messages,
            room=self._room,
            drain_s=self._services.durations.drain_s,
        )
        try:
            await serve_dual_era_loop(self._server, stream, stream, lifespan_state=session, init_options=self._about)
        finally:
            self.log_messages.forget(session)
            self._tasks.leave(session)
            stream.drop()
            await calls.end()

    async def end(self) -> None:
        """End what goes on by itself, as the server stops."""
        await self._tasks.end()

    async def _instructed(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The answer to `initialize` with the instructions for who says there who it is; any other as it is."""
        result = await call_next(ctx)
        session, params = ctx.lifespan_context, ctx.params or {}
        if ctx.method == INITIALIZE and isinstance(result, dict):
            session.greeting = params["protocolVersion"], dict(result)
            name = self._redactor(params["clientInfo"]["name"])
            result["instructions"] = self._redactor(self._instructions(name))
            session.takes_tasks = result["protocolVersion"] == OLDER and "tasks" in params["capabilities"]
            if session.takes_tasks:
                result["capabilities"] = {**result["capabilities"], "tasks": CAPABILITY}
        elif ctx.method == "tools/list" and isinstance(result, dict) and not session.takes_tasks:
            if ctx.protocol_version == MODERN and session.greeting is None:  # the next client may ask for it
                asked = replace(ctx, method="server/discover", params={"_meta": params["_meta"]})
                found = await call_next(asked)
                session.greeting = (MODERN, found) if isinstance(found, dict) else None
            if ctx.protocol_version == MODERN or session.handshake:
                self._keep(session, self._redactor(self._starting(session.name)), result)
        return result

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        del params
        self._introduce(ctx)
        await await_search(self._services.core)
        await await_languages(self._services.core)
        repls = self._services.core
        while time.monotonic() < self._settled_at and any(repl.is_coming for repl in repls.state.repls.values()):
            await anyio.sleep(LOOK_S)
        state, settings, client = self._services.core.state, self._services.settings, ctx.lifespan_context.name
        traits, lean = traits_of(client), is_lean(settings, client)
        offered = {tool.name for tool in on_offer(TOOLSETS[lean], state, settings, lists_once=traits.lists_once)}
        shown = [tool for tool in self._listed[lean] if tool.name in offered]
        if ctx.lifespan_context.takes_tasks:
            shown = [_with_tasks(tool) for tool in shown]
        if not traits.takes_structure:
            shown = [tool.model_copy(update={"output_schema": None}) for tool in shown]
        return types.ListToolsResult(
            tools=[_with_lifted_limit(tool) for tool in shown] if traits.lifts_limit else shown
        )

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | dict[str, Any]:
        self._introduce(ctx)
        called = self.caller.find(ctx.lifespan_context, params.name, params.arguments or {})
        if called is None:
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name!r}: tools/list names those there are")
        tool, arguments = called
        meta = meta_of(ctx.params)
        ctx.lifespan_context.note_conversation(meta)
        if ctx.protocol_version == MODERN and types.LOG_LEVEL_META_KEY not in meta and not offered(ctx):
            ctx.lifespan_context.envelope = envelope(meta)
        if ctx.protocol_version == MODERN and self._tasks.is_able(ctx, tool):
            return await self._tasks.call(ctx, tool, arguments)
        answered = await self.caller.run(ctx.lifespan_context, tool, arguments, self._progress(ctx))
        if answered.handed_out is not None and not ctx.lifespan_context.has_left:
            answered.handed_out()
        return _result(ctx.lifespan_context, answered)

    def _progress(self, ctx: Context) -> Callable[[float, str], Awaitable[None]]:
        async def report(elapsed_s: float, words: str) -> None:
            await ctx.session.report_progress(elapsed_s, None, self._redactor(words))

        return report

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        del params
        self._introduce(ctx)
        return types.ListResourcesResult(
            resources=[
                found.model_copy(
                    update={
                        "name": self._redactor(found.name),
                        "description": self._redactor(found.description or ""),
                    }
                )
                for found in self._resources.listed()
            ]
        )

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        del ctx, params
        return types.ListResourceTemplatesResult(resource_templates=self._resources.templates())

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        self._introduce(ctx)
        uri = str(params.uri)
        found = await self._resources.read(uri, ctx.protocol_version, ctx.lifespan_context)
        text = self._redactor(found.text).encode("utf-8", "replace").decode()
        contents: list[types.TextResourceContents | types.BlobResourceContents] = [
            types.TextResourceContents(uri=params.uri, mime_type=found.mime_type, text=text, _meta=found.about or None)
        ]
        if found.note:
            contents.append(types.TextResourceContents(uri=f"{uri}#note", mime_type="text/plain", text=found.note))
        return types.ReadResourceResult(contents=contents)

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self.broadcast.log_known_to(ctx.lifespan_context)
        await self._resources.check(str(params.uri), ctx.protocol_version)
        ctx.lifespan_context.subscribed.add(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        ctx.lifespan_context.subscribed.discard(str(params.uri))
        return types.EmptyResult()

    async def _listen(self, ctx: Context, params: types.SubscriptionsListenRequestParams) -> NoReturn:
        self.broadcast.log_known_to(ctx.lifespan_context)
        tasks = self._tasks.listened(ctx, (params.notifications.model_extra or {}).get("taskIds") or ())
        await self._subscriptions.listen(ctx, params, tasks)

    async def _list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        del ctx, params
        return types.ListPromptsResult(prompts=prompts.listed())

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        given = {name: self._redactor(value) for name, value in (params.arguments or {}).items()}
        if params.name == prompts.HANDOFF:
            told = await self._resources.handoff(ctx.lifespan_context, given.get("who"))
            return prompts.filled(params.name, given, told=self._redactor(told))
        return prompts.filled(params.name, given)

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self.log_messages.set_level(ctx.lifespan_context, params.level)
        return types.EmptyResult()

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return await self._completions.complete(ctx.lifespan_context.id, params)

    async def _discover(self, ctx: Context, params: types.RequestParams | None) -> types.DiscoverResult:
        del params
        self._introduce(ctx)
        capabilities = self._server.get_capabilities(CHANGES, protocol_version=ctx.protocol_version)
        if capabilities.prompts is not None:  # the SDK says of whoever serves subscriptions that all may change
            capabilities.prompts.list_changed = CHANGES.prompts_changed
        capabilities.extensions = {EXTENSION: {}}
        return types.DiscoverResult(
            supported_versions=[MODERN],
            capabilities=capabilities,
            instructions=self._redactor(self._instructions(ctx.lifespan_context.name)),
        )

    async def _initialized(self, ctx: Context, params: types.NotificationParams | None) -> None:
        del params
        self._introduce(ctx, handshake=True)

    def _introduce(self, ctx: Context, *, handshake: bool | None = None) -> None:
        """Note who the client is, as soon as it says so."""
        session = ctx.lifespan_context
        known = ctx.session.client_params
        info = known.client_info if known else None
        self._clients.introduce(
            session,
            name=self._redactor(info.name) if info else session.name,
            handshake=session.handshake if handshake is None else handshake,
        )


def _guarded(
    handler: Callable[[Context, Any], Awaitable[R]],
) -> Callable[[Context, Any], Awaitable[R]]:
    """The handler, with every fault of ours turned into an internal error that tells nothing of our insides."""

    async def guarded(ctx: Context, params: Any) -> R:
        try:
            return await handler(ctx, params)
        except MCPError:
            raise
        except Exception as error:
            logger.exception("%s failed", ctx.method)
            raise MCPError(INTERNAL_ERROR, FAULT) from error

    return guarded


def _result(client: ClientSession, answered: Answered) -> types.CallToolResult:
    """A tool's answer as this client gets it."""
    content: list[types.ContentBlock] = [types.TextContent(text=answered.text)]
    content += [types.ImageContent(data=image.data, mime_type=image.mime_type) for image in answered.images]
    fields = json.loads(answered.text) if traits_of(client.name).takes_structure else None
    return types.CallToolResult(content=content, structured_content=fields, is_error=not answered.ok)


def _for_claude(tool: Tool) -> dict[str, Any]:
    """The `_meta` of a tool for a client that hides most tools behind a search: to show it at once, or to find it.

    Source: Claude Code 2.1.330, `_meta` of a tool.
    """
    return {"anthropic/alwaysLoad": True} if tool.is_core else {"anthropic/searchHint": tool.search_hint}


def _with_lifted_limit(tool: types.Tool) -> types.Tool:
    """The tool as it is listed for a client that hands on longer answers of those that ask for it."""
    if tool.name not in LIFTED_TOOLS:
        return tool
    return tool.model_copy(update={"meta": {**(tool.meta or {}), LIFT: LIFTED_CHARACTERS}})


def _with_tasks(tool: types.Tool) -> types.Tool:
    """The tool as it is listed for a client that may call it as a task."""
    if tool.name not in LISTED:
        return tool
    return tool.model_copy(update={"execution": types.ToolExecution(task_support="optional")})


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema,
        output_schema=tool.listed_output,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
        _meta=_for_claude(tool),
    )
