"""One MCP connection as the SDK wants to see it: a stream of messages to read, and one to write.

What is no message never reaches the SDK: it is answered here as JSON-RPC demands, and the connection goes on.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from mcp_types.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json

from codriver.errors import PeerError
from codriver.protocol.error_messages import (
    TOO_MANY,
    HugeInteger,
    Refusal,
    read_json,
    refusal,
)
from codriver.protocol.surrogates import has_halves, with_plain_ids, without_halves
from codriver.wire.framing import LineDecoder, LinesCrowdedError
from codriver.wire.json_weight import Excess, excess, may_be_heavy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from codriver.net.client_sessions import ClientSession
    from codriver.net.fair_threads import Shares
    from codriver.protocol.calls import PlainCalls
    from codriver.wire.framing import LineRoom

LIGHT_BYTES = 64 * 1024
"""A line up to here is read at once, whatever is in it: it takes milliseconds at most."""
AT_ONCE_BYTES = 2**20
"""A line beyond this is read in a thread, one at a time."""

STANDING = "subscriptions/listen"
"""The one request that is answered only when the connection ends."""

UNSAID: dict[str, object] = {
    "protocolVersion": HANDSHAKE_PROTOCOL_VERSIONS[0],
    "capabilities": {},
    "clientInfo": {"name": "", "version": ""},
}
"""The parameters of a client that says nothing of itself, as those of Backseat Driver may."""
INITIALIZE, DISCOVER = "initialize", "server/discover"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
BATCHED = "2025-03-26"
"""The one version of the protocol with batches: it was the first that said so, and the next took them out again."""
BOM = b"\xef\xbb\xbf"
"""The mark with which some editors and shells begin all UTF-8. Before the first line it says nothing."""

PROBE_S = 0.1
PROBE = b" "
"""Sent to such a client, as one that is gone altogether looks the same until something is sent to it. Before the next
message it is space, which JSON allows there."""


class MessageStream:
    """Both directions of one connection.

    `receive` gives the next bytes: empty when the client has said all it will, None when the connection is broken.
    `calls` takes plain tool calls out of what is read; the SDK never sees them. All answers go by its `replies`.
    `threads` are for reading long lines; `room` bounds what the begun lines of all connections hold. A client that has
    said all it will is kept for `drain_s` to hear the answers that are still to come.
    `redact` takes the secrets out of errors, which repeat what was asked; results come without any.
    """

    def __init__(
        self,
        session: ClientSession,
        receive: Callable[[], Awaitable[bytes | None]],
        *,
        max_line_bytes: int,
        redact: Callable[[object], object],
        calls: PlainCalls,
        threads: Shares,
        room: LineRoom,
        drain_s: float,
    ) -> None:
        self._session = session
        self._drain_s = drain_s
        self._receive = receive
        self._reading: anyio.CancelScope | None = None
        self._lines = LineDecoder(max_line_bytes=max_line_bytes, room=room, on_given_up=self._stop_reading)
        self._threads = threads
        self._redact = redact
        self._calls = calls
        self._replies = calls.replies
        self._has_begun = False
        self._ready: list[SessionMessage] = []
        """Messages that are not taken yet, the last one first."""
        self._ended = False
        session.take_at_once = self._take_at_once

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self._ready:
            if self._ended:
                await self._drain()
                raise StopAsyncIteration
            await self._session.outbox.wait_for_room()
            data = await self._more()
            if data is None:
                self._session.open_requests.clear()
            if not data:
                self._session.has_left = self._ended = True
                continue
            await self._take(data)
        return self._ready.pop()

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            anyio.EndOfStream: there is none, and all that were read are answered or given up.
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def _more(self) -> bytes | None:
        """The next bytes; a newline where the line that they would go on was given up, so that its fate is told."""
        if not self._lines.is_counted:
            return await self._receive()
        with anyio.CancelScope() as self._reading:
            return await self._receive()
        return b"\n"

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def drop(self) -> None:
        """Let go of what was read, as nobody reads on."""
        self._lines.drop()

    def _take_at_once(self, data: bytes) -> bool:
        """Take in a plain call, if that is all that came; whether it was. Nothing else waits to be read.

        Nearly everything that comes is one. So no task has to be woken to read it, and another one to run it.
        """
        if len(data) > LIGHT_BYTES or self._session.outbox.is_congested:
            return False
        line = self._lines.whole(data)
        return line is not None and not has_halves(line) and self._calls.take(line)

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
                elif self._replies.version == BATCHED and line.lstrip()[:1] == b"[":
                    self._take_batch(line)
                elif line:
                    self._take_message(line, read)
        except PeerError as error:
            self._replies.refuse_line(str(error))
            self._ended = True
        self._ready.reverse()

    async def _read_long(self, line: bytes) -> object:
        """The JSON value in a long line, or the excess in it, which is counted before anything is built.

        One beyond a megabyte is read in a thread, one after another: None for what is not, and for what is no JSON.

        Raises:
            LinesCrowdedError: while it waits for that, there is no room for it.
        """
        if len(line) <= AT_ONCE_BYTES:
            return await self._threads.run(self._session.id, partial(excess, line)) if may_be_heavy(line) else None
        try:
            with anyio.CancelScope() as self._reading:
                self._lines.keep(len(line))
                return await self._threads.run(self._session.id, partial(_weighed, line))
        finally:
            self._lines.keep(0)
        raise self._lines.fault or LinesCrowdedError(len(line), 0)

    def _refuse_excess(self, found: Excess) -> None:
        identity = read_json(found.identity) if found.identity is not None else None
        text = f"this line has {found.problem}: no more is read, so send it in several messages, or flatter"
        self._replies.refuse(Refusal(None if isinstance(identity, HugeInteger) else identity, INVALID_REQUEST, text))

    def _take_batch(self, line: bytes) -> None:
        """Take in an array of messages, as the one version with batches has them."""
        try:
            items = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse_line(line)
            return
        if not items:
            self._replies.refuse_line("a batch holds at least one message")
        elif len(items) > (most := self._calls.max_open_requests):
            text = f"a batch of {len(items)} messages is more than a client may have open: {most}"
            self._replies.refuse_line(text)
        else:
            with self._replies.batch():
                for item in items:
                    self._take_message(json.dumps(item).encode(), in_batch=True)

    def _take_message(self, line: bytes, read: object = None, *, in_batch: bool = False) -> None:
        """Take in one message. `read`: the JSON of the message, if already parsed."""
        if read is None and has_halves(line):
            line = self._mended(line)
        if self._calls.take(line, read):
            return
        message = self._parse(line, in_batch=in_batch)
        if message is not None:
            self._ready.append(SessionMessage(message))

    def _mended(self, line: bytes) -> bytes:
        """The line with no half of a character pair in it."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return line
        if isinstance(value, dict):
            value, names = with_plain_ids(value)
            self._replies.name(names)
        return without_halves(json.dumps(value).encode())

    def _parse(
        self, line: bytes, *, in_batch: bool
    ) -> JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError | None:
        """The message in a line; None when it is none, and then it is answered."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            self._refuse_line(line)
            return None
        if isinstance(message, JSONRPCRequest):
            return self._open(message, len(line), in_batch=in_batch)
        if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
            # An id that is null, a fraction or a boolean is no id: the sender expects an answer it cannot get.
            self._replies.refuse_line("the id of a request must be a string or an integer")
            return None
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            # A cancelled request gets no answer, so it is not open any more.
            cancelled = (message.params or {}).get("requestId")
            self._replies.forget(cancelled)
            self._calls.cancel(cancelled)
        return message

    def _open(self, request: JSONRPCRequest, size: int, *, in_batch: bool) -> JSONRPCRequest | None:
        if request.method == INITIALIZE and not request.params:
            request = request.model_copy(update={"params": UNSAID})
        refused = self._refused(request, size, in_batch=in_batch)
        if refused is not None:
            self._replies.refuse(refused)
            return None
        if request.method == INITIALIZE or self._replies.version is None:
            self._replies.version = version_of(request)
        if request.method != STANDING or in_batch:
            self._replies.expect(request.id, size)
        return request

    def _refused(self, request: JSONRPCRequest, size: int, *, in_batch: bool) -> Refusal | None:
        """Why a request goes no further; None when it does."""
        too_much = self._calls.too_much(size)
        if too_much is not None:
            return Refusal(request.id, TOO_MANY, too_much)
        if request.method == INITIALIZE and in_batch:
            return Refusal(request.id, INVALID_REQUEST, "initialize must not be part of a batch: send it by itself")
        if request.method == DISCOVER and version_of(request) is None:
            # The SDK would take the connection for one with a handshake, for good.
            return Refusal(request.id, INVALID_PARAMS, f"{DISCOVER} needs params._meta with {VERSION_KEY!r}")
        return None

    def _refuse_line(self, line: bytes) -> None:
        refused = refusal(line)
        if refused is not None:
            self._replies.refuse(refused)

    async def _drain(self) -> None:
        with anyio.move_on_after(self._drain_s):
            while self._session.open_requests:
                with anyio.move_on_after(PROBE_S) as silence:
                    await self._session.open_requests.wait_removed()
                if silence.cancelled_caught:
                    self._session.outbox.offer(PROBE)

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message for the client. Never waits: the outbox bounds what may be lost."""
        message = item.message
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
        """Nothing: the listener owns the socket and closes it when all is written."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        return None


def _weighed(line: bytes) -> object:
    """The JSON value in a line, or the excess in it; None for no JSON."""
    found = excess(line) if may_be_heavy(line) else None
    if found is not None:
        return found
    try:
        return from_json(line)
    except ValueError:
        return None


def version_of(request: JSONRPCRequest) -> str | None:
    """The protocol version that a request settles; None when it says nothing of it."""
    params = request.params or {}
    if request.method == INITIALIZE:
        # An unknown one is answered with the newest that has a handshake.
        wanted = params.get("protocolVersion")
        return wanted if wanted in HANDSHAKE_PROTOCOL_VERSIONS else HANDSHAKE_PROTOCOL_VERSIONS[-1]
    meta = params.get("_meta")
    version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None
