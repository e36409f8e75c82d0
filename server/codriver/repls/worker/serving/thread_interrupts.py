"""Interrupts for threads that no signal reaches, by raising an exception in the thread.

Background evaluations run on their own threads, concurrently with the main thread. The exception is raised when the
thread next runs Python code, so it does not end a call that blocks outside Python. In that case, the evaluation is
abandoned and its thread is reported.

Source: Python's C API, `PyThreadState_SetAsyncExc`.
"""

from __future__ import annotations

import sys
import threading
from time import monotonic

from ..basics.connections import ORIGINAL_START_THREAD
from ..basics.jobs import INTERRUPT_TIMEOUT_S, SIGNAL_INTERVAL_S, Interrupts, Shield

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..basics.connections import Connection, Message
    from ..basics.jobs import Job, Session

    Op = Callable[[Message, Connection, Session], object]


try:
    import ctypes
except ImportError:  # without it, every interrupt abandons the evaluation
    ctypes = None  # type: ignore[assignment]


def raise_in_thread(thread: int, kind: type[BaseException] | None) -> bool:
    """Raise an exception in another thread, and return whether that succeeded.

    If `kind` is None, cancel a pending exception instead.
    """
    api = getattr(ctypes, "pythonapi", None)
    if api is None:
        return False
    given = None if kind is None else ctypes.py_object(kind)
    is_done = bool(api.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given) == 1)
    if sys.version_info[:2] == (3, 11):
        # In 3.11, the flag for a pending exception stays set until some thread raises one, and until then no traced
        # call of any thread starts. So this thread raises one. Nothing is called in between, because this thread may be
        # traced too.
        try:
            api.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(_SignalReceived))
            for _ in range(1000):
                pass
        except _SignalReceived:
            pass
    return is_done


class _SignalReceived(BaseException):
    """An internal exception that is raised and caught in the thread that interrupts another. See `raise_in_thread`."""


class ThreadShield(Shield):
    """A shield that delays interrupts by other threads.

    `main` is the thread's id, or 0 while no thread is evaluating.
    """

    def __init__(self) -> None:
        super().__init__()
        self.main = 0
        self.guard = threading.RLock()
        """Held during an interrupt, and by the evaluating thread when interruptible code starts and ends."""
        self.is_sent = False
        """Whether an exception was sent that may still be pending."""

    def __enter__(self) -> None:
        if threading.get_ident() == self.main:
            with self.guard:
                self.depth += 1
                if self.is_sent:
                    raise_in_thread(self.main, None)
                    self.is_sent, self.is_late = False, True


class ThreadInterrupts(Interrupts):
    """Interrupts the evaluation on a server's evaluating thread, which need not be the main thread.

    `replace` is called with an abandoned job, so that another thread continues evaluating.
    """

    shield: ThreadShield

    def __init__(self, replace: Callable[[Job], object]) -> None:
        super().__init__(is_supervised=True)
        self.shield = ThreadShield()
        self._replace = replace

    def install(self) -> None:
        """Make the current thread the evaluating thread."""
        self.shield.main = threading.get_ident()

    def run_interruptibly(self, job: Job, act: Callable[[], object]) -> BaseException | None:
        """Call `act`, which may be interrupted, and return its exception. Must be called on the evaluating thread.

        No interrupt takes effect after this method returns.
        """
        error: BaseException | None = None
        is_started = False
        while True:
            # Repeat the end if it was interrupted.
            try:
                if not is_started:
                    is_started = True
                    self._begin(job)
                    act()
                self._finish(job)
            except BaseException as raised:  # noqa: PERF203  # it usually runs once
                error = raised if error is None else error
            else:
                return error

    def _begin(self, job: Job) -> None:
        """Allow a job that is about to run to be interrupted."""
        shield = self.shield
        with shield.guard:
            self._running = job
            shield.depth, shield.is_late, shield.is_sent = 0, False, False

    def _finish(self, job: Job) -> None:
        with self.shield.guard:
            raise_in_thread(threading.get_ident(), None)
            if self._running is job:
                self._running, self.shield.is_sent, self.shield.is_late = None, False, False

    def stop(self, job: Job) -> bool:
        """Interrupt the running job repeatedly for `INTERRUPT_TIMEOUT_S`, then abandon it.

        Return whether other jobs can be evaluated.
        """
        patience = monotonic() + INTERRUPT_TIMEOUT_S
        with self._stopping:
            while not job.over.is_set() and monotonic() < patience:
                self._send(job)
                job.over.wait(SIGNAL_INTERVAL_S)
            return job.over.is_set() or self._abandon(job)

    def _send(self, job: Job) -> None:
        """Interrupt a job if it is running. While its shield is active, the interrupt is delayed."""
        shield = self.shield
        with shield.guard:
            if self._running is not job:
                return
            if shield.depth:
                shield.is_late = True
            else:
                shield.is_sent = raise_in_thread(shield.main, KeyboardInterrupt)
        wake = job.wake
        if wake is not None:
            wake()

    def _abandon(self, job: Job) -> bool:
        """Abandon a job, and return whether other jobs can be evaluated."""
        shield = self.shield
        with shield.guard:
            if self._running is not job or shield.depth:
                return job.over.is_set()
            job.is_abandoned = True
            # The exception stays pending in the thread, which ends when its call returns.
            self._running, shield.main, shield.is_sent = None, 0, False
        self._replace(job)
        return True


ABANDONED_TEMPLATE = (
    "the evaluation was abandoned, because it is blocked in a call outside Python. Its thread, %r, keeps running "
    "until that call returns. Other code is not affected"
)


def run_on_thread(job: Job, run: Callable[[Job], object], abandon: Callable[[Job, str], object]) -> None:
    """Run a job on its own thread.

    If the job cannot be interrupted, `abandon` is called with the job and a message.
    """
    name = "codriver background " + str(job.message.get("id", ""))
    interrupts = ThreadInterrupts(lambda abandoned: abandon(abandoned, ABANDONED_TEMPLATE % name))
    job.is_concurrent, job.interrupts, job.shield = True, interrupts, interrupts.shield
    job.wake = lambda: _wake(job)

    def perform() -> None:
        interrupts.install()
        run(job)

    ORIGINAL_START_THREAD(threading.Thread(target=perform, name=name, daemon=True))


def _wake(job: Job) -> None:
    """Wake a job waiting for its event loop or for input, because an exception cannot interrupt that."""
    loop = job.session.loop
    if loop is not None and loop.is_running():
        loop.call_soon_threadsafe(lambda: None)
    job.session.input.put("")
