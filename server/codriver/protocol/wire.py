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
from pydantic import ValidationError
from pydantic_core import from_json

from codriver.errors import PeerError
from codriver.wire.lines import LineDecoder, LinesCrowdedError
from codriver.wire.weight import MAX_DEPTH, Excess, excess, may_be_heavy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from codriver.protocol.calls import PlainCalls
    from codriver.session import ClientSession
    from codriver.shares import Shares
    from codriver.wire.lines import LineRoom

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
TOO_MANY = -32000

TOO_DEEP = f"this line nests arrays and objects more than {MAX_DEPTH} deep: no more is read, so send it flatter"

LIGHT_BYTES = 64 * 1024
"""A line up to here is read at once, whatever is in it: it takes milliseconds at most."""
AT_ONCE_BYTES = 2**20
"""A line beyond this is read in a thread, one at a time."""

STANDING = "subscriptions/listen"
"""The one request that is answered only when the connection ends."""

DRAIN_S = 5.0
"""How long a client that has said all it will is kept to hear the answers that are still to come."""
PROBE_S = 0.1
PROBE = b" "
"""Sent to such a client, as one that is gone altogether looks the same until something is sent to it. Before the next
message it is space, which JSON allows there."""


class Wire:
    """Both directions of one connection.

    `receive` gives the next bytes: empty when the client has said all it will, None when the connection is broken.
    `calls` takes plain tool calls out of what is read; the SDK never sees them.
    `threads` are for reading long lines; `room` bounds what the begun lines of all connections hold.
    `redact` takes the secrets out of errors, which repeat what was asked; results come without any.
    """

    def __init__(
        self,
        session: ClientSession,
        receive: Callable[[], Awaitable[bytes | None]],
        *,
        max_line_bytes: int,
        max_open_requests: int,
        redact: Callable[[object], object],
        calls: PlainCalls,
        threads: Shares | None = None,
        room: LineRoom | None = None,
    ) -> None:
        self._session = session
        self._receive = receive
        self._reading = anyio.CancelScope()
        self._lines = LineDecoder(max_line_bytes=max_line_bytes, room=room, on_given_up=self._stop_reading)
        self._threads = threads
        self._max_open_requests = max_open_requests
        self._redact = redact
        self._calls = calls
        self._ready: list[SessionMessage] = []
        """Messages that are not taken yet, the last one first."""
        self._ended = False

    # Reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self._ready:
            if self._ended:
                await self._settle()
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
        self._reading.cancel()

    def drop(self) -> None:
        """Let go of what was read, as nobody reads on."""
        self._lines.drop()

    async def _take(self, data: bytes) -> None:
        try:
            lines = self._lines.feed(data)
            for line in lines:
                read = None
                if len(line) > LIGHT_BYTES and self._threads is not None:
                    read = await self._read_long(line, self._threads)
                    if isinstance(read, Excess):
                        self._refuse_excess(read)
                        continue
                if self._calls.take(line, read):
                    continue
                message = self._parse(line)
                if message is not None:
                    self._ready.append(SessionMessage(message))
        except PeerError as error:
            self._refuse(None, INVALID_REQUEST, str(error))
            self._ended = True
        self._ready.reverse()

    async def _read_long(self, line: bytes, threads: Shares) -> object:
        """What a long line holds, or what it has too much of: counted before anything is built of it.

        One beyond a megabyte is read in a thread, one after another: None for what is not, and for what is no JSON.

        Raises:
            LinesCrowdedError: while it waits for that, there is no room for it.
        """
        if len(line) <= AT_ONCE_BYTES:
            return await threads.run(self._session.id, partial(excess, line)) if may_be_heavy(line) else None
        try:
            with anyio.CancelScope() as self._reading:
                self._lines.keep(len(line))
                return await threads.run(self._session.id, partial(_weighed, line))
        finally:
            self._lines.keep(0)
        raise self._lines.fault or LinesCrowdedError(len(line), 0)

    def _refuse_excess(self, found: Excess) -> None:
        identity = json.loads(found.identity) if found.identity is not None else None
        text = f"this line has {found.problem}: no more is read, so send it in several messages, or flatter"
        self._refuse(identity, INVALID_REQUEST, text)

    def _parse(self, line: bytes) -> JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError | None:
        """The message in a line; None when it is none, and then it is answered."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            self._refuse_line(line)
            return None
        if isinstance(message, JSONRPCRequest):
            return self._open(message)
        if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
            # An id that is null, a fraction or a boolean is no id: the sender expects an answer it cannot get.
            self._refuse(None, INVALID_REQUEST, "the id of a request must be a string or an integer")
            return None
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            # A cancelled request gets no answer, so it is not open any more.
            cancelled = (message.params or {}).get("requestId")
            self._session.open_requests.remove(cancelled)
            self._calls.cancel(cancelled)
        return message

    def _open(self, request: JSONRPCRequest) -> JSONRPCRequest | None:
        opened = self._session.open_requests
        if len(opened) >= self._max_open_requests:
            text = f"{self._max_open_requests} requests of this client are not answered yet: wait for answers first"
            self._refuse(request.id, TOO_MANY, text)
            return None
        if request.method != STANDING:
            opened.add(request.id)
        return request

    def _refuse_line(self, line: bytes) -> None:
        try:
            value = json.loads(line)
        except RecursionError:
            self._refuse(None, INVALID_REQUEST, TOO_DEEP)
            return
        except ValueError:
            self._refuse(None, PARSE_ERROR, "this line is not JSON: send one JSON-RPC message a line, in UTF-8")
            return
        if isinstance(value, list):
            self._refuse(None, INVALID_REQUEST, "batches are not part of MCP: send one message a line")
            return
        given = value.get("id") if isinstance(value, dict) else None
        identity = given if isinstance(given, str) or type(given) is int else None
        if is_deep(value):
            self._refuse(identity, INVALID_REQUEST, TOO_DEEP)
            return
        if isinstance(value, dict) and value.get("jsonrpc") == "2.0" and isinstance(value.get("method"), str):
            if "id" not in value:  # a notification is never answered, whatever is wrong with it
                return
            if identity is not None and not isinstance(value.get("params"), dict | None):
                self._refuse(identity, INVALID_PARAMS, "params must be an object, with each parameter by its name")
                return
        self._refuse(identity, INVALID_REQUEST, "this is no JSON-RPC 2.0 request, notification or response")

    def _refuse(self, identity: str | int | None, code: int, text: str) -> None:
        answer = {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": text}}
        self._session.outbox.put(json.dumps(answer).encode() + b"\n")

    async def _settle(self) -> None:
        with anyio.move_on_after(DRAIN_S):
            while self._session.open_requests:
                with anyio.move_on_after(PROBE_S) as silence:
                    await self._session.open_requests.wait_removed()
                if silence.cancelled_caught:
                    self._session.outbox.offer(PROBE)

    # Writing

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message for the client. Never waits: the outbox bounds what may be lost."""
        message = item.message
        if isinstance(message, JSONRPCError):
            cleared = self._redact(message.error.model_dump(by_alias=True, exclude_unset=True))
            message = message.model_copy(update={"error": ErrorData.model_validate(cleared)})
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if isinstance(message, JSONRPCNotification):
            self._session.outbox.offer(line)
            return
        self._session.outbox.put(line)
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._session.open_requests.remove(message.id)

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
    """What a line holds, or what it has too much of; None for no JSON."""
    found = excess(line) if may_be_heavy(line) else None
    if found is not None:
        return found
    try:
        return from_json(line)
    except ValueError:
        return None


def is_deep(value: object) -> bool:
    """Whether arrays and objects lie more than `MAX_DEPTH` deep in one another."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
        ]
    return any(isinstance(item, dict | list) for item in level)
