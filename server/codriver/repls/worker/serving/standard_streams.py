"""The standard streams of user code: output goes to the evaluation that printed it, soon; input comes from the client.

All ways of printing count: `sys.stdout` and `sys.stderr` are replaced, and on POSIX pipes lie behind the descriptors 1
and 2, for child processes and C code.
"""

from __future__ import annotations

import codecs
import contextlib
import faulthandler
import io
import os
import queue
import sys
import threading
from time import sleep

from ..basics.connections import START_THREAD, start_thread
from ..basics.sensitive_texts import SeamChecks
from ..basics.systems import readable, widen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..basics.jobs import Job, Session, Shield


class Out(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of user code: text goes to the evaluation that printed it."""

    encoding = "utf-8"
    errors = "backslashreplace"
    mode = "w"

    def __init__(self, stream: str, printed: Callable[[str, str], None], flush: Callable[[], None]) -> None:
        self._stream = stream
        self._printed = printed
        self._flush = flush
        self.name = f"<std{stream}>"
        self.buffer = io.FileIO(self.fileno(), "w", closefd=False)

    def writable(self) -> bool:
        """See `io.TextIOBase`."""
        return True

    def write(self, text: str) -> int:
        """See `io.TextIOBase`."""
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        self._printed(self._stream, text)
        return len(text)

    def flush(self) -> None:
        """See `io.TextIOBase`."""
        self._flush()

    def fileno(self) -> int:
        """The descriptor for child processes and C code, if it is captured too."""
        return 1 if self._stream == "out" else 2

    def close(self) -> None:
        """Nothing: user code that closes its output keeps it."""


class In(io.TextIOBase):
    """`sys.stdin` of user code: asks the client. Empty input is the end of the file, once."""

    encoding = "utf-8"
    errors = "replace"
    name = "<stdin>"
    mode = "r"

    def __init__(self, current_job: Callable[[], Job | None]) -> None:
        self._current_job = current_job
        self._rest = ""

    def readable(self) -> bool:
        """See `io.TextIOBase`."""
        return True

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]  # None is what files take too
        """See `io.TextIOBase`."""
        if not self._rest:
            self._rest = self._request_input()
        end = self._rest.find("\n") + 1 or len(self._rest)
        return self._consume(end if size is None or size < 0 else min(end, size))

    def read(self, size: int | None = -1) -> str:
        """See `io.TextIOBase`."""
        most = sys.maxsize if size is None or size < 0 else size
        while len(self._rest) < most and (more := self._request_input()):
            self._rest += more
        return self._consume(most)

    def _consume(self, count: int) -> str:
        text, self._rest = self._rest[:count], self._rest[count:]
        return text

    def _request_input(self) -> str:
        job = self._current_job()
        if job is None:
            return ""
        if job.is_interrupted:
            # A debugger takes an interrupt for a wish to see its prompt again.
            job.is_cut_off = True
            return ""
        if job.session.input.empty():
            job.send({"status": ["need-input"]})
        return job.session.input.get()

    def forget(self, session: Session) -> None:
        """Drop unread input, so that the next evaluation does not get it."""
        self._rest = ""
        with contextlib.suppress(queue.Empty):
            while True:
                session.input.get_nowait()

    def close(self) -> None:
        """Nothing: `exit()` closes the stream, and the REPL goes on."""


class Pipes:
    """Pipes behind the descriptors 1 and 2, for the life of the worker; `printed` is given stream and text.

    The original standard error is left to `faulthandler`, whose last words would be lost here.
    """

    def __init__(self, printed: Callable[[str, str], None]) -> None:
        self._printed = printed
        self._lock = threading.Lock()
        self._ends: dict[int, tuple[str, codecs.IncrementalDecoder]] = {}
        faulthandler.enable(os.dup(2))
        for number, stream in ((1, "out"), (2, "err")):
            reading, writing = os.pipe()
            with contextlib.suppress(OSError):
                widen(writing)  # C code that prints while it holds the interpreter's lock stops us from reading
            os.dup2(writing, number)
            os.close(writing)
            self._ends[reading] = (stream, codecs.getincrementaldecoder("utf-8")("backslashreplace"))
        for number, name in ((1, "__stdout__"), (2, "__stderr__")):
            setattr(sys, name, os.fdopen(number, "w", 1, "utf-8", "backslashreplace", closefd=False))
        self._flush_c = _line_buffered_c()
        start_thread(self._watch)

    def drain(self) -> None:
        """Pass on the output written until now."""
        # Another draining thread may be waiting for a client, and a finalizer may call this meanwhile.
        if not self._lock.acquire(timeout=0.2):
            return
        try:
            # The loop is bounded, since a flooding child would keep us here for ever.
            for _ in range(32):
                ready = readable(self._ends, waits=False)
                for reading in ready:
                    stream, decoder = self._ends[reading]
                    data = os.read(reading, 65536)
                    self._printed(stream, decoder.decode(data))
                    if not data:
                        del self._ends[reading]
                if not ready:
                    break
        finally:
            self._lock.release()

    def finish(self) -> None:
        """Pass on an evaluation's output, buffers included."""
        for stream in (sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):
                stream.flush()  # type: ignore[union-attr]  # user code may have set them to anything
        self._flush_c()
        self.drain()

    def _watch(self) -> None:
        while self._ends:
            readable(self._ends, waits=True)
            self.drain()


def _line_buffered_c() -> Callable[[], object]:
    """Let C code's lines arrive when they are printed; a function that flushes an unfinished line."""
    with contextlib.suppress(Exception):
        import ctypes

        libc = ctypes.CDLL(None)
        stdout = ctypes.c_void_p.in_dll(libc, "__stdoutp" if sys.platform == "darwin" else "stdout")
        libc.setvbuf(stdout, None, 1, 0)  # 1 is _IOLBF
        return lambda: libc.fflush(stdout)
    return lambda: None


FLUSH_S = 0.015
"""The time that printed text may wait for more, so that many small writes make few messages."""
JOB = "codriver_job"
"""The attribute of a thread of user code that holds the evaluation which started it."""


class Output:
    """The standard streams of user code, for the life of the worker, and the output held back for a moment."""

    def __init__(self, shield: Shield, make_out: Callable[..., Out] = Out) -> None:
        self._shield = shield
        self.dirty: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        """Jobs that have something to send; None ends the thread that sends it."""
        self.last_job: Job | None = None
        """The job that runs on the main thread, or ran there last."""
        self.is_child = False
        """Whether user code forked this process: its output reaches the parent by the pipes."""
        self._pipes: Pipes | None = None
        self._seam_checks = SeamChecks()
        self._out = make_out("out", self.printed, self.flush)
        self._err = make_out("err", self.printed, self.flush)
        self._in = In(self.current_job)

    def capture_process(self) -> None:
        """Take all that user code prints, and know the threads that it starts."""
        self._pipes = Pipes(self._printed_below)
        self.capture_streams()

        def start(thread: threading.Thread) -> None:
            setattr(thread, JOB, self.current_job())
            START_THREAD(thread)

        threading.Thread.start = start  # type: ignore[method-assign,assignment]  # so that threads know their evaluation

    def begin(self, job: Job) -> None:
        """Take what user code prints for `job` from now on."""
        self.last_job = job
        self.capture_streams()

    def begin_concurrent(self, job: Job) -> None:
        """Take what user code prints on this thread, and on those that it starts, for `job`."""
        setattr(threading.current_thread(), JOB, job)
        self.capture_streams()

    def capture_streams(self) -> None:
        """Become standard output, error and input of user code, whatever the code did to them."""
        for name, stream in (("stdout", self._out), ("stderr", self._err), ("stdin", self._in)):
            setattr(sys, name, stream)

    def printed(self, stream: str, text: str) -> None:
        """Take `text` printed by user code."""
        self._seam_checks.check()
        self._pass_on(stream, text, self.current_job())

    def _printed_below(self, stream: str, text: str) -> None:
        """Take `text` printed by a child process or C code, for the running job."""
        self._pass_on(stream, text, self.last_job or self.current_job())

    def _pass_on(self, stream: str, text: str, job: Job | None) -> None:
        if job is not None and text:
            job.write(stream, text)
        elif self.is_child:
            os.write(1 if stream == "out" else 2, text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Send printed text at once: the next code may never let another thread run."""
        job = self.current_job()
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
        """Pass on an ended evaluation's output, and drop its unread input."""
        if self._pipes is not None:
            self._pipes.finish()
        self._in.forget(job.session)

    def current_job(self) -> Job | None:
        """The evaluation that runs on this thread, or started it; else the last one."""
        if threading.get_ident() == self._shield.main or self.is_child:
            return self.last_job
        job: Job | None = getattr(threading.current_thread(), JOB, None)
        return job or self.last_job

    def flush_often(self) -> None:
        """Send printed text shortly after its printing, until `end`."""
        # The name is the worker's own: a test that mocks `time.sleep` would count these, and might fail this thread.
        while True:
            jobs = {self.dirty.get()}
            sleep(FLUSH_S)
            while not self.dirty.empty():
                jobs.add(self.dirty.get())
            for job in jobs:
                if job is not None:
                    job.flush()
            if None in jobs:
                return

    def end(self) -> None:
        """End the thread that flushes."""
        self.dirty.put(None)
