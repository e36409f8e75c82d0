"""One WebSocket to a kernel of a Jupyter Server: opened, read, written, watched and closed, nothing tried again.

`websockets` is imported when the first one is opened. With the subprotocol `v1.kernel.websocket.jupyter.org` a message
is one binary frame: the number of offsets, the offsets (each 8 bytes, little-endian, counted from the frame's start;
the last one is its end), then the segments between them: the channel's name, header, parent header, metadata and
content as JSON, and any number of buffers. Without it a message is a text frame of JSON; one with buffers is binary,
with offsets of 4 bytes, big-endian, and the JSON in front. Frames come from another machine: sizes and offsets are
checked before anything is taken from them.

Source: jupyter_server, "WebSocket kernel wire protocols".
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

import anyio

from codriver.errors import PeerError
from codriver.features.jupyter.kernels.messages import SHORT_BYTES, TooHeavyError, UnreadableError, reading
from codriver.features.jupyter.kernels.server_api import ServerApi, describe
from codriver.net.cooperative_turns import in_turns
from codriver.net.tcp_transport import probe_when_silent
from codriver.repls.contract.adapter import NotAnReplError, PackageMissingError, ReplUnreachableError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from websockets.asyncio.client import ClientConnection, connect
    from websockets.protocol import Event


SUBPROTOCOL: Final = "v1.kernel.websocket.jupyter.org"

MAX_FRAME_BYTES: Final = 32 * 2**20
"""Far above the values that anybody wants to see, and small enough to hold in memory three times."""
TOO_LONG: Final = f"the connection to the Jupyter Server brought a message of more than {MAX_FRAME_BYTES:,} bytes"
MAX_BUFFERS: Final = 1024
MAX_PART_BYTES: Final = 2**20
"""The most bytes of a header, a parent or metadata, which are small."""
PLACEHOLDER: Final = "\ufdd0"
"""The beginning of the names of long texts; a short message has none. It is no character, so no text has it by
accident.
"""
WORD: Final = 8
LEGACY_WORD: Final = 4
PARTS: Final = ("header", "parent_header", "metadata", "content")
FIXED_SEGMENTS: Final = 1 + len(PARTS)
"""The segments for the channel's name and those parts."""
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class FrameError(PeerError):
    """A frame from a Jupyter Server is invalid; `cause` says why."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the Jupyter Server sent a frame that is no message: {cause}")
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Frame:
    """One message between a kernel and its client, with the channel that carries it; the parts are JSON objects."""

    channel: str
    header: Mapping[str, Any]
    parent_header: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    content: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    buffers: tuple[bytes, ...] = ()
    read_error: str = ""
    """The reason in words why its content is not read: too many elements."""


def encode(frame: Frame) -> bytes:
    """Return the frame's bytes in the subprotocol v1."""
    parts = (frame.header, frame.parent_header, frame.metadata, frame.content)
    segments = [frame.channel.encode(), *map(_dump, parts), *frame.buffers]
    start = WORD * (1 + len(segments) + 1)
    offsets = list(accumulate(map(len, segments), initial=start))
    return b"".join([struct.pack(f"<{1 + len(offsets)}Q", len(offsets), *offsets), *segments])


def decode(data: bytes) -> Frame:
    """Return the message in a short binary frame. See `decoding`."""
    return _at_once(decoding(data, PLACEHOLDER))


def decoding(data: bytes, token: str) -> Generator[None, None, Frame]:
    """Read the message in a binary frame of the subprotocol v1; the generator yields at each point where it can pause.

    `token`: a text that no message has by accident.

    Raises:
        FrameError: the frame has another form, or is too large.
    """
    _check_size(len(data))
    if len(data) < WORD:
        raise FrameError(f"it has {len(data)} bytes, and not even the number of its offsets")
    count = int.from_bytes(data[:WORD], "little")
    if not FIXED_SEGMENTS + 1 <= count <= FIXED_SEGMENTS + 1 + MAX_BUFFERS:
        raise FrameError(f"it names {count} offsets, and {FIXED_SEGMENTS + 1} to {FIXED_SEGMENTS + 1 + MAX_BUFFERS} go")
    if len(data) < WORD * (1 + count):
        raise FrameError(f"its {len(data)} bytes end within its {count} offsets")
    offsets = struct.unpack_from(f"<{count}Q", data, WORD)
    if offsets[-1] != len(data):
        raise FrameError(f"its last offset is {offsets[-1]}, and it ends at {len(data)}")
    channel, *parts = _segments(data, offsets, after=WORD * (1 + count))
    header, parent, metadata, content, *buffers = parts
    before = _text(channel), _object(header), _object(parent), _object(metadata)
    try:
        read = yield from _reading(content, token)
    except TooHeavyError as error:
        return Frame(*before, read_error=error.cause)
    return Frame(*before, read, tuple(buffers))


def encode_text(frame: Frame) -> str:
    """Return the frame as JSON, for a server without the subprotocol.

    Buffers are not sent: no request of ours has any.
    """
    parts = {
        "channel": frame.channel, "header": dict(frame.header), "parent_header": dict(frame.parent_header),
        "metadata": dict(frame.metadata), "content": dict(frame.content), "buffers": [],
    }  # fmt: skip
    return json.dumps(parts)


def decode_legacy(data: str | bytes) -> Frame:
    """Return the message in a short frame of a server without the subprotocol. See `decoding_legacy`."""
    return _at_once(decoding_legacy(data, PLACEHOLDER))


def decoding_legacy(data: str | bytes, token: str) -> Generator[None, None, Frame]:
    """Read the message in a frame of a server without the subprotocol: text, or bytes if it has buffers.

    Raises:
        FrameError: the frame has another form, or is too large.
    """
    _check_size(len(data))
    if isinstance(data, str):
        return (yield from _of_json(data.encode(errors="surrogatepass"), (), token))
    if len(data) < LEGACY_WORD:
        raise FrameError(f"it has {len(data)} bytes, and not even the number of its parts")
    count = int.from_bytes(data[:LEGACY_WORD], "big")
    if not 1 <= count <= 1 + MAX_BUFFERS:
        raise FrameError(f"it names {count} parts, and 1 to {1 + MAX_BUFFERS} go")
    first = LEGACY_WORD * (1 + count)
    if len(data) < first:
        raise FrameError(f"its {len(data)} bytes end within its {count} offsets")
    offsets = (*struct.unpack_from(f">{count}I", data, LEGACY_WORD), len(data))
    text, *buffers = _segments(data, offsets, after=first)
    return (yield from _of_json(text, tuple(buffers), token))


def _at_once(work: Generator[None, None, Frame]) -> Frame:
    """Return the result of work without pauses."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Frame = done.value
            return result


def _check_size(size: int) -> None:
    if size > MAX_FRAME_BYTES:
        raise FrameError(f"it has {size:,} bytes, and {MAX_FRAME_BYTES:,} are the most that is taken")


def _segments(data: bytes, offsets: Sequence[int], *, after: int) -> list[bytes]:
    """The segments between the offsets, which begin at the end of the frame's head and never decrease."""
    if offsets[0] != after:
        raise FrameError(f"its first offset is {offsets[0]}, and its head ends at {after}")
    if any(start > end for start, end in pairwise(offsets)) or offsets[-1] > len(data):
        raise FrameError("its offsets go backwards or beyond its end")
    return [data[start:end] for start, end in pairwise(offsets)]


def _of_json(text: bytes, buffers: tuple[bytes, ...], token: str) -> Generator[None, None, Frame]:
    try:
        whole = yield from _reading(text, token)
    except TooHeavyError as error:
        raise FrameError(f"a part of it is no JSON that is read: {error.cause}") from None
    channel = whole.get("channel")
    if not isinstance(channel, str):
        raise FrameError("it names no channel")
    header, parent, metadata, content = (_checked(whole.get(name)) for name in PARTS)
    return Frame(channel, header, parent, metadata, content, buffers)


def _object(text: bytes) -> Mapping[str, Any]:
    if len(text) > MAX_PART_BYTES:
        raise FrameError(f"a part beside its content has {len(text):,} bytes, and {MAX_PART_BYTES:,} are the most")
    try:
        return _checked(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a part of it is no JSON: {error}") from None


def _reading(text: bytes, token: str) -> Generator[None, None, Mapping[str, Any]]:
    """Read the object in a long part. Kernels write an absent one as null."""
    if len(text) <= SHORT_BYTES:
        return _object(text)
    try:
        return (yield from reading(text, token))
    except TooHeavyError:
        raise
    except UnreadableError as error:
        raise FrameError(f"a part of it is no JSON object: {error.cause}") from None


def _checked(value: object) -> Mapping[str, Any]:
    """Return a part as an object; kernels write an absent one as null."""
    if value is None:
        return NOTHING
    if not isinstance(value, dict):
        raise FrameError(f"a part of it is a JSON {type(value).__name__}, and no object")
    return cast("dict[str, Any]", value)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FrameError("the name of its channel is no text") from None


def _dump(part: Mapping[str, Any]) -> bytes:
    # ASCII: half of a surrogate pair, which code may hold, has no UTF-8 and is good JSON.
    return json.dumps(dict(part)).encode("ascii")


OPEN_S: Final = 20.0
PING_S: Final = 10.0
PONG_S: Final = 15.0
FIRST_PONG_S: Final = 75.0
"""A server reads only after its kernel's first answer, for which it waits up to a minute."""
CLOSE_S: Final = 1.0
TOO_BIG: Final = 1009
"""The code of a close by a receiver of too long a message. Source: RFC 6455, "Defined Status Codes"."""
MOST_WAITING: Final = 2
"""Frames that wait to be read; the rest waits in the system, and then in the server."""
MOST_PINGS: Final = 100
"""Pings of a server in a second, and in one received piece, before it is given up: servers send one in 30 s."""
CHUNK_BYTES: Final = 4096
"""The bytes read at once, if they may hold more pings than that: each takes some 10 µs, and has two bytes."""
PING_HEAD: Final = b"\x89"
"""The first byte of a ping. Source: RFC 6455, "Base framing protocol"."""


class SocketLostError(Exception):
    """A WebSocket ended. `cause` says why; `is_stalled`: it ended without a sign, and the last messages may be lost."""

    def __init__(self, cause: str, *, is_stalled: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        self.is_stalled = is_stalled


class PingFloodError(FrameError):
    """A Jupyter Server sends pings without end, and each has to be answered."""

    def __init__(self) -> None:
        super().__init__(f"more than {MOST_PINGS} pings came within a second")


class ServerSocket:
    """An open WebSocket, for its life."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._speaks_v1 = connection.subprotocol == SUBPROTOCOL
        self._is_answering = False
        """Whether anything came."""
        self._is_stalled = False

    @property
    def is_open(self) -> bool:
        """Return whether messages go out now, as far as we know."""
        return self._connection.state.name == "OPEN"

    async def receive(self) -> Frame:
        """Return the next message.

        Raises:
            SocketLostError: no message comes any more.
            FrameError: the received data are no message, or pings without end.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415  # see the module's docstring

        try:
            data = await self._connection.recv()
        except ConnectionClosed as closed:
            if getattr(self._connection, "is_flooded", False):
                raise PingFloodError from None
            raise self._lost(closed) from None
        self._is_answering = True
        if self._speaks_v1 and isinstance(data, str):
            raise FrameError("it is text, where binary frames were agreed on")
        return await self._decoded(data)

    async def _decoded(self, data: str | bytes) -> Frame:
        """Return the message in a frame; a long one is read in turns."""
        is_short, token = len(data) <= SHORT_BYTES, secrets.token_hex(16)
        if self._speaks_v1 and isinstance(data, bytes):
            return decode(data) if is_short else await in_turns(decoding(data, token))
        return decode_legacy(data) if is_short else await in_turns(decoding_legacy(data, token))

    async def send(self, frame: Frame) -> None:
        """Send a message.

        Raises:
            SocketLostError: the connection is lost; the message may have gone out.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

        try:
            await self._connection.send(encode(frame) if self._speaks_v1 else encode_text(frame))
        except ConnectionClosed as closed:
            raise self._lost(closed) from None

    async def watch(self) -> None:
        """Ping the server now and then; end the connection, and return, if no answer comes.

        A proxy may hold a connection with its other half long gone.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

        with suppress(ConnectionClosed):
            while await self._is_alive(PONG_S if self._is_answering else FIRST_PONG_S):
                await anyio.sleep(PING_S)
            self._is_stalled = True
        self._connection.transport.abort()

    async def _is_alive(self, within_s: float) -> bool:
        with anyio.move_on_after(within_s):
            pong = asyncio.ensure_future(await self._connection.ping())
            pong.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio complains of it
            done, _ = await asyncio.wait({pong}, timeout=within_s)
            self._is_answering = self._is_answering or bool(done)
            return bool(done)
        return False

    async def close(self) -> None:
        """End the connection. Twice is harmless."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(CLOSE_S):
                await self._connection.close()
            self._connection.transport.abort()

    def _lost(self, closed: Exception) -> SocketLostError:
        if self._is_stalled:
            return SocketLostError("the way to the Jupyter Server stalled", is_stalled=True)
        sent, received = getattr(closed, "sent", None), getattr(closed, "rcvd", None)
        if sent is not None and sent.code == TOO_BIG:
            return SocketLostError(f"{TOO_LONG}, and was cut for that", is_stalled=True)
        if received is None:
            return SocketLostError("the connection to the Jupyter Server was cut")
        reason = f": {received.reason}" if received.reason else ""
        return SocketLostError(f"the Jupyter Server closed the connection with {received.code}{reason}")


async def open_socket(api: ServerApi, kernel: str, session: str) -> ServerSocket:
    """Return a WebSocket to a kernel, under a session id of ours.

    Raises:
        ReplUnreachableError: no one answers there in time.
        ServerAnswerError: the server refuses.
        NotAnReplError: the listener is no Jupyter Server.
        PackageMissingError: `websockets` is not installed.
    """
    try:
        client = await anyio.to_thread.run_sync(_client)
    except ImportError:
        raise PackageMissingError(api.base, "jupyter", "websockets") from None
    headers, tls = await anyio.to_thread.run_sync(lambda: (api.headers(), api.tls()))
    path = f"/api/kernels/{quote(kernel, safe='')}"
    url = f"ws{api.base.removeprefix('http')}{path}/channels?session_id={session}"
    from websockets.exceptions import InvalidHandshake, InvalidStatus  # noqa: PLC0415

    try:
        with anyio.fail_after(OPEN_S):
            return ServerSocket(await client(url, additional_headers=headers, ssl=tls))
    except TimeoutError:
        raise ReplUnreachableError(api.base, f"it did not open a WebSocket within {OPEN_S:g} s") from None
    except InvalidStatus as error:
        raise api.refusal(error.response.status_code, error.response.reason_phrase, path) from None
    except InvalidHandshake as error:
        cause = f"it does not open a WebSocket ({type(error).__name__})"
        raise NotAnReplError(api.base, cause, protocol="Jupyter") from None
    except (OSError, EOFError) as error:
        raise ReplUnreachableError(api.base, describe(error)) from None


@cache
def _client() -> type[connect]:
    """Return the client of `websockets` with our options: no log and no other server gets the token."""
    from websockets.asyncio.client import connect  # noqa: PLC0415

    # At the level DEBUG the client would log the header with the token.
    silent = logging.Logger("silent", logging.CRITICAL + 1)  # noqa: LOG001  # no setting of the root's reaches it
    connection = _connection()

    class Client(connect):
        def __init__(self, uri: str, **given: Any) -> None:
            super().__init__(
                uri, create_connection=connection, subprotocols=[SUBPROTOCOL], compression=None, logger=silent,  # type: ignore[list-item]
                open_timeout=None, ping_interval=None, close_timeout=CLOSE_S, max_size=MAX_FRAME_BYTES,
                max_queue=MOST_WAITING, proxy=None, **given,
            )  # fmt: skip

        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    return Client


def _connection() -> type[ClientConnection]:
    """Return a connection of `websockets` that acknowledges at once, and gives up on endless pings."""
    from websockets.asyncio.client import ClientConnection  # noqa: PLC0415
    from websockets.frames import Opcode  # noqa: PLC0415

    class Connection(ClientConnection):
        is_flooded = False
        second, pings = 0, 0

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            raw = transport.get_extra_info("socket")
            if raw is not None:
                probe_when_silent(raw, idle_s=10, interval_s=5, probes=3)
            _acknowledge_at_once(transport)

        def data_received(self, data: bytes) -> None:
            _acknowledge_at_once(self.transport)
            step = CHUNK_BYTES if data.count(PING_HEAD) > MOST_PINGS else len(data)
            for start in range(0, len(data), step):
                if self.is_flooded:
                    return
                super().data_received(data[start : start + step])

        def process_event(self, event: Event) -> None:
            super().process_event(event)
            if getattr(event, "opcode", None) is not Opcode.PING:
                return
            second = int(self.loop.time())
            self.pings = self.pings + 1 if second == self.second else 1
            self.second = second
            if self.pings > MOST_PINGS and not self.is_flooded:
                self.is_flooded = True
                self.transport.abort()

    return Connection


def _acknowledge_at_once(transport: asyncio.BaseTransport) -> None:
    """Have the system acknowledge at once: without that, each small chunk of a Jupyter Server waits 40 ms."""
    raw, option = transport.get_extra_info("socket"), getattr(socket, "TCP_QUICKACK", None)
    if raw is not None and option is not None:
        with suppress(OSError):
            raw.setsockopt(socket.IPPROTO_TCP, option, 1)
