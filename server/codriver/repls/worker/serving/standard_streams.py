"""The standard streams of user code. Output goes to the evaluation that printed it, and input comes from the client.

`sys.stdout` and `sys.stderr` are replaced. On POSIX, descriptors 1 and 2 are replaced by pipes as well, to capture the
output of child processes and C code.
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

from ..basics.connections import ORIGINAL_START_THREAD, start_thread
from ..basics.sensitive_texts import SeamChecks
from ..basics.systems import enlarge_pipe, wait_readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..basics.jobs import Job, Session, Shield


class Out(io.TextIOBase):
    """A replacement for `sys.stdout` or `sys.stderr` that passes text to the evaluation that printed it."""

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
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Print text on behalf of the current evaluation."""
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        self._printed(self._stream, text)
        return len(text)

    def flush(self) -> None:
        """Send buffered text to the client."""
        self._flush()

    def fileno(self) -> int:
        """Return the descriptor used by child processes and C code."""
        return 1 if self._stream == "out" else 2

    def close(self) -> None:
        """Do nothing, because the REPL needs the stream even after user code has closed it."""


class In(io.TextIOBase):
    """A replacement for `sys.stdin` that requests input from the client.

    An empty reply means the end of the file for one read.
    """

    encoding = "utf-8"
    errors = "replace"
    name = "<stdin>"
    mode = "r"

    def __init__(self, current_job: Callable[[], Job | None]) -> None:
        self._current_job = current_job
        self._rest = ""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]  # files accept None too
        """Read a line, requesting input from the client if needed."""
        if not self._rest:
            self._rest = self._request_input()
        end = self._rest.find("\n") + 1 or len(self._rest)
        return self._consume(end if size is None or size < 0 else min(end, size))

    def read(self, size: int | None = -1) -> str:
        """Read up to `size` characters, or everything up to the end of the input."""
        most = sys.maxsize if size is None or size < 0 else size
        while len(self._rest) < most and (more := self._request_input()):
            self._rest += more
        return self._consume(most)

    def _consume(self, count: int) -> str:
        """Remove and return the first `count` characters of the unread input."""
        text, self._rest = self._rest[:count], self._rest[count:]
        return text

    def _request_input(self) -> str:
        """Request input from the client and wait for it. Return "" after an interrupt or if no job is running."""
        job = self._current_job()
        if job is None:
            return ""
        if job.is_interrupted:
            # A debugger treats an interrupt as a request to display its prompt again.
            job.is_cut_off = True
            return ""
        if job.session.input.empty():
            job.send({"status": ["need-input"]})
        return job.session.input.get()

    def forget(self, session: Session) -> None:
        """Discard unread input, so that the next evaluation does not read it."""
        self._rest = ""
        with contextlib.suppress(queue.Empty):
            while True:
                session.input.get_nowait()

    def close(self) -> None:
        """Do nothing, because the REPL continues after `exit()`, which closes the stream."""


class Pipes:
    """Pipes that replace file descriptors 1 and 2. `printed` is called with the stream's name and the text.

    `faulthandler` uses the original standard error, because its output would be lost in a crash.
    """

    def __init__(self, printed: Callable[[str, str], None]) -> None:
        self._printed = printed
        self._lock = threading.Lock()
        self._ends: dict[int, tuple[str, codecs.IncrementalDecoder]] = {}
        faulthandler.enable(os.dup(2))
        for number, stream in ((1, "out"), (2, "err")):
            reading, writing = os.pipe()
            with contextlib.suppress(OSError):
                enlarge_pipe(writing)  # if C code prints while it holds the interpreter lock, the pipe cannot be read
            os.dup2(writing, number)
            os.close(writing)
            self._ends[reading] = (stream, codecs.getincrementaldecoder("utf-8")("backslashreplace"))
        for number, name in ((1, "__stdout__"), (2, "__stderr__")):
            setattr(sys, name, os.fdopen(number, "w", 1, "utf-8", "backslashreplace", closefd=False))
        self._flush_c = _line_buffer_c_stdout()
        start_thread(self._watch)

    def drain(self) -> None:
        """Pass on the output that has been received so far."""
        # Another thread may be draining and waiting for a client, and a finalizer may call this in the meantime.
        if not self._lock.acquire(timeout=0.2):
            return
        try:
            # The number of rounds is limited, because a child that prints endlessly would block this thread forever.
            for _ in range(32):
                ready = wait_readable(self._ends, waits=False)
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
        """Pass on all output from an evaluation, including output still buffered by Python or C."""
        for stream in (sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):
                stream.flush()  # type: ignore[union-attr]  # user code may have replaced them
        self._flush_c()
        self.drain()

    def _watch(self) -> None:
        while self._ends:
            wait_readable(self._ends, waits=True)
            self.drain()


def _line_buffer_c_stdout() -> Callable[[], object]:
    """Make C's stdout line-buffered. Return a function that flushes an incomplete line."""
    with contextlib.suppress(Exception):
        import ctypes

        libc = ctypes.CDLL(None)
        stdout = ctypes.c_void_p.in_dll(libc, "__stdoutp" if sys.platform == "darwin" else "stdout")
        libc.setvbuf(stdout, None, 1, 0)  # 1 is _IOLBF
        return lambda: libc.fflush(stdout)
    return lambda: None


FLUSH_DELAY_S = 0.015
"""Seconds to wait for more output before sending it, so that many small writes make few messages."""
JOB_ATTRIBUTE = "codriver_job"
"""The attribute of a user thread that contains the job that started it."""


class Output:
    """The standard streams of user code. Output is buffered briefly."""

    def __init__(self, shield: Shield, make_out: Callable[..., Out] = Out) -> None:
        self._shield = shield
        self.dirty: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        """Jobs with output to send. None ends the thread that sends it."""
        self.last_job: Job | None = None
        """The job that is running on the main thread, or ran there last."""
        self.is_child = False
        """Whether this is a forked child, whose output reaches the parent through the pipes."""
        self._pipes: Pipes | None = None
        self._seam_checks = SeamChecks()
        self._out = make_out("out", self.handle_output, self.flush)
        self._err = make_out("err", self.handle_output, self.flush)
        self._in = In(self.current_job)

    def capture_process(self) -> None:
        """Capture all output of user code, and track which evaluation starts each thread."""
        self._pipes = Pipes(self._process_c_output)
        self.capture_streams()

        def start(thread: threading.Thread) -> None:
            setattr(thread, JOB_ATTRIBUTE, self.current_job())
            ORIGINAL_START_THREAD(thread)

        threading.Thread.start = start  # type: ignore[method-assign,assignment]  # threads must know their evaluation

    def set_job(self, job: Job) -> None:
        """Assign output to `job` from now on."""
        self.last_job = job
        self.capture_streams()

    def set_concurrent_job(self, job: Job) -> None:
        """Assign output from the current thread, and from threads that it starts, to `job`."""
        setattr(threading.current_thread(), JOB_ATTRIBUTE, job)
        self.capture_streams()

    def capture_streams(self) -> None:
        """Replace the standard streams, even if user code has already replaced them."""
        for name, stream in (("stdout", self._out), ("stderr", self._err), ("stdin", self._in)):
            setattr(sys, name, stream)

    def handle_output(self, stream: str, text: str) -> None:
        """Process text that user code printed."""
        self._seam_checks.check()
        self._pass_on(stream, text, self.current_job())

    def _process_c_output(self, stream: str, text: str) -> None:
        """Process text that a child process or C code printed. It is assigned to the running job."""
        self._pass_on(stream, text, self.last_job or self.current_job())

    def _pass_on(self, stream: str, text: str, job: Job | None) -> None:
        """Add text to the output of a job. In a forked child process, write the text to the descriptor instead."""
        if job is not None and text:
            job.write(stream, text)
        elif self.is_child:
            os.write(1 if stream == "out" else 2, text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Send printed text immediately, because the code that follows may never release the interpreter lock."""
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
        """Pass on the remaining output from a finished evaluation, and discard its unread input."""
        if self._pipes is not None:
            self._pipes.finish()
        self._in.forget(job.session)

    def current_job(self) -> Job | None:
        """Return the job that is running on this thread or started it, or else the main thread's last job."""
        if threading.get_ident() == self._shield.main or self.is_child:
            return self.last_job
        job: Job | None = getattr(threading.current_thread(), JOB_ATTRIBUTE, None)
        return job or self.last_job

    def flush_repeatedly(self) -> None:
        """Send printed text after a short delay. Run this in a thread. It ends when `stop` is called."""
        # `sleep` is imported by name so that tests that mock `time.sleep` do not affect this thread.
        while True:
            jobs = {self.dirty.get()}
            sleep(FLUSH_DELAY_S)
            while not self.dirty.empty():
                jobs.add(self.dirty.get())
            for job in jobs:
                if job is not None:
                    job.flush()
            if None in jobs:
                return

    def stop(self) -> None:
        """Stop the thread that runs `flush_repeatedly`."""
        self.dirty.put(None)
