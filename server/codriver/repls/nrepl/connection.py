"""One socket to an nREPL server: messages out, and answers parsed into one shape and given to their requests.

A connection is made over TCP, to an allowed listener, or taken over from a REPL that connected to us. Messages are
filed at all times, also when nobody waits. Every request has an id of its own; answers find their exchange by the id,
also after `done`, as long as the id is among the last `LINGERING` ended ones, or the exchange is kept for later
messages.

The disagreements of servers are settled here, once: nil comes as an empty list where a text or a map is expected,
statuses as a list in any order or as one text, an id as ``""``, as ``[]`` or not at all. Programs print line by line:
output that came in many small messages at once is joined. Source: nREPL documentation, "Ops", and the answers of the
servers in the tests.
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
from codriver.net.cooperative_turns import Turns
from codriver.net.tcp_transport import TcpTransport
from codriver.repls.contract.adapter import OpTimedOutError, ReplUnreachableError, check_listener, request_unsafe
from codriver.repls.contract.adapter_values import AcceptedStream
from codriver.wire.bencode import BencodeError, Decoder, Value, encode
from codriver.wire.untrusted import NOTHING, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codriver.repls.contract.adapter_values import Endpoint


NO_STATUS: frozenset[str] = frozenset()

FAILED = frozenset({"eval-error", "error", "namespace-not-found", "unknown-session", "no-code", "unknown-op"})
"""Status words for a failed request. An `ex` key means the same: some servers send nothing else."""

ADDRESS = frozenset({"id", "session"})


class NotAMessageError(PeerError):
    """A peer sent bencode that is no dictionary, and so no message."""

    def __init__(self, value: Value) -> None:
        super().__init__(f"a message must be a dictionary, and a {type(value).__name__} came")


@dataclass(frozen=True, slots=True)
class Message:
    """A received message: `id` is None if the server named none, `status` is a set."""

    id: str | None = None
    session: str | None = None
    status: frozenset[str] = frozenset()
    fields: Mapping[str, Value] = field(default_factory=lambda: NOTHING)

    @property
    def is_done(self) -> bool:
        """Return whether the server is finished with the request."""
        return "done" in self.status

    @property
    def is_failed(self) -> bool:
        """Return whether this message alone says that the request failed."""
        return ("ex" in self.fields and bool(self.text("ex"))) or bool(FAILED & self.status)

    def text_fields(self, *keys: str) -> list[str | None]:
        """The texts under these keys, each as `text` gives it; a message has few of its many possible fields."""
        fields = self.fields
        return [self.text(key) if key in fields else None for key in keys]

    def text(self, key: str) -> str | None:
        """Return the text under `key`; None for an absent value, nil, or any other."""
        value = self.fields.get(key)
        return value if value is None or type(value) is str else as_text(value)


def parse(value: Value) -> Message:
    """Return the message that `value` is.

    Raises:
        NotAMessageError: the value is none.
    """
    if not isinstance(value, dict):
        raise NotAMessageError(value)
    status = _status(value["status"]) if "status" in value else NO_STATUS
    name, session = value.get("id"), value.get("session")
    if type(name) is not str:
        name = as_text(name)
    if type(session) is not str:
        session = as_text(session)
    return Message(name or None, session or None, status, value)


def _status(value: Value | None) -> frozenset[str]:
    """Return the words of a status, which is a list in any order or one text."""
    if type(value) is list:
        return frozenset([word for word in value if type(word) is str])
    return frozenset((value,)) if type(value) is str else NO_STATUS


def joined(values: Iterable[Value]) -> Iterator[Value]:
    """Yield the values in their order, each run of output on one stream of one request as one message.

    Only messages of pure output are joined. A text that is no UTF-8, or cut, stays by itself.
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
    """Return the stream and the text of a message of pure output on one stream; else empty texts."""
    if isinstance(value, dict):
        name = "out" if "out" in value else "err"
        text = value.get(name)
        if type(text) is str and value.keys() - ADDRESS == {name}:
            return name, text
    return "", ""


def _address(value: dict[str, Value]) -> tuple[Value | None, Value | None]:
    return value.get("id"), value.get("session")


LINGERING: Final = 512
"""Ids whose late messages are still filed: enough for the evaluations of an hour, a few KB of memory."""

BACKLOG_BYTES: Final = 256 * 1024
"""The bytes of a flood that are kept unread; the rest waits in the kernel, and then in the REPL."""

SLICE_BYTES: Final = 2 * 1024
"""The bytes that are decoded between two looks at the clock."""

OnMessage = Callable[[Message], None]


class Exchange:
    """A request and its replies. Lives from `NreplConnection.begin` until its id is forgotten.

    An exchange turns once: at its end, or at an earlier failure, as some servers send nothing after a failure.
    """

    __slots__ = ("_changed", "has_turned", "id", "is_over", "on_message", "on_turned", "started_at", "status")

    def __init__(self, identity: str, on_message: OnMessage, on_turned: Callable[[], None] | None) -> None:
        self.id = identity
        self.on_message = on_message
        self.on_turned = on_turned
        """Called once the exchange has turned and all messages received with the turn are filed. May not raise."""
        self.is_over = False
        self.has_turned = False
        self.status: set[str] = set()
        self.started_at = monotonic()
        self._changed: asyncio.Event | None = None
        """Set only while somebody waits. An event of asyncio: anyio's makes three times as many function calls."""

    def turn(self, *, is_over: bool) -> None:
        """Mark the exchange as turned, and perhaps as over."""
        self.has_turned = True
        self.is_over |= is_over
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def wait_over(self) -> None:
        """Wait until the exchange has finished."""
        while not self.is_over:
            await self._change()

    async def wait_turned(self) -> None:
        """Wait until the exchange has turned."""
        while not self.has_turned:
            await self._change()

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()


class NreplConnection:
    """One connection to an nREPL server. Lives until either side closes it; run `read` in a task group of the owner."""

    def __init__(self, transport: TcpTransport, on_stray: OnMessage) -> None:
        self._transport = transport
        self._on_stray = on_stray
        self._ids = count(1)
        self._routes: Recent[str, Exchange] = Recent(LINGERING)
        self._active: dict[str, Exchange] = {}
        self._retained: dict[str, Exchange] = {}
        self._turned: list[Callable[[], None]] = []
        """The callbacks of exchanges that have turned, to be called."""
        self._outgoing = anyio.Lock(fast_acquire=True)
        self._decoder = Decoder()
        self._backlog: deque[bytes] = deque()
        """Data that came faster than they could be filed; the first are being filed."""
        self._stream_changed = anyio.Event()
        self._end: str | None = None
        """The reason why nothing more comes."""
        self._error: Exception | None = None
        """The exception that was raised while something was filed."""
        self.send_gap_s = 0.0
        """The pause before a message while another waits, for servers that read one at a time and forget the next."""
        self.closed = anyio.Event()
        self.cause: str | None = None
        self.received_at = monotonic()
        """The time at which the REPL last sent anything."""
        transport.hand_to(self._receive, self._lost)

    async def read(self) -> None:
        """File floods, until the connection has finished. Raises the errors of filing."""
        turns = Turns()
        try:
            while self._error is None and (self._backlog or self._end is None):
                if self._backlog:
                    await self._file_in_turns(self._backlog[0], turns)
                    self._backlog.popleft()
                else:
                    self._transport.resume_reading()
                    self._stream_changed = anyio.Event()
                    await self._stream_changed.wait()
                    turns = Turns()
            if self._error is not None:
                raise self._error
            middle = "" if self._decoder.is_idle else " in the middle of a message"
            self._finish(f"{self._end}{middle}")
        except (BencodeError, NotAMessageError) as error:
            self._finish(str(error))
        finally:
            self._finish("it was closed by us")

    def _receive(self, data: bytes) -> None:
        """File received data: at once if they are few and nothing waits, else in turns."""
        self.received_at = monotonic()
        if self._backlog or len(data) > SLICE_BYTES:
            self._backlog.append(data)
            if sum(map(len, self._backlog)) > BACKLOG_BYTES:
                self._transport.pause_reading()
            self._stream_changed.set()
            return
        try:
            self._file_all(self._decode(data))
        except Exception as error:  # noqa: BLE001  # `read` raises it, for its owner to see
            self._error = error
            self._transport.pause_reading()
            self._stream_changed.set()

    def _lost(self, error: Exception | None) -> None:
        self._end = f"the connection broke ({error})" if error else "the REPL closed the connection"
        self._stream_changed.set()

    async def _file_in_turns(self, data: bytes, turns: Turns) -> None:
        """File the messages that the bytes complete, in turns, so that others are served in the meantime."""
        values: list[Value] = []
        start = 0
        while start < len(data):
            # The bytes of one long string make no work until it is complete.
            end = start + max(SLICE_BYTES, self._decoder.missing_bytes)
            values += self._decode(data[start:end], before=values)
            start = end
            if turns.is_over:
                self._file_all(values)
                values = []
                await turns.leave_off()
        self._file_all(values)

    def _decode(self, data: bytes, *, before: Iterable[Value] = ()) -> list[Value]:
        """Return the values that `data` completes.

        At a fault they are filed, after those `before`, and it is raised.
        """
        try:
            return self._decoder.feed(data)
        except BencodeError as error:
            self._file_all([*before, *(value for value in error.decoded if isinstance(value, dict))])
            raise

    def expect_no_delay(self) -> None:
        """Assume that the REPL sends every message at once: that saves a system call for each."""
        self._transport.waits_for_acks = False

    @property
    def is_waiting(self) -> bool:
        """Return whether a request of ours is not answered yet."""
        return bool(self._active)

    def begin(self, on_message: OnMessage, on_turned: Callable[[], None] | None = None) -> Exchange:
        """Return a new exchange; its messages go to `on_message`, also those after its end."""
        exchange = Exchange(f"codriver-{next(self._ids)}", on_message, on_turned)
        self._active[exchange.id] = exchange
        return exchange

    def end(self, exchange: Exchange) -> None:
        """End an exchange: by its `done`, or because no one waits any more. Twice is harmless."""
        if exchange.id in self._active:
            self._close(exchange)
            self._notify_turned()

    def _close(self, exchange: Exchange) -> None:
        del self._active[exchange.id]
        self._routes[exchange.id] = exchange
        self._turn(exchange, is_over=True)

    def _turn(self, exchange: Exchange, *, is_over: bool) -> None:
        if exchange.on_turned is not None and not exchange.has_turned:
            self._turned.append(exchange.on_turned)
        exchange.turn(is_over=is_over)

    def _notify_turned(self) -> None:
        while self._turned:
            self._turned.pop(0)()

    def retain(self, exchange: Exchange) -> None:
        """File an exchange's messages also after its end, however many others follow, until it is forgotten."""
        self._retained[exchange.id] = exchange

    def forget(self, exchange: Exchange) -> None:
        """Keep an exchange no longer than others. Twice is harmless."""
        self._retained.pop(exchange.id, None)

    async def settle(self, exchange: Exchange, *, after_failure_s: float) -> bool:
        """Wait until `exchange` is over; False when it failed and no `done` followed within `after_failure_s`.

        Raises:
            ReplDisconnectedError: the connection ended first.
        """
        await exchange.wait_turned()
        if not exchange.is_over:
            with anyio.move_on_after(after_failure_s):
                await exchange.wait_over()
        is_over = exchange.is_over
        self.end(exchange)
        if is_over and "done" not in exchange.status:
            self.check_open()
        return is_over

    async def send(self, exchange: Exchange, op: str, fields: dict[str, Value]) -> None:
        """Send a request.

        Raises:
            ReplDisconnectedError: the connection has finished.
            RefusedError: a text holds what no UTF-8 can say.
        """
        data = _encoded(exchange, op, fields)
        async with self._outgoing:
            if self._needs_gap:
                await anyio.sleep(self.send_gap_s)
            if not self._transport.is_open:
                await self.closed.wait()  # the end tells the cause
            self.check_open()
            await self._transport.send(data)

    def send_at_once(self, exchange: Exchange, op: str, fields: dict[str, Value]) -> bool:
        """Send a request if nothing is in the way; whether it was sent.

        Raises:
            RefusedError: a text holds what no UTF-8 can say.
        """
        if self._needs_gap or self._outgoing.locked() or not self._transport.is_clear:
            return False
        self._transport.write(_encoded(exchange, op, fields))
        return True

    @property
    def _needs_gap(self) -> bool:
        return bool(self.send_gap_s) and len(self._active) > 1

    async def request(self, op: str, *, timeout_s: float, **fields: Value) -> list[Message]:
        """Send a request and give the messages that answer it, up to `done`.

        Raises:
            OpTimedOutError: no `done` came in time. The connection lives on.
            ReplDisconnectedError: the connection ended first.
        """
        messages: list[Message] = []
        exchange = self.begin(messages.append)
        try:
            with anyio.move_on_after(timeout_s) as scope:
                await self.send(exchange, op, fields)
                await exchange.wait_over()
        finally:
            exchange.on_message = self._on_stray
            self.end(exchange)
        if scope.cancelled_caught:
            raise OpTimedOutError(op, timeout_s)
        if not any(message.is_done for message in messages):
            self.check_open()
        return messages

    def check_open(self) -> None:
        """Check that the connection stands.

        Raises:
            ReplDisconnectedError: it has finished.
        """
        if self.cause is not None:
            raise ReplDisconnectedError(self.cause)

    async def close(self) -> None:
        """End the connection. Twice is harmless."""
        await self.abandon("it was closed by us")

    async def abandon(self, cause: str) -> None:
        """End the connection for the reason `cause`, unless the connection is over already."""
        self._finish(cause)
        await self._transport.close()

    def _file_all(self, values: Iterable[Value]) -> None:
        for value in joined(values):
            self._file(parse(value))
        self._notify_turned()

    def _file(self, message: Message) -> None:
        """Give a message to its exchange; without an id, more than output can only be the running one's."""
        name = message.id or ""
        exchange = self._active.get(name) or self._routes.get(name) or self._retained.get(name)
        if exchange is None and message.id is None and len(self._active) == 1 and _answers(message):
            exchange = next(iter(self._active.values()))
        if exchange is None:
            self._on_stray(message)
            return
        if not exchange.is_over:
            exchange.status |= message.status
        exchange.on_message(message)
        if message.is_done and exchange.id in self._active:
            self._close(exchange)
        elif message.is_failed:
            self._turn(exchange, is_over=False)

    def _finish(self, cause: str) -> None:
        if self.cause is not None:
            return
        self.cause = cause
        for exchange in tuple(self._active.values()):
            self._turn(exchange, is_over=True)
        self.closed.set()
        self._notify_turned()


async def dial(endpoint: Endpoint | AcceptedStream, on_stray: OnMessage, *, timeout_s: float) -> NreplConnection:
    """Return a connection to the listener at `endpoint`, or over a stream that was accepted. It is still unused.

    Raises:
        ReplUnreachableError: nobody listens, the way is closed, or the accepted stream was used already.
    """
    if isinstance(endpoint, AcceptedStream):
        return NreplConnection(await _adopt(endpoint), on_stray)
    return NreplConnection(await connect(endpoint, timeout_s=timeout_s), on_stray)


async def _adopt(stream: AcceptedStream) -> TcpTransport:
    if stream.socket.fileno() == -1:
        raise ReplUnreachableError(stream, "its connection was used, and only the REPL can open another")
    adopted = socket.socket(fileno=stream.socket.detach())  # asyncio closes it
    adopted.settimeout(0)
    _, transport = await asyncio.get_running_loop().connect_accepted_socket(TcpTransport, adopted)
    return transport


def _encoded(exchange: Exchange, op: str, fields: dict[str, Value]) -> bytes:
    try:
        return encode({"op": op, "id": exchange.id, **fields})
    except UnicodeEncodeError as error:
        found = f"\\u{ord(error.object[error.start]):04x}"
        reason = f"it holds half of a character pair ({found}) at position {error.start}, which UTF-8 cannot say"
        raise request_unsafe(reason, hint="write the character whole, or as an escape of the language") from error


def _answers(message: Message) -> bool:
    return bool(message.status) or "value" in message.fields or "ex" in message.fields


async def connect(endpoint: Endpoint, *, timeout_s: float) -> TcpTransport:
    """A connection to the listener at `endpoint`. Give it to its owner before awaiting anything else.

    Raises:
        ReplUnreachableError: nobody listens, or the way there is closed.
        StrangeListenerError: a file led to the endpoint, and the listener is another user's, or nobody can tell.
    """
    loop = asyncio.get_running_loop()
    try:
        with anyio.fail_after(timeout_s):
            _, transport = await loop.create_connection(TcpTransport, endpoint.host, endpoint.port)
    except TimeoutError:
        raise ReplUnreachableError(endpoint, f"it did not take the connection within {timeout_s:g} s") from None
    except OSError as error:
        raise ReplUnreachableError(endpoint, _describe(error)) from error
    transport.pause_reading()  # bytes that come meanwhile are for the connection's owner
    try:
        await check_listener(transport.socket, endpoint)
    except BaseException:
        transport.abort()
        raise
    transport.resume_reading()
    return transport


def _describe(error: OSError) -> str:
    """Return the reason in words why a connection was refused."""
    if isinstance(error, socket.gaierror):
        return "its host name is not known"
    # When several addresses were tried asyncio makes one error of all, whose text alone tells the causes.
    if error.errno == errno.ECONNREFUSED or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return "nothing listens there"
    return str(error) or type(error).__name__
