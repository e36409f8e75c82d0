"""Fix hy-nrepl's output, so that each evaluation prints to its own client, one line at a time.

hy-nrepl 1.0.4 replaces `sys.stdout` at the start of each evaluation and restores the previous stream at its end
(`ops/eval.hy`). If two evaluations overlap, one of them prints to the other's client or to nobody. The stream may also
be freed while `print` is writing to it, which crashes Python before 3.14 (python/cpython#130163), so two agents that
print at the same time can crash the REPL. With this fix, one stream stays in `sys.stdout`. All evaluations, including
running ones, use it and cannot replace it. It finds the evaluation in the context of the printing code. A thread
without such a context prints to the evaluation that started last, as before, or to the process's own stream if none is
running.

`print` writes each word separately, and the server sends a message for each. With this fix, each line is a message.
Text without a newline is sent on a flush, or before any other message.
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
    """A single stream for standard output that forwards text to the evaluation printing it."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[Any] = []
        self.process: Any = sys.__stdout__

    def current_stream(self) -> Any:
        """Return the stream of the evaluation that is printing."""
        return context_stream.get(None) or next(reversed(self.running), self.process)

    def write(self, text: str) -> int:
        """Forward text to the current stream. The process's own output is flushed after each line, as in a terminal."""
        stream = self.current_stream()
        count = int(stream.write(text))
        if stream is self.process and text.endswith("\n"):
            stream.flush()
        return count

    def flush(self) -> None:
        """Flush the stream of the evaluation that is printing."""
        self.current_stream().flush()


class Sys:
    """A replacement for the module `sys` in evaluations, which prevents them from setting `stdout`."""

    def __getattr__(self, name: str) -> object:
        """Return an attribute of `sys`."""
        return getattr(sys, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute of `sys` other than `stdout`."""
        if name != "stdout":
            setattr(sys, name, value)


def install() -> None:
    """Make all evaluations print through the shared stream."""
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
        """A stream that sends complete lines, or parts of lines that are too long."""

        pending, most = "", 8192

        def __init__(self, writer: Callable[[object], None]) -> None:
            super().__init__(writer)
            self.lock = RLock()

        def write(self, text: str) -> int:
            """Send the lines completed by this text."""
            with self.lock:
                lines, end, self.pending = (self.pending + text).rpartition("\n")
                super().write(lines + end)
                if len(self.pending) > self.most:
                    self.flush()
            return len(text)

        def flush(self) -> None:
            """Send text without a newline."""
            with self.lock:
                text, self.pending = self.pending, ""
                super().write(text)

    return Lines


if not hasattr(ops, "codriver"):
    install()
