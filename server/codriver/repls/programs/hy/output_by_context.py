"""Output in hy-nrepl: each evaluation prints to whoever asked for it, a line at a time.

hy-nrepl 1.0.4 puts a stream of its own into `sys.stdout` at the beginning of each evaluation, and the one before back
at its end (`ops/eval.hy`): of two that overlap, one prints to the other's client or to nobody. What is worse, the
stream is freed while `print` still writes to it, at which Python before 3.14 crashes (python/cpython#130163): two
agents who print end the REPL. One stream for all stays in `sys.stdout` instead, which the server's evaluations find and
cannot set, those that run already among them; it looks up in the context of who prints whose evaluation it is. A thread
without a context of an evaluation prints to the one that began last, as before, and to the process's own stream where
none runs.

`print` writes each word by itself, of which the server makes a message: here a line is one, as at a terminal, and what
has no end of line yet is sent when it is flushed, or before anything else is said.
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
own: ContextVar[Any] = ContextVar("own")


class Output(io.TextIOBase):
    """The one stream of standard output, which hands on to the evaluation of who prints."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[Any] = []
        self.process: Any = sys.__stdout__

    def stream(self) -> Any:
        """The stream of whoever prints now."""
        return own.get(None) or next(reversed(self.running), self.process)

    def write(self, text: str) -> int:
        """Hand text on; a line of the process' own is there when it ends, as at a terminal."""
        stream = self.stream()
        count = int(stream.write(text))
        if stream is self.process and text.endswith("\n"):
            stream.flush()
        return count

    def flush(self) -> None:
        """Flush the stream of whoever prints now."""
        self.stream().flush()


class Sys:
    """The module `sys` for the server's evaluations, which cannot set its standard output."""

    def __getattr__(self, name: str) -> object:
        """All is as in `sys`."""
        return getattr(sys, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set all but the standard output."""
        if name != "stdout":
            setattr(sys, name, value)


def mend() -> None:
    """Have evaluations print so from now on."""
    out, run = Output(), ops.InterruptibleEval.run
    lines_of = _lines(ops.StreamingOut)

    def run_apart(thread: Any) -> None:
        tell, lines = thread.writer, lines_of(thread.writer)

        def tell_in_order(message: object) -> None:
            lines.flush()
            tell(message)

        thread.writer = tell_in_order
        if not out.running and sys.stdout is not out:
            out.process = sys.stdout
        sys.stdout = out
        own.set(lines)
        out.running.append(lines)
        try:
            run(thread)
        finally:
            out.running.remove(lines)

    ops.codriver, ops.sys, ops.InterruptibleEval.run = out, Sys(), run_apart
    sys.stdout = out


def _lines(streaming: Any) -> Callable[..., Any]:
    class Lines(streaming):  # type: ignore[misc]  # the server's own class
        """A stream that sends whole lines, or what is longer than one should be."""

        held, most = "", 8192

        def __init__(self, writer: Callable[[object], None]) -> None:
            super().__init__(writer)
            self.lock = RLock()

        def write(self, text: str) -> int:
            """Send the lines that are whole with this text."""
            with self.lock:
                lines, end, self.held = (self.held + text).rpartition("\n")
                super().write(lines + end)
                if len(self.held) > self.most:
                    self.flush()
            return len(text)

        def flush(self) -> None:
            """Send what has no end of line yet."""
            with self.lock:
                text, self.held = self.held, ""
                super().write(text)

    return Lines


if not hasattr(ops, "codriver"):
    mend()
