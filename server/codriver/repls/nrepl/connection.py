"""A connection to an nREPL server, which sends messages and routes replies to their requests.

A connection is made over TCP or adopted from a REPL that connected to Codriver. Messages are read and delivered at all
times, even if nobody is waiting for them. Each request has its own id, which routes a reply to its `Exchange`. Replies
are still delivered after `done` while the exchange is among the last `MAX_LINGERING_REQUESTS` finished ones or is
retained.

This module hides differences between servers. Nil may be an empty list where text or a map is expected, a status may be
a list in any order or a single string, and an id may be `""`, `[]` or missing. Because programs print line by line,
consecutive messages with output are joined. Source: nREPL documentation, "Ops", and the replies of the servers used in
the tests.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import field
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.records import Recent, dataclass
from codriver.errors import PeerError, ReplDisconnectedError
from codriver.net.cooperative_turns import TurnTimer
from codriver.net.tcp_transport import TcpTransport
from codriver.repls.contract.adapter import (
    OpTimedOutError,
    ReplUnreachableError,
    check_listener,
    unsafe_request_error,
)
from codriver.repls.contract.endpoints import AcceptedStream
from codriver.wire.bencode import BencodeError, Decoder, Value, encode
from codriver.wire.untrusted import EMPTY_MAPPING, text_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codriver.repls.contract.endpoints import Endpoint


EMPTY_STATUS: frozenset[str] = frozenset()
"""The status of a message that contains no status."""

FAILED_STATUSES = frozenset({"eval-error", "error", "namespace-not-found", "unknown-session", "no-code", "unknown-op"})
"""Statuses of a failed request. Some servers only send the field `ex`, which means the same."""

ADDRESS_FIELDS = frozenset({"id", "session"})
"""The fields of a message that identify its request."""


class NotAMessageError(PeerError):
    """Raised when a peer sends a bencode value that is not a dictionary."""

    def __init__(self, value: Value) -> None:
        super().__init__(f"a message must be a dictionary, but a {type(value).__name__} was received")


@dataclass(frozen=True, slots=True)
class Message:
    """A message from the server. `id` is None if the server sent none."""

    id: str | None = None
    session: str | None = None
    status: frozenset[str] = frozenset()
    fields: Mapping[str, Value] = field(default_factory=lambda: EMPTY_MAPPING)

    @property
    def is_done(self) -> bool:
        """Return whether the server has finished the request."""
        return "done" in self.status

    @property
    def is_failed(self) -> bool:
        """Return whether this message reports that the request failed."""
        return ("ex" in self.fields and bool(self.text("ex"))) or bool(FAILED_STATUSES & self.status)

    def text_fields(self, *keys: str) -> list[str | None]:
        """Return the text of each of these fields, or None for a field that is missing or not text."""
        fields = self.fields
        return [self.text(key) if key in fields else None for key in keys]

    def text(self, key: str) -> str | None:
        """Return the text of a field, or None if it is missing, nil, or not text."""
        value = self.fields.get(key)
        return value if value is None or type(value) is str else text_or_none(value)


def parse_message(value: Value) -> Message:
    """Convert a bencode value to a message.

    Raises:
        NotAMessageError: the value is not a dictionary.
    """
    if not isinstance(value, dict):
        raise NotAMessageError(value)
    status = _status(value["status"]) if "status" in value else EMPTY_STATUS
    name, session = value.get("id"), value.get("session")
    if type(name) is not str:
        name = text_or_none(name)
    if type(session) is not str:
        session = text_or_none(session)
    return Message(name or None, session or None, status, value)


def _status(value: Value | None) -> frozenset[str]:
    """Convert a status, which is a list or a single string, to a set."""
    if type(value) is list:
        return frozenset([word for word in value if type(word) is str])
    return frozenset((value,)) if type(value) is str else EMPTY_STATUS


def join_output(values: Iterable[Value]) -> Iterator[Value]:
    """Yield the values in order, joining consecutive output on the same stream of the same request.

    Only messages that contain nothing but output are joined. Text that was truncated or is not valid UTF-8 is not
    joined.
    """
    run: dict[str, Value] | None = None
    stream = ""
    strings: list[str] = []
    for value in values:
        if run is None and type(value) is dict and "out" not in value and "err" not in value:
            yield value
            continue
        name, text = _output(value)
        if run is not None and isinstance(value, dict) and name == stream and _address(value) == _address(run):
            strings.append(text)
            continue
        if run is not None:
            yield {**run, stream: "".join(strings)}
        if name and isinstance(value, dict):
            run, stream, strings = value, name, [text]
        else:
            run = None
            yield value
    if run is not None:
        yield {**run, stream: "".join(strings)}


def _output(value: Value) -> tuple[str, str]:
    """Return the stream and text of a message that contains only output, or two empty strings."""
    if isinstance(value, dict):
        name = "out" if "out" in value else "err"
        text = value.get(name)
        if type(text) is str and value.keys() - ADDRESS_FIELDS == {name}:
            return name, text
    return "", ""


def _address(value: dict[str, Value]) -> tuple[Value | None, Value | None]:
    return value.get("id"), value.get("session")


MAX_LINGERING_REQUESTS: Final = 512
"""Maximum number of finished requests whose late messages are still delivered.

That covers an hour's evaluations in a few KB of memory.
"""

MAX_BACKLOG_BYTES: Final = 256 * 1024
"""Maximum number of unprocessed bytes. Beyond it, data waits in the kernel's buffers and then in the REPL."""

DECODED_SLICE_BYTES: Final = 2 * 1024
"""Number of bytes decoded between two checks of the time."""

OnMessage = Callable[[Message], None]


class Exchange:
    """A request and its replies, from `NreplConnection.register` until its id is forgotten.

    Its outcome is decided once, when it ends or fails. Some servers send no further messages after a failure.
    """

    __slots__ = ("_changed", "id", "is_decided", "is_finished", "on_decided", "on_message", "started_at", "status")

    def __init__(self, identity: str, on_message: OnMessage, on_decided: Callable[[], None] | None) -> None:
        self.id = identity
        self.on_message = on_message
        self.on_decided = on_decided
        """Called once the outcome is decided and all messages received by then have been delivered. Must not raise."""
        self.is_finished = False
        self.is_decided = False
        self.status: set[str] = set()
        self.started_at = monotonic()
        self._changed: asyncio.Event | None = None
        """Set while a task is waiting. An asyncio event is used because anyio's takes three times as many calls."""

    def mark_decided(self, *, is_finished: bool) -> None:
        """Mark the outcome as decided. With `is_finished`, also mark the exchange as finished."""
        self.is_decided = True
        self.is_finished |= is_finished
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def wait_finished(self) -> None:
        """Wait until the exchange has finished."""
        while not self.is_finished:
            await self._change()

    async def wait_decided(self) -> None:
        """Wait until the exchange has finished or failed."""
        while not self.is_decided:
            await self._change()

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()


class NreplConnection:
    """A connection to an nREPL server.

    The owner runs `read` in a task group until the connection is closed.
    """

    def __init__(self, transport: TcpTransport, on_stray: OnMessage) -> None:
        self._transport = transport
        self._on_stray = on_stray
        self._ids = count(1)
        self._routes: Recent[str, Exchange] = Recent(MAX_LINGERING_REQUESTS)
        self._active: dict[str, Exchange] = {}
        self._retained: dict[str, Exchange] = {}
        self._decided: list[Callable[[], None]] = []
        """Callbacks of exchanges whose outcome is decided, called after the received messages have been delivered."""
        self._outgoing = anyio.Lock(fast_acquire=True)
        self._decoder = Decoder()
        self._backlog: deque[bytes] = deque()
        """Chunks of received data. The first one is being processed, and the others are waiting."""
        self._stream_changed = anyio.Event()
        self._end: str | None = None
        """The reason why no more data will be received."""
        self._error: Exception | None = None
        """The exception raised while messages were delivered, which `read` raises again."""
        self.send_gap_s = 0.0
        """Seconds to wait before sending while another request is running.

        This is for servers that lose messages received too early.
        """
        self.closed = anyio.Event()
        self.cause: str | None = None
        self.received_at = monotonic()
        """The time at which the REPL last sent anything."""
        transport.set_callbacks(self._receive, self._on_lost)

    async def read(self) -> None:
        """Process received data until the connection ends. Exceptions of message handlers propagate."""
        turns = TurnTimer()
        try:
            while self._error is None and (self._backlog or self._end is None):
                if self._backlog:
                    await self._process_in_turns(self._backlog[0], turns)
                    self._backlog.popleft()
                else:
                    self._transport.resume_reading()
                    self._stream_changed = anyio.Event()
                    await self._stream_changed.wait()
                    turns = TurnTimer()
            if self._error is not None:
                raise self._error
            middle = "" if self._decoder.is_idle else " in the middle of a message"
            self._finish(f"{self._end}{middle}")
        except (BencodeError, NotAMessageError) as error:
            self._finish(str(error))
        finally:
            self._finish("Codriver closed the connection")

    def _receive(self, data: bytes) -> None:
        """Process received data immediately if it is short and nothing is queued. Otherwise queue it for `read`."""
        self.received_at = monotonic()
        if self._backlog or len(data) > DECODED_SLICE_BYTES:
            self._backlog.append(data)
            if sum(map(len, self._backlog)) > MAX_BACKLOG_BYTES:
                self._transport.pause_reading()
            self._stream_changed.set()
            return
        try:
            self._deliver_all(self._decode(data))
        except Exception as error:  # noqa: BLE001  # `read` raises it for its owner
            self._error = error
            self._transport.pause_reading()
            self._stream_changed.set()

    def _on_lost(self, error: Exception | None) -> None:
        self._end = f"the connection broke ({error})" if error else "the REPL closed the connection"
        self._stream_changed.set()

    async def _process_in_turns(self, data: bytes, turns: TurnTimer) -> None:
        """Process the messages that these bytes complete, and regularly yield to other tasks."""
        values: list[Value] = []
        start = 0
        while start < len(data):
            # A long string is decoded in one step, because it causes no work until it is complete.
            end = start + max(DECODED_SLICE_BYTES, self._decoder.missing_bytes)
            values += self._decode(data[start:end], before=values)
            start = end
            if turns.is_turn_over:
                self._deliver_all(values)
                values = []
                await turns.yield_to_others()
        self._deliver_all(values)

    def _decode(self, data: bytes, *, before: Iterable[Value] = ()) -> list[Value]:
        """Decode the values that `data` completes.

        On an error, the values `before` and those decoded so far are delivered before the error is raised.
        """
        try:
            return self._decoder.feed(data)
        except BencodeError as error:
            self._deliver_all([*before, *(value for value in error.decoded if isinstance(value, dict))])
            raise

    def disable_immediate_acknowledgements(self) -> None:
        """Stop requesting immediate TCP acknowledgements, which saves a system call per message.

        Use this if the REPL is known to send every message immediately.
        """
        self._transport.waits_for_acks = False

    @property
    def is_waiting(self) -> bool:
        """Return whether any request is waiting for its reply."""
        return bool(self._active)

    def register(self, on_message: OnMessage, on_decided: Callable[[], None] | None = None) -> Exchange:
        """Create an exchange for a new request.

        `on_message` receives all its messages, including late ones. `on_decided` is called once its outcome is decided.
        """
        exchange = Exchange(f"codriver-{next(self._ids)}", on_message, on_decided)
        self._active[exchange.id] = exchange
        return exchange

    def finish(self, exchange: Exchange) -> None:
        """Finish an exchange after its `done`, or if nobody is waiting for its reply. Repeated calls have no effect."""
        if exchange.id in self._active:
            self._close(exchange)
            self._notify_decided()

    def _close(self, exchange: Exchange) -> None:
        del self._active[exchange.id]
        self._routes[exchange.id] = exchange
        self._mark_decided(exchange, is_finished=True)

    def _mark_decided(self, exchange: Exchange, *, is_finished: bool) -> None:
        if exchange.on_decided is not None and not exchange.is_decided:
            self._decided.append(exchange.on_decided)
        exchange.mark_decided(is_finished=is_finished)

    def _notify_decided(self) -> None:
        while self._decided:
            self._decided.pop(0)()

    def retain(self, exchange: Exchange) -> None:
        """Keep delivering messages of a finished exchange until `release`, regardless of `MAX_LINGERING_REQUESTS`."""
        self._retained[exchange.id] = exchange

    def release(self, exchange: Exchange) -> None:
        """Undo `retain`. Repeated calls have no effect."""
        self._retained.pop(exchange.id, None)

    async def wait_settled(self, exchange: Exchange, *, after_failure_s: float) -> bool:
        """Wait until an exchange has finished.

        Return False if it failed and `done` was not received within `after_failure_s` seconds.

        Raises:
            ReplDisconnectedError: the connection ended first.
        """
        await exchange.wait_decided()
        if not exchange.is_finished:
            with anyio.move_on_after(after_failure_s):
                await exchange.wait_finished()
        is_finished = exchange.is_finished
        self.finish(exchange)
        if is_finished and "done" not in exchange.status:
            self.check_open()
        return is_finished

    async def send(self, exchange: Exchange, op: str, fields: dict[str, Value]) -> None:
        """Send a request.

        Raises:
            ReplDisconnectedError: the connection is closed.
            RefusedError: a string cannot be encoded as UTF-8.
        """
        data = _encode_request(exchange, op, fields)
        async with self._outgoing:
            if self._needs_gap:
                await anyio.sleep(self.send_gap_s)
            if not self._transport.is_open:
                await self.closed.wait()  # its end will set the cause
            self.check_open()
            await self._transport.send(data)

    def try_send(self, exchange: Exchange, op: str, fields: dict[str, Value]) -> bool:
        """Send a request if that is possible without waiting, and return whether it was sent.

        Raises:
            RefusedError: a string cannot be encoded as UTF-8.
        """
        if self._needs_gap or self._outgoing.locked() or not self._transport.can_send_immediately:
            return False
        self._transport.write(_encode_request(exchange, op, fields))
        return True

    @property
    def _needs_gap(self) -> bool:
        return bool(self.send_gap_s) and len(self._active) > 1

    async def request(self, op: str, *, timeout_s: float, **fields: Value) -> list[Message]:
        """Send a request, and return its replies up to and including `done`.

        Raises:
            OpTimedOutError: `done` was not received within `timeout_s` seconds. The connection stays open.
            ReplDisconnectedError: the connection ended first.
        """
        messages: list[Message] = []
        exchange = self.register(messages.append)
        try:
            with anyio.move_on_after(timeout_s) as scope:
                await self.send(exchange, op, fields)
                await exchange.wait_finished()
        finally:
            exchange.on_message = self._on_stray
            self.finish(exchange)
        if scope.cancelled_caught:
            raise OpTimedOutError(op, timeout_s)
        if not any(message.is_done for message in messages):
            self.check_open()
        return messages

    def check_open(self) -> None:
        """Check that the connection is open.

        Raises:
            ReplDisconnectedError: the connection is closed.
        """
        if self.cause is not None:
            raise ReplDisconnectedError(self.cause)

    async def close(self) -> None:
        """Close the connection. Repeated calls have no effect."""
        await self.abandon("Codriver closed the connection")

    async def abandon(self, cause: str) -> None:
        """Close the connection and store the reason `cause`, unless the connection is already closed."""
        self._finish(cause)
        await self._transport.close()

    def _deliver_all(self, values: Iterable[Value]) -> None:
        for value in join_output(values):
            self._deliver(parse_message(value))
        self._notify_decided()

    def _deliver(self, message: Message) -> None:
        """Deliver a message to its exchange.

        A message without an id that contains more than output belongs to the only active request.
        """
        name = message.id or ""
        exchange = self._active.get(name) or self._routes.get(name) or self._retained.get(name)
        if exchange is None and message.id is None and len(self._active) == 1 and _is_reply(message):
            exchange = next(iter(self._active.values()))
        if exchange is None:
            self._on_stray(message)
            return
        if not exchange.is_finished:
            exchange.status |= message.status
        exchange.on_message(message)
        if message.is_done and exchange.id in self._active:
            self._close(exchange)
        elif message.is_failed:
            self._mark_decided(exchange, is_finished=False)

    def _finish(self, cause: str) -> None:
        if self.cause is not None:
            return
        self.cause = cause
        for exchange in tuple(self._active.values()):
            self._mark_decided(exchange, is_finished=True)
        self.closed.set()
        self._notify_decided()


async def open_connection(
    endpoint: Endpoint | AcceptedStream, on_stray: OnMessage, *, timeout_s: float
) -> NreplConnection:
    """Open a connection to the server at `endpoint`, or over an accepted stream.

    No data is processed until the owner runs `read`.

    Raises:
        ReplUnreachableError: nothing is listening at the address, or the accepted stream was used before.
        UntrustedListenerError: the listener may belong to another user.
    """
    if isinstance(endpoint, AcceptedStream):
        return NreplConnection(await _adopt(endpoint), on_stray)
    return NreplConnection(await open_transport(endpoint, timeout_s=timeout_s), on_stray)


async def _adopt(stream: AcceptedStream) -> TcpTransport:
    if stream.socket.fileno() == -1:
        raise ReplUnreachableError(
            stream, "the only connection to this REPL was already used, and only the REPL can open another one"
        )
    adopted = socket.socket(fileno=stream.socket.detach())  # asyncio closes it
    adopted.settimeout(0)
    _, transport = await asyncio.get_running_loop().connect_accepted_socket(TcpTransport, adopted)
    return transport


def _encode_request(exchange: Exchange, op: str, fields: dict[str, Value]) -> bytes:
    try:
        return encode({"op": op, "id": exchange.id, **fields})
    except UnicodeEncodeError as error:
        found = f"\\u{ord(error.object[error.start]):04x}"
        reason = (
            f"the code contains half of a surrogate pair ({found}) at position {error.start}, which UTF-8 "
            "cannot represent"
        )
        raise unsafe_request_error(reason, hint="write the whole character, or its escape sequence") from error


def _is_reply(message: Message) -> bool:
    return bool(message.status) or "value" in message.fields or "ex" in message.fields


async def open_transport(endpoint: Endpoint, *, timeout_s: float) -> TcpTransport:
    """Connect to the server at `endpoint`, and check the owner of its process.

    The caller must attach the transport to a connection before awaiting anything.

    Raises:
        ReplUnreachableError: nothing is listening at the address, or it cannot be reached.
        UntrustedListenerError: the endpoint was read from a file, and the listener may belong to another user.
    """
    loop = asyncio.get_running_loop()
    try:
        with anyio.fail_after(timeout_s):
            _, transport = await loop.create_connection(TcpTransport, endpoint.host, endpoint.port)
    except TimeoutError:
        raise ReplUnreachableError(endpoint, f"the REPL did not accept the connection within {timeout_s:g} s") from None
    except OSError as error:
        raise ReplUnreachableError(endpoint, _describe(error)) from error
    transport.pause_reading()  # data received during the check is for the connection
    try:
        await check_listener(transport.socket, endpoint)
    except BaseException:
        transport.abort()
        raise
    transport.resume_reading()
    return transport


def _describe(error: OSError) -> str:
    """Describe why a connection attempt failed."""
    if isinstance(error, socket.gaierror):
        return "the host name is unknown"
    # If asyncio tried several addresses, it raises one error whose text contains all causes.
    if error.errno == errno.ECONNREFUSED or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return "nothing is listening at this address"
    return str(error) or type(error).__name__
