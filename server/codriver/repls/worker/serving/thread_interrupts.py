"""Interrupts of evaluations on a thread that no signal reaches: an exception is raised in it from outside.

Source: Python's C API, `PyThreadState_SetAsyncExc`. It is raised where the thread next runs Python code, so a call that
blocks outside of Python is not ended; its evaluation is abandoned.
"""

from __future__ import annotations

import threading
from time import monotonic

from ..basics.jobs import INTERRUPT_S, SIGNAL_EVERY_S, Interrupts, Shield

try:
    import ctypes
except ImportError:  # an interpreter built without it: every interrupt then abandons
    ctypes = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..basics.jobs import Job


def raise_in(thread: int, kind: type[BaseException] | None) -> bool:
    """Raise an exception in another thread; None takes back one that was not raised yet. Whether it could be done."""
    api = getattr(ctypes, "pythonapi", None)
    if api is None:
        return False
    given = None if kind is None else ctypes.py_object(kind)
    return bool(api.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given) == 1)


class ThreadShield(Shield):
    """A shield whose thread is interrupted from others. `main` is 0 while no thread evaluates."""

    def __init__(self) -> None:
        super().__init__()
        self.main = 0
        self.guard = threading.RLock()
        """Held by whoever interrupts, and by the evaluating thread where it begins and ends what may be."""
        self.is_sent = False
        """An exception was sent; perhaps it was not raised yet."""

    def __enter__(self) -> None:
        if threading.get_ident() == self.main:
            with self.guard:
                self.depth += 1
                if self.is_sent:
                    raise_in(self.main, None)
                    self.is_sent, self.is_late = False, True


class ThreadInterrupts(Interrupts):
    """Interrupts the evaluation that runs on the one thread that evaluates. Lives as long as its server.

    `replace` is told of a job that was abandoned, so that another thread evaluates from then on.
    """

    shield: ThreadShield

    def __init__(self, replace: Callable[[Job], object]) -> None:
        super().__init__(is_supervised=True)
        self.shield = ThreadShield()
        self._replace = replace

    def install(self) -> None:
        """Let this thread be the one that evaluates."""
        self.shield.main = threading.get_ident()

    def perform(self, job: Job, act: Callable[[], object]) -> BaseException | None:
        """Do what an interrupt may end, and give what it raised; no interrupt comes after it. On that thread."""
        error: BaseException | None = None
        is_begun = False
        while True:
            # Once more after an interrupt that came while it ended.
            try:
                if not is_begun:
                    is_begun = True
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
        """Interrupt what runs until it is over, for a while; abandon it then. Whether others can evaluate."""
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
            # What was sent stays with the thread: it ends when its call comes back.
            self._running, shield.main, shield.is_sent = None, 0, False
        self._replace(job)
        return True
