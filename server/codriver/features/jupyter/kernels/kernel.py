"""A connected kernel: requests and their replies, the execution state, and restarts.

A kernel processes the requests of all clients to its main shell one at a time, and some kernels confuse waiting
requests. So Codriver has its own queue: a request is sent when it is first in the queue and no code of another client
is running. A request is complete after two messages on two sockets, in any order: its reply, and the kernel's `idle`.
If anyone restarts the kernel, the connection ends, because the kernel's memory is lost and open requests will never be
answered.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.records import Recent
from codriver.errors import ReplDisconnectedError
from codriver.features.jupyter.kernels.kernel_quirks import Quirks, quirks_of
from codriver.net.task_set import cancelled_on_exit
from codriver.repls.contract.adapter import NotAnReplError, OpTimedOutError
from codriver.wire.untrusted import mapping_of, strings_of, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from codriver.features.jupyter.kernels.channel import Carrier, Channel, OnMessage
    from codriver.features.jupyter.kernels.messages import Message, Socket


from contextlib import suppress
from typing import TYPE_CHECKING

from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.messages import Message

    Fields = Mapping[str, object]

    """A value in the form of `execute_result`, or an error; empty if the kernel told nothing."""


CONNECT_S: Final = 2.5
"""The time for a kernel's first answer. A busy kernel answers on control."""

RETRY_S: Final = 0.5
UNSURE_S: Final = 5.0
"""The wait for the end of another client's code before the kernel is asked about it."""

SUBSHELL_S: Final = 1.0
"""The time for a kernel to make a subshell: a kernel without subshells may leave the request unanswered."""

MAX_PAST_EXCHANGES: Final = 200
"""Past exchanges whose late messages are still told as theirs."""

EXECUTE: Final = "execute_request"


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel's own account of itself, from its `kernel_info_reply`."""

    implementation: str = ""
    implementation_version: str = ""
    language: str = ""
    language_version: str = ""
    features: frozenset[str] = frozenset()
    """Mere claims: kernels based on ipykernel claim all its features."""
    quirks: Quirks = field(default_factory=Quirks)


def read_kernel_info(content: Mapping[str, object]) -> KernelInfo:
    """Return the account in the content of a `kernel_info_reply`."""
    language, implementation = mapping_of(content, "language_info"), text_of(content, "implementation")
    return KernelInfo(
        implementation=implementation,
        implementation_version=text_of(content, "implementation_version"),
        language=text_of(language, "name"),
        language_version=text_of(language, "version"),
        features=frozenset(strings_of(content, "supported_features")),
        quirks=quirks_of(implementation),
    )


@asynccontextmanager
async def open_kernel(
    carrier: Carrier, *, on_foreign: OnMessage, connect_timeout_s: float = CONNECT_S
) -> AsyncIterator[Kernel]:
    """The kernel at the other end of a carrier's channel, known by name; leaving the context ends the connection.

    `on_foreign` gets each message on iopub without a request of ours, including messages of requests that this
    connection has forgotten.

    Raises:
        ReplUnreachableError: nobody listens there.
        NotAnReplError: the listener does not answer as a kernel does.
        PackageMissingError: a package for the carrier is missing.
    """
    kernel = Kernel(on_foreign)
    async with carrier(kernel.receive) as channel, cancelled_on_exit() as tasks:
        kernel.channel = channel
        tasks.start_soon(kernel.follow)
        try:
            await kernel.introduce(connect_timeout_s)
            yield kernel
        finally:
            kernel.end("it was closed by us")


class Kernel:
    """Our side of one kernel, for the life of one connection. `open_kernel` gives it."""

    channel: Channel

    def __init__(self, on_foreign: OnMessage) -> None:
        self.info = KernelInfo()
        self.cause: str | None = None
        self.closed = anyio.Event()
        self.received = 0
        """The number of messages so far, of all clients."""
        self.session = ""
        """The kernel's own session; empty for a kernel that answers under the client's session, as R's does."""
        self._on_foreign = on_foreign
        self._exchanges: OrderedDict[str, Exchange] = OrderedDict()
        self._past: Recent[str, Exchange] = Recent(MAX_PAST_EXCHANGES)
        self.retained: dict[str, Exchange] = {}
        """Ended exchanges, by id, that still get their late messages, however many others follow."""
        self._running: dict[str, Message] = {}
        """The request that the main shell works on, by its id, from the kernel's messages."""
        self._changed = anyio.Event()
        self._turn = anyio.Lock()
        self.subshell_id: str | None = None
        self._has_no_subshell = False
        self._making_subshell = anyio.Lock()

    def receive(self, message: Message) -> None:
        """Take a message of the kernel, in the order of its socket."""
        if self.cause is not None:
            return
        self.received += 1
        if self.info.implementation and (cause := self._restarted(message)):
            self.end(cause)
            return
        if message.state:
            self._note_state(message)
        parent = message.parent_id
        exchange = self._exchanges.get(parent) or self._past.get(parent) or self.retained.get(parent)
        if exchange is not None:
            exchange.receive(message)
        elif message.socket == "iopub":
            self._on_foreign(message)

    def _restarted(self, message: Message) -> str:
        """Return the reason in words why this is another kernel than before; empty for the same kernel."""
        if message.state == "starting" and self.session and message.session == self.session:
            return ""  # the start of this very kernel, told after its first answer to us
        if message.state in ("starting", "restarting"):
            return "the kernel was restarted, and everything defined in it is gone"
        if message.state == "dead":
            return "the kernel's process ended"
        if (
            message.type == "shutdown_reply"
            and message.socket == "iopub"
            and message.parent_session != self.client_session
        ):
            is_restart = message.content.get("restart") is True
            return "another client restarted the kernel" if is_restart else "another client shut the kernel down"
        # Only these count: a server between us and the kernel adds messages of its own, with a session of its own.
        if self.session and message.state in ("busy", "idle") and message.session != self.session:
            return "the kernel was restarted, and everything defined in it is gone"
        return ""

    def _note_state(self, message: Message) -> None:
        if message.parent_type != EXECUTE or message.parent_subshell:
            return
        if message.state == "busy":
            self._running = {message.parent_id: message}  # the main shell does one thing at a time
        else:
            self._running.pop(message.parent_id, None)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    @property
    def client_session(self) -> str:
        """Return the session id in the headers of our messages."""
        return self.channel.session

    @property
    def is_busy(self) -> bool:
        """Return whether the main shell works, for us or another client, or has work waiting."""
        return bool(self._running) or self._turn.locked()

    @property
    def running_for_others(self) -> str | None:
        """Return the id of the request of another client that the main shell works on; None without one."""
        return next((id_ for id_ in self._running if id_ not in self._exchanges and id_ not in self._past), None)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The free main shell for one request: nothing else of ours is sent there until the context is left.

        Raises:
            ReplDisconnectedError: the connection has finished.
        """
        async with self._turn:
            await self._wait_free()
            self.check_open()
            yield

    async def _wait_free(self) -> None:
        """Wait for the end of the main shell's work. If the message of the end was dropped, the kernel is asked."""
        probe: Exchange | None = None
        try:
            while self._running and self.cause is None:
                with anyio.move_on_after(UNSURE_S) as unsure:
                    await self._changed.wait()
                if unsure.cancelled_caught and probe is None:
                    probe = self.post("shell", "kernel_info_request", {}, Exchange(self._note_free))
        finally:
            if probe is not None:
                self.finish(probe)

    def _note_free(self, message: Message) -> None:
        """Take an answer of the main shell, which comes after all earlier work."""
        if message.socket == "shell" and self._running:
            self._running.clear()
            self._wake()

    async def wait_finished(self, request_id: str, timeout_s: float) -> bool:
        """Wait for the end of the main shell's work; whether it came in time."""
        with anyio.move_on_after(timeout_s):
            while request_id in self._running and self.cause is None:
                await self._changed.wait()
        return request_id not in self._running

    def forget_running(self, request_id: str) -> None:
        """Take a request as over although the kernel never told its end."""
        self._running.pop(request_id, None)
        self._wake()

    def post(
        self,
        socket: Socket,
        type: str,  # noqa: A002  # the protocol's word
        content: Mapping[str, object],
        exchange: Exchange,
        *,
        metadata: Mapping[str, object] | None = None,
        subshell: str | None = None,
    ) -> Exchange:
        """Send a request. Its exchange takes its messages until `finish`, and late ones for a while after.

        A request to the main shell is sent in a `turn`.

        Raises:
            ReplDisconnectedError: the connection has finished.
        """
        self.check_open()
        exchange.id = self.channel.post(socket, type, content, metadata=metadata, subshell=subshell)
        self._exchanges[exchange.id] = exchange
        return exchange

    def finish(self, exchange: Exchange) -> None:
        """End an exchange: no one waits for it any more. Late messages still reach its `on_message`."""
        if self._exchanges.pop(exchange.id, None) is None:
            return
        self._past[exchange.id] = exchange

    async def request(
        self,
        type: str,  # noqa: A002
        content: Mapping[str, object],
        *,
        socket: Socket = "shell",
        timeout_s: float,
        while_busy: bool = False,
        exchange: Exchange | None = None,
    ) -> Message:
        """Return the reply to a question, whose messages an `exchange` takes. No user's code is sent.

        On the main shell the question waits for its turn. With `while_busy`, a busy kernel is asked in a subshell, if
        it has one. The time counts from the call.

        Raises:
            OpTimedOutError: the question was not answered, or did not get its turn, in time.
            ReplDisconnectedError: the connection has finished.
        """
        with anyio.move_on_after(timeout_s):
            if socket != "shell":
                return await self._exchange(socket, type, content, exchange)
            if while_busy and self.is_busy and (subshell := await self.subshell()):
                return await self._exchange(socket, type, content, exchange, subshell=subshell)
            async with self.turn():
                return await self._exchange(socket, type, content, exchange)
        raise OpTimedOutError(type, timeout_s)

    async def subshell(self) -> str | None:
        """Return the id of our own subshell, made when first requested; None for a kernel without subshells."""
        async with self._making_subshell:
            if self.subshell_id is None and not self._has_no_subshell:
                self._has_no_subshell = not self.info.quirks.has_subshells
                if not self._has_no_subshell:
                    self.subshell_id = await self.make_subshell()
            return self.subshell_id

    async def make_subshell(self) -> str | None:
        """Return the id of a new subshell; None for a kernel without subshells."""
        try:
            reply = await self.request("create_subshell_request", {}, socket="control", timeout_s=SUBSHELL_S)
        except OpTimedOutError:
            return None  # the kernel's control thread may be held up: asked again next time
        made = reply.text("subshell_id") or None
        self._has_no_subshell = made is None
        return made

    async def _exchange(
        self,
        socket: Socket,
        type: str,  # noqa: A002
        content: Mapping[str, object],
        exchange: Exchange | None,
        *,
        subshell: str | None = None,
    ) -> Message:
        exchange = self.post(socket, type, content, exchange or Exchange(), subshell=subshell)
        try:
            await exchange.replied.wait()
        finally:
            self.finish(exchange)
        return exchange.reply or self._lost()

    async def introduce(self, timeout_s: float) -> None:
        """Ask the kernel's name until it answers, and its published messages arrive. A busy one answers on control.

        Raises:
            NotAnReplError: the listener does not answer as a kernel does.
        """
        exchanges: list[Exchange] = []
        answered: list[Message] = []
        is_received = anyio.Event()

        def receive(message: Message) -> None:
            if message.type == "kernel_info_reply":
                answered.append(message)
            if message.socket == "iopub":
                is_received.set()

        try:
            with anyio.move_on_after(timeout_s):
                while not (answered and is_received.is_set()) and self.cause is None:
                    sockets: tuple[Socket, ...] = ("shell", "control") if not exchanges else ("control", "shell")
                    exchanges += [self.post(to, "kernel_info_request", {}, Exchange(receive)) for to in sockets]
                    with anyio.move_on_after(RETRY_S):
                        await exchanges[-2].replied.wait()
                        await is_received.wait()
            if not answered:
                self.check_open()
                raise NotAnReplError(self.channel.address, await self.channel.silence(), protocol="Jupyter kernel")
        except ReplDisconnectedError as error:
            raise NotAnReplError(self.channel.address, error.cause, protocol="Jupyter kernel") from error
        finally:
            for exchange in exchanges:
                self.finish(exchange)
        session = answered[-1].session
        self.session = "" if session == self.client_session else session
        self.info = read_kernel_info(answered[-1].content)

    async def follow(self) -> None:
        """Wait for the end of the channel."""
        self.end(await self.channel.wait_closed())

    def end(self, cause: str) -> None:
        """End the connection, and tell all who wait for an answer."""
        if self.cause is not None:
            return
        self.cause = cause
        self.closed.set()
        self._wake()
        for exchange in list(self._exchanges.values()):
            exchange.end()

    async def wait_closed(self) -> str:
        """Wait until the connection is over and give the cause in words. Never raises; after the end at once."""
        await self.closed.wait()
        return self.cause or "the connection ended"

    def check_open(self) -> None:
        """Raise `ReplDisconnectedError` when the connection has finished."""
        if self.cause is not None:
            raise ReplDisconnectedError(self.cause)

    def _lost(self) -> Message:
        raise ReplDisconnectedError(self.cause or "the connection ended")


class Exchange:
    """A request of ours and the signs of its end: its reply, and the kernel's `idle`, in any order."""

    __slots__ = ("ending", "id", "idle", "on_message", "received", "replied", "reply")

    def __init__(self, on_message: OnMessage | None = None) -> None:
        """`on_message` gets every message about the request, its reply included."""
        self.id = ""
        self.on_message = on_message
        self.reply: Message | None = None
        self.received = 0
        """Messages so far."""
        self.ending = anyio.Event()
        """The first of the two signs, whichever it is."""
        self.replied = anyio.Event()
        self.idle = anyio.Event()

    def receive(self, message: Message) -> None:
        """Take a message about the request."""
        self.received += 1
        if self.on_message is not None:
            self.on_message(message)
        if message.socket in ("shell", "control"):
            self.reply = self.reply or message
            self.replied.set()
            self.ending.set()
        elif message.state == "idle":
            self.idle.set()
            self.ending.set()

    async def wait(self, sign: anyio.Event, silence_s: float, progress: Callable[[], int] = lambda: 0) -> bool:
        """Wait for one of the signs; False if neither it nor another message about the request comes for so long.

        A growing `progress` shows an incomplete message on its way.
        """
        while not sign.is_set():
            before = (self.received, progress())
            with anyio.move_on_after(silence_s):
                await sign.wait()
            if before == (self.received, progress()):
                break
        return sign.is_set()

    def end(self) -> None:
        """Wake all who wait: nothing more will come."""
        self.ending.set()
        self.replied.set()
        self.idle.set()


LEAVE_S: Final = 0.5
"""The time for a kernel to end a subshell: code that holds the interpreter's lock delays that too."""


async def leave_subshell(kernel: Kernel, subshell: str | None) -> None:
    """End a subshell of ours, whose thread would stay in the kernel for its life. Never raises."""
    if subshell is None or kernel.cause is not None:
        return
    content = {"subshell_id": subshell}
    with anyio.CancelScope(shield=True), suppress(CodriverError):
        await kernel.request("delete_subshell_request", content, socket="control", timeout_s=LEAVE_S)
