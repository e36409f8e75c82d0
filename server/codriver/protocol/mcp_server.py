"""The MCP server: every connection, with the plain way in front, and the SDK behind it where a client needs it.

Older clients make the `initialize` handshake; newer ones say who they are in every request and ask for changes with
`subscriptions/listen`. Results are made in one place for both eras and both ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import anyio

from codriver.protocol.broadcast import Broadcast, Subscriptions
from codriver.protocol.calls import Caller
from codriver.protocol.log_messages import LogMessages
from codriver.protocol.plain_requests import PlainRequests
from codriver.protocol.replies import Replies
from codriver.protocol.resources import Resources
from codriver.protocol.results import Results
from codriver.protocol.stream import MessageStream
from codriver.protocol.trust_question import TrustQuestions
from codriver.wire.framing import LineRoom

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import Clients, ClientSession
    from codriver.protocol.results import About
    from codriver.protocol.stream import Behind
    from codriver.skills import SkillLibrary
    from codriver.tools.calls.base import Services

    MakesSdk: TypeAlias = Callable[["Shared"], "Sdk"]

LINE_ROOM = 4
"""The begun lines of all clients may have as many bytes as this number of longest lines."""
LEAST_LINE_ROOM_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts of one server that the plain way and the SDK share."""

    services: Services
    results: Results
    caller: Caller
    resources: Resources
    subscriptions: Subscriptions
    log_messages: LogMessages
    skills: SkillLibrary
    redactor: Redactor


class Sdk(Protocol):
    """The SDK's side of one server."""

    def connect(self, session: ClientSession, plain: PlainRequests) -> Behind:
        """The SDK's side of a client's connection."""

    async def end(self) -> None:
        """End what goes on by itself, as the server stops."""


class McpServer:
    """The MCP side of one server, shared by all its connections."""

    def __init__(
        self,
        services: Services,
        clients: Clients,
        about: About,
        *,
        redactor: Redactor,
        skills: SkillLibrary,
        load_sdk: Callable[[], MakesSdk],
    ) -> None:
        """`load_sdk` imports the SDK, which takes a moment, and gives what makes its side of this server."""
        self._load_sdk = load_sdk
        self._sdk: Sdk | None = None
        subscriptions, resources = Subscriptions(), Resources(services, skills)
        self.broadcast = Broadcast(clients, subscriptions, services.log)
        self.log_messages = LogMessages(redactor)
        self._questions = TrustQuestions(services)
        tell_of_log, ask = self.broadcast.log_grew_for, self._questions
        self.caller = Caller(services, redactor=redactor, tell_of_log=tell_of_log, questions=ask)
        results = Results(services, clients, resources, self.broadcast, self.log_messages, about, redactor)
        self._shared = Shared(
            services, results, self.caller, resources, subscriptions, self.log_messages, skills, redactor
        )
        self._room = LineRoom(max(LEAST_LINE_ROOM_BYTES, LINE_ROOM * services.settings.max_line_bytes))

    async def serve(self, session: ClientSession, receive: Callable[[], Awaitable[bytes | None]]) -> None:
        """Serve one connection until its client has left and is answered."""
        services, shared = self._shared.services, self._shared
        most = services.settings.max_requests_per_client
        plain = PlainRequests(session, shared.results, shared.caller, Replies(session), max_open_requests=most)

        async def behind() -> Behind:
            return (await self._brought_sdk()).connect(session, plain)

        stream = MessageStream(
            session,
            receive,
            max_line_bytes=services.settings.max_line_bytes,
            plain=plain,
            behind=behind,
            threads=services.work.messages,
            room=self._room,
            drain_s=services.durations.drain_s,
        )
        try:
            await stream.run()
        finally:
            self.log_messages.forget(session)
            stream.drop()
            await plain.end()

    async def _brought_sdk(self) -> Sdk:
        """The SDK's side, made for the first client that needs it. All others are served while it is imported."""
        if self._sdk is None:
            made = await anyio.to_thread.run_sync(self._load_sdk)
            if self._sdk is None:
                self._sdk = made(self._shared)
        return self._sdk

    async def end(self) -> None:
        """End what goes on by itself, as the server stops."""
        await self._questions.end()
        if self._sdk is not None:
            await self._sdk.end()
