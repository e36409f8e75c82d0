"""Background evaluations, and interrupts on threads that no signal reaches: an exception is raised in the thread.

Such code runs on a thread of its own, beside the main thread's code. The exception is raised when the thread next runs
Python code, so a call that blocks outside of Python does not end; then the evaluation is abandoned, and its thread is
named. Requests are answered on threads, too: a look-up that never ends keeps no other request from being read.

Source: Python's C API, `PyThreadState_SetAsyncExc`.
"""

from __future__ import annotations

import queue
import sys
import threading
import traceback
from time import monotonic

from ..basics import sensitive_texts
from ..basics.connections import START_THREAD, start_thread
from ..basics.jobs import INTERRUPT_S, SIGNAL_EVERY_S, Interrupts, Shield

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..basics.connections import Connection, Message
    from ..basics.jobs import Job, Session

    Op = Callable[[Message, Connection, Session], object]


try:
    import ctypes
except ImportError:  # an interpreter built without it: every interrupt then abandons
    ctypes = None  # type: ignore[assignment]


def raise_in(thread: int, kind: type[BaseException] | None) -> bool:
    """Raise an exception in another thread; None takes back one that was not raised yet. True on success."""
    api = getattr(ctypes, "pythonapi", None)
    if api is None:
        return False
    given = None if kind is None else ctypes.py_object(kind)
    is_done = bool(api.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given) == 1)
    if sys.version_info[:2] == (3, 11):
        # Until a thread takes an exception, the flag for a waiting one stays set, and the next traced call of any
        # thread never begins. So this thread takes one. Nothing is called in between, as this thread may be traced,
        # too.
        try:
            api.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(_SignalReceived))
            for _ in range(1000):
                pass
        except _SignalReceived:
            pass
    return is_done


class _SignalReceived(BaseException):
    """Raised in the thread that raised another one elsewhere, and caught there."""


class ThreadShield(Shield):
    """A shield whose thread is interrupted from others. `main` is 0 while no thread evaluates."""

    def __init__(self) -> None:
        super().__init__()
        self.main = 0
        self.guard = threading.RLock()
        """Held during an interrupt, and by the evaluating thread at the beginning and the end of interruptible code."""
        self.is_sent = False
        """Whether an exception was sent, perhaps not raised yet."""

    def __enter__(self) -> None:
        if threading.get_ident() == self.main:
            with self.guard:
                self.depth += 1
                if self.is_sent:
                    raise_in(self.main, None)
                    self.is_sent, self.is_late = False, True


class ThreadInterrupts(Interrupts):
    """Interrupts the evaluation on the only evaluating thread. Lives as long as its server.

    `replace` gets an abandoned job, so that another thread evaluates from then on.
    """

    shield: ThreadShield

    def __init__(self, replace: Callable[[Job], object]) -> None:
        super().__init__(is_supervised=True)
        self.shield = ThreadShield()
        self._replace = replace

    def install(self) -> None:
        """Make this thread the evaluating one."""
        self.shield.main = threading.get_ident()

    def perform(self, job: Job, act: Callable[[], object]) -> BaseException | None:
        """Run an act that an interrupt may end; its exception, if any. No interrupt comes after it. On that thread."""
        error: BaseException | None = None
        is_started = False
        while True:
            # Repeated after an interrupt that came during the end.
            try:
                if not is_started:
                    is_started = True
                    self._begin(job)
                    act()
                self._finish(job)
            except BaseException as raised:  # noqa: PERF203  # it runs once
                error = raised if error is None else error
            else:
                return error

    def _begin(self, job: Job) -> None:
        shield = self.shield
        with shield.guard:
            self._running = job
            shield.depth, shield.is_late, shield.is_sent = 0, False, False

    def _finish(self, job: Job) -> None:
        with self.shield.guard:
            raise_in(threading.get_ident(), None)
            if self._running is job:
                self._running, self.shield.is_sent, self.shield.is_late = None, False, False

    def stop(self, job: Job) -> bool:
        """Interrupt the running job for a while, then abandon it; whether others can evaluate."""
        patience = monotonic() + INTERRUPT_S
        with self._stopping:
            while not job.over.is_set() and monotonic() < patience:
                self._send(job)
                job.over.wait(SIGNAL_EVERY_S)
            return job.over.is_set() or self._abandon(job)

    def _send(self, job: Job) -> None:
        shield = self.shield
        with shield.guard:
            if self._running is not job:
                return
            if shield.depth:
                shield.is_late = True
            else:
                shield.is_sent = raise_in(shield.main, KeyboardInterrupt)
        wake = job.wake
        if wake is not None:
            wake()

    def _abandon(self, job: Job) -> bool:
        shield = self.shield
        with shield.guard:
            if self._running is not job or shield.depth:
                return job.over.is_set()
            job.is_abandoned = True
            # The exception stays with the thread, which ends when its call returns.
            self._running, shield.main, shield.is_sent = None, 0, False
        self._replace(job)
        return True


ABANDONED = (
    "it was abandoned: its call blocks outside of Python, where no interrupt reaches it. Its thread, %r, lives until "
    "that call returns; what else runs is not disturbed"
)


def begin(job: Job, run: Callable[[Job], object], abandon: Callable[[Job, str], object]) -> None:
    """Run a job on a thread of its own. `abandon` gets a job that no interrupt ends, and the words for that."""
    name = "codriver background " + str(job.message.get("id", ""))
    interrupts = ThreadInterrupts(lambda abandoned: abandon(abandoned, ABANDONED % name))
    job.is_concurrent, job.interrupts, job.shield = True, interrupts, interrupts.shield
    job.wake = lambda: _wake(job)

    def perform() -> None:
        interrupts.install()
        run(job)

    START_THREAD(threading.Thread(target=perform, name=name, daemon=True))


def _wake(job: Job) -> None:
    """End a job's waits of our own that no exception reaches: for its event loop, and for input."""
    loop = job.session.loop
    if loop is not None and loop.is_running():
        loop.call_soon_threadsafe(lambda: None)
    job.session.input.put("")


LOOKUPS = frozenset(
    ("completions", "complete", "lookup", "codriver/names", "codriver/source", "codriver/drift", "codriver/stacks")
)
"""Ops that read files, or the user's objects."""
SHOWING = frozenset({"lookup", "codriver/names", "codriver/locals"})
"""Ops that show values without running anything."""
MOST_THREADS = 64
"""The threads that may be busy: beyond so many, the next request waits."""


class RequestThreads:
    """Threads that take one look-up after another, for the life of the worker. One is added when all are busy."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._spare = 0
        """The number of idle threads, less the requests that wait for a thread."""

    def perform(self, op: Op, message: Message, connection: Connection, session: Session) -> None:
        """Answer a request: a look-up on one of the threads, any other here."""
        if message["op"] in LOOKUPS:
            self._run(lambda: _answer(op, message, connection, session))
        else:
            _answer(op, message, connection, session)

    def _run(self, act: Callable[[], object]) -> None:
        with self._lock:
            self._spare -= 1
            is_added = self._spare < 0 and self._count < MOST_THREADS
            if is_added:
                self._count += 1
                self._spare += 1
        self._waiting.put(act)
        if is_added:
            start_thread(self._serve)

    def _serve(self) -> None:
        while True:
            self._waiting.get()()
            with self._lock:
                self._spare += 1


def _answer(op: Op, message: Message, connection: Connection, session: Session) -> None:
    try:
        if message["op"] in SHOWING:
            sensitive_texts.check_briefly()
        op(message, connection, session)
    except Exception as error:  # whatever a request does, the server goes on
        words = "".join(traceback.format_exception_only(type(error), error)).strip()
        connection.refuse(message, "failed", words)
