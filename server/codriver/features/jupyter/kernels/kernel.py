"""A connected kernel: requests and their replies, the execution state, and restarts.

A kernel processes all clients' requests to its main shell one at a time, and some kernels mix up waiting requests. So
Codriver has its own queue: a request is sent when it is first in the queue and no other client's code is running. A
request is complete after two messages on two sockets, in either order: its reply, and the kernel's `idle`. If anyone
restarts the kernel, the connection ends, because the kernel's memory is lost and open requests will never be answered.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.records import Recent
from codriver.errors import ReplDisconnectedError
from codriver.features.jupyter.kernels.kernel_quirks import Quirks, find_quirks
from codriver.net.task_set import task_group_cancelled_on_exit
from codriver.repls.contract.adapter import NotAReplError, OpTimedOutError
from codriver.wire.untrusted import mapping_at, strings_at, text_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from codriver.features.jupyter.kernels.channel import Carrier, Channel, OnMessage
    from codriver.features.jupyter.kernels.messages import Message, Socket


from contextlib import suppress
from typing import TYPE_CHECKING

from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.messages import Message


CONNECT_TIMEOUT_S: Final = 2.5
"""Maximum time to wait for a kernel's first reply. A busy kernel replies on the control socket."""

RETRY_INTERVAL_S: Final = 0.5
"""Interval between requests while connecting, until the kernel has answered one of them."""
FOREIGN_CODE_TIMEOUT_S: Final = 5.0
"""How long to wait for another client's code to end before querying the kernel."""

CREATE_SUBSHELL_TIMEOUT_S: Final = 1.0
"""Maximum time to wait for a new subshell. Kernels without subshells may not answer the request."""

MAX_PAST_EXCHANGES: Final = 200
"""Maximum number of completed exchanges that still receive late messages."""

EXECUTE_TYPE: Final = "execute_request"
DELETE_SUBSHELL_TIMEOUT_S: Final = 0.5
"""Maximum time to wait for a subshell to be deleted. Code that holds the interpreter lock delays this, too."""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """The content of a `kernel_info_reply`: the kernel's language, implementation and capabilities."""

    implementation: str = ""
    implementation_version: str = ""
    language: str = ""
    language_version: str = ""
    features: frozenset[str] = frozenset()
    """The supported features. Unreliable, because kernels based on ipykernel claim all of its features."""
    quirks: Quirks = field(default_factory=Quirks)


def read_kernel_info(content: Mapping[str, object]) -> KernelInfo:
    """Parse the content of a `kernel_info_reply`."""
    language, implementation = mapping_at(content, "language_info"), text_at(content, "implementation")
    return KernelInfo(
        implementation=implementation,
        implementation_version=text_at(content, "implementation_version"),
        language=text_at(language, "name"),
        language_version=text_at(language, "version"),
        features=frozenset(strings_at(content, "supported_features")),
        quirks=find_quirks(implementation),
    )


@asynccontextmanager
async def open_kernel(
    carrier: Carrier, *, on_foreign: OnMessage, connect_timeout_s: float = CONNECT_TIMEOUT_S
) -> AsyncIterator[Kernel]:
    """Connect to a kernel, and disconnect when the context is exited.

    `on_foreign` is called with each message on iopub that does not belong to a request of this connection. That
    includes messages about requests that the connection no longer remembers.

    Raises:
        ReplUnreachableError: nothing listens at the kernel's address.
        NotAReplError: the listener does not answer like a kernel.
        PackageMissingError: a package that the transport requires is not installed.
    """
    kernel = Kernel(on_foreign)
    async with carrier(kernel.receive) as channel, task_group_cancelled_on_exit() as tasks:
        kernel.channel = channel
        tasks.start_soon(kernel.watch_channel)
        try:
            await kernel.request_info(connect_timeout_s)
            yield kernel
        finally:
            kernel.end("Codriver closed the connection")


class Kernel:
    """A connection to a kernel. Use `open_kernel` to create one."""

    channel: Channel

    def __init__(self, on_foreign: OnMessage) -> None:
        self.info = KernelInfo()
        self.cause: str | None = None
        self.closed = anyio.Event()
        self.received = 0
        """Number of messages received so far, about requests from all clients."""
        self.session = ""
        """The kernel's session id. Empty for kernels that answer with the client's session id, such as R's."""
        self._on_foreign = on_foreign
        self._exchanges: OrderedDict[str, Exchange] = OrderedDict()
        self._past: Recent[str, Exchange] = Recent(MAX_PAST_EXCHANGES)
        self.retained: dict[str, Exchange] = {}
        """Completed exchanges that receive late messages, however many exchanges follow them, by id."""
        self._running: dict[str, Message] = {}
        """The request that the main shell is processing, by its id, according to the kernel's messages."""
        self._changed = anyio.Event()
        self._turn = anyio.Lock()
        self.subshell_id: str | None = None
        self._has_no_subshell = False
        self._making_subshell = anyio.Lock()

    def receive(self, message: Message) -> None:
        """Process a message from the kernel. Messages from the same socket must be passed in order."""
        if self.cause is not None:
            return
        self.received += 1
        if self.info.implementation and (cause := self._describe_end(message)):
            self.end(cause)
            return
        if message.state:
            self._track_state(message)
        parent = message.parent_id
        exchange = self._exchanges.get(parent) or self._past.get(parent) or self.retained.get(parent)
        if exchange is not None:
            exchange.receive(message)
        elif message.socket == "iopub":
            self._on_foreign(message)

    def _describe_end(self, message: Message) -> str:
        """Describe the end or the restart of the kernel, or return an empty string if the message reports neither."""
        if message.state == "starting" and self.session and message.session == self.session:
            return ""  # the kernel reports its start after it has answered the first request
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
        # Other messages do not count: a Jupyter Server adds some with its own session id.
        if self.session and message.state in ("busy", "idle") and message.session != self.session:
            return "the kernel was restarted, and everything defined in it is gone"
        return ""

    def _track_state(self, message: Message) -> None:
        if message.parent_type != EXECUTE_TYPE or message.parent_subshell:
            return
        if message.state == "busy":
            self._running = {message.parent_id: message}  # the main shell does one thing at a time
        else:
            self._running.pop(message.parent_id, None)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    @property
    def client_session(self) -> str:
        """Return the session id in the headers of Codriver's messages."""
        return self.channel.session

    @property
    def is_busy(self) -> bool:
        """Return whether the main shell is processing a client's request, or a request from Codriver is waiting."""
        return bool(self._running) or self._turn.locked()

    @property
    def foreign_request_id(self) -> str | None:
        """Return the id of the request that the main shell is running for another client, or None."""
        return next(
            (
                request_id
                for request_id in self._running
                if request_id not in self._exchanges and request_id not in self._past
            ),
            None,
        )

    @asynccontextmanager
    async def reserve_main_shell(self) -> AsyncIterator[None]:
        """Wait until the main shell is free, and reserve it for a request until the context is exited.

        Raises:
            ReplDisconnectedError: the connection has closed.
        """
        async with self._turn:
            await self._wait_until_free()
            self.check_open()
            yield

    async def _wait_until_free(self) -> None:
        """Wait until the main shell is idle.

        If this takes too long, send a request to the kernel, because its `idle` message may have been lost.
        """
        probe: Exchange | None = None
        try:
            while self._running and self.cause is None:
                with anyio.move_on_after(FOREIGN_CODE_TIMEOUT_S) as unsure:
                    await self._changed.wait()
                if unsure.cancelled_caught and probe is None:
                    probe = self.post("shell", "kernel_info_request", {}, Exchange(self._on_reply_when_free))
        finally:
            if probe is not None:
                self.finish(probe)

    def _on_reply_when_free(self, message: Message) -> None:
        """Mark the main shell as free, because its reply shows that all earlier requests have finished."""
        if message.socket == "shell" and self._running:
            self._running.clear()
            self._wake_waiters()

    async def wait_finished(self, request_id: str, timeout_s: float) -> bool:
        """Wait until a request has finished. Return False if it has not finished in time."""
        with anyio.move_on_after(timeout_s):
            while request_id in self._running and self.cause is None:
                await self._changed.wait()
        return request_id not in self._running

    def forget_running(self, request_id: str) -> None:
        """Treat a request as finished although the kernel did not report its end."""
        self._running.pop(request_id, None)
        self._wake_waiters()

    def post(
        self,
        socket: Socket,
        msg_type: str,
        content: Mapping[str, object],
        exchange: Exchange,
        *,
        metadata: Mapping[str, object] | None = None,
        subshell: str | None = None,
    ) -> Exchange:
        """Send a request. Messages about it are passed to `exchange`.

        Late messages are still passed for a while after `finish`. For a request to the main shell, the caller must hold
        `reserve_main_shell`.

        Raises:
            ReplDisconnectedError: the connection has closed.
        """
        self.check_open()
        exchange.id = self.channel.post(socket, msg_type, content, metadata=metadata, subshell=subshell)
        self._exchanges[exchange.id] = exchange
        return exchange

    def finish(self, exchange: Exchange) -> None:
        """Stop tracking an exchange. Its `on_message` is still called for late messages."""
        if self._exchanges.pop(exchange.id, None) is None:
            return
        self._past[exchange.id] = exchange

    def wake_main_shell(self) -> None:
        """Send a request to the main shell and ignore the reply, so that the kernel's event loop handles a signal.

        ipykernel's signal handler schedules the cancellation of code that awaits, but does not wake the event loop.
        """
        self.finish(self.post("shell", "kernel_info_request", {}, Exchange(lambda _: None)))

    async def request(
        self,
        msg_type: str,
        content: Mapping[str, object],
        *,
        socket: Socket = "shell",
        timeout_s: float,
        while_busy: bool = False,
        exchange: Exchange | None = None,
    ) -> Message:
        """Send a request that does not run user code, and return the reply.

        Wait until the main shell is free if the request is sent to it. With `while_busy`, use a subshell instead if the
        main shell is busy and the kernel has subshells. `timeout_s` includes the time spent waiting.

        Raises:
            OpTimedOutError: the request was not answered, or not sent, in time.
            ReplDisconnectedError: the connection has closed.
        """
        with anyio.move_on_after(timeout_s):
            if socket != "shell":
                return await self._send_and_wait(socket, msg_type, content, exchange)
            if while_busy and self.is_busy and (subshell := await self.ensure_subshell()):
                return await self._send_and_wait(socket, msg_type, content, exchange, subshell=subshell)
            async with self.reserve_main_shell():
                return await self._send_and_wait(socket, msg_type, content, exchange)
        raise OpTimedOutError(msg_type, timeout_s)

    async def ensure_subshell(self) -> str | None:
        """Return the id of Codriver's subshell, or None if the kernel has no subshells.

        The subshell is created on the first call.
        """
        async with self._making_subshell:
            if self.subshell_id is None and not self._has_no_subshell:
                self._has_no_subshell = not self.info.quirks.has_subshells
                if not self._has_no_subshell:
                    self.subshell_id = await self.create_subshell()
            return self.subshell_id

    async def create_subshell(self) -> str | None:
        """Create a subshell and return its id, or None if the kernel has no subshells."""
        try:
            reply = await self.request(
                "create_subshell_request", {}, socket="control", timeout_s=CREATE_SUBSHELL_TIMEOUT_S
            )
        except OpTimedOutError:
            return None  # the kernel's control thread may be blocked, so the next call will try again
        subshell_id = reply.text("subshell_id") or None
        self._has_no_subshell = subshell_id is None
        return subshell_id

    async def _send_and_wait(
        self,
        socket: Socket,
        msg_type: str,
        content: Mapping[str, object],
        exchange: Exchange | None,
        *,
        subshell: str | None = None,
    ) -> Message:
        exchange = self.post(socket, msg_type, content, exchange or Exchange(), subshell=subshell)
        try:
            await exchange.replied.wait()
        finally:
            self.finish(exchange)
        return exchange.reply or self._raise_disconnected()

    async def request_info(self, timeout_s: float) -> None:
        """Request the kernel's info, and wait until both the reply and a message on iopub are received.

        The request is sent on both the shell and the control socket, because a busy kernel answers only on control.

        Raises:
            NotAReplError: the listener does not answer like a kernel.
        """
        exchanges: list[Exchange] = []
        replies: list[Message] = []
        is_received = anyio.Event()

        def receive(message: Message) -> None:
            if message.type == "kernel_info_reply":
                replies.append(message)
            if message.socket == "iopub":
                is_received.set()

        try:
            with anyio.move_on_after(timeout_s):
                while not (replies and is_received.is_set()) and self.cause is None:
                    sockets: tuple[Socket, ...] = ("shell", "control") if not exchanges else ("control", "shell")
                    exchanges += [self.post(socket, "kernel_info_request", {}, Exchange(receive)) for socket in sockets]
                    with anyio.move_on_after(RETRY_INTERVAL_S):
                        await exchanges[-2].replied.wait()
                        await is_received.wait()
            if not replies:
                self.check_open()
                raise NotAReplError(
                    self.channel.address, await self.channel.silence_reason(), protocol="Jupyter kernel"
                )
        except ReplDisconnectedError as error:
            raise NotAReplError(self.channel.address, error.cause, protocol="Jupyter kernel") from error
        finally:
            for exchange in exchanges:
                self.finish(exchange)
        session = replies[-1].session
        self.session = "" if session == self.client_session else session
        self.info = read_kernel_info(replies[-1].content)

    async def watch_channel(self) -> None:
        """Wait until the channel is closed, and then end the connection."""
        self.end(await self.channel.wait_closed())

    def end(self, cause: str) -> None:
        """End the connection, and wake all tasks that are waiting for a reply."""
        if self.cause is not None:
            return
        self.cause = cause
        self.closed.set()
        self._wake_waiters()
        for exchange in list(self._exchanges.values()):
            exchange.end()

    async def wait_closed(self) -> str:
        """Wait until the connection is closed and return the cause. Never raises."""
        await self.closed.wait()
        return self.cause or "the connection was closed"

    def check_open(self) -> None:
        """Raise `ReplDisconnectedError` if the connection is closed."""
        if self.cause is not None:
            raise ReplDisconnectedError(self.cause)

    def _raise_disconnected(self) -> Message:
        raise ReplDisconnectedError(self.cause or "the connection was closed")


class Exchange:
    """A request and the kernel's responses to it.

    It is complete when both the reply and the status `idle` have been received, in either order.
    """

    __slots__ = ("id", "idle", "on_message", "received", "replied", "replied_or_idle", "reply")

    def __init__(self, on_message: OnMessage | None = None) -> None:
        """Create an exchange. `on_message` is called with every message about the request, including its reply."""
        self.id = ""
        self.on_message = on_message
        self.reply: Message | None = None
        self.received = 0
        """Number of messages received so far."""
        self.replied_or_idle = anyio.Event()
        """Set when the first of the reply and `idle` is received."""
        self.replied = anyio.Event()
        self.idle = anyio.Event()

    def receive(self, message: Message) -> None:
        """Process a message that the kernel sent about the request."""
        self.received += 1
        if self.on_message is not None:
            self.on_message(message)
        if message.socket in ("shell", "control"):
            self.reply = self.reply or message
            self.replied.set()
            self.replied_or_idle.set()
        elif message.state == "idle":
            self.idle.set()
            self.replied_or_idle.set()

    async def wait(self, event: anyio.Event, silence_s: float, channel: Channel) -> bool:
        """Wait for an event. Return False if no message about the request is received for `silence_s`.

        The wait continues while the channel receives or parses a long message.
        """
        while not event.is_set():
            previous = (self.received, channel.received_bytes)
            with anyio.move_on_after(silence_s):
                await event.wait()
            if previous == (self.received, channel.received_bytes) and not channel.has_undelivered_messages:
                break
        return event.is_set()

    def end(self) -> None:
        """Wake all waiting tasks, because no more messages will be received."""
        self.replied_or_idle.set()
        self.replied.set()
        self.idle.set()


async def delete_subshell(kernel: Kernel, subshell: str | None) -> None:
    """Delete one of Codriver's subshells, so that its thread ends before the kernel does. Never raises."""
    if subshell is None or kernel.cause is not None:
        return
    content = {"subshell_id": subshell}
    with anyio.CancelScope(shield=True), suppress(CodriverError):
        await kernel.request("delete_subshell_request", content, socket="control", timeout_s=DELETE_SUBSHELL_TIMEOUT_S)
