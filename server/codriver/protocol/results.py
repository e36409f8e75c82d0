"""Results of requests, as plain data: made here alone, whichever way the request came.

A client of 2026-07-28 gets further members with each: that it is complete, whose it is, and how long a list holds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from codriver.protocol import resources
from codriver.protocol.calls import as_json
from codriver.protocol.error_messages import MODERN, OLDER, TASKS_OFFERED
from codriver.protocol.first_answers import FRESH, FirstAnswers
from codriver.protocol.trust_question import takes_forms
from codriver.tools.calls.client_traits import traits_of
from codriver.tools.calls.gate import LOOK_S, await_languages, await_search
from codriver.tools.lean_toolset import tools_offered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import Clients, ClientSession
    from codriver.protocol.broadcast import Broadcast
    from codriver.protocol.log_messages import LogMessages
    from codriver.protocol.resources import Resources
    from codriver.tools.calls.base import Services

    Params: TypeAlias = Mapping[str, Any]
    Result: TypeAlias = dict[str, Any]

SETTLING_S = 1.5
"""So long after the start a list of tools waits for the REPLs on their way: there are clients that ask for it once, as
soon as they started the server, and never again. The embedded REPLs need half a second; a JVM may need more, but an
agent that was given its task at once goes without the tools of a server that takes long."""


@dataclass(frozen=True, slots=True)
class About:
    """The words about a server that its clients are told first, and that are kept for the next time."""

    version: str
    instructions: Callable[[str], str]
    """Those of a client, by its name."""
    starting: Callable[[str], str]
    """Those that hold while the server starts."""
    keep: Callable[[ClientSession, str, Mapping[str, object]], None]
    """Given the latter, and the answer to `tools/list`."""


class Results:
    """The results of one server, for all its clients. Lives as long as it."""

    def __init__(
        self,
        services: Services,
        clients: Clients,
        resources: Resources,
        broadcast: Broadcast,
        log_messages: LogMessages,
        about: About,
        redactor: Redactor,
    ) -> None:
        self._services = services
        self._clients = clients
        self._resources = resources
        self._broadcast = broadcast
        self._log_messages = log_messages
        self._about = about
        self._redactor = redactor
        self.version = about.version
        self._first = FirstAnswers(about.version)
        self.beside = f",{as_json(self._first.members)[1:-1]}"
        """The members that a tool's result has beside its answer for a client without a handshake, as JSON."""
        self._settled_at = time.monotonic() + SETTLING_S

    def told(self, client: ClientSession, result: Result, kept: Mapping[str, Any] = FRESH) -> Result:
        """The result as the client's version of the protocol has it. `kept`: for how long the client may keep it."""
        return self._first.told(client.protocol, result, kept)

    def introduce(self, client: ClientSession, name: str | None) -> None:
        """Note who the client of a request is that says so itself, or says nothing of it."""
        client.protocol = MODERN
        told = client.name if name is None else self._redactor(name)
        self._clients.introduce(client, name=told, handshake=client.handshake)

    def initialize(self, client: ClientSession, params: Params) -> Result:
        """The handshake: the version that both speak, and how to work here."""
        asked = params["protocolVersion"]
        about = self._first.handshake(asked)
        client.protocol = about["protocolVersion"]
        client.greeting = asked, about
        client.takes_forms = takes_forms(params["capabilities"].get("elicitation"))
        client.takes_tasks = client.protocol == OLDER and "tasks" in params["capabilities"]
        name = self._redactor(params["clientInfo"]["name"])
        self._clients.introduce(client, name=name, handshake=client.handshake)
        offered = about["capabilities"]
        capabilities = {**offered, "tasks": {**TASKS_OFFERED}} if client.takes_tasks else offered
        return {**about, "capabilities": capabilities, "instructions": self._redactor(self._about.instructions(name))}

    def initialized(self, client: ClientSession) -> None:
        """The client knows the answer to its handshake, and is told from now on what changes."""
        self._clients.introduce(client, name=client.name, handshake=True)

    def ping(self, _client: ClientSession, _params: Params) -> Result:
        """Nothing: the answer itself says that the server is there."""
        return {}

    def discover(self, client: ClientSession, _params: Params) -> Result:
        """The answer to what a client without a handshake asks first: how to work here."""
        return self.told(client, self._first.discovered(self._redactor(self._about.instructions(client.name))))

    async def tools(self, client: ClientSession, _params: Params) -> Result:
        """The tools on offer to this client."""
        repls = self._services.core
        await await_search(repls)
        await await_languages(repls)
        while time.monotonic() < self._settled_at and any(repl.is_coming for repl in repls.state.repls.values()):
            await anyio.sleep(LOOK_S)
        lists_once = traits_of(client.name).lists_once
        offered = tools_offered(repls.state, self._services.live.settings, client.name, lists_once=lists_once)
        listed = self._first.tools(client.name, offered, takes_tasks=client.takes_tasks)
        result = self.told(client, {"tools": listed})
        if not client.takes_tasks and (client.protocol == MODERN or client.handshake):
            if client.greeting is None:  # the next client may ask for it
                client.greeting = MODERN, self.discover(client, {})
            self._about.keep(client, self._redactor(self._about.starting(client.name)), result)
        return result

    def resources(self, client: ClientSession, _params: Params) -> Result:
        """The resources there are now."""
        told = ("name", "description")
        listed = [{**one, **{name: self._redactor(one[name]) for name in told}} for one in self._resources.listed()]
        return self.told(client, {"resources": listed})

    def templates(self, client: ClientSession, _params: Params) -> Result:
        """The families of resources."""
        return self.told(client, {"resourceTemplates": self._resources.templates()})

    def prompts(self, client: ClientSession, _params: Params) -> Result:
        """The prompts."""
        return self.told(client, {"prompts": resources.listed()})

    async def subscribe(self, client: ClientSession, params: Params) -> Result:
        """Tell the client of changes of a resource from now on.

        Raises:
            RequestRefusedError: there is no such resource.
        """
        self._broadcast.log_known_to(client)
        await self._resources.check(params["uri"], client.protocol)
        client.subscribed.add(params["uri"])
        return {}

    def unsubscribe(self, client: ClientSession, params: Params) -> Result:
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
        """Tell the client of the changes that it asks for, until `unlisten`. `tasks`: as `Subscriptions` has them.

        Raises:
            RequestRefusedError: it cannot have this stream.
        """
        self._broadcast.log_known_to(client)
        self._broadcast.subscriptions.open(client, identity, asked, tasks)

    def unlisten(self, client: ClientSession, identity: str | int | None) -> None:
        """Tell the client no more on this stream."""
        self._broadcast.subscriptions.close(client, identity)

    def set_level(self, client: ClientSession, params: Params) -> Result:
        """Send the client the log messages of this level and above from now on."""
        self._log_messages.set_level(client, params["level"])
        return {}
