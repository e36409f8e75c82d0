"""One kernel over one channel: requests and their replies, whether it is busy, and when it is another one.

A kernel runs one request of its main shell after the other, whoever sent them, and some mix up those that wait there.
So the queue is ours: a request waits for its turn, and for what other clients run, before it is posted. It is over by
two signs on two sockets, which have no order: its reply, and the kernel's being idle again. A kernel that was
restarted, by whomever, ends the connection: its memory is gone, and what was asked is never answered.

The quirks of kernels stand by their implementation, as `kernel_info_reply` names it: neither the protocol's version,
nor `supported_features`, nor a kernelspec's `interrupt_mode` can be relied on. Each entry was seen on the kernel
itself.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import anyio

from codriver.core.records import Recent
from codriver.errors import ReplDisconnectedError
from codriver.net.tasks import own_tasks
from codriver.repls.contract.adapter import NotAnReplError, OpTimedOutError
from codriver.wire.untrusted import mapping_of, text_of, texts_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from codriver.repls.jupyter.messages import Carrier, Channel, Message, OnMessage, Socket


InterruptBy = Literal["message", "signal", "none"]
Gate = Literal["complete", "incomplete", "none", "unseen"]


@dataclass(frozen=True, slots=True)
class Quirks:
    """The peculiarities of one implementation."""

    interrupt_by: InterruptBy = "message"
    """`message`: an `interrupt_request` on control. `signal`: SIGINT to its process group. `none`: neither stops it."""
    interrupt_note: str = ""
    """A sentence on what an interrupt does not stop, or why there is none."""
    survives_signal: bool = False
    """A signal interrupts it too, and where its process is known, it reaches the processes that it waits for."""
    late_value_s: float = 0.0
    """How long after the end of an evaluation its value may still come."""
    shows_values: bool = False
    """Values come as `display_data`, never as `execute_result`."""
    runs_expressions: bool = False
    """True of a kernel that answers `user_expressions`: it runs Python."""
    reads_input: bool = True
    """Code that reads from stdin gets it from us; else it reads nothing and may wait for ever."""
    gate: Gate = "unseen"
    """The worth of `is_complete`. `complete`: right about all code. `incomplete`: right where it says `incomplete`, but
    invalid code may be `complete` to it. `none`: it never knows. `unseen`: nobody has seen that its word is right, so
    its code runs unasked; Octave's kernel calls whole lines incomplete and runs them, and SoS calls everything so."""
    inspects: bool = True
    """True of a kernel that tells of names by `inspect_request`; any other never finds one."""
    answers_on_control: bool = True
    keeps_subshells: bool = False
    """True of a kernel that may have subshells: `create_subshell_request` tells whether it has."""
    tells_process: bool = False
    """True of a kernel that answers `usage_request`."""
    notes: tuple[str, ...] = ()
    """Sentences a user should know."""


_IPYTHON: Final = Quirks(
    survives_signal=True,
    tells_process=True,
    runs_expressions=True,
    gate="complete",
    keeps_subshells=True,
)

QUIRKS: Final[Mapping[str, Quirks]] = MappingProxyType(
    {
        "ipython": _IPYTHON,
        "xeus-python": Quirks(
            interrupt_by="none",
            interrupt_note="xeus-python cannot be interrupted: the message does nothing, and a signal ends it; only a "
            "restart of the kernel stops its code",
            runs_expressions=True,
            gate="complete",
            notes=("xeus-python cannot be interrupted; what child processes print is lost",),
        ),
        "bash_kernel": Quirks(
            survives_signal=True,
            reads_input=False,
            inspects=False,
            gate="none",
            notes=("values are what commands print; code that reads gets no input",),
        ),
        "IRkernel": Quirks(
            interrupt_by="signal",
            interrupt_note="the R kernel takes no interrupt by message, and its process is not known here",
            shows_values=True,
            gate="complete",
            answers_on_control=False,
        ),
        "Deno kernel": Quirks(
            interrupt_note="an interrupted `await` leaves the Deno kernel stuck for good: then only a restart helps",
            late_value_s=0.05,
            gate="incomplete",
            inspects=False,
        ),
        "tslab": Quirks(interrupt_by="signal", gate="incomplete"),
        "scheme": Quirks(survives_signal=True, gate="incomplete"),
        "Octave Kernel": Quirks(
            survives_signal=True, notes=("a failed call is told as output only, and the evaluation counts as done",)
        ),
    }
)
"""By `implementation`; others are taken for what the protocol says."""


def quirks_of(implementation: str) -> Quirks:
    """The quirks of an implementation, as far as they are known."""
    return QUIRKS.get(implementation, Quirks())


CONNECT_S: Final = 2.5
"""How long a kernel may take to answer its first question. One that is busy answers on control."""

ASK_AGAIN_S: Final = 0.5
UNSURE_S: Final = 5.0
"""How long the end of what another client runs is waited for before it is asked for too."""

SUBSHELL_S: Final = 1.0
"""How long a kernel may take to make a subshell: one that cannot may leave the request unanswered."""

KEPT_EXCHANGES: Final = 200
"""Exchanges of the past whose late messages are still told as theirs."""

EXECUTE: Final = "execute_request"


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel's own account of itself, of its `kernel_info_reply`."""

    implementation: str = ""
    implementation_version: str = ""
    language: str = ""
    language_version: str = ""
    features: frozenset[str] = frozenset()
    """Claims, no more: kernels that stand on ipykernel claim what it has."""
    quirks: Quirks = field(default_factory=Quirks)


def read_kernel_info(content: Mapping[str, object]) -> KernelInfo:
    """The account in the content of a `kernel_info_reply`."""
    language, implementation = mapping_of(content, "language_info"), text_of(content, "implementation")
    return KernelInfo(
        implementation=implementation,
        implementation_version=text_of(content, "implementation_version"),
        language=text_of(language, "name"),
        language_version=text_of(language, "version"),
        features=frozenset(texts_of(content, "supported_features")),
        quirks=quirks_of(implementation),
    )


@asynccontextmanager
async def open_kernel(
    carrier: Carrier, *, on_foreign: OnMessage, connect_timeout_s: float = CONNECT_S
) -> AsyncIterator[Kernel]:
    """The kernel at the other end of a carrier's channel, known by name; leaving the context ends the connection.

    `on_foreign` is told of each message on iopub that no request of ours caused, as are all the messages of requests
    that this connection has forgotten.

    Raises:
        ReplUnreachableError: nobody listens there.
        NotAnReplError: what listens there does not answer as a kernel does.
        PackageMissingError: what the carrier needs is not installed.
    """
    kernel = Kernel(on_foreign)
    async with carrier(kernel.take) as channel, own_tasks() as tasks:
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
        self.heard = 0
        """Messages so far, whoever caused them."""
        self.session = ""
        """The kernel's own session; empty for a kernel that answers under the session of whoever asked, as R's does."""
        self._on_foreign = on_foreign
        self._exchanges: OrderedDict[str, Exchange] = OrderedDict()
        self._past: Recent[str, Exchange] = Recent(KEPT_EXCHANGES)
        self.kept: dict[str, Exchange] = {}
        """By their ids: those that are over and still told what comes of them, however many others follow."""
        self._running: dict[str, Message] = {}
        """By its id: the request that the main shell works on, as the kernel told of it."""
        self._changed = anyio.Event()
        self._turn = anyio.Lock()
        self.own_subshell: str | None = None
        self._has_no_subshell = False
        self._making_subshell = anyio.Lock()

    def take(self, message: Message) -> None:
        """A message of the kernel, in the order of its socket."""
        if self.cause is not None:
            return
        self.heard += 1
        if self.info.implementation and (cause := self._restarted(message)):
            self.end(cause)
            return
        if message.state:
            self._note_state(message)
        parent = message.parent_id
        exchange = self._exchanges.get(parent) or self._past.get(parent) or self.kept.get(parent)
        if exchange is not None:
            exchange.take(message)
        elif message.socket == "iopub":
            self._on_foreign(message)

    def _restarted(self, message: Message) -> str:
        """Why the kernel is another one than before, in words; empty for the same kernel."""
        if message.state == "starting" and self.session and message.session == self.session:
            return ""  # the start of this very kernel, which is told after it has answered our first question
        if message.state in ("starting", "restarting"):
            return "the kernel was restarted, and everything defined in it is gone"
        if message.state == "dead":
            return "the kernel's process ended"
        if (
            message.type == "shutdown_reply"
            and message.socket == "iopub"
            and message.parent_session != self.our_session
        ):
            is_restart = message.content.get("restart") is True
            return "another client restarted the kernel" if is_restart else "another client shut the kernel down"
        # Of these alone: a server between us and the kernel adds messages of its own, with a session of its own.
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
    def our_session(self) -> str:
        """The session id in the headers of what we send."""
        return self.channel.session

    @property
    def is_busy(self) -> bool:
        """Whether the main shell works, for us or another client, or has been given something to do."""
        return bool(self._running) or self._turn.locked()

    @property
    def running_for_others(self) -> str | None:
        """The id of the request of another client that the main shell works on; None where there is none."""
        return next((id_ for id_ in self._running if id_ not in self._exchanges and id_ not in self._past), None)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The main shell for one request, when it is free: nothing else of ours is sent there until this is left.

        Raises:
            ReplDisconnectedError: the connection is over.
        """
        async with self._turn:
            await self._wait_free()
            self.check_open()
            yield

    async def _wait_free(self) -> None:
        """Wait for the end of what the main shell works on. One that is not told, as it was dropped, is asked for."""
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
        """An answer of the main shell, which comes after all that it had to do before."""
        if message.socket == "shell" and self._running:
            self._running.clear()
            self._wake()

    async def wait_ended(self, request_id: str, timeout_s: float) -> bool:
        """Wait for the end of what the main shell works on; whether it came in time."""
        with anyio.move_on_after(timeout_s):
            while request_id in self._running and self.cause is None:
                await self._changed.wait()
        return request_id not in self._running

    def forget_running(self, request_id: str) -> None:
        """Take a request for over whose end the kernel never told."""
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
        """Send a request, whose messages its exchange takes until `finish`, and late ones for a while after.

        One to the main shell is sent in a `turn`.

        Raises:
            ReplDisconnectedError: the connection is over.
        """
        self.check_open()
        exchange.id = self.channel.post(socket, type, content, metadata=metadata, subshell=subshell)
        self._exchanges[exchange.id] = exchange
        return exchange

    def finish(self, exchange: Exchange) -> None:
        """Nobody waits for it any more. What comes late is still told to its `on_message`."""
        if self._exchanges.pop(exchange.id, None) is None:
            return
        self._past[exchange.id] = exchange

    async def ask(
        self,
        type: str,  # noqa: A002
        content: Mapping[str, object],
        *,
        socket: Socket = "shell",
        timeout_s: float,
        while_busy: bool = False,
        exchange: Exchange | None = None,
    ) -> Message:
        """The reply to a question, whose messages an `exchange` takes. No code of the user's is sent by it.

        On the main shell it waits for its turn; `while_busy`, and the kernel is: it is asked in a subshell where there
        is one. The time counts from the call.

        Raises:
            OpTimedOutError: it was not answered, or did not get its turn, in time.
            ReplDisconnectedError: the connection is over.
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
        """The id of our own subshell, made when first asked for; None where the kernel has none."""
        async with self._making_subshell:
            if self.own_subshell is None and not self._has_no_subshell:
                self._has_no_subshell = not self.info.quirks.keeps_subshells
                if not self._has_no_subshell:
                    self.own_subshell = await self.make_subshell()
            return self.own_subshell

    async def make_subshell(self) -> str | None:
        """The id of a new subshell; None where the kernel makes none."""
        try:
            reply = await self.ask("create_subshell_request", {}, socket="control", timeout_s=SUBSHELL_S)
        except OpTimedOutError:
            return None  # its control thread may be held up: asked again next time
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
        """Ask who it is until it answers, and until what it publishes reaches us. One that is busy answers on control.

        Raises:
            NotAnReplError: it does not answer as a kernel does.
        """
        exchanges: list[Exchange] = []
        answered: list[Message] = []
        is_heard = anyio.Event()

        def take(message: Message) -> None:
            if message.type == "kernel_info_reply":
                answered.append(message)
            if message.socket == "iopub":
                is_heard.set()

        try:
            with anyio.move_on_after(timeout_s):
                while not (answered and is_heard.is_set()) and self.cause is None:
                    sockets: tuple[Socket, ...] = ("shell", "control") if not exchanges else ("control", "shell")
                    exchanges += [self.post(to, "kernel_info_request", {}, Exchange(take)) for to in sockets]
                    with anyio.move_on_after(ASK_AGAIN_S):
                        await exchanges[-2].replied.wait()
                        await is_heard.wait()
            if not answered:
                self.check_open()
                raise NotAnReplError(self.channel.place, await self.channel.silence(), protocol="Jupyter kernel")
        except ReplDisconnectedError as error:
            raise NotAnReplError(self.channel.place, error.cause, protocol="Jupyter kernel") from error
        finally:
            for exchange in exchanges:
                self.finish(exchange)
        session = answered[-1].session
        self.session = "" if session == self.our_session else session
        self.info = read_kernel_info(answered[-1].content)

    async def follow(self) -> None:
        """Wait for the end of the channel."""
        self.end(await self.channel.wait_closed())

    def end(self, cause: str) -> None:
        """End the connection: whoever waits for an answer is told."""
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
        """Raise `ReplDisconnectedError` when the connection is over."""
        if self.cause is not None:
            raise ReplDisconnectedError(self.cause)

    def _lost(self) -> Message:
        raise ReplDisconnectedError(self.cause or "the connection ended")


class Exchange:
    """A request of ours and the signs of its end: its reply, and that the kernel is idle again, in any order."""

    __slots__ = ("ending", "heard", "id", "idle", "on_message", "replied", "reply")

    def __init__(self, on_message: OnMessage | None = None) -> None:
        """`on_message` is told of every message about it, its reply included."""
        self.id = ""
        self.on_message = on_message
        self.reply: Message | None = None
        self.heard = 0
        """Messages so far."""
        self.ending = anyio.Event()
        """The first of the two signs, whichever it is."""
        self.replied = anyio.Event()
        self.idle = anyio.Event()

    def take(self, message: Message) -> None:
        """A message about it."""
        self.heard += 1
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
        """Wait for one of its signs; False if it does not come, and nothing else about it for so long.

        While `progress` grows, something comes that is not whole yet.
        """
        while not sign.is_set():
            before = (self.heard, progress())
            with anyio.move_on_after(silence_s):
                await sign.wait()
            if before == (self.heard, progress()):
                break
        return sign.is_set()

    def end(self) -> None:
        """Wake who waits: nothing more will come."""
        self.ending.set()
        self.replied.set()
        self.idle.set()
