"""The MCP server: every connection from its bytes to its messages, each answered on the plain way or by the SDK.

Each request decides its protocol era by itself. One with the envelope of 2026-07-28 is stateless and describes its
client; any other belongs to the session that `initialize` opens. One connection may have both side by side, as one
client with one set of evaluations, tasks and notes. Results are made in one place for both eras and both ways. A line
that is no message never reaches the SDK's loops: it is answered as JSON-RPC demands, and the connection goes on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio
from pydantic_core import from_json

from codriver.errors import PeerError
from codriver.protocol.broadcast import Broadcast
from codriver.protocol.calls import Caller
from codriver.protocol.error_messages import (
    BATCHED,
    CALL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    HugeInteger,
    Refusal,
    read_json,
)
from codriver.protocol.log_messages import LogMessages
from codriver.protocol.lone_surrogates import has_halves, with_plain_ids, without_halves
from codriver.protocol.plain_requests import PlainRequests
from codriver.protocol.prompts import Prompts
from codriver.protocol.replies import Replies
from codriver.protocol.resources import Resources
from codriver.protocol.results import Results
from codriver.protocol.subscriptions import Subscriptions
from codriver.protocol.trust_question import TrustQuestions
from codriver.wire.framing import LineBudget, LineDecoder, LinesCrowdedError
from codriver.wire.untrusted import Excess, excess, may_be_heavy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import Clients, ClientSession
    from codriver.net.fair_threads import Shares
    from codriver.protocol.results import About
    from codriver.server_hooks import Prompt, ResourceFamily
    from codriver.skills import SkillLibrary
    from codriver.tools.calls.call import Services

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
    prompts: Prompts
    subscriptions: Subscriptions
    log_messages: LogMessages
    skills: SkillLibrary
    redactor: Redactor


class Sdk(Protocol):
    """The SDK's side of one server."""

    def connect(self, session: ClientSession, plain: PlainRequests) -> Behind:
        """Return the SDK's side of a client's connection."""

    async def end(self) -> None:
        """End the background tasks, as the server stops."""


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
        resources: Sequence[ResourceFamily] = (),
        prompts: Sequence[Prompt] = (),
    ) -> None:
        """`load_sdk` imports the SDK, which takes a moment, and gives the maker of the SDK's side of this server.

        `resources`, `prompts`: those of features.
        """
        self._load_sdk = load_sdk
        self._sdk: Sdk | None = None
        subscriptions, served = Subscriptions(), Resources(services, skills, redactor, resources)
        prompts_served = Prompts(services, redactor, prompts)
        self.broadcast = Broadcast(clients, subscriptions, services.log)
        self.log_messages = LogMessages(redactor)
        self._questions = TrustQuestions(services)
        tell_of_log, ask = self.broadcast.log_grew_for, self._questions
        self.caller = Caller(services, about.manifest, redactor=redactor, tell_of_log=tell_of_log, questions=ask)
        results = Results(services, clients, served, prompts_served, self.broadcast, self.log_messages, about, redactor)
        self._shared = Shared(
            services, results, self.caller, served, prompts_served, subscriptions, self.log_messages, skills, redactor
        )
        self._room = LineBudget(max(LEAST_LINE_ROOM_BYTES, LINE_ROOM * services.live.settings.max_line_bytes))

    async def serve(self, session: ClientSession, receive: Callable[[], Awaitable[bytes | None]]) -> None:
        """Serve one connection until its client has left and is answered."""
        services, shared = self._shared.services, self._shared
        most = services.live.settings.max_requests_per_client
        plain = PlainRequests(session, shared.results, shared.caller, Replies(session), max_open_requests=most)

        async def behind() -> Behind:
            return (await self._brought_sdk()).connect(session, plain)

        stream = MessageStream(
            session,
            receive,
            max_line_bytes=services.live.settings.max_line_bytes,
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
        """Return the SDK's side, made for the first client that needs it.

        All other clients are served during the import.
        """
        if self._sdk is None:
            made = await anyio.to_thread.run_sync(self._load_sdk)
            if self._sdk is None:
                self._sdk = made(self._shared)
        return self._sdk

    async def end(self) -> None:
        """End the background tasks, as the server stops."""
        await self._questions.end()
        if self._sdk is not None:
            await self._sdk.end()


HALF_IN_CALL = (
    "an argument has half of a surrogate pair, which no UTF-8 text can hold: nothing was done; send the whole "
    "character, or in code its escape"
)
LIGHT_BYTES = 64 * 1024
"""A line of at most so many bytes is read at once, whatever its content: that takes milliseconds at most."""
AT_ONCE_BYTES = 2**20
"""A line beyond this is read in a thread, one at a time."""
BOM = b"\xef\xbb\xbf"
"""The mark with which some editors and shells begin all UTF-8. Before the first line the mark means nothing."""

PROBE_S = 0.1
PROBE = b" "
"""Sent to a client that has ended its input: a vanished client looks the same until something is sent to it. Before the
next message the byte is space, which JSON allows there."""


class Behind(Protocol):
    """The SDK's side of one connection."""

    async def run(self) -> None:
        """Answer the messages handed over, until no more come."""

    async def hear(self, said: Iterable[Mapping[str, Any]]) -> None:
        """Take in the client's earlier description of itself, without a second answer."""

    def read(self, line: bytes, *, in_batch: bool = False) -> Any | None:
        """Return the message in a line; None for a line that is no message, which is then answered."""

    async def take(self, message: Any) -> None:
        """Take in a message that was read."""

    def end(self) -> None:
        """Note that no more messages come."""


class MessageStream:
    """The messages of one client, read until it has left and is answered.

    `receive` gives the next bytes: empty once the client has ended its input, None when the connection is broken.
    `plain` takes plain requests out of what is read; the SDK never sees them. All answers go by its `replies`. `behind`
    brings the SDK, which is imported for the first client that needs it. `threads` are for reading long lines; `room`
    bounds the bytes in the begun lines of all connections. A client that has ended its input is kept for `drain_s` to
    get the answers that are still to come.
    """

    def __init__(
        self,
        session: ClientSession,
        receive: Callable[[], Awaitable[bytes | None]],
        *,
        max_line_bytes: int,
        plain: PlainRequests,
        behind: Callable[[], Awaitable[Behind]],
        threads: Shares,
        room: LineBudget,
        drain_s: float,
    ) -> None:
        self._session = session
        self._drain_s = drain_s
        self._receive = receive
        self._reading: anyio.CancelScope | None = None
        self._lines = LineDecoder(max_line_bytes=max_line_bytes, budget=room, on_given_up=self._stop_reading)
        self._threads = threads
        self._plain = plain
        self._replies = plain.replies
        self._open_behind = behind
        self._behind: Behind | None = None
        self._has_begun = False
        self._ended = False
        session.read_immediately = self._take_at_once

    async def run(self) -> None:
        """Read until the client has left, and all requests that were read are answered or given up."""
        async with anyio.create_task_group() as self._tasks:
            while not self._ended:
                await self._session.outbox.wait_for_space()
                data = await self._more()
                if data is None:
                    self._session.open_requests.clear()
                if data:
                    await self._take(data)
                else:
                    self._session.has_left = self._ended = True
            await self._drain()
            if data is not None:
                self._plain.hang_up()
            if self._behind is not None:
                self._behind.end()

    async def _more(self) -> bytes | None:
        """The next bytes; a newline if the line that they continue was given up, so that its fate is told."""
        if not self._lines.is_counted:
            return await self._receive()
        with anyio.CancelScope() as self._reading:
            return await self._receive()
        return b"\n"

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def drop(self) -> None:
        """Drop the bytes that were read, as no one reads on."""
        self._lines.drop()

    def _take_at_once(self, data: bytes) -> bool:
        """Take in a plain request, if nothing else was read; true if it was one.

        Nearly every message is one. So no task has to be woken to read it, and another one to run it.
        """
        if len(data) > LIGHT_BYTES or self._session.outbox.is_congested:
            return False
        line = self._lines.whole(data)
        return line is not None and not has_halves(line) and self._plain.take(line)

    async def _take(self, data: bytes) -> None:
        try:
            lines = self._lines.feed(data)
            if lines and not self._has_begun:
                self._has_begun = True
                lines[0] = lines[0].removeprefix(BOM)
            for line in lines:
                read = None
                if len(line) > LIGHT_BYTES:
                    read = await self._read_long(line)
                if isinstance(read, Excess):
                    self._refuse_excess(read)
                elif self._session.handshake_version == BATCHED and line.lstrip()[:1] == b"[":
                    await self._take_batch(line)
                elif line:
                    await self._take_whole(self._whole(line) if read is None else line, read)
        except PeerError as error:
            self._replies.refuse_line(str(error))
            self._ended = True

    async def _take_whole(self, line: bytes | None, read: object) -> None:
        if line is not None and not self._plain.take(line, read):
            behind = await self._brought()
            await self._hand_on(behind, behind.read(line))

    async def _brought(self) -> Behind:
        """Return the SDK's side, which knows the client's description of itself."""
        if self._behind is None:
            self._behind = await self._open_behind()
            self._plain.has_sdk = True
            self._tasks.start_soon(self._behind.run)
            await self._behind.hear(self._plain.said())
        return self._behind

    async def _hand_on(self, behind: Behind, message: object) -> None:
        if message is not None:
            await behind.take(message)

    async def _read_long(self, line: bytes) -> object:
        """The JSON value in a long line, or the excess in it, which is counted before anything is built.

        A line beyond a megabyte is read in a thread, one after another: None for a shorter line, and for no JSON.

        Raises:
            LinesCrowdedError: no room is left for the line while it waits for the thread.
        """
        if len(line) <= AT_ONCE_BYTES:
            return await self._threads.run(self._session.id, partial(excess, line)) if may_be_heavy(line) else None
        try:
            with anyio.CancelScope() as self._reading:
                self._lines.reserve(len(line))
                return await self._threads.run(self._session.id, partial(_weighed, line))
        finally:
            self._lines.reserve(0)
        raise self._lines.error or LinesCrowdedError(len(line), 0)

    def _refuse_excess(self, found: Excess) -> None:
        identity = read_json(found.identity) if found.identity is not None else None
        text = f"this line has {found.error}: no more is read, so send it in several messages, or flatter"
        self._replies.refuse(Refusal(None if isinstance(identity, HugeInteger) else identity, INVALID_REQUEST, text))

    async def _take_batch(self, line: bytes) -> None:
        """Take in an array of messages, as the one version with batches has them."""
        behind = await self._brought()
        try:
            items = json.loads(line)
        except (ValueError, RecursionError):
            await self._hand_on(behind, behind.read(line))
            return
        if not items:
            self._replies.refuse_line("a batch holds at least one message")
        elif len(items) > (most := self._plain.max_open_requests):
            text = f"a batch of {len(items)} messages is more than a client may have open: {most}"
            self._replies.refuse_line(text)
        else:
            with self._replies.batch():
                whole = [self._whole(json.dumps(item).encode()) for item in items]
                lines = [line for line in whole if line is not None]
                left = [behind.read(one, in_batch=True) for one in lines if not self._plain.take(one)]
            for message in left:
                await self._hand_on(behind, message)

    def _whole(self, line: bytes) -> bytes | None:
        """Return the line without halves of surrogate pairs; None for a call that has one, which is then refused.

        A half in an argument is no text that a file or a REPL could take, and would become another one unnoticed.
        """
        if not has_halves(line):
            return line
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return line
        if isinstance(value, dict):
            value, names = with_plain_ids(value)
            self._replies.name(names)
            identity = value.get("id")
            if isinstance(identity, str | int) and has_halves(json.dumps(_arguments_of(value)).encode()):
                self._replies.refuse(Refusal(identity, INVALID_PARAMS, HALF_IN_CALL))
                return None
        return without_halves(json.dumps(value).encode())

    async def _drain(self) -> None:
        with anyio.move_on_after(self._drain_s):
            while self._session.open_requests:
                with anyio.move_on_after(PROBE_S) as silence:
                    await self._session.open_requests.wait_removed()
                if silence.cancelled_caught:
                    self._session.outbox.offer(PROBE)


def _weighed(line: bytes) -> object:
    """Return the JSON value in a line, or the excess in it; None for no JSON."""
    found = excess(line) if may_be_heavy(line) else None
    if found is not None:
        return found
    try:
        return from_json(line)
    except ValueError:
        return None


def _arguments_of(message: dict[str, Any]) -> object:
    """Return the arguments of a tool call; None for any other message."""
    params = message.get("params")
    return params.get("arguments") if message.get("method") == CALL and isinstance(params, dict) else None
