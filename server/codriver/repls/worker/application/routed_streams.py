"""The standard streams of a program in which others evaluate: what an evaluation prints is its own, all else passes by.

An evaluation is known by a context variable, which its asyncio tasks inherit and threads that it starts do not. Child
processes and C code print to the program's own descriptors.
"""

from __future__ import annotations

import contextvars
import io
import sys

from ..serving.standard_streams import In, Out, Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..basics.jobs import Job, Shield

JOB: contextvars.ContextVar[Job | None] = contextvars.ContextVar("codriver_job", default=None)


class Nowhere(io.TextIOBase):
    """The stream of a program that has none, as `pythonw` starts it."""

    def write(self, text: str) -> int:
        """See `io.TextIOBase`."""
        return len(text)


class Bytes(io.RawIOBase):
    """`sys.stdout.buffer` within an evaluation."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def writable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def write(self, data: Any) -> int:
        """See `io.RawIOBase`."""
        self._write(bytes(data).decode("utf-8", "backslashreplace"))
        return len(data)


class CapturedOut(Out):
    """Standard output or error within an evaluation."""

    def __init__(self, stream: str, printed: Callable[[str, str], None], flush: Callable[[], None]) -> None:
        self._stream = stream
        self._printed = printed
        self._flush = flush
        self.name = f"<std{stream}>"
        self.buffer = Bytes(self.write)  # type: ignore[assignment]  # elsewhere it is the descriptor's

    def fileno(self) -> int:
        """See `io.TextIOBase`."""
        raise io.UnsupportedOperation("fileno")


class WokenIn(In):
    """Standard input within an evaluation: an interrupt ends the wait for it."""

    def _ask(self) -> str:
        job = self._job_here()
        if job is None:
            return ""
        job.wake = lambda: job.session.input.put("")
        try:
            return super()._ask()
        finally:
            job.wake = None


class Router:
    """`sys.stdout`, `sys.stderr` or `sys.stdin`: `ours` within an evaluation, elsewhere what was there before."""

    def __init__(self, before: Any, ours: Any, job_here: Callable[[], Job | None]) -> None:
        self.before = before
        self._outside = Nowhere() if before is None else before
        self.ours = ours
        self._job_here = job_here

    def _here(self) -> Any:
        return self._outside if self._job_here() is None else self.ours

    def write(self, text: str) -> Any:
        """See `io.TextIOBase`."""
        return self._here().write(text)

    def flush(self) -> Any:
        """See `io.TextIOBase`."""
        return self._here().flush()

    def __iter__(self) -> Iterator[str]:
        return iter(self._here())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here(), name)


class RoutedOutput(Output):
    """The standard streams of a program with a REPL in it, which stay its own until something is evaluated."""

    def __init__(self, shield: Shield) -> None:
        super().__init__(shield, CapturedOut)
        self._in = WokenIn(self.job_here)

    def take_process(self) -> None:
        """Nothing: the process is the program's."""

    def begin(self, job: Job) -> None:
        """See `Output`."""
        JOB.set(job)
        self.take_streams()

    def begin_beside(self, job: Job) -> None:
        """See `Output`."""
        self.begin(job)

    def take_streams(self) -> None:
        """Stand before the program's streams, whatever they are now."""
        for name, ours in self._ours().items():
            now = getattr(sys, name)
            if not isinstance(now, Router) or now.ours is not ours:
                setattr(sys, name, Router(now, ours, self.job_here))

    def give_back(self) -> None:
        """Leave the program its streams, where nobody has put others before them since."""
        for name, ours in self._ours().items():
            now = getattr(sys, name)
            if isinstance(now, Router) and now.ours is ours:
                setattr(sys, name, now.before)

    def _ours(self) -> dict[str, object]:
        return {"stdout": self._out, "stderr": self._err, "stdin": self._in}

    def job_here(self) -> Job | None:
        """The evaluation that this code belongs to; None where it is the program's."""
        return None if self.is_child else JOB.get()
