"""Jobs: the requests that run on the main thread, with the session each runs in, its output, and its interrupts.

An interrupt is SIGINT for one evaluation while it runs, and for no other.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
import queue
import signal
import sys
import threading
import traceback
from time import monotonic, sleep

from .connections import STALLED_S, WAITING_BYTES, pack
from .frame_spaces import FrameSpaces
from .stacks import MadeTasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from typing import Any

    from .connections import Connection, Message

CHUNK_CHARACTERS = 256 * 1024
"""Longest text in one message of output."""


class Session:
    """A session: one caller's current namespace, the last values, and input not read yet."""

    def __init__(self, identity: str, namespace: Any) -> None:
        self.id = identity
        self.namespace = namespace
        """The dialect's own kind of namespace: a module, or Basilisp's."""
        self.is_apart = False
        self.last: list[object] = [None, None, None]
        self.error: BaseException | None = None
        self.spaces = FrameSpaces()
        """The namespaces of that error's frames."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self.made_tasks = MadeTasks()
        """The evaluations that made the tasks on that loop."""
        self.limits: dict[str, object] = {}
        """The print limits that the user set here, by the name of the var."""
        self.print_fields: Message = {}
        """The print limits that a client told the session once, as fields."""
        self.flags = 0
        """The compiler's flags, from evaluated `__future__` imports."""
        self.input: queue.SimpleQueue[str] = queue.SimpleQueue()


class Shield:
    """A shield from interrupts of the main thread: they wait, so that no message is lost and no lock stays held."""

    def __init__(self) -> None:
        self.main = threading.get_ident()
        self.depth = 0
        self.is_late = False

    def __enter__(self) -> None:
        if threading.get_ident() == self.main:
            self.depth += 1

    def __exit__(self, *_: object) -> None:
        if threading.get_ident() == self.main:
            self.depth -= 1
            if self.is_late and not self.depth:
                self.is_late = False
                raise KeyboardInterrupt


class Job:
    """One request that runs on the main thread, from its arrival on.

    `touch` gets the job when it has something to send soon.
    """

    def __init__(
        self,
        message: Message,
        connection: Connection,
        session: Session,
        shield: Shield,
        touch: Callable[[Job], None],
    ) -> None:
        self.message = message
        self.connection = connection
        self.session = session
        self.file = ""
        """The name of the code in tracebacks."""
        self.form: int | None = None
        """The number of the top-level form that runs, from 1."""
        self.lines: list[int] | None = None
        """The lines on which the forms begin, for forms that run as one."""
        self.edited: list[str] = []
        """Modules that its code used and whose files were edited since their load, in words."""
        self.directory = ""
        """The working folder at the job's beginning."""
        self.declined = 0
        """The number of times that an application asked for a REPL of its own before the job began."""
        self.over = threading.Event()
        self.is_started = False
        self.is_interrupted = False
        self.is_cut_off = False
        """True once the code was told that its input has ended: the error that follows counts as the interrupt's."""
        self.is_concurrent = False
        """True of a job that runs on a thread of its own, beside the job on the main thread."""
        self.interrupts: Interrupts | None = None
        """The interrupts of the job's own thread; None for a job on the main thread."""
        self.is_abandoned = False
        """True of a job that blocks in a call which no interrupt reaches: other jobs no longer wait for it."""
        self.abandoned = ""
        """The words about an abandoned job; empty for the usual ones."""
        self.wake: Callable[[], object] | None = None
        """Ends the evaluation's wait for an event outside of its thread."""
        self.shield = shield
        self._touch_output = touch
        self._lock = threading.Lock()
        self._chunks: list[tuple[str, str]] = []
        self._packed: list[bytes] = []
        self._size = 0
        self._is_dirty = False

    def send(self, fields: Mapping[str, object]) -> None:
        """Answer, after all earlier output."""
        with self.shield, self._lock:
            self._pack()
            self._packed.append(pack(self.message, fields))
            self._push()

    def answer_soon(self, fields: Mapping[str, object]) -> None:
        """Answer soon, in one packet with the end of the evaluation if that is near."""
        with self.shield, self._lock:
            self._pack()
            self._packed.append(pack(self.message, fields))
            if len(self._packed[-1]) > CHUNK_CHARACTERS:
                self._push()
            else:
                self._touch()

    def write(self, stream: str, text: str) -> None:
        """Take printed text, sent soon. No lock is taken: a printing finalizer may run anywhere, in our code too."""
        self._chunks.append((stream, text))
        self._size += len(text)
        if not self._is_dirty:
            self._touch()
        if self._size > WAITING_BYTES or self.connection.waiting_bytes > WAITING_BYTES:
            self._wait_for_space()

    def flush(self) -> None:
        """Send the waiting text."""
        with self.shield, self._lock:
            self._push()

    def whole_number(self, name: str) -> int:
        """A number from 1 in the request; 1 without one. Lines beyond a million do not count."""
        value = self.message.get(name)
        return value if isinstance(value, int) and 1 <= value <= 1_000_000 else 1

    def _wait_for_space(self) -> None:
        self._touch()
        patience = monotonic() + STALLED_S
        while self._size > WAITING_BYTES and monotonic() < patience:
            sleep(0.002)
        self.connection.wait_for_space()

    def _touch(self) -> None:
        self._is_dirty = True
        self._touch_output(self)

    def _push(self) -> None:
        self._is_dirty = False
        self._pack()
        packed, self._packed = self._packed, []
        if packed:
            self.connection.push(b"".join(packed) if len(packed) > 1 else packed[0])

    def _pack(self) -> None:
        chunks = self._chunks[:]
        del self._chunks[: len(chunks)]
        self._size = 0
        for stream, group in itertools.groupby(chunks, key=operator.itemgetter(0)):
            text = "".join(text for _, text in group)
            for start in range(0, len(text), CHUNK_CHARACTERS):
                self._packed.append(pack(self.message, {stream: text[start : start + CHUNK_CHARACTERS]}))


ABANDONED = (
    "it was abandoned: its call blocks outside of Python, where no interrupt reaches it. Its thread lives until that "
    "call returns; what comes next is evaluated on another"
)
INTERRUPT_S = 2.0
"""The time for an interrupted evaluation to end before the interrupt is answered anyway."""
SIGNAL_EVERY_S = 0.5
"""Finalizers and code that catches everything may swallow one interrupt; so the evaluation gets another after this
time.
"""


SIGNAL_ARRIVAL_S = 0.05
"""The time for a signal that another thread brings, before code that waits for input gets the input's end."""


class Interrupts:
    """Interrupts the evaluation that runs on the main thread. Lives as long as the worker.

    `is_supervised`: nobody has a terminal to press Ctrl-C.
    """

    def __init__(self, *, is_supervised: bool) -> None:
        self.shield = Shield()
        self._is_supervised = is_supervised
        self._running: Job | None = None
        self._target: Job | None = None
        self._is_sent = False
        """Whether a signal of ours is on its way: any other was sent by user code, or by hand."""
        self._stopping = threading.Lock()

    def install(self) -> None:
        """Take SIGINT, also from user code that took it. On the main thread."""
        if signal.getsignal(signal.SIGINT) != self._on_signal:
            signal.signal(signal.SIGINT, self._on_signal)
            # A signal sent before went to the former handler.
            self._is_sent = False

    def perform(self, job: Job, act: Callable[[], object]) -> BaseException | None:
        """Run an act that an interrupt may end; its exception. No interrupt comes after it. On the main thread."""
        self.shield.depth, self.shield.is_late = 0, False
        try:
            try:
                self._running = job
                act()
            finally:
                self._running = None
        except BaseException as error:
            self._running = None
            return error
        return None

    def stop(self, job: Job) -> bool:
        """Interrupt the running code again and again for a while; whether it ended. On any other thread."""
        patience = monotonic() + INTERRUPT_S
        with self._stopping:
            while not job.over.is_set() and monotonic() < patience:
                self._target, self._is_sent = job, True
                if hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(self.shield.main, signal.SIGINT)
                else:
                    self._raise()
                    # On Windows a signal does not wake code that waits for input, and comes by another thread.
                    if not job.over.wait(SIGNAL_ARRIVAL_S):
                        job.session.input.put("")
                job.over.wait(SIGNAL_EVERY_S)
        return job.over.is_set()

    def _raise(self) -> None:
        """Interrupt without a choice of thread: as Ctrl-C at a console of our own, which our children get too."""
        if sys.platform == "win32" and self._is_supervised:
            import ctypes

            # Our starter may have had Ctrl-C ignored.
            ctypes.windll.kernel32.SetConsoleCtrlHandler(None, 0)
            with contextlib.suppress(OSError):  # the process has no console
                os.kill(0, signal.CTRL_C_EVENT)
                return
        signal.raise_signal(signal.SIGINT)  # unlike `interrupt_main` it ends a sleep

    def _on_signal(self, _number: int, _frame: object) -> None:
        is_expected, self._is_sent = self._is_sent, False
        if is_expected and self._running is not self._target:
            return  # the signal comes late: its evaluation is over
        if self._running is None and self._is_supervised:
            return  # finished code sent the signal to itself: there is no terminal
        if self._running is not None and self.shield.depth:
            self.shield.is_late = True
        else:
            raise KeyboardInterrupt


def leave_child(error: BaseException | None) -> None:
    """End a forked process as Python would have."""
    status = 0 if error is None else 1
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else 1 if error.code else 0
    elif error is not None:
        sys.stderr.write("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    os._exit(status)
