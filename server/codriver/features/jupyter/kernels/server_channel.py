"""A channel to a kernel on a Jupyter Server. It reopens its WebSocket after losing it.

When the WebSocket of the only client is lost, the server stores the kernel's messages and sends them to a client that
returns with the same session id. So a channel never changes its id, and gets the stored messages in order. If another
client, such as a JupyterLab tab, is connected, the server stores nothing.

No message is sent twice. After each reconnection, the channel sends a request to the kernel, which is processed after
everything that was sent before. If it is answered and earlier code is not, the end of that code was lost, and the
channel closes.

Source: jupyter_server, `ZMQChannelsWebsocketConnection`: `connect`, `disconnect`, `_limit_rate`.
"""

from __future__ import annotations

import re
from collections import deque
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4

import anyio
import anyio.lowlevel

from codriver.errors import RefusedError, ReplDisconnectedError
from codriver.features.jupyter.kernels.channel import Channel
from codriver.features.jupyter.kernels.messages import (
    RATE_LIMIT_PREFIXES,
    SOCKET_NAMES,
    Message,
    new_header,
    parse_message,
)
from codriver.features.jupyter.kernels.server_api import KernelNotFoundError, ServerApi, TokenRefusedError
from codriver.features.jupyter.kernels.server_frames import Frame, FrameError
from codriver.features.jupyter.kernels.server_socket import ServerWebSocket, SocketLostError, open_socket
from codriver.net.task_set import task_group_cancelled_on_exit
from codriver.repls.contract.adapter import NotAReplError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from codriver.features.jupyter.kernels.channel import OnMessage
    from codriver.features.jupyter.kernels.messages import Socket

FIRST_MESSAGE_TIMEOUT_S: Final = 90.0
"""Maximum time to wait for a kernel's first message. A server accepts connections while its kernel is starting."""
RETRY_INTERVAL_S: Final = 2.0
"""Interval between requests until the first message is received."""
RECONNECT_TIMEOUT_S: Final = 30.0
"""Maximum time for attempts to reconnect while no code is running."""
RECONNECT_BUSY_TIMEOUT_S: Final = 600.0
"""Maximum time for attempts to reconnect while code is running, because the server may be storing its messages."""
FIRST_RECONNECT_DELAY_S: Final = 0.1
"""Delay after the first failed attempt to reconnect. The delay doubles after each further attempt."""
MAX_RECONNECT_DELAY_S: Final = 5.0
"""Maximum delay between two attempts to reconnect."""
POLL_INTERVAL_S: Final = 30.0
"""Interval between checks that the kernel still exists. The WebSocket of a deleted kernel remains open."""
EXECUTE_TYPE: Final = "execute_request"


@dataclass(slots=True)
class _SentCode:
    """The state of code that was sent and has no reply yet."""

    has_started: bool = False
    """Whether a message about the code was received."""


@asynccontextmanager
async def open_server_channel(
    api: ServerApi, kernel: str, on_message: OnMessage, *, first_message_s: float = FIRST_MESSAGE_TIMEOUT_S
) -> AsyncIterator[Channel]:
    """Open a channel to a kernel on a server, and wait for the kernel's first message.

    Raises:
        ReplUnreachableError: nothing listens at the server's URL.
        ServerAnswerError: the server refuses the request, or has no kernel with this id.
        NotAReplError: the listener is not a Jupyter Server, or the kernel does not answer.
        PackageMissingError: `websockets` is not installed.
    """
    channel = ServerChannel(api, kernel, on_message)
    socket = await open_socket(api, kernel, channel.session)
    try:
        async with task_group_cancelled_on_exit() as tasks:
            tasks.start_soon(channel.run, socket)
            tasks.start_soon(channel.poll)
            await channel.wait_for_message(first_message_s)
            yield channel
    finally:
        channel.end("Codriver closed the connection")


class ServerChannel(Channel):
    """A channel to a kernel through a Jupyter Server. Use `open_server_channel` to create one."""

    def __init__(self, api: ServerApi, kernel: str, on_message: OnMessage) -> None:
        self._api = api
        self._kernel = kernel
        self._on_message = on_message
        self._session = uuid4().hex
        self._outgoing: deque[Frame] = deque()
        self._has_outgoing = anyio.Event()
        self._unanswered: dict[str, _SentCode] = {}
        """Code that was sent to the main shell and has no reply yet, by message id."""
        self._internal_ids: set[str] = set()
        """Ids of the channel's own requests, whose replies are not delivered."""
        self._probe = ""
        """Id of the request that was sent after the last reconnection."""
        self._uncertain: Mapping[str, _SentCode] = {}
        """Code that had no reply when the connection was last lost."""
        self._loss = ""
        """Description of the last loss."""
        self._received = anyio.Event()
        self._poll_now = anyio.Event()
        """Set when the kernel may have been deleted."""
        self._cause: str | None = None
        self._closed = anyio.Event()

    @property
    def session(self) -> str:
        """Return the session id, which identifies this channel when it reconnects to the server."""
        return self._session

    @property
    def address(self) -> str:
        """Return the kernel's URL."""
        return f"{self._api.base}/api/kernels/{self._kernel}"

    @property
    def can_interrupt(self) -> bool:
        """Return True, because every server can interrupt its kernels."""
        return True

    @property
    def can_restart(self) -> bool:
        """Return True, because every server can restart its kernels."""
        return True

    def post(
        self,
        socket: Socket,
        msg_type: str,
        content: Mapping[str, object],
        *,
        metadata: Mapping[str, object] | None = None,
        subshell: str | None = None,
    ) -> str:
        """Queue a message for sending, and return its message id.

        While the connection is lost, the message stays in the queue.
        """
        if self._cause is not None:
            raise ReplDisconnectedError(self._cause)
        frame = self._create_frame(socket, msg_type, content, metadata or {}, subshell)
        self._outgoing.append(frame)
        self._has_outgoing.set()
        return cast("str", frame.header["msg_id"])

    async def wait_closed(self) -> str:
        """Wait until the channel is closed, and return the cause."""
        await self._closed.wait()
        return self._cause or "the connection was closed"

    async def silence_reason(self) -> str:
        """Return the likely reason why the kernel does not answer."""
        return (
            "the Jupyter Server accepted the connection, but its kernel did not answer. The kernel may be starting, "
            "or blocked"
        )

    async def interrupt(self) -> bool:
        """Ask the server to interrupt the kernel in the way specified by the kernelspec."""
        await self._api.interrupt(self._kernel)
        return True

    async def restart(self) -> None:
        """Ask the server to restart the kernel. The connection ends when the kernel announces the restart."""
        await self._api.restart(self._kernel)

    def end(self, cause: str) -> None:
        """Close the channel and discard queued messages."""
        self._cause = self._cause or cause
        self._closed.set()

    async def wait_for_message(self, within_s: float) -> None:
        """Wait for any message from the kernel. Repeatedly send requests to the kernel in the meantime.

        Raises:
            NotAReplError: the kernel does not answer, or the connection was closed.
        """
        with anyio.move_on_after(within_s):
            while not self._received.is_set() and self._cause is None:
                self._post_probe("control")
                with anyio.move_on_after(RETRY_INTERVAL_S):
                    await self._received.wait()
        if self._cause is not None or not self._received.is_set():
            raise NotAReplError(self.address, self._cause or await self.silence_reason(), protocol="Jupyter")

    async def run(self, socket: ServerWebSocket) -> None:
        """Send and receive messages until the channel is closed, and reconnect whenever the connection is lost."""
        current_socket: ServerWebSocket | None = socket
        while current_socket is not None and self._cause is None:
            try:
                loss = await self._run_socket(current_socket)
            except FrameError as error:
                self.end(str(error))
                return
            finally:
                await current_socket.close()
            current_socket = await self._reconnect(loss)

    async def _run_socket(self, socket: ServerWebSocket) -> SocketLostError:
        """Send and receive messages over one WebSocket until it is lost. Return the cause.

        Raises:
            FrameError: the received data is not a message.
        """
        async with task_group_cancelled_on_exit() as tasks:
            tasks.start_soon(self._write_messages, socket)
            tasks.start_soon(socket.watch)
            try:
                while True:
                    self._on_frame(await socket.receive())
                    # `receive` returns queued messages without yielding, and other tasks have to run.
                    await anyio.lowlevel.checkpoint()
            except SocketLostError as loss:
                return loss

    async def _write_messages(self, socket: ServerWebSocket) -> None:
        with suppress(SocketLostError):
            while socket.is_open:
                if self._outgoing:
                    frame = self._outgoing.popleft()
                    if frame.header["msg_type"] == EXECUTE_TYPE and "subshell_id" not in frame.header:
                        self._unanswered[frame.header["msg_id"]] = _SentCode()
                    await socket.send(frame)
                else:
                    self._has_outgoing = anyio.Event()
                    await self._has_outgoing.wait()

    async def _reconnect(self, loss: SocketLostError) -> ServerWebSocket | None:
        """Open a new WebSocket for the same session. Return None if the kernel is gone or all attempts failed."""
        lost_at, delay_s = anyio.current_time(), FIRST_RECONNECT_DELAY_S
        self._probe, self._uncertain = "", self._unanswered.copy()
        while self._cause is None:
            try:
                socket = await open_socket(self._api, self._kernel, self._session)
            except (KernelNotFoundError, TokenRefusedError) as error:
                self.end(f"{loss.cause} and could not be reopened: {error}")
            except RefusedError as error:
                elapsed_s = anyio.current_time() - lost_at
                if elapsed_s > (RECONNECT_BUSY_TIMEOUT_S if self._unanswered else RECONNECT_TIMEOUT_S):
                    self.end(f"{loss.cause} and could not be reopened within {elapsed_s:.0f} s: {error}")
                await anyio.sleep(delay_s)
                delay_s = min(MAX_RECONNECT_DELAY_S, 2 * delay_s)
            else:
                self._loss = f"{loss.cause} for {anyio.current_time() - lost_at:.1f} s"
                if self._uncertain and (loss.is_stalled or await self._has_other_clients()):
                    self._print_gap()
                self._probe = self._post_probe("shell")
                return socket
        return None

    async def _has_other_clients(self) -> bool:
        """Return whether other clients are connected to the kernel, in which case the server stored no messages."""
        with suppress(RefusedError):
            return (await self._api.kernel(self._kernel)).connections > 1
        return False

    def _print_gap(self) -> None:
        """Print a note in the output of running code, because some of the output may be missing."""
        text = f"[{self._loss}: output that the code printed in the meantime may be missing here]\n"
        for message_id in self._uncertain:
            message = Message("iopub", "stream", content={"name": "stderr", "text": text})
            self._on_message(
                replace(message, parent_id=message_id, parent_type=EXECUTE_TYPE, parent_session=self._session)
            )

    async def poll(self) -> None:
        """Regularly check whether the kernel still exists. When a kernel is deleted, its WebSocket stays open."""
        while self._cause is None:
            self._poll_now = anyio.Event()
            with anyio.move_on_after(POLL_INTERVAL_S):
                await self._poll_now.wait()
            try:
                if (await self._api.kernel(self._kernel)).state == "dead":
                    self.end("the kernel died, and its server did not restart it")
            except KernelNotFoundError:
                self.end("the kernel was deleted on its server")
            except RefusedError:
                continue  # the WebSocket shows whether the server can be reached

    def _on_frame(self, frame: Frame) -> None:
        if frame.channel not in SOCKET_NAMES:
            return
        message = replace(parse_message(frame.channel, _parts(frame)), read_error=frame.read_error)
        self._received.set()
        if message.session == self._session:
            message = _convert_server_message(message)
        if code := self._unanswered.get(message.parent_id):
            code.has_started = True
            if message.socket == "shell":
                del self._unanswered[message.parent_id]
        if message.type == "shutdown_reply":
            self._poll_now.set()
        if message.parent_id in self._internal_ids and message.socket != "iopub":
            if message.parent_id == self._probe:
                self._check_unanswered()
            return
        self._on_message(message)

    def _check_unanswered(self) -> None:
        """Close the channel if code that was sent before a lost connection will never be answered.

        A reply to a later request shows that the kernel has finished with the code.
        """
        self._probe = ""
        unanswered = [code for message_id, code in self._uncertain.items() if message_id in self._unanswered]
        if not unanswered:
            return
        if any(code.has_started for code in unanswered):
            outcome = (
                "the code has finished, but its outcome is not known, because the server only stores it if no other "
                "client is connected"
            )
        else:
            outcome = "it is not known whether the code reached the kernel"
        self.end(f"{self._loss}, and {outcome}. The kernel is idle, and its definitions still exist")

    def _post_probe(self, socket: Socket) -> str:
        """Put a request for the kernel's info at the front of the queue, and return its message id."""
        frame = self._create_frame(socket, "kernel_info_request", {}, {}, None)
        self._internal_ids.add(frame.header["msg_id"])
        self._outgoing.appendleft(frame)
        self._has_outgoing.set()
        return cast("str", frame.header["msg_id"])

    def _create_frame(
        self,
        socket: Socket,
        msg_type: str,
        content: Mapping[str, object],
        metadata: Mapping[str, object],
        subshell: str | None,
    ) -> Frame:
        return Frame(socket, new_header(msg_type, self._session, subshell), metadata=metadata, content=content)


def _parts(frame: Frame) -> Mapping[str, object]:
    return {
        "header": frame.header, "parent_header": frame.parent_header, "metadata": frame.metadata,
        "content": frame.content,
    }  # fmt: skip


def _convert_server_message(message: Message) -> Message:
    """Convert a message created by the server itself.

    Remove the session id, and shorten the server's text about omitted output.
    """
    message_text = message.text("text")
    if message.type != "stream" or not message_text.startswith(RATE_LIMIT_PREFIXES):
        return replace(message, session="")
    limit = re.search(r"iopub_\w+_limit=\S+ \(\w+/sec\)", message_text)
    limit_note = f" ({limit[0]})" if limit else ""
    text = f"{message_text.partition('.')[0]}: the Jupyter Server omitted output here{limit_note}\n"
    return replace(message, session="", content={"name": "stderr", "text": text})
