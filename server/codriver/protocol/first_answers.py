"""First answers of a server: its greeting and its list of tools, made of a state and settings alone.

So they can be made of a state that is expected, too, before there is a server.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from codriver.protocol.error_messages import HANDSHAKE_VERSIONS, MODERN, SERVER_KEY, TASKS
from codriver.tools.calls.client_traits import LIFTED_CHARACTERS, LIFTED_TOOLS, traits_of
from codriver.tools.lean_toolset import LEAN
from codriver.tools.manifest import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codriver.log.redaction import Redactor
    from codriver.tools.calls.base import Tool

    Result: TypeAlias = dict[str, Any]

NAME, TITLE = "codriver", "Codriver"
CAPABILITIES: Mapping[str, Any] = MappingProxyType(
    {
        "completions": {},
        "logging": {},
        "prompts": {"listChanged": False},  # that list is part of the program
        "resources": {"listChanged": True, "subscribe": True},
        "tools": {"listChanged": True},
    }
)
WITH_TASKS = frozenset({"evaluate_code", "load_file", "run_cell", "run_tests"})
"""The tools that a client of 2025-11-25 may call as tasks, if it knows them."""
COMPLETE: Mapping[str, Any] = MappingProxyType({"resultType": "complete"})
"""Source: MCP 2026-07-28, results."""
FRESH: Mapping[str, Any] = MappingProxyType({"ttlMs": 0, "cacheScope": "private"})
"""For lists that may be others at any time. Source: MCP 2026-07-28, caching."""

LIFT = "anthropic/maxResultSizeChars"
"""In the `_meta` of a tool: the longest answer that is handed on. Source: Claude Code 2.1.330, observed."""


class FirstAnswers:
    """The answers of a server of one version to what clients ask first."""

    def __init__(self, version: str) -> None:
        self._info = {"name": NAME, "title": TITLE, "version": version}
        self.members = {**COMPLETE, "_meta": {SERVER_KEY: self._info}}
        """What a client of 2026-07-28 gets with each result."""
        whole = (*MANIFEST, *LEAN)
        self._listed = {id(tool): _listed(tool) for one in whole for tool in (one, one.elsewhere) if tool is not None}

    def told(self, protocol: str, result: Result, kept: Mapping[str, Any] = FRESH) -> Result:
        """The result as that version of the protocol has it. `kept`: for how long the client may keep it."""
        return {**result, **kept, **self.members} if protocol == MODERN else result

    def handshake(self, asked: str) -> Result:
        """The answer to an `initialize` that asks for this version of the protocol, without instructions."""
        protocol = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {"protocolVersion": protocol, "capabilities": {**CAPABILITIES}, "serverInfo": self._info}

    @staticmethod
    def discovered(instructions: str) -> Result:
        """The answer to `server/discover`."""
        capabilities = {**CAPABILITIES, "extensions": {TASKS: {}}}
        return {"supportedVersions": [MODERN], "capabilities": capabilities, "instructions": instructions}

    def tools(self, client_name: str, offered: Iterable[Tool], *, takes_tasks: bool) -> list[Result]:
        """The tools that are `offered` to the client of this name, as they are listed."""
        traits = traits_of(client_name)
        shown = [self._listed[id(tool)] for tool in offered]
        if takes_tasks:
            shown = [_with_tasks(tool) for tool in shown]
        if not traits.takes_structure:
            shown = [{name: value for name, value in tool.items() if name != "outputSchema"} for tool in shown]
        return [_with_lifted_limit(tool) for tool in shown] if traits.lifts_limit else shown

    def to_keep(
        self, client_name: str, protocol: str, redactor: Redactor, instructions: str, offered: Iterable[Tool]
    ) -> Result:
        """The greeting and the list that a client of this name and protocol is to get, as they are kept for relays."""
        words = redactor(instructions)
        greeting = self.told(protocol, self.discovered(words))
        if protocol != MODERN:
            greeting = {**self.handshake(protocol), "instructions": words}
        tools = self.told(protocol, {"tools": self.tools(client_name, offered, takes_tasks=False)})
        return {"name": client_name, "protocol": protocol, "greeting": greeting, "tools": tools}


def _listed(tool: Tool) -> Result:
    """A tool as it is listed."""
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
    """The tool as it is listed for a client that hands on longer answers of those that ask for it."""
    if tool["name"] not in LIFTED_TOOLS:
        return tool
    return {**tool, "_meta": {**tool["_meta"], LIFT: LIFTED_CHARACTERS}}


def _with_tasks(tool: Result) -> Result:
    """The tool as it is listed for a client that may call it as a task."""
    return {**tool, "execution": {"taskSupport": "optional"}} if tool["name"] in WITH_TASKS else tool
