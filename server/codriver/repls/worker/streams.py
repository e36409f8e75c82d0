"""The standard streams of user code: what it prints goes to its evaluation, and what it reads comes from the client."""

from __future__ import annotations

import contextlib
import io
import os
import queue
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .jobs import Job, Session


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
        if os.name == "posix":
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
        """The descriptor that child processes and C code write to, where that is captured too."""
        if os.name != "posix":
            raise io.UnsupportedOperation("fileno")
        return 1 if self._stream == "out" else 2

    def close(self) -> None:
        """Nothing: user code that closes its output keeps it."""


class In(io.TextIOBase):
    """`sys.stdin` of user code: asks the client. Empty input is the end of the file, once."""

    encoding = "utf-8"
    errors = "replace"
    name = "<stdin>"
    mode = "r"

    def __init__(self, job_here: Callable[[], Job | None]) -> None:
        self._job_here = job_here
        self._rest = ""

    def readable(self) -> bool:
        """See `io.TextIOBase`."""
        return True

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]  # None is what files take too
        """See `io.TextIOBase`."""
        if not self._rest:
            self._rest = self._ask()
        end = self._rest.find("\n") + 1 or len(self._rest)
        return self._take(end if size is None or size < 0 else min(end, size))

    def read(self, size: int | None = -1) -> str:
        """See `io.TextIOBase`."""
        wanted = sys.maxsize if size is None or size < 0 else size
        while len(self._rest) < wanted and (more := self._ask()):
            self._rest += more
        return self._take(wanted)

    def _take(self, count: int) -> str:
        text, self._rest = self._rest[:count], self._rest[count:]
        return text

    def _ask(self) -> str:
        job = self._job_here()
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
        """Drop what was not read, so that the next evaluation does not get it."""
        self._rest = ""
        with contextlib.suppress(queue.Empty):
            while True:
                session.input.get_nowait()

    def close(self) -> None:
        """Nothing: `exit()` closes it, and the REPL goes on."""
