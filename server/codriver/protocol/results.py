"""Create the results of requests as plain data, whether or not the SDK answers them.

For clients that use protocol version 2026-07-28, each result has additional members: whether it is complete, which
server it is from, and how long a list is valid. `FirstAnswers`, a server's greeting and its list of tools, depend only
on a state and settings. They can therefore also be created from an expected state before there is a server.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from codriver.protocol.calls import encode_json
from codriver.protocol.error_messages import (
    HANDSHAKE_VERSIONS,
    MODERN,
    OLDER,
    SERVER_KEY,
    TASKS_CAPABILITY,
    TASKS_EXTENSION,
)
from codriver.protocol.skill_resources import EXTENSION_CAPABILITY, LIST_TTL_MS
from codriver.protocol.trust_question import supports_forms
from codriver.tools.calls.client_traits import LIFTED_TOOLS, MAX_LIFTED_CHARACTERS, find_traits
from codriver.tools.calls.gate import CHECK_INTERVAL_S, await_languages, await_search
from codriver.tools.manifest import offered_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import Clients, ClientSession
    from codriver.protocol.broadcast import Broadcast
    from codriver.protocol.log_messages import LogMessages
    from codriver.protocol.prompts import Prompts
    from codriver.protocol.resources import Resources
    from codriver.tools.calls.call import Services
    from codriver.tools.calls.tool import Manifest, Tool

    Params: TypeAlias = Mapping[str, Any]
    Result: TypeAlias = dict[str, Any]


NAME, TITLE = "codriver", "Codriver"
SERVER_CAPABILITIES: Mapping[str, Any] = MappingProxyType(
    {
        "logging": {},
        "prompts": {"listChanged": False},  # the list never changes
        "resources": {"listChanged": True, "subscribe": True},
        "tools": {"listChanged": True},
    }
)
TASK_SUPPORT_MEMBERS: Mapping[str, Any] = MappingProxyType({"execution": {"taskSupport": "optional"}})
"""Members of a tool's description that allow a client that uses MCP 2025-11-25 to call the tool as a task."""
COMPLETE_RESULT_MEMBERS: Mapping[str, Any] = MappingProxyType({"resultType": "complete"})
"""Members that mark a result as complete. Source: MCP 2026-07-28, results."""
UNCACHED_LIST_MEMBERS: Mapping[str, Any] = MappingProxyType({"ttlMs": 0, "cacheScope": "private"})
"""Members of a list that must not be cached because it may change at any time. Source: MCP 2026-07-28, caching."""
SKILL_LIST_MEMBERS: Mapping[str, Any] = MappingProxyType({**UNCACHED_LIST_MEMBERS, "ttlMs": LIST_TTL_MS})
"""Members of a list of skills, which may be cached for `LIST_TTL_MS`."""

MAX_RESULT_SIZE_KEY = "anthropic/maxResultSizeChars"
"""Key in a tool's `_meta` for the length of the longest answer that the client passes to its model.

Source: Claude Code 2.1.330, observed.
"""


class FirstAnswers:
    """Creates the answers to clients' first requests. These answers do not depend on a running server."""

    def __init__(self, version: str, manifest: Manifest) -> None:
        self._info = {"name": NAME, "title": TITLE, "version": version}
        self.members = {**COMPLETE_RESULT_MEMBERS, "_meta": {SERVER_KEY: self._info}}
        """Members that each result has for clients that use protocol version 2026-07-28."""
        self._describe_tool = {
            id(tool): _describe_tool(tool)
            for variant in manifest.tools
            for tool in (variant, variant.without_lisp)
            if tool is not None
        }

    def in_version_format(
        self, protocol: str, result: Result, caching: Mapping[str, Any] = UNCACHED_LIST_MEMBERS
    ) -> Result:
        """Add the members that a result must have in this protocol version.

        `caching` contains members that tell the client how long it may cache the result.
        """
        return {**result, **caching, **self.members} if protocol == MODERN else result

    def handshake_result(self, requested: str, *, accepts_skills: bool) -> Result:
        """Return the result of `initialize` without instructions.

        `requested` is the protocol version that the client requested.
        """
        protocol = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        capabilities = {**SERVER_CAPABILITIES, **({"extensions": EXTENSION_CAPABILITY} if accepts_skills else {})}
        return {"protocolVersion": protocol, "capabilities": capabilities, "serverInfo": self._info}

    @staticmethod
    def discovery_result(instructions: str, *, accepts_skills: bool) -> Result:
        """Return the result of `server/discover`."""
        capabilities = {
            **SERVER_CAPABILITIES,
            "extensions": {**(EXTENSION_CAPABILITY if accepts_skills else {}), TASKS_EXTENSION: {}},
        }
        return {"supportedVersions": [MODERN], "capabilities": capabilities, "instructions": instructions}

    def tools(self, client_name: str, offered: Iterable[Tool], *, accepts_tasks: bool) -> list[Result]:
        """Describe tools for a client in the form of `tools/list`."""
        traits = find_traits(client_name)
        listed_tools = [
            {**self._describe_tool[id(tool)], **TASK_SUPPORT_MEMBERS}
            if accepts_tasks and tool.may_be_task
            else self._describe_tool[id(tool)]
            for tool in offered
        ]
        if not traits.accepts_structure:
            listed_tools = [
                {name: value for name, value in tool.items() if name != "outputSchema"} for tool in listed_tools
            ]
        return [_with_lifted_limit(tool) for tool in listed_tools] if traits.lifts_limit else listed_tools

    def greeting(self, protocol: str, instructions: str, *, is_handshake: bool, accepts_skills: bool = True) -> Result:
        """Return the result of `initialize`, or of `server/discover` in protocol versions without a handshake."""
        if is_handshake:
            return {**self.handshake_result(protocol, accepts_skills=accepts_skills), "instructions": instructions}
        return self.in_version_format(protocol, self.discovery_result(instructions, accepts_skills=accepts_skills))

    def stored_answers(
        self, client_name: str, protocol: str, redactor: Redactor, instructions: str, offered: Iterable[Tool]
    ) -> Result:
        """Return the greeting and the list of tools for a client as a relay stores them."""
        greeting = self.greeting(protocol, redactor(instructions), is_handshake=protocol != MODERN)
        tools = self.in_version_format(protocol, {"tools": self.tools(client_name, offered, accepts_tasks=False)})
        return {"name": client_name, "protocol": protocol, "greeting": greeting, "tools": tools}


def _describe_tool(tool: Tool) -> Result:
    """Describe a tool in the form of `tools/list`."""
    listed = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.schema,
        "outputSchema": tool.listed_output_schema,
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.open_world,
        },
        "_meta": _claude_meta(tool),
    }
    return {name: value for name, value in listed.items() if value is not None}


def _claude_meta(tool: Tool) -> Result:
    """Return a tool's `_meta` for Claude Code, which hides most tools behind a search.

    Source: Claude Code 2.1.330, `_meta` of a tool.
    """
    return {"anthropic/alwaysLoad": True} if tool.is_core else {"anthropic/searchHint": tool.search_hint}


def _with_lifted_limit(tool: Result) -> Result:
    """Return a tool's description with a higher size limit for answers, for clients that support one."""
    if tool["name"] not in LIFTED_TOOLS:
        return tool
    return {**tool, "_meta": {**tool["_meta"], MAX_RESULT_SIZE_KEY: MAX_LIFTED_CHARACTERS}}


@dataclass(frozen=True, slots=True)
class ServerOffer:
    """The version, the tools and the instructions that a server offers to clients."""

    version: str
    manifest: Manifest
    """All tools of this server."""
    instructions: Callable[[str, bool], str]
    """Returns the instructions for a client, by its name and whether it gets skills."""
    starting: Callable[[str, bool], str]
    """Returns the instructions while the server starts."""
    store: Callable[[str, str, bool, Mapping[str, object], Mapping[str, object]], None]
    """Stores a greeting and the answer to `tools/list` by client name, protocol version, and support for skills."""


MAX_FIRST_SEARCH_WAIT_S = 2.0
"""Maximum time, in seconds, for which a handshake waits for the first search for REPLs.

Some clients give up after five seconds.
"""


class Results:
    """Creates the results of clients' requests. It lives as long as the server."""

    def __init__(
        self,
        services: Services,
        clients: Clients,
        resources: Resources,
        prompts: Prompts,
        broadcast: Broadcast,
        log_messages: LogMessages,
        about: ServerOffer,
        redactor: Redactor,
    ) -> None:
        self._services = services
        self._clients = clients
        self._resources = resources
        self._prompts = prompts
        self._broadcast = broadcast
        self._log_messages = log_messages
        self._about = about
        self._redactor = redactor
        self.version = about.version
        self._first = FirstAnswers(about.version, about.manifest)
        self.more_members = f",{encode_json(self._first.members)[1:-1]}"
        """Further members of a tool's result, as JSON, for a client without a handshake."""
        self._settled_at = time.monotonic() + services.durations.settling_s

    def in_version_format(
        self, version: str, result: Result, caching: Mapping[str, Any] = UNCACHED_LIST_MEMBERS
    ) -> Result:
        """Add the members that a result must have in this protocol version.

        `caching` contains members that tell the client how long it may cache the result.
        """
        return self._first.in_version_format(version, result, caching)

    def introduce_client(self, client: ClientSession, name: str | None) -> None:
        """Record the client that a stateless request describes, and its name if the request has one."""
        in_version = client.name if name is None else self._redactor(name)
        self._clients.introduce(client, name=in_version, handshake=client.handshake)

    def initialize(self, client: ClientSession, params: Params, _version: str) -> Result | Awaitable[Result]:
        """Open a client's session, and return the protocol version and the instructions.

        The session is open when this method returns, so later messages find it. While the server is searching for
        REPLs, the result is an awaitable, because the instructions name the REPLs.
        """
        requested = params["protocolVersion"]
        about = self._first.handshake_result(requested, accepts_skills=client.accepts_skills)
        client.requested_version, client.handshake_version = requested, about["protocolVersion"]
        client.accepts_forms = supports_forms(params["capabilities"].get("elicitation"))
        client.accepts_tasks = client.handshake_version == OLDER and "tasks" in params["capabilities"]
        name = self._redactor(params["clientInfo"]["name"])
        self._clients.introduce(client, name=name, handshake=client.handshake)
        offered = about["capabilities"]
        capabilities = {**offered, "tasks": {**TASKS_CAPABILITY}} if client.accepts_tasks else offered
        result = {**about, "capabilities": capabilities}
        return self._with_instructions(client, lambda words: {**result, "instructions": words})

    def _with_instructions(self, client: ClientSession, make: Callable[[str], Result]) -> Result | Awaitable[Result]:
        """Call `make` with the client's instructions and return its result.

        While the server is searching for REPLs, the result is an awaitable.
        """
        core = self._services.core
        if core.state.lifecycle.is_searching or core.state.languages_of_files is None:
            return self._with_awaited_instructions(client, make)
        return make(self._instructions(client))

    async def _with_awaited_instructions(self, client: ClientSession, make: Callable[[str], Result]) -> Result:
        with anyio.move_on_after(MAX_FIRST_SEARCH_WAIT_S):
            await await_search(self._services.core)
            await await_languages(self._services.core)
        return make(self._instructions(client))

    def _instructions(self, client: ClientSession) -> str:
        return self._redactor(self._about.instructions(client.name, client.accepts_skills))

    def mark_initialized(self, client: ClientSession) -> None:
        """Notify a client of changes from now on, because it has received the result of its handshake."""
        if client.handshake_version:
            self._clients.introduce(client, name=client.name, handshake=True)

    def ping(self, _client: ClientSession, _params: Params, _version: str) -> Result:
        """Return an empty result."""
        return {}

    def discover(self, client: ClientSession, _params: Params, version: str) -> Result | Awaitable[Result]:
        """Return the supported protocol versions for requests without a session, and the instructions."""
        return self._with_instructions(
            client,
            lambda words: self.in_version_format(
                version, self._first.discovery_result(words, accepts_skills=client.accepts_skills)
            ),
        )

    async def tools(self, client: ClientSession, _params: Params, version: str) -> Result:
        """Return the list of tools for a client."""
        repls = self._services.core
        await await_search(repls)
        await await_languages(repls)
        while time.monotonic() < self._settled_at and any(repl.is_awaited for repl in repls.state.repls.values()):
            await anyio.sleep(CHECK_INTERVAL_S)
        offered = offered_tools(self._about.manifest, repls.state, self._services.live.settings, client.name)
        is_modern = version == MODERN
        lists_tasks = client.accepts_tasks and not is_modern
        listed = self._first.tools(client.name, offered, accepts_tasks=lists_tasks)
        result = self.in_version_format(version, {"tools": listed})
        if is_modern or (client.handshake and not lists_tasks):
            with_skills = client.accepts_skills
            words = self._redactor(self._about.starting(client.name, with_skills))
            protocol = MODERN if is_modern else client.requested_version
            greeting = self._first.greeting(protocol, words, is_handshake=not is_modern, accepts_skills=with_skills)
            self._about.store(client.name, protocol, with_skills, greeting, result)
        return result

    async def list_resources(self, client: ClientSession, _params: Params, version: str) -> Result:
        """Return the list of resources for a client."""
        return self.in_version_format(version, {"resources": await self._resources.list_resources(client)})

    def list_templates(self, client: ClientSession, _params: Params, version: str) -> Result:
        """Return the list of resource templates for a client."""
        return self.in_version_format(version, {"resourceTemplates": self._resources.list_templates(client)})

    async def list_skills(self, client: ClientSession, params: Params, version: str) -> Result:
        """Return a page of the skills, with the digests of their files.

        Raises:
            RequestRefusedError: the client does not get skills from this server, or the cursor is unknown.
        """
        return self.in_version_format(
            version, await self._resources.list_skills(client, params.get("cursor")), SKILL_LIST_MEMBERS
        )

    async def get_skill(self, client: ClientSession, params: Params, version: str) -> Result:
        """Return a skill with the digests of its files.

        Raises:
            RequestRefusedError: the client does not get skills from this server, or there is no such skill.
        """
        return self.in_version_format(
            version, await self._resources.get_skill(client, params["uri"]), SKILL_LIST_MEMBERS
        )

    async def read_directory(self, client: ClientSession, params: Params, version: str) -> Result:
        """Return a page of the entries of a skill's directory.

        Raises:
            RequestRefusedError: the client does not get skills, there is no such directory, or the cursor is unknown.
        """
        found = await self._resources.read_directory(client, params["uri"], params.get("cursor"))
        return self.in_version_format(version, found, SKILL_LIST_MEMBERS)

    def list_prompts(self, _client: ClientSession, _params: Params, version: str) -> Result:
        """Return the list of prompts."""
        return self.in_version_format(version, {"prompts": self._prompts.list_prompts()})

    async def subscribe(self, client: ClientSession, params: Params, version: str) -> Result:
        """Notify a client of changes to a resource from now on.

        Raises:
            RequestRefusedError: there is no such resource.
        """
        self._broadcast.mark_log_as_known(client)
        await self._resources.check_exists(params["uri"], version, client)
        client.subscribed.add(params["uri"])
        return {}

    def unsubscribe(self, client: ClientSession, params: Params, _version: str) -> Result:
        """Stop notifying a client of changes to a resource."""
        client.subscribed.discard(params["uri"])
        return {}

    def open_stream(
        self,
        client: ClientSession,
        identity: str | int | None,
        requested: Params,
        tasks: frozenset[str] = frozenset(),
    ) -> None:
        """Notify a client of the requested changes until `close_stream` is called.

        `tasks` contains the ids of tasks whose changes are requested.

        Raises:
            RequestRefusedError: the stream cannot be opened.
        """
        self._broadcast.mark_log_as_known(client)
        self._broadcast.subscriptions.open(client, identity, requested, tasks)

    def close_stream(self, client: ClientSession, identity: str | int | None) -> None:
        """Close a stream of a client."""
        self._broadcast.subscriptions.close(client, identity)

    def set_level(self, client: ClientSession, params: Params, _version: str) -> Result:
        """Send a client log messages of this level and above from now on."""
        self._log_messages.set_level(client, params["level"])
        return {}
