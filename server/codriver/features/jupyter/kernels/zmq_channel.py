"""A channel to a kernel over ZeroMQ, with four sockets that are always read.

Before they are connected, the kernel's port is probed to find out whether it speaks ZeroMQ. Messages are parsed in
steps by this module, after being taken from the sockets' inboxes.

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
from codriver.features.jupyter.kernels.connection_files import is_in_private_directory
from codriver.features.jupyter.kernels.content_reader import (
    MAX_SHORT_BYTES,
    UnreadableContentError,
    join_around_gap,
    join_chunks,
    parse_content,
)
from codriver.features.jupyter.kernels.inbox import DroppedMessages
from codriver.features.jupyter.kernels.kernel_processes import KernelProcess, find_process
from codriver.features.jupyter.kernels.lost_messages import LostMessageCounter
from codriver.features.jupyter.kernels.messages import OMITTED_TYPE, SOCKET_NAMES, new_header, parse_message
from codriver.features.jupyter.kernels.signed_messages import ReceivedMessage, Signer
from codriver.features.jupyter.kernels.zmq_socket import CLOSED_MESSAGE, ZmqSocket, open_socket
from codriver.features.jupyter.kernels.zmtp import SIGNATURE_BYTES, is_greeting
from codriver.files import FileRules, Links
from codriver.net.cooperative_turns import TurnTimer, run_in_turns
from codriver.net.kernel_sockets import address_distrust_reason, connection_distrust_reason, normalize_address
from codriver.net.task_set import task_group_cancelled_on_exit
from codriver.repls.contract.adapter import (
    NotAReplError,
    PackageMissingError,
    ReplUnreachableError,
    UntrustedListenerError,
)
from codriver.wire.head_and_tail import left_out_mark
from codriver.wire.untrusted import EMPTY_MAPPING, text_at

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from codriver.features.jupyter.kernels.channel import CatchUp, OnMessage
    from codriver.features.jupyter.kernels.messages import Message, Socket

PROTOCOL_NAME: Final = "Jupyter kernel"
MAX_FILE_BYTES: Final = 64 * files.KIBIBYTE
"""Maximum size of a connection file."""
SHARED_DIRECTORY_RULES: Final = FileRules(Links.OF_USER, MAX_FILE_BYTES, is_granting=True)
"""Rules for a file that other users can access. None of them may write to it: it determines where code is sent."""
PRIVATE_DIRECTORY_RULES: Final = FileRules(Links.OF_USER, MAX_FILE_BYTES)
"""Rules for a file that no other user can access, whatever its mode."""

PROBE_TIMEOUT_S: Final = 1.0
"""Maximum time to wait for the first bytes from a kernel."""
DRAIN_TIMEOUT_S: Final = 0.2
"""How long to wait for a kernel's last messages on the other sockets after one was closed."""
DELIVERY_TIMEOUT_S: Final = 10.0
"""Maximum time to deliver the messages that were received before the connection ended."""

HEARTBEAT_TIMEOUT_S: Final = 5.0
"""How long a kernel behind a tunnel may be without a heartbeat. Busy kernels for some languages have none."""

MAX_STREAM_CHARACTERS: Final = 64 * 1024
"""Maximum number of printed characters in one delivered message."""

WRONG_KEY_HINT: Final = (
    "either the connection file belongs to a different kernel than the one listening on these ports, or the kernel "
    "is busy"
)
"""The usual reason why a kernel does not answer."""


@asynccontextmanager
async def open_zmq(
    address: str, on_message: OnMessage, *, found_by: Path | None = None, catch_up: CatchUp = anyio.lowlevel.checkpoint
) -> AsyncIterator[ZmqChannel]:
    """Open a channel to the kernel with the connection file `address`.

    `found_by` is the same file if it was discovered rather than named by the user. In this case, the listeners on its
    ports must belong to this user. `catch_up` is awaited before each message is delivered, and more messages are queued
    in the meantime, up to a limit.

    Raises:
        ReplUnreachableError: the file is missing or not a connection file, or nothing listens there.
        UntrustedListenerError: the file was discovered, and the listener may not belong to this user.
        NotAReplError: the listener does not speak ZeroMQ.
        PackageMissingError: jupyter_client is not installed.
    """
    connection_info = await anyio.to_thread.run_sync(_read_connection_file, address)
    if find_spec("jupyter_client") is None:
        raise PackageMissingError(address, "jupyter", "jupyter_client")
    signer = _create_signer(address, connection_info)
    await _probe(address, connection_info, found_by)
    process = await anyio.to_thread.run_sync(find_process, address) if _is_loopback(connection_info) else None
    channel = ZmqChannel(address, connection_info, signer, on_message, process, catch_up)
    try:
        await channel.open()
        async with task_group_cancelled_on_exit() as tasks:
            for name in SOCKET_NAMES:
                tasks.start_soon(channel.read, name)
                tasks.start_soon(channel.deliver, name)
            if not _is_loopback(connection_info):
                tasks.start_soon(channel.watch_heartbeat)
            yield channel
    finally:
        with anyio.CancelScope(shield=True):
            await channel.close()


class ZmqChannel(Channel):
    """A channel to a kernel over ZeroMQ. Use `open_zmq` to create one."""

    def __init__(
        self,
        address: str,
        connection_info: Mapping[str, object],
        signer: Signer,
        on_message: OnMessage,
        process: KernelProcess | None,
        catch_up: CatchUp,
    ) -> None:
        self._address = address
        self._connection_info = connection_info
        self._signer = signer
        self._on_message = on_message
        self._process = process
        self._catch_up = catch_up
        self._lost_messages = LostMessageCounter()
        self._session = uuid4().hex
        self._sockets: dict[Socket, ZmqSocket] = {}
        self._cause: str | None = None
        self._closed = anyio.Event()
        self._is_idle = False
        """Whether the kernel's last execution state was `idle`."""
        self._parsing: set[Socket] = set()
        """The sockets with a received message that is currently being parsed."""
        self.restart_kernel: Callable[[], Awaitable[None]] | None = None
        """Restarts the kernel through the server that started it, if there is one."""

    async def open(self) -> None:
        """Connect all sockets. Each has the session id as its ZeroMQ identity.

        The kernel sends requests for input to the identity that sent the code.

        Raises:
            ReplUnreachableError: a socket cannot be connected.
        """
        try:
            for name in SOCKET_NAMES:
                socket_type = "SUB" if name == "iopub" else "DEALER"
                self._sockets[name] = await self._open_socket(name, socket_type, self._session)
        except OSError as error:
            raise ReplUnreachableError(
                self._address, f"the kernel's {name} socket cannot be connected: {error}"
            ) from error

    async def _open_socket(self, name: str, socket_type: str, identity: str) -> ZmqSocket:
        return await open_socket(self._connection_info, name, socket_type, identity, self._signer, self._lost_messages)

    @property
    def session(self) -> str:
        """Return the session id in the headers of Codriver's messages."""
        return self._session

    @property
    def address(self) -> str:
        """Return the path of the connection file."""
        return self._address

    @property
    def is_local(self) -> bool:
        """Return whether the kernel runs on this machine."""
        return _is_loopback(self._connection_info)

    @property
    def notebook(self) -> str | None:
        """Return the notebook named in the connection file, or None."""
        session = text_at(self._connection_info, "jupyter_session")
        return session if session.endswith(".ipynb") and Path(session).is_absolute() else None

    @property
    def can_restart(self) -> bool:
        """Return whether the kernel was started by a Jupyter Server on this machine, which can restart it."""
        return self.restart_kernel is not None

    async def restart(self) -> None:
        """Restart the kernel through the Jupyter Server that started it."""
        await (self.restart_kernel or super().restart)()

    @property
    def can_interrupt(self) -> bool:
        """Return whether the kernel's process is known and can therefore be sent a signal."""
        return self._process is not None

    @property
    def process_id(self) -> int | None:
        """Return the kernel's process id, or None if the process was not found."""
        return self._process.id if self._process else None

    def post(
        self,
        socket: Socket,
        msg_type: str,
        content: Mapping[str, object],
        *,
        metadata: Mapping[str, object] | None = None,
        subshell: str | None = None,
    ) -> str:
        """Queue a message for sending, and return its message id."""
        if self._cause is not None:
            raise ReplDisconnectedError(self._cause)
        header = new_header(msg_type, self._session, subshell)
        self._sockets[socket].send(self._signer.sign_parts(header, EMPTY_MAPPING, metadata or EMPTY_MAPPING, content))
        return str(header["msg_id"])

    @property
    def received_bytes(self) -> int:
        """Return the number of bytes received so far, including those of incomplete messages."""
        return sum(socket.received_bytes for socket in self._sockets.values())

    @property
    def has_undelivered_messages(self) -> bool:
        """Return whether a received message has not been parsed and delivered yet."""
        return bool(self._parsing) or not all(socket.is_drained for socket in self._sockets.values())

    @property
    def lost_messages(self) -> int:
        """Return the number of lost messages, or 0 if the kernel does not number its messages."""
        return self._lost_messages.lost

    async def read(self, socket: Socket) -> None:
        """Read from one socket until it is closed. Then deliver the queued messages and close the channel."""
        cause = await self._sockets[socket].read()
        await anyio.sleep(DRAIN_TIMEOUT_S)
        with anyio.move_on_after(DELIVERY_TIMEOUT_S):
            while not all(other_socket.is_drained for other_socket in self._sockets.values()):
                await anyio.sleep(DRAIN_TIMEOUT_S)
        is_closed = cause == CLOSED_MESSAGE
        self._set_closed("the kernel exited or was restarted" if is_closed else cause)

    async def deliver(self, socket: Socket) -> None:
        """Deliver messages from one socket until cancelled.

        Long messages are parsed in steps to let other tasks run.
        """
        turns = TurnTimer()
        while True:
            await self._deliver_next(socket, turns)

    async def _deliver_next(self, socket: Socket, turns: TurnTimer) -> None:
        await self._catch_up()
        item = await self._sockets[socket].receive_next()
        if isinstance(item, DroppedMessages):
            message = _dropped_message(socket, item)
        else:
            self._parsing.add(socket)
            try:
                message = await _parse_message(socket, item)
            finally:
                self._parsing.discard(socket)
        del item
        if message.state:
            self._is_idle = message.state == "idle"
        for part in _split_long_text(message):
            self._on_message(part)
            if turns.is_turn_over:
                await turns.yield_to_others()

    async def wait_closed(self) -> str:
        """Wait until the channel is closed, and return the cause."""
        await self._closed.wait()
        return self._cause or "the connection was closed"

    async def silence_reason(self) -> str:
        """Return the likely reason why the kernel does not answer."""
        if any(socket.unsigned_message_count for socket in self._sockets.values()):
            return (
                "the connection file belongs to a different kernel, because the one listening on these ports signs "
                "with a different key"
            )
        return WRONG_KEY_HINT

    async def interrupt(self) -> bool:
        """Send SIGINT to the kernel's process group, if its process is known. Return whether that succeeded."""
        return self._process is not None and self._process.interrupt()

    async def watch_heartbeat(self) -> None:
        """Close the channel when the heartbeat stops and the kernel is found to be gone.

        If the ports are forwarded through a tunnel, the sockets stay open when the kernel exits.
        """
        heartbeat: ZmqSocket | None = None
        with suppress(OSError):
            heartbeat = await self._open_socket("hb", "REQ", "")
        try:
            async with task_group_cancelled_on_exit() as tasks:
                if heartbeat is not None:
                    tasks.start_soon(heartbeat.read)
                await self._wait_for_silence(heartbeat)
                tasks.cancel_scope.cancel()
        finally:
            if heartbeat is not None:
                with anyio.CancelScope(shield=True):
                    await heartbeat.close()

    async def _wait_for_silence(self, heartbeat: ZmqSocket | None) -> None:
        received, missed_s = 0, 0.0
        while True:
            if heartbeat is not None and heartbeat.received_bytes > received:
                received, missed_s = heartbeat.received_bytes, 0.0
                heartbeat.send((b"", b"ping"))
            if missed_s >= HEARTBEAT_TIMEOUT_S and (
                self._is_idle or await _receive_greeting(self._connection_info) is None
            ):
                self._set_closed(f"the kernel has had no heartbeat for {missed_s:g} s")
                return
            await anyio.sleep(1)
            missed_s += 1

    def _set_closed(self, cause: str) -> None:
        self._cause = self._cause or cause
        self._closed.set()

    async def close(self) -> None:
        """Close the sockets. The kernel continues to run. Has no effect if they are already closed."""
        self._set_closed("Codriver closed the connection")
        async with anyio.create_task_group() as tasks:
            for socket in self._sockets.values():
                tasks.start_soon(socket.close)


async def _read_object(text: bytes | bytearray) -> Mapping[str, object]:
    """Parse a JSON object in steps to let other tasks run.

    Raises:
        UnreadableError: the text is not an object or exceeds a limit.
    """
    return await run_in_turns(parse_content(text, secrets.token_hex(16)))


async def _parse_content(received: ReceivedMessage) -> Mapping[str, object]:
    """Join and parse the content of a message in steps."""
    if received.size_bytes <= MAX_SHORT_BYTES and not received.omitted_bytes:
        return await _read_object(b"".join(received.head))
    chunks = join_around_gap(received.head, received.tail, received.omitted_bytes)
    return await _read_object(await run_in_turns(join_chunks(chunks)))


async def _parse_message(socket: Socket, received: ReceivedMessage) -> Message:
    """Parse a received message. If its content is unreadable, leave it empty and set `read_error`."""
    omitted_bytes, cause = received.omitted_bytes, ""
    metadata = content = EMPTY_MAPPING
    try:
        content = await _parse_content(received)
        metadata = await _read_object(received.metadata) if received.metadata else EMPTY_MAPPING
    except UnreadableContentError as error:
        cause, omitted_bytes = error.cause, omitted_bytes + received.size_bytes
    parts = {"header": received.header, "parent_header": received.parent, "content": content, "metadata": metadata}
    return replace(parse_message(socket, parts), omitted_bytes=omitted_bytes, read_error=cause)


def _dropped_message(socket: Socket, dropped: DroppedMessages) -> Message:
    """Return a message that takes the place of dropped messages.

    If they were output to a stream, the message prints a marker to this stream.
    """
    content = {"name": dropped.stream, "text": left_out_mark(dropped.size)} if dropped.stream else {}
    msg_type = "stream" if dropped.stream else OMITTED_TYPE
    parts = {"header": {"msg_type": msg_type}, "parent_header": dropped.parent, "content": content}
    return replace(parse_message(socket, parts), omitted_bytes=dropped.size)


def _split_long_text(message: Message) -> Iterator[Message]:
    """Yield a message, split into several if it prints a long text."""
    text = message.text("text") if message.type == "stream" else ""
    if len(text) <= MAX_STREAM_CHARACTERS:
        yield message
        return
    for start in range(0, len(text), MAX_STREAM_CHARACTERS):
        content = {**message.content, "text": text[start : start + MAX_STREAM_CHARACTERS]}
        yield replace(message, content=content, omitted_bytes=0 if start else message.omitted_bytes)


def _read_connection_file(address: str) -> Mapping[str, object]:
    """Read and check the connection file of the kernel at `address`."""
    try:
        path = Path(address)
        fields = json.loads(
            files.read(path, PRIVATE_DIRECTORY_RULES if is_in_private_directory(path) else SHARED_DIRECTORY_RULES)
        )
    except FileNotFoundError as error:
        raise ReplUnreachableError(address, "the connection file does not exist, so the kernel has exited") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ReplUnreachableError(address, f"the connection file cannot be read: {error}") from error
    ports = [f"{name}_port" for name in ("shell", "control", "stdin", "iopub", "hb")]
    if (
        not isinstance(fields, dict)
        or not all(isinstance(fields.get(port), int) for port in ports)
        or not text_at(fields, "ip")
    ):
        raise ReplUnreachableError(
            address, "the file is not a connection file, because it lacks `ip` or one of the five ports"
        )
    return fields


async def _probe(address: str, connection_info: Mapping[str, object], found_by: Path | None) -> None:
    """Raise an error unless a ZeroMQ socket listens on the kernel's shell port.

    If the connection file was discovered, the listener must also belong to this user.
    """
    try:
        greeting = await _receive_greeting(connection_info, found_by)
    except OSError as error:
        raise ReplUnreachableError(address, f"the kernel's address cannot be used: {error}") from error
    if greeting is None:
        raise ReplUnreachableError(
            address,
            "nothing is listening at this address, so the kernel has exited without deleting its connection file",
        )
    if not greeting:
        cause = (
            f"the kernel sent nothing within {PROBE_TIMEOUT_S:g} s. It is too busy, or another program is using its "
            "port"
        )
        raise NotAReplError(address, cause, protocol=PROTOCOL_NAME)
    if not is_greeting(greeting):
        cause = (
            "the program listening on the kernel's port does not speak ZeroMQ, so the kernel has exited without "
            "deleting its connection file"
        )
        raise NotAReplError(address, cause, protocol=PROTOCOL_NAME)


async def _receive_greeting(connection_info: Mapping[str, object], found_by: Path | None = None) -> bytes | None:
    """Return the first bytes sent by the listener on the shell port, or None if nothing listens on it.

    A ZeroMQ socket sends its greeting unprompted.

    Raises:
        UntrustedListenerError: the file was discovered, and a listener on its ports may not belong to this user.
    """
    host, port = text_at(connection_info, "ip"), cast("int", connection_info["shell_port"])
    greeting = b""
    with anyio.move_on_after(PROBE_TIMEOUT_S):
        try:
            if text_at(connection_info, "transport") == "ipc":
                stream: anyio.abc.ByteStream = await anyio.connect_unix(f"{host}-{port}")
            else:
                stream = await anyio.connect_tcp(host, port)
        except OSError:
            return None
        async with stream:
            if found_by is not None and text_at(connection_info, "transport") != "ipc":
                raw_socket = stream.extra(SocketAttribute.raw_socket)
                await anyio.to_thread.run_sync(_check_listeners, raw_socket, connection_info, found_by)
            try:
                while len(greeting) < SIGNATURE_BYTES:
                    greeting += await stream.receive(SIGNATURE_BYTES)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
    return greeting


def _check_listeners(shell: socket.socket, connection_info: Mapping[str, object], file: Path) -> None:
    """Raise an error unless the listeners on all ports of a connection file belong to this user.

    `shell` is already connected to the shell port.
    """
    local_address, *_ = normalize_address(shell.getpeername())
    other_addresses = (
        (local_address, cast("int", connection_info[f"{name}_port"])) for name in ("control", "stdin", "iopub", "hb")
    )
    objections = chain(
        [connection_distrust_reason(shell, file)],
        (address_distrust_reason(address, file) for address in other_addresses),
    )
    if objection := next(filter(None, objections), None):
        raise UntrustedListenerError(
            "that kernel's ports", file, objection, remedy=f"start the server with --kernel {file}"
        )


def _is_loopback(connection_info: Mapping[str, object]) -> bool:
    host = text_at(connection_info, "ip")
    return text_at(connection_info, "transport") == "ipc" or host.startswith("127.") or host in ("localhost", "::1")


def _create_signer(address: str, connection_info: Mapping[str, object]) -> Signer:
    """Return a signer with the kernel's key."""
    if text_at(connection_info, "curve_publickey"):
        raise ReplUnreachableError(
            address, "the kernel encrypts its connections (CURVE), which is not supported. Start it without encryption"
        )
    scheme = text_at(connection_info, "signature_scheme") or "hmac-sha256"
    try:
        return Signer(text_at(connection_info, "key").encode(), scheme)
    except ValueError as error:
        raise ReplUnreachableError(address, f"the kernel's signature scheme {scheme!r} is not supported") from error
