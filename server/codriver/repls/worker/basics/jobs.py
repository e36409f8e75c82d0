"""Jobs: requests that run on the main thread, with their sessions, output and interrupts.

An interrupt is a SIGINT that affects only the evaluation for which it was sent.
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

from .connections import MAX_QUEUED_BYTES, STALLED_TIMEOUT_S, encode_reply
from .frame_spaces import FrameSpaces
from .stacks import TaskOrigins

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from typing import Any

    from .connections import Connection, Message

MAX_CHUNK_CHARACTERS = 256 * 1024
"""Maximum length of the text in one output message."""


class Session:
    """A session of one caller, with its current namespace, last values and unread input."""

    def __init__(self, identity: str, namespace: Any) -> None:
        self.id = identity
        self.namespace = namespace
        """The namespace: a module or a Basilisp object."""
        self.is_apart = False
        self.last: list[object] = [None, None, None]
        """The values of `*1`, `*2` and `*3` in Lisp."""
        self.error: BaseException | None = None
        self.spaces = FrameSpaces()
        """The namespaces for frames of `error`."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self.made_tasks = TaskOrigins()
        """Tracks which evaluation created each task on `loop`."""
        self.limits: dict[str, object] = {}
        """Print limits that the user set in this session, by the name of the var."""
        self.print_fields: Message = {}
        """Print limits that the client set for the session, as fields of a request."""
        self.flags = 0
        """Compiler flags from `__future__` imports that were evaluated."""
        self.input: queue.SimpleQueue[str] = queue.SimpleQueue()


class Shield:
    """A context manager that delays interrupts of the main thread, so that no message is lost and no lock stays locked.

    Delayed interrupts are raised at the end of the block.
    """

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
    """A request to run on the main thread.

    `touch` is called when the job has output that must be sent soon.
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
        """The file name of the code in tracebacks."""
        self.form: int | None = None
        """The number of the top-level form that is running, starting at 1."""
        self.lines: list[int] | None = None
        """The first line of each form, if several forms run as one."""
        self.edited: list[str] = []
        """Descriptions of modules that the code used although their files were edited after loading."""
        self.directory = ""
        """The working directory when the job started."""
        self.declined = 0
        """The number of times that `start_repl` had been refused when the job started."""
        self.over = threading.Event()
        self.is_started = False
        self.is_interrupted = False
        self.is_cut_off = False
        """Whether the code has received the end of its input, in which case its next error counts as interrupted."""
        self.is_concurrent = False
        """Whether the job runs on its own thread, concurrently with the main thread."""
        self.interrupts: Interrupts | None = None
        """The interrupts for the job's own thread, or None for a job on the main thread."""
        self.is_abandoned = False
        """Whether the job is blocked in a call that cannot be interrupted. Other jobs no longer wait for it."""
        self.abandoned = ""
        """The message for an abandoned job, or "" for the usual one."""
        self.wake: Callable[[], object] | None = None
        """Stops the evaluation from waiting for an event outside its thread."""
        self.shield = shield
        self._touch_output = touch
        self._lock = threading.Lock()
        self._chunks: list[tuple[str, str]] = []
        self._packed: list[bytes] = []
        self._size = 0
        self._is_dirty = False

    def send(self, fields: Mapping[str, object]) -> None:
        """Send a reply, after all earlier output."""
        with self.shield, self._lock:
            self._pack()
            self._packed.append(encode_reply(self.message, fields))
            self._push()

    def send_soon(self, fields: Mapping[str, object]) -> None:
        """Send a reply after a short delay, if possible in one packet with the end of the evaluation."""
        with self.shield, self._lock:
            self._pack()
            self._packed.append(encode_reply(self.message, fields))
            if len(self._packed[-1]) > MAX_CHUNK_CHARACTERS:
                self._push()
            else:
                self._touch()

    def write(self, stream: str, text: str) -> None:
        """Buffer printed text to be sent shortly. This acquires no lock, because finalizers may print at any time."""
        self._chunks.append((stream, text))
        self._size += len(text)
        if not self._is_dirty:
            self._touch()
        if self._size > MAX_QUEUED_BYTES or self.connection.waiting_bytes > MAX_QUEUED_BYTES:
            self._wait_for_space()

    def flush(self) -> None:
        """Send the buffered text."""
        with self.shield, self._lock:
            self._push()

    def positive_int_field(self, name: str) -> int:
        """Return the request's field `name` as an integer. Return 1 if it is missing or not between 1 and a million."""
        value = self.message.get(name)
        return value if isinstance(value, int) and 1 <= value <= 1_000_000 else 1

    def _wait_for_space(self) -> None:
        self._touch()
        patience = monotonic() + STALLED_TIMEOUT_S
        while self._size > MAX_QUEUED_BYTES and monotonic() < patience:
            sleep(0.002)
        self.connection.wait_for_space()

    def _touch(self) -> None:
        """Record that there is output to send soon."""
        self._is_dirty = True
        self._touch_output(self)

    def _push(self) -> None:
        """Send the encoded replies and the buffered text."""
        self._is_dirty = False
        self._pack()
        packed, self._packed = self._packed, []
        if packed:
            self.connection.send(b"".join(packed) if len(packed) > 1 else packed[0])

    def _pack(self) -> None:
        """Encode the buffered text as replies."""
        chunks = self._chunks[:]
        del self._chunks[: len(chunks)]
        self._size = 0
        for stream, group in itertools.groupby(chunks, key=operator.itemgetter(0)):
            text = "".join(text for _, text in group)
            for start in range(0, len(text), MAX_CHUNK_CHARACTERS):
                self._packed.append(encode_reply(self.message, {stream: text[start : start + MAX_CHUNK_CHARACTERS]}))


ABANDONED_MESSAGE = (
    "the evaluation was abandoned, because it is blocked in a call outside Python. Its thread keeps running until "
    "that call returns. Further code is evaluated in another thread"
)
INTERRUPT_TIMEOUT_S = 2.0
"""Seconds that an interrupted evaluation has to end before the interrupt is answered anyway."""
SIGNAL_INTERVAL_S = 0.5
"""Seconds between repeated interrupts. One may be swallowed by a finalizer or by code that catches everything."""


MAX_SIGNAL_DELAY_S = 0.05
"""Seconds to wait for a signal to take effect before code waiting for input receives the end of its input."""


class Interrupts:
    """Interrupts the evaluation that is running on the main thread. There is one instance per worker.

    `is_supervised` means that there is no terminal in which Ctrl-C could be pressed.
    """

    def __init__(self, *, is_supervised: bool) -> None:
        self.shield = Shield()
        self._is_supervised = is_supervised
        self._running: Job | None = None
        self._target: Job | None = None
        self._is_sent = False
        """Whether a signal from the worker is pending. Any other signal was sent by user code or by hand."""
        self._stopping = threading.Lock()

    def install(self) -> None:
        """Install the handler for SIGINT, even if user code has replaced it. Must be called on the main thread."""
        if signal.getsignal(signal.SIGINT) != self._on_signal:
            signal.signal(signal.SIGINT, self._on_signal)
            # A signal that was sent earlier reached the previous handler.
            self._is_sent = False

    def run_interruptibly(self, job: Job, act: Callable[[], object]) -> BaseException | None:
        """Call `act`, which may be interrupted, and return its exception. Must be called on the main thread.

        No interrupt takes effect after this method returns.
        """
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
        """Interrupt a job repeatedly for `INTERRUPT_TIMEOUT_S`, and return whether it has ended.

        Must not be called on the main thread.
        """
        patience = monotonic() + INTERRUPT_TIMEOUT_S
        with self._stopping:
            while not job.over.is_set() and monotonic() < patience:
                self._target, self._is_sent = job, True
                if hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(self.shield.main, signal.SIGINT)
                else:
                    self._send_signal()
                    # On Windows, a signal does not wake code waiting for input, and is delivered by another thread.
                    if not job.over.wait(MAX_SIGNAL_DELAY_S):
                        job.session.input.put("")
                job.over.wait(SIGNAL_INTERVAL_S)
        return job.over.is_set()

    def _send_signal(self) -> None:
        """Send an interrupt to the process and its child processes, like Ctrl-C in a console."""
        if sys.platform == "win32" and self._is_supervised:
            import ctypes

            # The parent process may have disabled Ctrl-C.
            ctypes.windll.kernel32.SetConsoleCtrlHandler(None, 0)
            with contextlib.suppress(OSError):  # there is no console
                os.kill(0, signal.CTRL_C_EVENT)
                return
        signal.raise_signal(signal.SIGINT)  # unlike `interrupt_main`, this ends a sleep

    def _on_signal(self, _number: int, _frame: object) -> None:
        is_expected, self._is_sent = self._is_sent, False
        if is_expected and self._running is not self._target:
            return  # the signal is late, and its evaluation has ended
        if self._running is None and self._is_supervised:
            return  # a finished evaluation sent it, because there is no terminal
        if self._running is not None and self.shield.depth:
            self.shield.is_late = True
        else:
            raise KeyboardInterrupt


def exit_forked_child(error: BaseException | None) -> None:
    """End a forked process as Python would. `error` is the exception that ended its code, if any."""
    status = 0 if error is None else 1
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else 1 if error.code else 0
    elif error is not None:
        sys.stderr.write("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    os._exit(status)
