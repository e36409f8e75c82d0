"""Output: what user code prints, by whatever way, is sent with the evaluation that printed it, soon."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time

from .pipes import Pipes
from .streams import In, Out
from .threads import START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jobs import Job, Shield

FLUSH_S = 0.015
"""How long printed text may wait for more, so that many small writes make few messages."""
JOB = "codriver_job"
"""The attribute of a thread of user code that holds the evaluation which started it."""


class Output:
    """The standard streams of user code, for the life of the worker, and what they hold back for a moment."""

    def __init__(self, shield: Shield) -> None:
        self._shield = shield
        self.dirty: queue.SimpleQueue[Job] = queue.SimpleQueue()
        """Jobs that have something to send."""
        self.last_job: Job | None = None
        """What runs on the main thread, or ran there last."""
        self.is_child = False
        """This is a process that user code forked: what it prints reaches the parent by the pipes."""
        self._pipes: Pipes | None = None
        self._out = Out("out", self.printed, self.flush)
        self._err = Out("err", self.printed, self.flush)
        self._in = In(self.job_here)

    def take_process(self) -> None:
        """Take all that user code prints, and know the threads that it starts."""
        if os.name == "posix":
            self._pipes = Pipes(self._printed_below)
        self.take_streams()

        def start(thread: threading.Thread) -> None:
            setattr(thread, JOB, self.job_here())
            START(thread)

        threading.Thread.start = start  # type: ignore[method-assign,assignment]  # so that threads know their evaluation

    def take_streams(self) -> None:
        """Become standard output, error and input of user code, whatever it did to them."""
        for name, stream in (("stdout", self._out), ("stderr", self._err), ("stdin", self._in)):
            setattr(sys, name, stream)

    def printed(self, stream: str, text: str) -> None:
        """User code printed `text`."""
        self._pass_on(stream, text, self.job_here())

    def _printed_below(self, stream: str, text: str) -> None:
        """A child process or C code printed `text`, for what runs."""
        self._pass_on(stream, text, self.last_job or self.job_here())

    def _pass_on(self, stream: str, text: str, job: Job | None) -> None:
        if job is not None and text:
            job.write(stream, text)
        elif self.is_child:
            os.write(1 if stream == "out" else 2, text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Send what was printed at once: the code that runs next may never let another thread run."""
        job = self.job_here()
        if job is None:
            return
        if threading.get_ident() != self._shield.main or self._shield.depth:
            self.dirty.put(job)
            return
        with self._shield:
            if self._pipes is not None:
                self._pipes.drain()
            job.flush()

    def finish(self, job: Job) -> None:
        """Pass on what an evaluation that is over wrote, and drop what it did not read."""
        if self._pipes is not None:
            self._pipes.finish()
        self._in.forget(job.session)

    def job_here(self) -> Job | None:
        """The evaluation whose code runs on this thread, or which started it; else the last one."""
        if threading.get_ident() == self._shield.main or self.is_child:
            return self.last_job
        job: Job | None = getattr(threading.current_thread(), JOB, None)
        return job or self.last_job

    def flush_often(self) -> None:
        """Send what was printed, shortly after it was; for ever."""
        while True:
            jobs = {self.dirty.get()}
            time.sleep(FLUSH_S)
            while not self.dirty.empty():
                jobs.add(self.dirty.get())
            for job in jobs:
                job.flush()
