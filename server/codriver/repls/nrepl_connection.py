"""One socket to an nREPL server: messages out, answers back to whoever asked.

A reader task drains the socket at all times. Every request has an id of its own; answers find their exchange by it,
also when they come after `done`, for as long as the id is among the last `LINGERING` that ended.
"""

from __future__ import annotations

import errno
import socket
import sys
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import SocketAttribute

from codriver.errors import ReplDisconnectedError
from codriver.repls.base import Endpoint, OpTimedOutError, ReplUnreachableError, RequestUnsafeError
from codriver.repls.joining import joined
from codriver.repls.message import Message, NotAMessageError, parse
from codriver.wire.bencode import BencodeError, Decoder, Value, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anyio.abc import SocketStream

LINGERING: Final = 512
"""Ids whose late messages are still filed: enough for the evaluations of an hour, a few KB of memory."""

READ_BYTES: Final = 256 * 1024

SLICE_BYTES: Final = 2 * 1024
TURN_S: Final = 0.0005
"""How long the messages of a flood are filed before others get their turn."""
TURNS_OF_OTHERS: Final = 4
"""A call of another client goes through about a dozen; when nobody wants them they cost some 20 µs each."""

KEEPALIVE_IDLE_S: Final = 10
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 3
"""10 s of silence, then 3 probes 5 s apart: a half-open connection is noticed within 25 s."""

OnMessage = Callable[[Message], None]


class Exchange:
    """A request and what came back. Lives from `NreplConnection.begin` until its id is forgotten."""

    __slots__ = ("id", "on_message", "over", "status", "turned")

    def __init__(self, identity: str, on_message: OnMessage) -> None:
        self.id = identity
        self.on_message = on_message
        self.over = anyio.Event()
        self.turned = anyio.Event()
        """Set when it is over or when it failed: some servers say nothing after a failure."""
        self.status: set[str] = set()


class NreplConnection:
    """One connection to an nREPL server. Lives until either side closes it; run `read` in a task group of the owner."""

    def __init__(self, stream: SocketStream, endpoint: Endpoint, on_stray: OnMessage) -> None:
        self._stream = stream
        self._endpoint = endpoint
        self._on_stray = on_stray
        self._ids = count(1)
        self._routes: OrderedDict[str, Exchange] = OrderedDict()
        self._active: dict[str, Exchange] = {}
        self._outgoing = anyio.Lock(fast_acquire=True)
        raw: socket.socket = stream.extra(SocketAttribute.raw_socket)
        self._socket = raw
        self.send_gap_s = 0.0
        """Quiet time before a message while another waits, for servers that read one at a time and forget the next."""
        self.closed = anyio.Event()
        self.cause: str | None = None
        self.heard_at = anyio.current_time()
        """When the REPL last sent anything, on the event loop's clock."""
        _keep_alive(self._socket)

    async def read(self) -> None:
        """Drain the socket until the connection is over. Never raises but for cancellation."""
        decoder = Decoder()
        try:
            while True:
                data = await self._stream.receive(READ_BYTES)
                self.heard_at = anyio.current_time()
                _rearm_quick_ack(self._socket)
                await self._take(decoder, data)
        except anyio.EndOfStream:
            middle = "" if decoder.is_idle else " in the middle of a message"
            self._finish(f"the REPL closed the connection{middle}")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            self._finish(f"the connection broke ({error.__cause__ or type(error).__name__})")
        except BencodeError as error:
            self._file_all([value for value in error.decoded if isinstance(value, dict)])
            self._finish(str(error))
        except NotAMessageError as error:
            self._finish(str(error))
        finally:
            self._finish("it was closed by us")

    async def _take(self, decoder: Decoder, data: bytes) -> None:
        """File what the bytes complete, in turns: however much comes at once, others are served meanwhile."""
        values: list[Value] = []
        turn_ends = anyio.current_time() + TURN_S
        for start in range(0, len(data), SLICE_BYTES):
            try:
                values += decoder.feed(data[start : start + SLICE_BYTES])
            except BencodeError:
                self._file_all(values)
                raise
            if anyio.current_time() >= turn_ends:
                self._file_all(values)
                values = []
                for _ in range(TURNS_OF_OTHERS):
                    await anyio.lowlevel.checkpoint()
                turn_ends = anyio.current_time() + TURN_S
        self._file_all(values)

    @property
    def is_waiting(self) -> bool:
        """Whether a request of ours is not answered yet."""
        return bool(self._active)

    def begin(self, on_message: OnMessage) -> Exchange:
        """A new exchange, whose messages go to `on_message`, those after its end included."""
        exchange = Exchange(f"codriver-{next(self._ids)}", on_message)
        self._active[exchange.id] = exchange
        return exchange

    def end(self, exchange: Exchange) -> None:
        """Take an exchange for over: by its `done`, or because nobody waits for it any more. Twice is harmless."""
        if self._active.pop(exchange.id, None) is not None:
            self._routes[exchange.id] = exchange
            while len(self._routes) > LINGERING:
                self._routes.popitem(last=False)
        exchange.over.set()
        exchange.turned.set()

    async def settle(self, exchange: Exchange, *, after_failure_s: float) -> bool:
        """Wait until `exchange` is over; False when it failed and no `done` followed within `after_failure_s`.

        Raises:
            ReplDisconnectedError: the connection ended first.
        """
        await exchange.turned.wait()
        if not exchange.over.is_set():
            with anyio.move_on_after(after_failure_s):
                await exchange.over.wait()
        is_over = exchange.over.is_set()
        self.end(exchange)
        if is_over and "done" not in exchange.status:
            self.check_open()
        return is_over

    async def send(self, exchange: Exchange, op: str, fields: dict[str, Value]) -> None:
        """Send a request.

        Raises:
            ReplDisconnectedError: the connection is over.
            RequestUnsafeError: a text holds what no UTF-8 can say.
        """
        try:
            data = encode({"op": op, "id": exchange.id, **fields})
        except UnicodeEncodeError as error:
            found = f"\\u{ord(error.object[error.start]):04x}"
            problem = f"it holds half of a character pair ({found}) at position {error.start}, which UTF-8 cannot say"
            raise RequestUnsafeError(
                problem, hint="write the character whole, or as an escape of the language"
            ) from error
        async with self._outgoing:
            if self.send_gap_s and len(self._active) > 1:
                await anyio.sleep(self.send_gap_s)
            self.check_open()
            _rearm_quick_ack(self._socket)
            try:
                await self._stream.send(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                raise ReplDisconnectedError(self.cause or f"sending failed ({error.__cause__ or error})") from error

    async def ask(self, op: str, *, timeout_s: float, **fields: Value) -> list[Message]:
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
                await exchange.over.wait()
        finally:
            exchange.on_message = self._on_stray
            self.end(exchange)
        if scope.cancelled_caught:
            raise OpTimedOutError(op, timeout_s)
        if not any(message.is_done for message in messages):
            self.check_open()
        return messages

    def check_open(self) -> None:
        """Nothing, while the connection stands.

        Raises:
            ReplDisconnectedError: it is over.
        """
        if self.cause is not None:
            raise ReplDisconnectedError(self.cause)

    async def close(self) -> None:
        """End the connection. Twice is harmless."""
        await self.abandon("it was closed by us")

    async def abandon(self, cause: str) -> None:
        """End the connection for the reason `cause`, unless it is over already."""
        self._finish(cause)
        await anyio.aclose_forcefully(self._stream)

    def _file_all(self, values: Iterable[Value]) -> None:
        for value in joined(values):
            self._file(parse(value))

    def _file(self, message: Message) -> None:
        """Give a message to its exchange; one without an id that is more than output can only be the one that runs."""
        exchange = self._active.get(message.id or "") or self._routes.get(message.id or "")
        if exchange is None and message.id is None and len(self._active) == 1 and _answers(message):
            exchange = next(iter(self._active.values()))
        if exchange is None:
            self._on_stray(message)
            return
        if not exchange.over.is_set():
            exchange.status |= message.status
        exchange.on_message(message)
        if message.is_failed:
            exchange.turned.set()
        if message.is_done:
            self.end(exchange)

    def _finish(self, cause: str) -> None:
        if self.cause is not None:
            return
        self.cause = cause
        for exchange in tuple(self._active.values()):
            exchange.over.set()
            exchange.turned.set()
        self.closed.set()


async def dial(endpoint: Endpoint, on_stray: OnMessage, *, timeout_s: float) -> NreplConnection:
    """A connection to whoever listens at `endpoint`; nothing was said on it yet.

    Raises:
        ReplUnreachableError: nobody listens, or the way there is closed.
    """
    try:
        with anyio.fail_after(timeout_s):
            stream = await anyio.connect_tcp(endpoint.host, endpoint.port)
    except TimeoutError:
        raise ReplUnreachableError(endpoint, f"it did not take the connection within {timeout_s:g} s") from None
    except OSError as error:
        raise ReplUnreachableError(endpoint, _say(error)) from error
    return NreplConnection(stream, endpoint, on_stray)


def _say(error: OSError) -> str:
    """Why a connection was refused, in words: anyio wraps the cause when it tried several addresses."""
    root: BaseException = error
    while isinstance(root, BaseExceptionGroup) or (root.__cause__ is not None):
        root = root.exceptions[0] if isinstance(root, BaseExceptionGroup) else root.__cause__ or root
    if isinstance(root, socket.gaierror):
        return "its host name is not known"
    if isinstance(root, OSError) and root.errno == errno.ECONNREFUSED:
        return "nothing listens there"
    return str(root) or type(root).__name__


def _answers(message: Message) -> bool:
    return bool(message.status) or "value" in message.fields or "ex" in message.fields


def _rearm_quick_ack(raw: socket.socket) -> None:
    """Ask the kernel to acknowledge at once. nREPL servers write value and `done` separately and wait 40 ms else.

    Linux forgets the flag after some packets, so it is set again around every read and write.
    """
    if sys.platform == "linux":
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        except OSError:
            # The socket was closed meanwhile: the read or write that follows says so.
            return


def _keep_alive(raw: socket.socket) -> None:
    """Let the kernel find out when the other side is gone without a word."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        # Probes are not sent while data waits for its acknowledgement; this bounds that wait in the same way.
        limit_ms = 1000 * (KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_PROBES)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)
    if sys.platform == "darwin":
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPALIVE, KEEPALIVE_IDLE_S)
    if sys.platform in {"linux", "darwin"}:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
