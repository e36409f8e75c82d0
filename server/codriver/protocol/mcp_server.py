"""The MCP server, which reads messages from each connection and answers them.

Each request determines its own protocol era. A request with the envelope of 2026-07-28 is stateless and describes its
client. Any other belongs to the session opened by `initialize`. A connection may use both, as one client with one set
of evaluations, tasks and notes. Results for both are created in one place. A line that is not a message never reaches
the SDK: it is answered as JSON-RPC requires, and the connection continues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import anyio

from codriver.protocol.broadcast import Broadcast
from codriver.protocol.calls import ToolRunner
from codriver.protocol.log_messages import LogMessages
from codriver.protocol.message_stream import MessageStream
from codriver.protocol.prompts import Prompts
from codriver.protocol.replies import Replies
from codriver.protocol.requests_without_sdk import PlainRequests
from codriver.protocol.resources import Resources
from codriver.protocol.results import Results
from codriver.protocol.subscriptions import Subscriptions
from codriver.protocol.trust_question import TrustDecisions
from codriver.wire.framing import LineBudget

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import Clients, ClientSession
    from codriver.protocol.message_stream import SdkChannel
    from codriver.protocol.results import ServerOffer
    from codriver.server_hooks import Prompt, ResourceFamily
    from codriver.skills import SkillLibrary
    from codriver.tools.calls.call import Services

    MakesSdk: TypeAlias = Callable[["SharedParts"], "Sdk"]


MAX_UNFINISHED_LINES = 4
"""Limit for the incomplete lines from all clients together, as a multiple of the maximum length of a line."""
MIN_UNFINISHED_BYTES = 2**20
"""Lower bound for the limit on incomplete lines, in bytes."""


@dataclass(frozen=True, slots=True)
class SharedParts:
    """The parts of a server that are used both for plain requests and by the SDK."""

    services: Services
    results: Results
    caller: ToolRunner
    resources: Resources
    prompts: Prompts
    subscriptions: Subscriptions
    log_messages: LogMessages
    skills: SkillLibrary
    redactor: Redactor


class Sdk(Protocol):
    """The interface of the part of a server that uses the SDK."""

    def connect(self, session: ClientSession, plain: PlainRequests) -> SdkChannel:
        """Create the part of a connection that uses the SDK."""

    async def end(self) -> None:
        """Stop the background tasks."""


class McpServer:
    """The MCP part of a server, which serves all its clients."""

    def __init__(
        self,
        services: Services,
        clients: Clients,
        about: ServerOffer,
        *,
        redactor: Redactor,
        skills: SkillLibrary,
        load_sdk: Callable[[], MakesSdk],
        resources: Sequence[ResourceFamily] = (),
        prompts: Sequence[Prompt] = (),
    ) -> None:
        """Create the server.

        `load_sdk` imports the SDK, which takes a moment, and returns a function that creates the part of
        the server that uses the SDK. `resources` and `prompts` are the resources and prompts that features provide.
        """
        self._load_sdk = load_sdk
        self._sdk: Sdk | None = None
        subscriptions, served = Subscriptions(), Resources(services, about.manifest, skills, redactor, resources)
        prompts_served = Prompts(services, redactor, prompts)
        self.broadcast = Broadcast(clients, subscriptions, services.log)
        self.log_messages = LogMessages(redactor)
        self._decisions = TrustDecisions(services)
        notify_of_log, decisions = self.broadcast.notify_client_of_log_growth, self._decisions
        self.caller = ToolRunner(
            services, about.manifest, redactor=redactor, notify_of_log=notify_of_log, decisions=decisions
        )
        results = Results(services, clients, served, prompts_served, self.broadcast, self.log_messages, about, redactor)
        self._shared = SharedParts(
            services, results, self.caller, served, prompts_served, subscriptions, self.log_messages, skills, redactor
        )
        self._line_budget = LineBudget(
            max(MIN_UNFINISHED_BYTES, MAX_UNFINISHED_LINES * services.live.settings.max_line_bytes)
        )

    async def serve(self, session: ClientSession, receive: Callable[[], Awaitable[bytes | None]]) -> None:
        """Serve a connection until its client has disconnected and its requests are answered."""
        services, shared = self._shared.services, self._shared
        most = services.live.settings.max_requests_per_client
        plain = PlainRequests(session, shared.results, shared.caller, Replies(session), max_open_requests=most)

        async def open_sdk_channel() -> SdkChannel:
            return (await self._load_sdk_once()).connect(session, plain)

        stream = MessageStream(
            session,
            receive,
            max_line_bytes=services.live.settings.max_line_bytes,
            plain=plain,
            open_sdk_channel=open_sdk_channel,
            threads=services.work.messages,
            line_budget=self._line_budget,
            drain_s=services.durations.drain_s,
        )
        try:
            await stream.run()
        finally:
            self.log_messages.remove_client(session)
            stream.discard_buffer()
            await plain.stop_all()

    async def _load_sdk_once(self) -> Sdk:
        """Return the part of the server that uses the SDK, creating it for the first client that needs it.

        Other clients are served while the SDK is imported.
        """
        if self._sdk is None:
            made = await anyio.to_thread.run_sync(self._load_sdk)
            if self._sdk is None:
                self._sdk = made(self._shared)
        return self._sdk

    async def end(self) -> None:
        """Stop the background tasks."""
        await self._decisions.stop()
        if self._sdk is not None:
            await self._sdk.end()
