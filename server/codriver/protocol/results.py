"""Results of requests, as plain data: made here alone, for both ways of a request.

A client of 2026-07-28 gets further members with each result: that the result is complete, who gives it, and how long a
list holds. The `FirstAnswers`, a server's greeting and its list of tools, are made of a state and settings alone. So
they can also be made of an expected state, before there is a server.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from codriver.protocol.calls import as_json
from codriver.protocol.error_messages import HANDSHAKE_VERSIONS, MODERN, OLDER, SERVER_KEY, TASKS, TASKS_OFFERED
from codriver.protocol.skill_resources import DECLARED, TTL_MS
from codriver.protocol.trust_question import takes_forms
from codriver.tools.calls.client_traits import LIFTED_CHARACTERS, LIFTED_TOOLS, traits_of
from codriver.tools.calls.gate import CHECK_INTERVAL_S, await_languages, await_search
from codriver.tools.manifest import tools_offered

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
CAPABILITIES: Mapping[str, Any] = MappingProxyType(
    {
        "logging": {},
        "prompts": {"listChanged": False},  # the list is part of the program
        "resources": {"listChanged": True, "subscribe": True},
        "tools": {"listChanged": True},
    }
)
WITH_TASKS = frozenset({"evaluate_code", "load_file", "run_cell", "run_tests"})
"""The tools that a client of 2025-11-25 may call as tasks, if it knows them."""
COMPLETE: Mapping[str, Any] = MappingProxyType({"resultType": "complete"})
"""Source: MCP 2026-07-28, results."""
FRESH: Mapping[str, Any] = MappingProxyType({"ttlMs": 0, "cacheScope": "private"})
"""For lists that may change at any time. Source: MCP 2026-07-28, caching."""
OF_SKILLS: Mapping[str, Any] = MappingProxyType({**FRESH, "ttlMs": TTL_MS})

LIFT = "anthropic/maxResultSizeChars"
"""In the `_meta` of a tool: the longest answer that the client hands on. Source: Claude Code 2.1.330, observed."""


class FirstAnswers:
    """The answers of a server of one version to the first requests of clients."""

    def __init__(self, version: str, manifest: Manifest) -> None:
        self._info = {"name": NAME, "title": TITLE, "version": version}
        self.members = {**COMPLETE, "_meta": {SERVER_KEY: self._info}}
        """The members that a client of 2026-07-28 gets with each result."""
        self._listed = {
            id(tool): _listed(tool) for one in manifest.tools for tool in (one, one.without_lisp) if tool is not None
        }

    def told(self, protocol: str, result: Result, kept: Mapping[str, Any] = FRESH) -> Result:
        """Return the result in the form of that version of the protocol.

        `kept`: for how long the client may keep it.
        """
        return {**result, **kept, **self.members} if protocol == MODERN else result

    def handshake(self, asked: str, *, takes_skills: bool) -> Result:
        """The answer to an `initialize` that asks for this version of the protocol, without instructions."""
        protocol = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        capabilities = {**CAPABILITIES, **({"extensions": DECLARED} if takes_skills else {})}
        return {"protocolVersion": protocol, "capabilities": capabilities, "serverInfo": self._info}

    @staticmethod
    def discovered(instructions: str, *, takes_skills: bool) -> Result:
        """Return the answer to `server/discover`."""
        capabilities = {**CAPABILITIES, "extensions": {**(DECLARED if takes_skills else {}), TASKS: {}}}
        return {"supportedVersions": [MODERN], "capabilities": capabilities, "instructions": instructions}

    def tools(self, client_name: str, offered: Iterable[Tool], *, takes_tasks: bool) -> list[Result]:
        """Return the tools that are `offered` to the client of this name, in the form of `tools/list`."""
        traits = traits_of(client_name)
        shown = [self._listed[id(tool)] for tool in offered]
        if takes_tasks:
            shown = [_with_tasks(tool) for tool in shown]
        if not traits.accepts_structure:
            shown = [{name: value for name, value in tool.items() if name != "outputSchema"} for tool in shown]
        return [_with_lifted_limit(tool) for tool in shown] if traits.lifts_limit else shown

    def greeting(self, protocol: str, instructions: str, *, is_handshake: bool, takes_skills: bool = True) -> Result:
        """Return the answer to an `initialize` that asks for this version, or to a `server/discover` of it."""
        if is_handshake:
            return {**self.handshake(protocol, takes_skills=takes_skills), "instructions": instructions}
        return self.told(protocol, self.discovered(instructions, takes_skills=takes_skills))

    def to_keep(
        self, client_name: str, protocol: str, redactor: Redactor, instructions: str, offered: Iterable[Tool]
    ) -> Result:
        """The greeting and the list for a client of this name and protocol, in the form kept for relays."""
        greeting = self.greeting(protocol, redactor(instructions), is_handshake=protocol != MODERN)
        tools = self.told(protocol, {"tools": self.tools(client_name, offered, takes_tasks=False)})
        return {"name": client_name, "protocol": protocol, "greeting": greeting, "tools": tools}


def _listed(tool: Tool) -> Result:
    """Return a tool in the form of `tools/list`."""
    listed = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.schema,
        "outputSchema": tool.listed_output,
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.open_world,
        },
        "_meta": _for_claude(tool),
    }
    return {name: value for name, value in listed.items() if value is not None}


def _for_claude(tool: Tool) -> Result:
    """The `_meta` of a tool for a client that hides most tools behind a search: to show it at once, or to find it.

    Source: Claude Code 2.1.330, `_meta` of a tool.
    """
    return {"anthropic/alwaysLoad": True} if tool.is_core else {"anthropic/searchHint": tool.search_hint}


def _with_lifted_limit(tool: Result) -> Result:
    """Return the tool as listed for a client that hands on longer answers of the tools that ask for it."""
    if tool["name"] not in LIFTED_TOOLS:
        return tool
    return {**tool, "_meta": {**tool["_meta"], LIFT: LIFTED_CHARACTERS}}


def _with_tasks(tool: Result) -> Result:
    """Return the tool as listed for a client that may call it as a task."""
    return {**tool, "execution": {"taskSupport": "optional"}} if tool["name"] in WITH_TASKS else tool


@dataclass(frozen=True, slots=True)
class About:
    """The version, instructions and tools that a server offers, and where they are kept for the next time."""

    version: str
    manifest: Manifest
    """All tools of this server."""
    instructions: Callable[[str, bool], str]
    """The instructions for a client, by its name and whether it gets skills."""
    starting: Callable[[str, bool], str]
    """The same while the server starts."""
    keep: Callable[[str, str, bool, Mapping[str, object], Mapping[str, object]], None]
    """Keeps a greeting and the answer to `tools/list` for clients of this name, protocol version, and share of skills.
    """


SEARCH_BEFORE_GREETING_S = 2.0
"""The longest time that a handshake waits for the first search for REPLs: some clients give up after five seconds."""


class Results:
    """The results of one server, for all its clients. Lives as long as the server."""

    def __init__(
        self,
        services: Services,
        clients: Clients,
        resources: Resources,
        prompts: Prompts,
        broadcast: Broadcast,
        log_messages: LogMessages,
        about: About,
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
        self.beside = f",{as_json(self._first.members)[1:-1]}"
        """The members beside the answer in a tool's result, as JSON, for a client without a handshake."""
        self._settled_at = time.monotonic() + services.durations.settling_s

    def told(self, version: str, result: Result, kept: Mapping[str, Any] = FRESH) -> Result:
        """Return the result in the form of this protocol version. `kept`: for how long the client may keep it."""
        return self._first.told(version, result, kept)

    def introduce(self, client: ClientSession, name: str | None) -> None:
        """Note the client of a stateless request: its name, if the request gives one."""
        told = client.name if name is None else self._redactor(name)
        self._clients.introduce(client, name=told, handshake=client.handshake)

    def initialize(self, client: ClientSession, params: Params, _version: str) -> Result | Awaitable[Result]:
        """Open the session of a client, and return the version that both speak and how to work here.

        The session is open when this returns, so that messages sent after the request find it. While the server still
        searches for REPLs the result itself is awaited, as the instructions name what is found.
        """
        asked = params["protocolVersion"]
        about = self._first.handshake(asked, takes_skills=client.accepts_skills)
        client.requested_version, client.handshake_version = asked, about["protocolVersion"]
        client.accepts_forms = takes_forms(params["capabilities"].get("elicitation"))
        client.accepts_tasks = client.handshake_version == OLDER and "tasks" in params["capabilities"]
        name = self._redactor(params["clientInfo"]["name"])
        self._clients.introduce(client, name=name, handshake=client.handshake)
        offered = about["capabilities"]
        capabilities = {**offered, "tasks": {**TASKS_OFFERED}} if client.accepts_tasks else offered
        result = {**about, "capabilities": capabilities}
        return self._with_instructions(client, lambda words: {**result, "instructions": words})

    def _with_instructions(self, client: ClientSession, make: Callable[[str], Result]) -> Result | Awaitable[Result]:
        """Return the result that `make` builds from the client's instructions, once it is known what there is."""
        core = self._services.core
        if core.state.lifecycle.is_searching or core.state.languages_of_files is None:
            return self._with_awaited_instructions(client, make)
        return make(self._instructions(client))

    async def _with_awaited_instructions(self, client: ClientSession, make: Callable[[str], Result]) -> Result:
        with anyio.move_on_after(SEARCH_BEFORE_GREETING_S):
            await await_search(self._services.core)
            await await_languages(self._services.core)
        return make(self._instructions(client))

    def _instructions(self, client: ClientSession) -> str:
        return self._redactor(self._about.instructions(client.name, client.accepts_skills))

    def initialized(self, client: ClientSession) -> None:
        """Notify the client of changes from now on, as it knows the result of its handshake."""
        if client.handshake_version:
            self._clients.introduce(client, name=client.name, handshake=True)

    def ping(self, _client: ClientSession, _params: Params, _version: str) -> Result:
        """Return an empty result: the answer itself says that the server is there."""
        return {}

    def discover(self, client: ClientSession, _params: Params, version: str) -> Result | Awaitable[Result]:
        """Return the versions of stateless requests, and how to work here."""
        return self._with_instructions(
            client,
            lambda words: self.told(version, self._first.discovered(words, takes_skills=client.accepts_skills)),
        )

    async def tools(self, client: ClientSession, _params: Params, version: str) -> Result:
        """Return the tools on offer to this client."""
        repls = self._services.core
        await await_search(repls)
        await await_languages(repls)
        while time.monotonic() < self._settled_at and any(repl.is_coming for repl in repls.state.repls.values()):
            await anyio.sleep(CHECK_INTERVAL_S)
        offered = tools_offered(self._about.manifest, repls.state, self._services.live.settings, client.name)
        is_modern = version == MODERN
        takes_tasks = client.accepts_tasks and not is_modern
        listed = self._first.tools(client.name, offered, takes_tasks=takes_tasks)
        result = self.told(version, {"tools": listed})
        if is_modern or (client.handshake and not takes_tasks):
            takes_skills = client.accepts_skills
            words = self._redactor(self._about.starting(client.name, takes_skills))
            protocol = MODERN if is_modern else client.requested_version
            greeting = self._first.greeting(protocol, words, is_handshake=not is_modern, takes_skills=takes_skills)
            self._about.keep(client.name, protocol, takes_skills, greeting, result)
        return result

    async def resources(self, client: ClientSession, _params: Params, version: str) -> Result:
        """Return the resources that exist now."""
        return self.told(version, {"resources": await self._resources.listed(client)})

    def templates(self, client: ClientSession, _params: Params, version: str) -> Result:
        """Return the families of resources."""
        return self.told(version, {"resourceTemplates": self._resources.templates(client)})

    async def skills(self, client: ClientSession, params: Params, version: str) -> Result:
        """Return a page of the skills, with the digests of their files.

        Raises:
            RequestRefusedError: the client has no skills of this server, or the cursor is unknown.
        """
        return self.told(version, await self._resources.list_skills(client, params.get("cursor")), OF_SKILLS)

    async def skill(self, client: ClientSession, params: Params, version: str) -> Result:
        """Return one skill, with the digests of its files.

        Raises:
            RequestRefusedError: the client has no skills of this server, or none is at this address.
        """
        return self.told(version, await self._resources.get_skill(client, params["uri"]), OF_SKILLS)

    async def folder(self, client: ClientSession, params: Params, version: str) -> Result:
        """Return a page of what is in a directory of a skill.

        Raises:
            RequestRefusedError: the client has no skills of this server, there is no such directory, or the cursor is
                unknown.
        """
        found = await self._resources.read_folder(client, params["uri"], params.get("cursor"))
        return self.told(version, found, OF_SKILLS)

    def prompts(self, _client: ClientSession, _params: Params, version: str) -> Result:
        """Return the prompts."""
        return self.told(version, {"prompts": self._prompts.listed()})

    async def subscribe(self, client: ClientSession, params: Params, version: str) -> Result:
        """Tell the client of changes of a resource from now on.

        Raises:
            RequestRefusedError: there is no such resource.
        """
        self._broadcast.log_known_to(client)
        await self._resources.check(params["uri"], version, client)
        client.subscribed.add(params["uri"])
        return {}

    def unsubscribe(self, client: ClientSession, params: Params, _version: str) -> Result:
        """Tell the client no more of a resource."""
        client.subscribed.discard(params["uri"])
        return {}

    def listen(
        self,
        client: ClientSession,
        identity: str | int | None,
        asked: Params,
        tasks: frozenset[str] = frozenset(),
    ) -> None:
        """Tell the client of the changes requested, until `unlisten`. `tasks`: as `Subscriptions` has them.

        Raises:
            RequestRefusedError: the client cannot have this stream.
        """
        self._broadcast.log_known_to(client)
        self._broadcast.subscriptions.open(client, identity, asked, tasks)

    def unlisten(self, client: ClientSession, identity: str | int | None) -> None:
        """Tell the client no more on this stream."""
        self._broadcast.subscriptions.close(client, identity)

    def set_level(self, client: ClientSession, params: Params, _version: str) -> Result:
        """Send the client the log messages of this level and above from now on."""
        self._log_messages.set_level(client, params["level"])
        return {}
