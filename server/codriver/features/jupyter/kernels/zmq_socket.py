"""One socket of ours, connected to a socket of a kernel: messages are always taken, in turns, and wait in its inbox.

ZeroMQ is spoken here and not by libzmq, which holds the whole of every message, and of any number that wait. A kernel
drops messages for a slow reader: beyond 1,000 messages of libzmq's and the system's buffers all is lost, the end of an
evaluation too. So published bytes are taken at once, and wait here until there is time to take them apart: bytes are
cheap, while a message as objects is three times as large. Messages beyond both bounds are dropped in the inbox: the
middle of output and displays, counted by their parent, while the oldest and the newest stay. No other messages are ever
dropped: when they alone are too many, `has_space` is false, and the socket is not read on.

A message's identities, header, parent and metadata are small, and its buffers are not held. A content up to
`WHOLE_BYTES`, enough for nearly all messages, is held whole. Of a longer one the beginning and the end are held, in
pieces as they came: joining 12 MiB takes memory that is new to the process, and holds the loop for milliseconds.
Messages that are not signed with the kernel's key are dropped and counted. Source: Jupyter documentation, "Messaging in
Jupyter", "The wire protocol".
"""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.records import Recent
from codriver.features.jupyter.kernels.zmtp import GREETING, SUBSCRIBE_ALL, Decoder, ZmtpError, encode, ready
from codriver.net.cooperative_turns import Turns
from codriver.net.tcp_transport import TcpTransport
from codriver.wire.head_and_tail import HeadAndTail
from codriver.wire.untrusted import NOTHING, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.features.jupyter.kernels.zmtp import Chunk


CLOSED: Final = "the kernel closed the connection"
OPEN_S: Final = 2.0
RETRY_S: Final = 0.02
"""The time for a starting kernel until all its sockets listen, and the rest between attempts."""
BACKLOG_BYTES: Final = 16 * 1024
"""The bytes that wait to be decoded, and one more read; the rest waits in the system, and then in the kernel."""
PUBLISHED_BACKLOG_BYTES: Final = 16 * 2**20
"""The published bytes that wait to be decoded, as nothing else holds them for long: some 20,000 prints of a line."""
BUFFER_BYTES: Final = 4 * 2**20
"""The system's buffer for published bytes, as far as the system allows, while this process gets no turn: with ten times
as many processes as processors that takes seconds. By itself Linux begins with a thirtieth of this."""
CHUNK_BYTES: Final = 64 * 1024
"""The size to which waiting reads are joined: each read of few bytes would take a page of memory."""
SLICE_BYTES: Final = 2 * 1024
LONG_SLICE_BYTES: Final = 64 * 1024
"""The bytes that are decoded between two looks at the clock, of small parts and of a long one."""


class ZmqSocket:
    """A connected socket, until either side closes it. Run `read` in a task of the owner, which takes the messages."""

    def __init__(self, transport: TcpTransport, kind: str, identity: str, signer: Signer, numbers: Numbers) -> None:
        self._transport = transport
        self._numbers = numbers
        self._decoder = Decoder()
        self._assembler = Assembler(signer)
        self._inbox = Inbox()
        self._backlog: deque[bytearray] = deque()
        self._backlog_bytes = 0
        self._most_backlog = PUBLISHED_BACKLOG_BYTES if kind == "SUB" else BACKLOG_BYTES
        self._end: str | None = None
        """The reason why nothing more comes."""
        self._received_item = anyio.Event()
        """Set when something came."""
        self._mail = anyio.Event()
        """Set when something is in the inbox."""
        self._freed = anyio.Event()
        """Set when the inbox got room, or more bytes came than may wait to be taken apart."""
        self.received_bytes = 0
        """All bytes received so far."""
        transport.waits_for_acks = False  # Messages of ZeroMQ are sent at once
        self._unsent: list[bytes] | None = [encode(SUBSCRIBE_ALL)] if kind == "SUB" else []
        """Frames that wait for the end of the handshake: libzmq hangs up on a peer that sends them earlier."""
        transport.hand_to(self._receive, self._lost)
        transport.write(GREETING + ready(kind, identity))

    @property
    def unsigned(self) -> int:
        """Return the number of messages so far that are not signed with the kernel's key."""
        return self._assembler.unsigned

    def send(self, parts: Sequence[bytes]) -> None:
        """Send a message, as far as the kernel takes it at once; the rest goes out later."""
        data = encode(parts)
        if self._unsent is None:
            self._transport.write(data)
        else:
            self._unsent.append(data)

    async def receive_next(self) -> Received | Dropped:
        """Return the next message, or the number of messages dropped there. Waits forever when the connection ended."""
        while not len(self._inbox):
            self._mail = anyio.Event()
            await self._mail.wait()
        item = self._inbox.receive_next()
        self._freed.set()
        return item

    async def read(self) -> str:
        """Decode received bytes until the connection ends, and return the cause in words."""
        turns = Turns()
        try:
            while self._backlog or self._end is None:
                if self._backlog:
                    data = bytes(self._backlog.popleft())
                    await self._decode(data, turns)
                    self._backlog_bytes -= len(data)
                    del data
                    if self._backlog_bytes <= self._most_backlog:
                        self._transport.resume_reading()
                else:
                    self._received_item = anyio.Event()
                    await self._received_item.wait()
                    turns = Turns()
        except ZmtpError as error:
            return str(error)
        return self._end or "it was closed by us"

    def _receive(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if self._backlog and len(self._backlog[-1]) + len(data) <= CHUNK_BYTES:
            self._backlog[-1] += data
        else:
            self._backlog.append(bytearray(data))
        self._backlog_bytes += len(data)
        if self._backlog_bytes > self._most_backlog:
            self._transport.pause_reading()
            self._freed.set()
        self._received_item.set()

    def _lost(self, error: Exception | None) -> None:
        self._end = f"the connection broke ({error})" if error else CLOSED
        self._received_item.set()

    async def _decode(self, data: bytes, turns: Turns) -> None:
        """Put the messages that the bytes complete into the inbox, in turns; each waits until there is room for it."""
        start = 0
        while start < len(data):
            if turns.is_over:
                await turns.leave_off()
            end = start + min(max(SLICE_BYTES, self._decoder.missing_bytes), LONG_SLICE_BYTES)
            for chunk in self._decoder.feed(data[start:end]):
                message = self._assembler.receive_next(chunk)
                if message is not None:
                    self._numbers.received(message)
                    await self._put(message)
            self._answer()
            start = end

    def _answer(self) -> None:
        """Send the answers that the protocol asks for, and the frames that waited for the handshake."""
        while self._decoder.answers:
            self._transport.write(self._decoder.answers.pop())
        if self._unsent is not None and self._decoder.is_ready:
            self._transport.write(b"".join(self._unsent))
            self._unsent = None

    async def _put(self, message: Received) -> None:
        while not self._inbox.has_space or (self._inbox.is_started and self._backlog_bytes <= self._most_backlog):
            self._freed = anyio.Event()
            await self._freed.wait()
        self._inbox.put(message)
        self._mail.set()

    @property
    def is_read(self) -> bool:
        """Return true if no received bytes wait."""
        return not self._backlog_bytes and not len(self._inbox)

    async def close(self) -> None:
        """End the connection. Twice is harmless."""
        await self._transport.close()


async def open_socket(
    information: Mapping[str, object], name: str, kind: str, identity: str, signer: Signer, numbers: Numbers
) -> ZmqSocket:
    """Return a socket of that ZeroMQ type, connected to the kernel's socket of that name.

    Raises:
        OSError: no one listens there, also after a moment.
    """
    deadline = anyio.current_time() + OPEN_S
    while True:
        try:
            transport = await _connect(information, name, is_wide=kind == "SUB")
            return ZmqSocket(transport, kind, identity, signer, numbers)
        except OSError:
            if anyio.current_time() >= deadline:
                raise
        await anyio.sleep(RETRY_S)


async def _connect(information: Mapping[str, object], name: str, *, is_wide: bool) -> TcpTransport:
    """A connection to the kernel's socket of that name, with a large system buffer for a socket that `is_wide`."""
    loop = asyncio.get_running_loop()
    host, port = str(information["ip"]), information[f"{name}_port"]
    if information.get("transport") == "ipc":
        _, transport = await loop.create_unix_connection(TcpTransport, f"{host}-{port}")
        return transport
    family, kind, protocol, _, address = (await loop.getaddrinfo(host, int(str(port)), type=socket.SOCK_STREAM))[0]
    connected = socket.socket(family, kind, protocol)
    try:
        connected.setblocking(False)  # noqa: FBT003  # the library's own way
        if is_wide and _has_wide_buffers(family):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        await loop.sock_connect(connected, address)
        _, transport = await loop.create_connection(TcpTransport, sock=connected)
    except BaseException:
        connected.close()
        raise
    return transport


def _has_wide_buffers(family: int) -> bool:
    """Return true if the system gives a socket the wanted buffer: it may give less, and never more later."""
    with socket.socket(family, socket.SOCK_STREAM) as tried, suppress(OSError):
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        return tried.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= BUFFER_BYTES
    return False


MOST_FIRST_BYTES: Final = 4 * 2**20
MOST_LAST_BYTES: Final = 8 * 2**20
"""The bytes of a flood held at its beginning and at its end; a single message may be longer."""
MESSAGE_BYTES: Final = 2048
"""The bytes counted for a message beside its content: its header and parent as objects."""
STREAM_NAME_BYTES: Final = 64
DROPPABLE: Final = frozenset({"stream", "display_data", "update_display_data", "clear_output", "comm_msg", "comm_open"})
"""Types of messages that come in any number, and that nobody waits for."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A mark in the place of dropped messages about one parent, with their size."""

    parent: Mapping[str, object]
    stream: str
    """The stream of all of them; empty for displays and the like."""
    size: int
    """Bytes of their contents."""


class Inbox:
    """The waiting messages of one socket, for its life."""

    def __init__(self, most_first: int = MOST_FIRST_BYTES, most_last: int = MOST_LAST_BYTES) -> None:
        self._most_first = most_first
        self._most_last = most_last
        self._first: deque[Received | Dropped] = deque()
        self._last: deque[Received] = deque()
        self._first_bytes = self._last_bytes = 0
        self._droppable = 0
        """The number of newest messages that may be dropped. One of them stays, however long: a flood may end in one
        message.
        """

    def __len__(self) -> int:
        return len(self._first) + len(self._last)

    @property
    def has_space(self) -> bool:
        """Return true if another message may be put in without exceeding the bounds."""
        return self._first_bytes + self._last_bytes <= self._most_first + self._most_last

    @property
    def is_started(self) -> bool:
        """Return true if so much waits that the next message may push another out."""
        return self._first_bytes + self._last_bytes > self._most_first

    def put(self, message: Received) -> None:
        """Add the newest message."""
        weight = _weight(message)
        if not self._last and self._first_bytes + weight <= self._most_first:
            self._first.append(message)
            self._first_bytes += weight
            return
        self._last.append(message)
        self._last_bytes += weight
        self._droppable += message.type in DROPPABLE
        while self._last_bytes > self._most_last and self._may_shift():
            self._shift()

    def _may_shift(self) -> bool:
        return len(self._last) > 1 and (self._droppable > 1 or self._last[0].type not in DROPPABLE)

    def _shift(self) -> None:
        """Take the oldest of the newest messages out: drop it if droppable, and count it."""
        oldest = self._last.popleft()
        self._last_bytes -= _weight(oldest)
        if oldest.type not in DROPPABLE:
            self._first.append(oldest)
            self._first_bytes += _weight(oldest)
            return
        self._droppable -= 1
        stream, size = _stream(oldest), oldest.size_bytes + oldest.left_out
        before = self._first[-1] if self._first else None
        if isinstance(before, Dropped) and (_id(before.parent), before.stream) == (_id(oldest.parent), stream):
            self._first.pop()
            self._first_bytes -= MESSAGE_BYTES
            size += before.size
        self._first.append(Dropped(oldest.parent, stream, size))
        self._first_bytes += MESSAGE_BYTES

    def receive_next(self) -> Received | Dropped:
        """Return the oldest message; the inbox must not be empty."""
        if not self._first:
            self._first, self._last = deque(self._last), deque()
            self._first_bytes, self._last_bytes = self._last_bytes, 0
            self._droppable = 0
        oldest = self._first.popleft()
        self._first_bytes -= MESSAGE_BYTES if isinstance(oldest, Dropped) else _weight(oldest)
        return oldest


def _weight(message: Received) -> int:
    return MESSAGE_BYTES + message.size_bytes


def _stream(message: Received) -> str:
    """Return the stream of a message, told by the beginning of its unread content."""
    if message.type != "stream":
        return ""
    return "stderr" if b'"stderr"' in message.begins(STREAM_NAME_BYTES) else "stdout"


def _id(parent: Mapping[str, object]) -> str:
    return text_of(parent, "msg_id")


DELIMITER: Final = b"<IDS|MSG>"
WHOLE_BYTES: Final = 12 * 2**20
"""Bytes of one content: far above the values that anybody wants to see, and small enough to hold in memory twice."""
MOST_HEAD: Final = 2 * 2**20
MOST_TAIL: Final = 2**20
"""The most bytes held at the end of a longer content, which nobody reads whole."""
MOST_HEADER: Final = 64 * 1024
MOST_METADATA: Final = 2**20
MAX_SIGNATURES: Final = 8192
"""The signatures of the newest messages: a second message with the same signature was recorded and replayed."""

_SIGNATURE, _HEADER, _PARENT, _METADATA, _CONTENT = range(5)
MAX_SERIES: Final = 64
"""The number series of a kernel, and of processes that it forks."""
MOST_DIGITS: Final = 18
MOST_OF_OTHERS: Final = 50
"""Of the messages between two `idle`s of the kernel, so many may be replies to other clients. When a kernel publishes
too fast, hundreds of messages are dropped at once.
"""
IDLE: Final = b'"idle"'
STATUS_BYTES: Final = 1024

_LIMITS: Final = {
    _SIGNATURE: (256, 0), _HEADER: (MOST_HEADER, 0), _PARENT: (MOST_HEADER, 0),
    _METADATA: (MOST_METADATA, 0), _CONTENT: (WHOLE_BYTES, 0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Received:
    """A signed message whose content nobody has read yet."""

    header: Mapping[str, object]
    parent: Mapping[str, object]
    metadata: bytes
    head: tuple[bytes, ...]
    """The content, or its beginning, in pieces."""
    tail: tuple[bytes, ...] = ()
    """The content's end, where something before it is left out."""
    left_out: int = 0
    """Bytes between the two."""
    size_bytes: int = field(init=False)
    """Bytes that the message takes, as far as they may be many."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size_bytes", sum(map(len, (self.metadata, *self.head, *self.tail))))

    @property
    def type(self) -> str:
        """Return the type in the message's header."""
        return text_of(self.header, "msg_type")

    def begins(self, count: int) -> bytes:
        """Return the first bytes of the content."""
        partial = b""
        for chunk in self.head:
            partial += chunk[: count - len(partial)]
            if len(partial) == count:
                break
        return partial


class Signer:
    """The key of one kernel. Without a key nothing is signed, and everything counts as it comes."""

    def __init__(self, key: bytes, scheme: str) -> None:
        """A key of a connection file and its `signature_scheme`.

        Raises:
            ValueError: this Python knows no such scheme.
        """
        algorithm = scheme.removeprefix("hmac-")
        self._prepared = hmac.new(key, digestmod=algorithm) if key else None

    def begin(self) -> hmac.HMAC | None:
        """Return a signature before its first part."""
        return self._prepared.copy() if self._prepared else None

    def parts(self, *objects: Mapping[str, object]) -> list[bytes]:
        """Return the parts of a message: header, parent, metadata and content."""
        # ASCII: half of a surrogate pair, which code may hold, has no UTF-8 and is good JSON.
        dumped = [json.dumps(dict(one)).encode("ascii") for one in objects]
        signature = self.begin()
        for part in dumped:
            if signature is not None:
                signature.update(part)
        return [DELIMITER, signature.hexdigest().encode() if signature else b"", *dumped]


class Numbers:
    """The lost messages of one kernel, told by the numbers in message ids. Lives as long as a connection.

    A kernel silently drops messages for a slow reader. Kernels that use jupyter_client number their messages, including
    replies to other clients; without numbers, no loss is known.

    Source: jupyter_client, `Session.msg_id`.
    """

    def __init__(self) -> None:
        self.lost = 0
        """The messages lost so far, counted whenever the kernel is idle."""
        self._counted: Recent[str, _Counted] = Recent(MAX_SERIES)

    def received(self, message: Received) -> None:
        """Count a signed message of any socket."""
        series, _, number = text_of(message.header, "msg_id").rpartition("_")
        if not series or not number.isdecimal() or len(number) > MOST_DIGITS:
            return
        counted, numbered = self._counted.get(series), int(number)
        if counted is None:
            counted = self._counted[series] = _Counted(numbered)
        elif numbered > counted.since:
            counted.received += 1
            counted.newest = max(counted.newest, numbered)
        if message.type == "status" and IDLE in message.begins(STATUS_BYTES):
            missing = counted.newest - counted.since - counted.received
            self.lost += missing if missing > MOST_OF_OTHERS else 0
            counted.since, counted.received = counted.newest, 0


@dataclass(slots=True)
class _Counted:
    """The messages of one series since the kernel's last `idle`."""

    since: int
    newest: int = 0
    received: int = 0

    def __post_init__(self) -> None:
        self.newest = self.since


class Assembler:
    """Puts the messages of one socket together, in time linear in their bytes."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._seen: Recent[bytes, None] = Recent(MAX_SIGNATURES)
        self.unsigned = 0
        """The number of messages so far that are not signed with the kernel's key, or invalid."""
        self._begin()

    def _begin(self) -> None:
        self._next = -1
        """The number of the next part, from the signature on; negative before the delimiter."""
        self._part = HeadAndTail(len(DELIMITER) + 1, 0)
        self._parts: list[HeadAndTail] = []
        self._signature = self._signer.begin()

    def receive_next(self, chunk: Chunk) -> Received | None:
        """Return the message that the chunk completes, if it is signed."""
        data, ends_part, ends_message, part_bytes = chunk
        if self._next <= _CONTENT:
            if part_bytes > WHOLE_BYTES and self._next == _CONTENT and not self._part.size:
                self._part = HeadAndTail(MOST_HEAD, MOST_TAIL)
            self._part.add(data)
            if self._next > _SIGNATURE and self._signature is not None:
                self._signature.update(data)
            if ends_part:
                self._end_part()
        if not ends_message:
            return None
        try:
            return self._message()
        finally:
            self._begin()

    def _end_part(self) -> None:
        if self._next >= 0:
            self._parts.append(self._part)
            self._next += 1
        elif self._part.head == DELIMITER:
            self._next = _SIGNATURE
        self._part = HeadAndTail(*_LIMITS.get(self._next, (len(DELIMITER) + 1, 0)))

    def _message(self) -> Received | None:
        if len(self._parts) <= _CONTENT or not self._is_signed(self._parts[_SIGNATURE].head):
            self.unsigned += 1
            return None
        _, header, parent, metadata, content = self._parts
        read = _object(header)
        if read is None:
            self.unsigned += 1
            return None
        return Received(
            read,
            _object(parent) or NOTHING,
            b"" if metadata.left_out else metadata.head,
            *content.chunks,
            content.left_out,
        )

    def _is_signed(self, signature: bytes) -> bool:
        if self._signature is None:
            return True
        if not hmac.compare_digest(self._signature.hexdigest().encode(), signature) or signature in self._seen:
            return False
        self._seen[signature] = None
        return True


def _object(part: HeadAndTail) -> Mapping[str, object] | None:
    """Return the object in a part; None for any other value, and for a part longer than is held."""
    if part.left_out:
        return None
    try:
        read = json.loads(part.head.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None
