"""Output in hy-nrepl: each evaluation prints to its own client, a line at a time.

hy-nrepl 1.0.4 puts a stream of its own into `sys.stdout` at the beginning of each evaluation, and the former stream
back at its end (`ops/eval.hy`): of two overlapping evaluations, one prints to the other's client or to nobody. Worse,
the stream is freed while `print` still writes to it, and Python before 3.14 then crashes (python/cpython#130163): two
printing agents end the REPL. Instead, one stream for all stays in `sys.stdout`. The server's evaluations, also running
ones, find it and cannot set another. The stream finds the evaluation in the context of the printing code. A thread
without an evaluation's context prints to the one that began last, as before, or to the process's own stream if none
runs.

`print` writes each word by itself, and the server makes a message of each. Here each line is a message, as at a
terminal, and a line without an end is sent at a flush, or before any other message.
"""

from __future__ import annotations

import io
import sys
from contextvars import ContextVar
from threading import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ops: Any = sys.modules["hy_nrepl.ops.eval"]
context_stream: ContextVar[Any] = ContextVar("own")


class Output(io.TextIOBase):
    """The only stream of standard output, which hands text on to the printing evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[Any] = []
        self.process: Any = sys.__stdout__

    def stream(self) -> Any:
        """The stream for the code that prints now."""
        return context_stream.get(None) or next(reversed(self.running), self.process)

    def write(self, text: str) -> int:
        """Hand text on; the process's own output appears line by line, as at a terminal."""
        stream = self.stream()
        count = int(stream.write(text))
        if stream is self.process and text.endswith("\n"):
            stream.flush()
        return count

    def flush(self) -> None:
        """Flush the stream for the code that prints now."""
        self.stream().flush()


class Sys:
    """The module `sys` for the server's evaluations, which cannot set its standard output."""

    def __getattr__(self, name: str) -> object:
        """Give the attribute of `sys`."""
        return getattr(sys, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set all but the standard output."""
        if name != "stdout":
            setattr(sys, name, value)


def install() -> None:
    """Have evaluations print in this way from now on."""
    out, run = Output(), ops.InterruptibleEval.run
    lines_of = _lines(ops.StreamingOut)

    def run_apart(thread: Any) -> None:
        writer, lines = thread.writer, lines_of(thread.writer)

        def write_in_order(message: object) -> None:
            lines.flush()
            writer(message)

        thread.writer = write_in_order
        if not out.running and sys.stdout is not out:
            out.process = sys.stdout
        sys.stdout = out
        context_stream.set(lines)
        out.running.append(lines)
        try:
            run(thread)
        finally:
            out.running.remove(lines)

    ops.codriver, ops.sys, ops.InterruptibleEval.run = out, Sys(), run_apart
    sys.stdout = out


def _lines(streaming: Any) -> Callable[..., Any]:
    class Lines(streaming):  # type: ignore[misc]  # the server's own class
        """A stream that sends whole lines, or parts of too long ones."""

        pending, most = "", 8192

        def __init__(self, writer: Callable[[object], None]) -> None:
            super().__init__(writer)
            self.lock = RLock()

        def write(self, text: str) -> int:
            """Send the lines that this text completes."""
            with self.lock:
                lines, end, self.pending = (self.pending + text).rpartition("\n")
                super().write(lines + end)
                if len(self.pending) > self.most:
                    self.flush()
            return len(text)

        def flush(self) -> None:
            """Send the text without an end of line."""
            with self.lock:
                text, self.pending = self.pending, ""
                super().write(text)

    return Lines


if not hasattr(ops, "codriver"):
    install()
