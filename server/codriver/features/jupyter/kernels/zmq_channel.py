"""A channel to a kernel over ZeroMQ, with four sockets that are always read.

Before they are connected, the kernel's port is probed to find out whether it speaks ZeroMQ. Messages are parsed here,
in turns, after they were taken from the inboxes of the sockets.

Source: Jupyter documentation, "Connection files" and "Messaging in Jupyter".
"""

from __future__ import annotations

import json
import secrets
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4

import anyio
import anyio.lowlevel
from anyio.abc import SocketAttribute

from codriver import files
from codriver.errors import ReplDisconnectedError
from codriver.features.jupyter.kernels.channel import Channel
from codriver.features.jupyter.kernels.connection_files import is_sheltered
from codriver.features.jupyter.kernels.content_reader import SHORT_BYTES, UnreadableError, joined, reading, repaired
from codriver.features.jupyter.kernels.inbox import Dropped
from codriver.features.jupyter.kernels.kernel_processes import KernelProcess, find_process
from codriver.features.jupyter.kernels.lost_messages import Numbers
from codriver.features.jupyter.kernels.messages import LEFT_OUT, SOCKETS, new_header, read_message
from codriver.features.jupyter.kernels.signed_messages import Received, Signer
from codriver.features.jupyter.kernels.zmq_socket import CLOSED, ZmqSocket, open_socket
from codriver.features.jupyter.kernels.zmtp import SIGNATURE_BYTES, is_greeting
from codriver.files import Links, Rules
from codriver.net.cooperative_turns import Turns, in_turns
from codriver.net.kernel_sockets import objection_at, objection_to, plain
from codriver.net.task_set import cancelled_on_exit
from codriver.repls.contract.adapter import (
    NotAnReplError,
    PackageMissingError,
    ReplUnreachableError,
    StrangeListenerError,
)
from codriver.wire.head_and_tail import left_out_mark
from codriver.wire.untrusted import NOTHING, text_of

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from codriver.features.jupyter.kernels.channel import CatchUp, OnMessage
    from codriver.features.jupyter.kernels.messages import Message, Socket

KERNEL: Final = "Jupyter kernel"
EXPOSED_RULES: Final = Rules(Links.OF_USER, 64 * files.KIBIBYTE, is_granting=True)
SHELTERED_RULES: Final = Rules(Links.OF_USER, 64 * files.KIBIBYTE)
"""Rules for a connection file that no other user can reach, whatever its mode."""
"""A connection file decides where code is sent, so nobody else may write the file."""

PROBE_S: Final = 1.0
DRAIN_S: Final = 0.2
"""The time for a kernel's last messages to come, on other sockets than the closed one."""
MAX_DRAIN_S: Final = 10.0
"""The time for telling the messages that came until then."""

BEAT_S: Final = 5.0
"""The time that a kernel behind a tunnel may go without a heartbeat: busy kernels of some languages have none."""

STREAM_CHARACTERS: Final = 64 * 1024
"""The characters of a printed text that are told at once."""

WRONG_KEY: Final = (
    "its connection file is not that of the kernel that listens there, or that kernel has been busy all the while"
)


@asynccontextmanager
async def open_zmq(
    address: str, on_message: OnMessage, *, found_by: Path | None = None, catch_up: CatchUp = anyio.lowlevel.checkpoint
) -> AsyncIterator[ZmqChannel]:
    """Open a channel to the kernel of the connection file at `address`. See `messages.Carrier`.

    `found_by`: the same file, if nobody named it: the listeners at its ports then have to be this user's. `catch_up` is
    awaited before each message is told; further messages wait meanwhile, within bounds.

    Raises:
        ReplUnreachableError: the file is missing or no connection file, or nobody listens there.
        StrangeListenerError: the file was found, and somebody else listens there, or nobody can tell.
        NotAnReplError: the listener does not speak ZeroMQ.
        PackageMissingError: jupyter_client is not installed.
    """
    information = await anyio.to_thread.run_sync(_read, address)
    if find_spec("jupyter_client") is None:
        raise PackageMissingError(address, "jupyter", "jupyter_client")
    signer = _signer(address, information)
    await _probe(address, information, found_by)
    process = await anyio.to_thread.run_sync(find_process, address) if _is_loopback(information) else None
    channel = ZmqChannel(address, information, signer, on_message, process, catch_up)
    try:
        await channel.open()
        async with cancelled_on_exit() as tasks:
            for name in SOCKETS:
                tasks.start_soon(channel.read, name)
                tasks.start_soon(channel.deliver, name)
            if not _is_loopback(information):
                tasks.start_soon(channel.watch_beat)
            yield channel
    finally:
        with anyio.CancelScope(shield=True):
            await channel.close()


class ZmqChannel(Channel):
    """A channel over ZeroMQ. Lives as long as the context of `open_zmq`."""

    def __init__(
        self,
        address: str,
        information: Mapping[str, object],
        signer: Signer,
        on_message: OnMessage,
        process: KernelProcess | None,
        catch_up: CatchUp,
    ) -> None:
        self._address = address
        self._information = information
        self._signer = signer
        self._on_message = on_message
        self._process = process
        self._catch_up = catch_up
        self._numbers = Numbers()
        self._session = uuid4().hex
        self._sockets: dict[Socket, ZmqSocket] = {}
        self._cause: str | None = None
        self._closed = anyio.Event()
        self._is_idle = False
        """Whether the kernel's last state was `idle`."""
        self.restarted_by: Callable[[], Awaitable[None]] | None = None
        """The way in which the kernel's starter restarts it for us, if there is one."""

    async def open(self) -> None:
        """Connect all sockets, each under our session's name: a question for input goes to the sender of the code.

        Raises:
            ReplUnreachableError: a socket cannot be connected.
        """
        try:
            for name in SOCKETS:
                kind = "SUB" if name == "iopub" else "DEALER"
                self._sockets[name] = await self._open_socket(name, kind, self._session)
        except OSError as error:
            raise ReplUnreachableError(self._address, f"its socket {name} cannot be connected: {error}") from error

    async def _open_socket(self, name: str, kind: str, identity: str) -> ZmqSocket:
        return await open_socket(self._information, name, kind, identity, self._signer, self._numbers)

    @property
    def session(self) -> str:
        """Our session id."""
        return self._session

    @property
    def address(self) -> str:
        """Return the path of the connection file."""
        return self._address

    @property
    def is_local(self) -> bool:
        """Return whether the kernel runs on this machine."""
        return _is_loopback(self._information)

    @property
    def notebook(self) -> str | None:
        """Return the notebook that the kernel's server wrote into the file."""
        session = text_of(self._information, "jupyter_session")
        return session if session.endswith(".ipynb") and Path(session).is_absolute() else None

    @property
    def can_restart(self) -> bool:
        """Return true if a server on this machine started the kernel."""
        return self.restarted_by is not None

    async def restart(self) -> None:
        """Have the server that started the kernel restart it."""
        await (self.restarted_by or super().restart)()

    @property
    def can_interrupt(self) -> bool:
        """Return whether the kernel's process is known."""
        return self._process is not None

    @property
    def process_id(self) -> int | None:
        """Return the kernel's process, if its command names the connection file."""
        return self._process.id if self._process else None

    def post(
        self,
        socket: Socket,
        type: str,  # noqa: A002  # the protocol's word
        content: Mapping[str, object],
        *,
        metadata: Mapping[str, object] | None = None,
        subshell: str | None = None,
    ) -> str:
        """Put a message in order to be sent, at once; its id. See `Channel.post`."""
        if self._cause is not None:
            raise ReplDisconnectedError(self._cause)
        header = new_header(type, self._session, subshell)
        self._sockets[socket].send(self._signer.parts(header, NOTHING, metadata or NOTHING, content))
        return str(header["msg_id"])

    @property
    def received_bytes(self) -> int:
        """Return bytes so far, also those of an incomplete message."""
        return sum(socket.received_bytes for socket in self._sockets.values())

    @property
    def lost_messages(self) -> int:
        """Return the number of lost messages of the kernel, as far as it numbers them."""
        return self._numbers.lost

    async def read(self, socket: Socket) -> None:
        """Read one socket until it is closed; the channel ends when all earlier messages are told."""
        cause = await self._sockets[socket].read()
        await anyio.sleep(DRAIN_S)
        with anyio.move_on_after(MAX_DRAIN_S):
            while not all(one.is_read for one in self._sockets.values()):
                await anyio.sleep(DRAIN_S)
        is_closed = cause == CLOSED
        self._end("the kernel's process ended, or was restarted" if is_closed else cause)

    async def deliver(self, socket: Socket) -> None:
        """Tell the messages of one socket, until cancelled. Long messages are read, and told, in turns."""
        turns = Turns()
        while True:
            await self._deliver_next(socket, turns)

    async def _deliver_next(self, socket: Socket, turns: Turns) -> None:
        await self._catch_up()
        item = await self._sockets[socket].receive_next()
        if isinstance(item, Dropped):
            message = _dropped_message(socket, item)
        else:
            message = await _read_received(socket, item)
        del item
        if message.state:
            self._is_idle = message.state == "idle"
        for part in _parts_of(message):
            self._on_message(part)
            if turns.is_over:
                await turns.leave_off()

    async def wait_closed(self) -> str:
        """Wait until the channel is over and give the cause in words."""
        await self._closed.wait()
        return self._cause or "the connection ended"

    async def silence(self) -> str:
        """Return the likely reason for a kernel's silence. See `Channel.silence`."""
        if any(socket.unsigned for socket in self._sockets.values()):
            return "its connection file is not that of the kernel that listens there, which signs with another key"
        return WRONG_KEY

    async def interrupt(self) -> bool:
        """Send SIGINT to the kernel's process group, if its process is known."""
        return self._process is not None and self._process.interrupt()

    async def watch_beat(self) -> None:
        """End the channel when the heartbeat stops for a while and another sign shows that the kernel is gone.

        Through a tunnel its sockets stay open then.
        """
        beat: ZmqSocket | None = None
        with suppress(OSError):
            beat = await self._open_socket("hb", "REQ", "")
        try:
            async with cancelled_on_exit() as tasks:
                if beat is not None:
                    tasks.start_soon(beat.read)
                await self._await_silence(beat)
                tasks.cancel_scope.cancel()
        finally:
            if beat is not None:
                with anyio.CancelScope(shield=True):
                    await beat.close()

    async def _await_silence(self, beat: ZmqSocket | None) -> None:
        received, missed_s = 0, 0.0
        while True:
            if beat is not None and beat.received_bytes > received:
                received, missed_s = beat.received_bytes, 0.0
                beat.send((b"", b"ping"))
            if missed_s >= BEAT_S and (self._is_idle or await _greeting(self._information) is None):
                self._end(f"the kernel has had no heartbeat for {missed_s:g} s")
                return
            await anyio.sleep(1)
            missed_s += 1

    def _end(self, cause: str) -> None:
        self._cause = self._cause or cause
        self._closed.set()

    async def close(self) -> None:
        """Close the sockets; the kernel lives on. Again is harmless."""
        self._end("it was closed by us")
        async with anyio.create_task_group() as tasks:
            for socket in self._sockets.values():
                tasks.start_soon(socket.close)


async def _read_object(text: bytes | bytearray) -> Mapping[str, object]:
    """Return the object in a text of JSON, read in turns.

    Raises:
        UnreadableError: the text is no object, or too heavy.
    """
    return await in_turns(reading(text, secrets.token_hex(16)))


async def _content(received: Received) -> Mapping[str, object]:
    """Return the content of a message as an object, put together and read in turns."""
    if received.size_bytes <= SHORT_BYTES and not received.left_out:
        return await _read_object(b"".join(received.head))
    frames = repaired(received.head, received.tail, received.left_out)
    return await _read_object(await in_turns(joined(frames)))


async def _read_received(socket: Socket, received: Received) -> Message:
    """Return the received message. A message with an unreadable content has none, and says why."""
    left_out, cause = received.left_out, ""
    metadata = content = NOTHING
    try:
        content = await _content(received)
        metadata = await _read_object(received.metadata) if received.metadata else NOTHING
    except UnreadableError as error:
        cause, left_out = error.cause, left_out + received.size_bytes
    parts = {"header": received.header, "parent_header": received.parent, "content": content, "metadata": metadata}
    return replace(read_message(socket, parts), left_out=left_out, read_error=cause)


def _dropped_message(socket: Socket, dropped: Dropped) -> Message:
    """A message in the place of dropped ones: for a stream a mark in its text, as if the program had printed it."""
    content = {"name": dropped.stream, "text": left_out_mark(dropped.size)} if dropped.stream else {}
    kind = "stream" if dropped.stream else LEFT_OUT
    parts = {"header": {"msg_type": kind}, "parent_header": dropped.parent, "content": content}
    return replace(read_message(socket, parts), left_out=dropped.size)


def _parts_of(message: Message) -> Iterator[Message]:
    """Yield the message; of a long text that a program printed chunk after chunk."""
    text = message.text("text") if message.type == "stream" else ""
    if len(text) <= STREAM_CHARACTERS:
        yield message
        return
    for start in range(0, len(text), STREAM_CHARACTERS):
        content = {**message.content, "text": text[start : start + STREAM_CHARACTERS]}
        yield replace(message, content=content, left_out=0 if start else message.left_out)


def _read(address: str) -> Mapping[str, object]:
    """Return the contents of the connection file."""
    try:
        path = Path(address)
        found = json.loads(files.read(path, SHELTERED_RULES if is_sheltered(path) else EXPOSED_RULES))
    except FileNotFoundError as error:
        raise ReplUnreachableError(address, "there is no such connection file: its kernel ended") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ReplUnreachableError(address, f"its connection file cannot be read: {error}") from error
    ports = [found.get(f"{name}_port") for name in ("shell", "control", "stdin", "iopub", "hb")] if found else []
    if not isinstance(found, dict) or not all(isinstance(port, int) for port in ports) or not text_of(found, "ip"):
        raise ReplUnreachableError(address, "it is no connection file: it lacks `ip` or one of five ports")
    return found


async def _probe(address: str, information: Mapping[str, object], found_by: Path | None) -> None:
    """Raise unless ZeroMQ listens at the kernel's port, and, for a file `found_by` us, for this user."""
    try:
        greeting = await _greeting(information, found_by)
    except OSError as error:
        raise ReplUnreachableError(address, f"its address cannot be used: {error}") from error
    if greeting is None:
        raise ReplUnreachableError(address, "nothing listens there: the connection file is left over from a kernel")
    if not is_greeting(greeting):
        cause = "what listens at its port does not speak ZeroMQ: the connection file is left over from a kernel"
        raise NotAnReplError(address, cause, protocol=KERNEL)


async def _greeting(information: Mapping[str, object], found_by: Path | None = None) -> bytes | None:
    """The first bytes from the shell's port, which ZeroMQ sends unasked; None if nobody listens there.

    Raises:
        StrangeListenerError: the file was `found_by` us, and somebody else listens at a port in it, or nobody can tell.
    """
    host, port = text_of(information, "ip"), cast("int", information["shell_port"])
    greeting = b""
    with anyio.move_on_after(PROBE_S):
        try:
            if text_of(information, "transport") == "ipc":
                stream: anyio.abc.ByteStream = await anyio.connect_unix(f"{host}-{port}")
            else:
                stream = await anyio.connect_tcp(host, port)
        except OSError:
            return None
        async with stream:
            if found_by is not None and text_of(information, "transport") != "ipc":
                raw = stream.extra(SocketAttribute.raw_socket)
                await anyio.to_thread.run_sync(_check_listeners, raw, information, found_by)
            try:
                while len(greeting) < SIGNATURE_BYTES:
                    greeting += await stream.receive(SIGNATURE_BYTES)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
    return greeting


def _check_listeners(shell: socket.socket, information: Mapping[str, object], file: Path) -> None:
    """Raise if something speaks against the listeners at the ports in the file, the shell's first."""
    local_address, *_ = plain(shell.getpeername())
    others = ((local_address, cast("int", information[f"{name}_port"])) for name in ("control", "stdin", "iopub", "hb"))
    objections = chain([objection_to(shell, file)], (objection_at(address, file) for address in others))
    if why := next(filter(None, objections), None):
        raise StrangeListenerError("that kernel's ports", file, why, way=f"--kernel {file}")


def _is_loopback(information: Mapping[str, object]) -> bool:
    host = text_of(information, "ip")
    return text_of(information, "transport") == "ipc" or host.startswith("127.") or host in ("localhost", "::1")


def _signer(address: str, information: Mapping[str, object]) -> Signer:
    """Return the key with which the kernel signs."""
    if text_of(information, "curve_publickey"):
        raise ReplUnreachableError(address, "its connections are encrypted (CURVE): start it without that")
    scheme = text_of(information, "signature_scheme") or "hmac-sha256"
    try:
        return Signer(text_of(information, "key").encode(), scheme)
    except ValueError as error:
        raise ReplUnreachableError(
            address, f"its messages are signed by {scheme!r}, which is not known here"
        ) from error
