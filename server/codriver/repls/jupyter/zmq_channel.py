"""The channel to a kernel over ZeroMQ, by the client of jupyter_client: all four sockets are always read.

`jupyter_client` takes a third of a second to import, so that is done in a thread, when the first kernel is connected
to. Before that is worth it, the kernel's port is asked whether ZeroMQ listens there at all.

Source: Jupyter documentation, "Connection files"; ZMTP 3.1 (RFC 37), "greeting".
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.lowlevel
from anyio.abc import SocketAttribute

from codriver import files
from codriver.errors import ReplDisconnectedError
from codriver.files import Links, Rules
from codriver.net.found_ports import objection_at, objection_to
from codriver.net.kernel_sockets import plain
from codriver.net.tasks import own_tasks
from codriver.repls.contract.errors import (
    NotAnReplError,
    PackageMissingError,
    ReplUnreachableError,
    StrangeListenerError,
)
from codriver.repls.jupyter.channel import Channel
from codriver.repls.jupyter.kernel_process import KernelProcess, find_process
from codriver.repls.jupyter.messages import SOCKETS, read_message, text_of

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from codriver.repls.jupyter.channel import OnMessage
    from codriver.repls.jupyter.messages import Socket

KERNEL: Final = "Jupyter kernel"
FILE_RULES: Final = Rules(Links.OWN, 64 * files.KIBIBYTE, is_granting=True)
"""It says where code is sent, so nobody else may write it."""

PROBE_S: Final = 1.0
SIGNATURE_BYTES: Final = 10
DRAIN_S: Final = 0.2
"""How long what a kernel said last may take to come, on other sockets than the one that is closed."""

BEAT_S: Final = 5.0
"""How long a kernel behind a tunnel may be without a heartbeat: busy kernels of some languages have none."""

WRONG_KEY: Final = (
    "its connection file is not that of the kernel that listens there, or that kernel has been busy all the while"
)


@asynccontextmanager
async def open_zmq(place: str, on_message: OnMessage, *, found_by: Path | None = None) -> AsyncIterator[ZmqChannel]:
    """A channel to the kernel of the connection file at `place`. See `codriver.repls.jupyter.channel.Carrier`.

    `found_by`: the same file, where nobody named it: then whoever listens at its ports has to be this user's.

    Raises:
        ReplUnreachableError: there is no such file, it is none, or nobody listens there.
        StrangeListenerError: it was found, and somebody else listens there, or nobody can tell.
        NotAnReplError: what listens there does not speak ZeroMQ.
        PackageMissingError: jupyter_client is not installed.
    """
    information = await anyio.to_thread.run_sync(_read, place)
    await _probe(place, information, found_by)
    make_client, process = await anyio.to_thread.run_sync(_load, place, information)
    channel = ZmqChannel(place, information, make_client(), on_message, process)
    try:
        async with own_tasks() as tasks:
            for socket in SOCKETS:
                tasks.start_soon(channel.read, socket)
            tasks.start_soon(channel.watch_peer)
            if not _is_loopback(information):
                tasks.start_soon(channel.watch_beat)
            yield channel
    finally:
        channel.close()


class ZmqChannel(Channel):
    """A channel over ZeroMQ. Lives as long as the context of `open_zmq`."""

    def __init__(
        self,
        place: str,
        information: Mapping[str, object],
        client: Any,
        on_message: OnMessage,
        process: KernelProcess | None,
    ) -> None:
        self._place = place
        self._information = information
        self._client = client
        self._on_message = on_message
        self._process = process
        self._cause: str | None = None
        self._closed = anyio.Event()
        self._unreadable = 0
        self._is_idle = False
        """Whether the kernel said so last."""
        self.restarted_by: Callable[[], Awaitable[None]] | None = None
        """The way in which whoever started the kernel restarts it for us, where there is one."""
        client.start_channels(hb=False)
        self._channels: dict[Socket, Any] = {
            "shell": client.shell_channel,
            "control": client.control_channel,
            "stdin": client.stdin_channel,
            "iopub": client.iopub_channel,
        }

    @property
    def session(self) -> str:
        """Our session id."""
        return cast("str", self._client.session.session)

    @property
    def place(self) -> str:
        """The path of the connection file."""
        return self._place

    @property
    def is_local(self) -> bool:
        """Whether the kernel runs on this machine."""
        return _is_loopback(self._information)

    @property
    def notebook(self) -> str | None:
        """The notebook that the server which started the kernel wrote into the file."""
        session = text_of(self._information, "jupyter_session")
        return session if session.endswith(".ipynb") and Path(session).is_absolute() else None

    @property
    def can_restart(self) -> bool:
        """True where a server on this machine has started the kernel."""
        return self.restarted_by is not None

    async def restart(self) -> None:
        """Have the server that started the kernel restart it."""
        await (self.restarted_by or super().restart)()

    @property
    def can_interrupt(self) -> bool:
        """Whether the kernel's process is known."""
        return self._process is not None

    @property
    def process_id(self) -> int | None:
        """The kernel's process, where its command names the connection file."""
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
        session = self._client.session
        message = session.msg(type, content=dict(content), metadata=dict(metadata or {}))
        if subshell:
            message["header"]["subshell_id"] = subshell
        # By the socket itself: sent past it, what came meanwhile would not wake its reader.
        sending = self._channels[socket].socket.send_multipart(session.serialize(message))
        sending.add_done_callback(_forget)
        return cast("str", message["header"]["msg_id"])

    async def read(self, socket: Socket) -> None:
        """Read one socket until cancelled. What cannot be read, as it is signed with another key, is counted."""
        channel = self._channels[socket]
        while True:
            try:
                raw = await channel.get_msg()
            except (ValueError, TypeError, KeyError):
                self._unreadable += 1
            else:
                message = read_message(socket, raw)
                if message.state:
                    self._is_idle = message.state == "idle"
                self._on_message(message)
            # What is there already comes without a turn of the loop, which others need.
            await anyio.lowlevel.checkpoint()

    async def wait_closed(self) -> str:
        """Wait until the channel is over and give the cause in words."""
        await self._closed.wait()
        return self._cause or "the connection ended"

    async def silence(self) -> str:
        """Why the kernel may have answered nothing. See `Channel.silence`."""
        if self._unreadable:
            return "its connection file is not that of the kernel that listens there, which signs with another key"
        return WRONG_KEY

    async def interrupt(self) -> bool:
        """Send SIGINT to the kernel's process group, where its process is known."""
        return self._process is not None and self._process.interrupt()

    async def watch_peer(self) -> None:
        """End the channel when the kernel closes its socket: its process ended, or another one takes its place."""
        from zmq import EVENT_DISCONNECTED  # noqa: PLC0415  # known to be installed by now
        from zmq.utils.monitor import recv_monitor_message  # noqa: PLC0415

        monitor = self._channels["shell"].socket.get_monitor_socket(EVENT_DISCONNECTED)
        await recv_monitor_message(monitor)
        await anyio.sleep(DRAIN_S)
        self._end("the kernel's process ended, or was restarted")

    async def watch_beat(self) -> None:
        """End the channel when there is no heartbeat for a while and another sign that the kernel is gone.

        Through a tunnel its sockets stay open then.
        """
        beat = self._client.hb_channel
        beat.start()
        missed_s = 0.0
        while True:
            await anyio.sleep(1)
            missed_s = 0.0 if beat.is_beating() else missed_s + 1
            if missed_s >= BEAT_S and (self._is_idle or await _greeting(self._information) is None):
                self._end(f"the kernel has had no heartbeat for {missed_s:g} s")

    def _end(self, cause: str) -> None:
        self._cause = self._cause or cause
        self._closed.set()

    def close(self) -> None:
        """Close the sockets; the kernel lives on. Again is harmless."""
        self._end("it was closed by us")
        shell = self._channels["shell"]
        if shell.socket is not None:
            shell.socket.disable_monitor()
        self._client.stop_channels()
        self._client.context.destroy(linger=0)


def _forget(sending: asyncio.Future[object]) -> None:
    """Nobody waits for what is sent: whether it came, the answer tells."""
    if not sending.cancelled():
        sending.exception()


def _read(place: str) -> Mapping[str, object]:
    """The contents of the connection file."""
    try:
        found = json.loads(files.read(Path(place), FILE_RULES))
    except FileNotFoundError as error:
        raise ReplUnreachableError(place, "there is no such connection file: its kernel ended") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ReplUnreachableError(place, f"its connection file cannot be read: {error}") from error
    ports = [found.get(f"{name}_port") for name in ("shell", "control", "stdin", "iopub", "hb")] if found else []
    if not isinstance(found, dict) or not all(isinstance(port, int) for port in ports) or not text_of(found, "ip"):
        raise ReplUnreachableError(place, "it is no connection file: it lacks `ip` or one of five ports")
    return found


async def _probe(place: str, information: Mapping[str, object], found_by: Path | None) -> None:
    """Raise unless ZeroMQ listens at the kernel's port, and nobody else's where the file was `found_by` us."""
    try:
        greeting = await _greeting(information, found_by)
    except OSError as error:
        raise ReplUnreachableError(place, f"its address cannot be used: {error}") from error
    if greeting is None:
        raise ReplUnreachableError(place, "nothing listens there: the connection file is left over from a kernel")
    if len(greeting) < SIGNATURE_BYTES or greeting[0] != 0xFF or greeting[SIGNATURE_BYTES - 1] & 1 == 0:
        cause = "what listens at its port does not speak ZeroMQ: the connection file is left over from a kernel"
        raise NotAnReplError(place, cause, protocol=KERNEL)


async def _greeting(information: Mapping[str, object], found_by: Path | None = None) -> bytes | None:
    """The first bytes that are said at the shell's port, which ZeroMQ says unasked; None if nobody listens there.

    Raises:
        StrangeListenerError: the file was `found_by` us, and somebody else listens at a port in it, or nobody can tell.
    """
    host, port = text_of(information, "ip"), cast("int", information["shell_port"])
    said = b""
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
                while len(said) < SIGNATURE_BYTES:
                    said += await stream.receive(SIGNATURE_BYTES)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
    return said


def _check_listeners(shell: socket.socket, information: Mapping[str, object], file: Path) -> None:
    """Raise where something speaks against sending to whoever listens at the ports in the file, the shell's first."""
    here, *_ = plain(shell.getpeername())
    others = ((here, cast("int", information[f"{name}_port"])) for name in ("control", "stdin", "iopub", "hb"))
    objections = chain([objection_to(shell, file)], (objection_at(place, file) for place in others))
    if why := next(filter(None, objections), None):
        raise StrangeListenerError("that kernel's ports", file, why, way=f"--kernel {file}")


def _is_loopback(information: Mapping[str, object]) -> bool:
    host = text_of(information, "ip")
    return text_of(information, "transport") == "ipc" or host.startswith("127.") or host in ("localhost", "::1")


def _load(place: str, information: Mapping[str, object]) -> tuple[Callable[[], Any], KernelProcess | None]:
    """A maker of clients, to be called on the event loop; and the kernel's process. Imports, and so takes a while."""
    try:
        import zmq.asyncio  # noqa: PLC0415  # an extra, and slow to import
        from jupyter_client.asynchronous.client import AsyncKernelClient  # noqa: PLC0415
    except ImportError as error:
        raise PackageMissingError(place, "jupyter", error.name or "jupyter_client") from error

    def make() -> Any:
        context = zmq.asyncio.Context()
        # Without a mark, messages are dropped without a sign above 1000 of them that wait to be read.
        context.setsockopt(zmq.RCVHWM, 0)
        context.setsockopt(zmq.SNDHWM, 0)
        client = AsyncKernelClient(context=context)
        client.load_connection_info(cast("Any", dict(information)))
        return client

    return make, find_process(place) if _is_loopback(information) else None
