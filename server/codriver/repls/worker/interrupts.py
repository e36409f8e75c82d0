"""Interrupts: SIGINT for the evaluation that is meant, while it runs, and for no other."""

from __future__ import annotations

import signal
import threading
import time

from .jobs import Shield

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .jobs import Job

INTERRUPT_S = 2.0
"""How long an interrupted evaluation is given to end before the interrupt is answered all the same."""
SIGNAL_EVERY_S = 0.5
"""Finalizers and code that catches everything may swallow one interrupt; so it gets another after this time."""


class Interrupts:
    """Knows what runs on the main thread, and interrupts it. Lives as long as the worker.

    `is_supervised`: there is no terminal at which a person could press Ctrl-C.
    """

    def __init__(self, *, is_supervised: bool) -> None:
        self.shield = Shield()
        self._is_supervised = is_supervised
        self._running: Job | None = None
        self._wanted: Job | None = None
        self._is_sent = False
        """A signal of ours is on its way: any other was sent by user code, or by hand."""
        self._stopping = threading.Lock()

    def install(self) -> None:
        """Take SIGINT, also from user code that took it. On the main thread."""
        if signal.getsignal(signal.SIGINT) != self._on_signal:
            signal.signal(signal.SIGINT, self._on_signal)
            # Who had the signal before took what was sent.
            self._is_sent = False

    def perform(self, job: Job, act: Callable[[], object]) -> BaseException | None:
        """Do what an interrupt may end, and give what it raised; no interrupt comes after it. On the main thread."""
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
        """Interrupt what runs until it is over, for a while; whether it is. On any other thread."""
        patience = time.monotonic() + INTERRUPT_S
        with self._stopping:
            while not job.over.is_set() and time.monotonic() < patience:
                self._wanted, self._is_sent = job, True
                if hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(self.shield.main, signal.SIGINT)
                else:
                    import _thread

                    _thread.interrupt_main()
                    # There a signal does not wake what waits for input.
                    job.session.input.put("")
                job.over.wait(SIGNAL_EVERY_S)
        return job.over.is_set()

    def _on_signal(self, _number: int, _frame: object) -> None:
        is_ours, self._is_sent = self._is_sent, False
        if is_ours and self._running is not self._wanted:
            return  # it comes late: what it was for is over
        if self._running is None and self._is_supervised:
            return  # code that is over sent it to itself: there is no terminal
        if self._running is not None and self.shield.depth:
            self.shield.is_late = True
        else:
            raise KeyboardInterrupt
