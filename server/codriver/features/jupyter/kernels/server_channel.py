"""A channel to a kernel of a Jupyter Server, which reconnects its WebSocket after a loss.

When the WebSocket of the only client is lost, the server stores the kernel's messages and sends them to a client that
returns with the same session id. So a channel never changes its id, and gets the stored messages in order. If another
client is connected, such as a JupyterLab tab, the server stores nothing.

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
from codriver.features.jupyter.kernels.messages import RATE_LIMIT, SOCKETS, Message, new_header, read_message
from codriver.features.jupyter.kernels.server_api import KernelNotFoundError, ServerApi, TokenRefusedError
from codriver.features.jupyter.kernels.server_frames import Frame, FrameError
from codriver.features.jupyter.kernels.server_socket import ServerSocket, SocketLostError, open_socket
from codriver.net.task_set import cancelled_on_exit
from codriver.repls.contract.adapter import NotAnReplError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from codriver.features.jupyter.kernels.channel import OnMessage
    from codriver.features.jupyter.kernels.messages import Socket

FIRST_S: Final = 90.0
"""The time until a kernel's first message: a server opens the WebSocket of a kernel that is just starting."""
RETRY_S: Final = 2.0
AWAY_S: Final = 30.0
AWAY_BUSY_S: Final = 600.0
"""The time for attempts to come back, and the longer time while our code runs: the server may keep its messages."""
FIRST_RETRY_S: Final = 0.1
LONGEST_RETRY_S: Final = 5.0
POLL_S: Final = 30.0
"""The rest between questions whether the kernel exists: a deleted kernel leaves its WebSockets open."""
EXECUTE: Final = "execute_request"


@dataclass(slots=True)
class _Sent:
    """Code that was sent, until its reply comes."""

    has_started: bool = False
    """Whether a message about the code came."""


@asynccontextmanager
async def open_server_channel(
    api: ServerApi, kernel: str, on_message: OnMessage, *, first_s: float = FIRST_S
) -> AsyncIterator[Channel]:
    """A channel to a kernel of a server, after its first message. See `messages.Carrier`.

    Raises:
        ReplUnreachableError: no one answers there.
        ServerAnswerError: the server refuses, or has no such kernel.
        NotAnReplError: the listener is no Jupyter Server, or the kernel is silent.
        PackageMissingError: `websockets` is not installed.
    """
    channel = ServerChannel(api, kernel, on_message)
    opened = await open_socket(api, kernel, channel.session)
    try:
        async with cancelled_on_exit() as tasks:
            tasks.start_soon(channel.run, opened)
            tasks.start_soon(channel.poll)
            await channel.wait_for_message(first_s)
            yield channel
    finally:
        channel.end("it was closed by us")


class ServerChannel(Channel):
    """A channel to a kernel of a Jupyter Server. Lives as long as the context of `open_server_channel`."""

    def __init__(self, api: ServerApi, kernel: str, on_message: OnMessage) -> None:
        self._api = api
        self._kernel = kernel
        self._on_message = on_message
        self._session = uuid4().hex
        self._outgoing: deque[Frame] = deque()
        self._has_outgoing = anyio.Event()
        self._sent: dict[str, _Sent] = {}
        """Code sent to the main shell and not answered yet."""
        self._sent_ids: set[str] = set()
        """The ids of our own questions, whose answers nobody else asked for."""
        self._probe = ""
        """The question that was asked after the last return."""
        self._doubtful: Mapping[str, _Sent] = {}
        """The sent code that was under way at the last loss."""
        self._loss = ""
        """The last loss, in words."""
        self._received = anyio.Event()
        self._doubt = anyio.Event()
        """Set when the kernel may be gone."""
        self._cause: str | None = None
        self._closed = anyio.Event()

    @property
    def session(self) -> str:
        """Our session id, by which the server knows us when we come back."""
        return self._session

    @property
    def address(self) -> str:
        """Return the kernel's URL."""
        return f"{self._api.base}/api/kernels/{self._kernel}"

    @property
    def can_interrupt(self) -> bool:
        """True: the server can interrupt."""
        return True

    @property
    def can_restart(self) -> bool:
        """True: the server can restart."""
        return True

    def post(
        self,
        socket: Socket,
        type: str,  # noqa: A002  # the protocol's word
        content: Mapping[str, object],
        *,
        metadata: Mapping[str, object] | None = None,
        subshell: str | None = None,
    ) -> str:
        """Put a message in order to be sent, at once; its id. While we are away it waits. See `Channel.post`."""
        if self._cause is not None:
            raise ReplDisconnectedError(self._cause)
        frame = self._frame(socket, type, content, metadata or {}, subshell)
        self._outgoing.append(frame)
        self._has_outgoing.set()
        return cast("str", frame.header["msg_id"])

    async def wait_closed(self) -> str:
        """Wait until the channel is over and give the cause in words."""
        await self._closed.wait()
        return self._cause or "the connection ended"

    async def silence(self) -> str:
        """Return the likely reason for a kernel's silence."""
        return "the Jupyter Server took the connection, and its kernel answered nothing: it may just start, or be stuck"

    async def interrupt(self) -> bool:
        """Have the server interrupt the kernel, in the way of its kernelspec."""
        await self._api.interrupt(self._kernel)
        return True

    async def restart(self) -> None:
        """Have the server restart the kernel; its messages tell that, and end the connection."""
        await self._api.restart(self._kernel)

    def end(self, cause: str) -> None:
        """End the channel. Unsent messages are never sent."""
        self._cause = self._cause or cause
        self._closed.set()

    async def wait_for_message(self, within_s: float) -> None:
        """Wait for any message of the kernel, asking it again and again.

        Raises:
            NotAnReplError: the kernel is silent, or the connection ended.
        """
        with anyio.move_on_after(within_s):
            while not self._received.is_set() and self._cause is None:
                self._query("control")
                with anyio.move_on_after(RETRY_S):
                    await self._received.wait()
        if self._cause is not None or not self._received.is_set():
            raise NotAnReplError(self.address, self._cause or await self.silence(), protocol="Jupyter")

    async def run(self, opened: ServerSocket) -> None:
        """Read and write until the channel has finished, coming back after each loss."""
        current: ServerSocket | None = opened
        while current is not None and self._cause is None:
            try:
                lost = await self._use(current)
            except FrameError as error:
                self.end(str(error))
                return
            finally:
                await current.close()
            current = await self._reconnect(lost)

    async def _use(self, current: ServerSocket) -> SocketLostError:
        """Read and write over one WebSocket until its loss; the cause of the loss.

        Raises:
            FrameError: the received data are no message.
        """
        async with cancelled_on_exit() as tasks:
            tasks.start_soon(self._write, current)
            tasks.start_soon(current.watch)
            try:
                while True:
                    self._receive(await current.receive())
                    # Messages that are there already come without a turn of the loop, which others need.
                    await anyio.lowlevel.checkpoint()
            except SocketLostError as lost:
                return lost

    async def _write(self, current: ServerSocket) -> None:
        with suppress(SocketLostError):
            while current.is_open:
                if self._outgoing:
                    frame = self._outgoing.popleft()
                    if frame.header["msg_type"] == EXECUTE and "subshell_id" not in frame.header:
                        self._sent[frame.header["msg_id"]] = _Sent()
                    await current.send(frame)
                else:
                    self._has_outgoing = anyio.Event()
                    await self._has_outgoing.wait()

    async def _reconnect(self, lost: SocketLostError) -> ServerSocket | None:
        """Another WebSocket for the same session; None after giving up, or without a kernel to come back to."""
        since, delay_s = anyio.current_time(), FIRST_RETRY_S
        self._probe, self._doubtful = "", self._sent.copy()
        while self._cause is None:
            try:
                opened = await open_socket(self._api, self._kernel, self._session)
            except (KernelNotFoundError, TokenRefusedError) as error:
                self.end(f"{lost.cause}, and there is no way back: {error}")
            except RefusedError as error:
                away_s = anyio.current_time() - since
                if away_s > (AWAY_BUSY_S if self._sent else AWAY_S):
                    self.end(f"{lost.cause}, and for {away_s:.0f} s there was no way back: {error}")
                await anyio.sleep(delay_s)
                delay_s = min(LONGEST_RETRY_S, 2 * delay_s)
            else:
                self._loss = f"{lost.cause} for {anyio.current_time() - since:.1f} s"
                if self._doubtful and (lost.is_stalled or await self._has_company()):
                    self._report_gap()
                self._probe = self._query("shell")
                return opened
        return None

    async def _has_company(self) -> bool:
        """Return whether another client is connected to the kernel, so that the server kept nothing for us."""
        with suppress(RefusedError):
            return (await self._api.kernel(self._kernel)).connections > 1
        return False

    def _report_gap(self) -> None:
        """Say in the output of running code that a part may be missing."""
        text = f"[{self._loss}: what the code printed meanwhile may be missing here]\n"
        for id_ in self._doubtful:
            message = Message("iopub", "stream", content={"name": "stderr", "text": text})
            self._on_message(replace(message, parent_id=id_, parent_type=EXECUTE, parent_session=self._session))

    async def poll(self) -> None:
        """Notice that the kernel was deleted: its WebSocket stays open."""
        while self._cause is None:
            self._doubt = anyio.Event()
            with anyio.move_on_after(POLL_S):
                await self._doubt.wait()
            try:
                if (await self._api.kernel(self._kernel)).state == "dead":
                    self.end("the kernel died, and its server has given it up")
            except KernelNotFoundError:
                self.end("the kernel was deleted on its server")
            except RefusedError:
                continue  # the WebSocket shows whether the server can be reached

    def _receive(self, frame: Frame) -> None:
        if frame.channel not in SOCKETS:
            return
        message = replace(read_message(frame.channel, _raw(frame)), read_error=frame.read_error)
        self._received.set()
        if message.session == self._session:
            message = _of_server(message)
        if sent := self._sent.get(message.parent_id):
            sent.has_started = True
            if message.socket == "shell":
                del self._sent[message.parent_id]
        if message.type == "shutdown_reply":
            self._doubt.set()
        if message.parent_id in self._sent_ids and message.socket != "iopub":
            if message.parent_id == self._probe:
                self._check_sent()
            return
        self._on_message(message)

    def _check_sent(self) -> None:
        """Look for code sent before the loss and still unanswered while a later question is answered: it never is."""
        self._probe = ""
        unanswered = [sent for id_, sent in self._doubtful.items() if id_ in self._sent]
        if not unanswered:
            return
        if any(sent.has_started for sent in unanswered):
            known = "the code is over, and its outcome is not known: the server keeps it only where no other client is"
        else:
            known = "whether the code reached the kernel is not known"
        self.end(f"{self._loss}; {known}. The kernel is idle now, and what is defined in it is there")

    def _query(self, socket: Socket) -> str:
        """Ask the kernel's name, before all waiting messages; the question's id."""
        frame = self._frame(socket, "kernel_info_request", {}, {}, None)
        self._sent_ids.add(frame.header["msg_id"])
        self._outgoing.appendleft(frame)
        self._has_outgoing.set()
        return cast("str", frame.header["msg_id"])

    def _frame(
        self,
        socket: Socket,
        type: str,  # noqa: A002
        content: Mapping[str, object],
        metadata: Mapping[str, object],
        subshell: str | None,
    ) -> Frame:
        return Frame(socket, new_header(type, self._session, subshell), metadata=metadata, content=content)


def _raw(frame: Frame) -> Mapping[str, object]:
    return {
        "header": frame.header, "parent_header": frame.parent_header, "metadata": frame.metadata,
        "content": frame.content,
    }  # fmt: skip


def _of_server(message: Message) -> Message:
    """A message that the server itself made in our name: without a kernel's session, told in one line."""
    message_text = message.text("text")
    if message.type != "stream" or not message_text.startswith(RATE_LIMIT):
        return replace(message, session="")
    limit = re.search(r"iopub_\w+_limit=\S+ \(\w+/sec\)", message_text)
    notice = f" ({limit[0]})" if limit else ""
    text = f"{message_text.partition('.')[0]}: the Jupyter Server left out output here{notice}\n"
    return replace(message, session="", content={"name": "stderr", "text": text})
