"""Capture an evaluation's output in a running program, and pass all other output through.

Child processes and C code print to the program's own descriptors, so their output is not captured.
"""

from __future__ import annotations

import contextvars
import io
import sys

from .standard_streams import In, Out, Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..basics.jobs import Job, Shield


CURRENT_JOB: contextvars.ContextVar[Job | None] = contextvars.ContextVar("codriver_job", default=None)
"""The job running in the current context."""


class DiscardingStream(io.TextIOBase):
    """A stream that discards all output. It is used if the program has no streams, as under `pythonw`."""

    def write(self, text: str) -> int:
        """Discard the text."""
        return len(text)


class Bytes(io.RawIOBase):
    """The binary buffer of standard output or error during an evaluation."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Print the data as text."""
        self._write(bytes(data).decode("utf-8", "backslashreplace"))
        return len(data)


class CapturedOut(Out):
    """Standard output or standard error during an evaluation."""

    def __init__(self, stream: str, printed: Callable[[str, str], None], flush: Callable[[], None]) -> None:
        self._stream = stream
        self._printed = printed
        self._flush = flush
        self.name = f"<std{stream}>"
        self.buffer = Bytes(self.write)  # type: ignore[assignment]  # elsewhere it is the descriptor's

    def fileno(self) -> int:
        """Raise `io.UnsupportedOperation`, because the descriptors belong to the program."""
        raise io.UnsupportedOperation("fileno")


class WokenIn(In):
    """Standard input during an evaluation. Waiting for input can be interrupted."""

    def _request_input(self) -> str:
        job = self._current_job()
        if job is None:
            return ""
        job.wake = lambda: job.session.input.put("")
        try:
            return super()._request_input()
        finally:
            job.wake = None


class Router:
    """A replacement for `sys.stdout`, `sys.stderr` or `sys.stdin`.

    Evaluated code uses the stream `captured`, and all other code uses the previous stream.
    """

    def __init__(self, before: Any, captured: Any, current_job: Callable[[], Job | None]) -> None:
        self.before = before
        self._outside = DiscardingStream() if before is None else before
        self.captured = captured
        self._current_job = current_job

    def _current(self) -> Any:
        return self._outside if self._current_job() is None else self.captured

    def write(self, text: str) -> Any:
        """Write to the current stream."""
        return self._current().write(text)

    def flush(self) -> Any:
        """Flush the current stream."""
        return self._current().flush()

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._current(), name)


class RoutedOutput(Output):
    """The standard streams of a program with an embedded REPL. They are not replaced before the first evaluation."""

    def __init__(self, shield: Shield) -> None:
        super().__init__(shield, CapturedOut)
        self._in = WokenIn(self.current_job)

    def capture_process(self) -> None:
        """Do nothing, because the process belongs to the program."""

    def set_job(self, job: Job) -> None:
        """Set the job of the current context and capture its output."""
        CURRENT_JOB.set(job)
        self.capture_streams()

    def set_concurrent_job(self, job: Job) -> None:
        """Set the job of the current context and capture its output."""
        self.set_job(job)

    def capture_streams(self) -> None:
        """Wrap the program's current streams in routers."""
        for name, captured in self._captured().items():
            now = getattr(sys, name)
            if not isinstance(now, Router) or now.captured is not captured:
                setattr(sys, name, Router(now, captured, self.current_job))

    def restore_streams(self) -> None:
        """Restore the program's streams, unless other code has wrapped them since."""
        for name, captured in self._captured().items():
            now = getattr(sys, name)
            if isinstance(now, Router) and now.captured is captured:
                setattr(sys, name, now.before)

    def _captured(self) -> dict[str, object]:
        return {"stdout": self._out, "stderr": self._err, "stdin": self._in}

    def current_job(self) -> Job | None:
        """Return the job whose code is running, or None for the program's own code."""
        return None if self.is_child else CURRENT_JOB.get()
