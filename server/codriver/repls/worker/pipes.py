"""Pipes behind the descriptors 1 and 2: what child processes and C code write there. POSIX alone."""

from __future__ import annotations

import codecs
import contextlib
import faulthandler
import os
import select
import sys
import threading

from .threads import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Pipes:
    """Takes what is written to the descriptors 1 and 2, for the life of the worker; `printed` is given stream and text.

    The terminal or pipe that standard error was is left to `faulthandler`, whose last words would be lost here.
    """

    def __init__(self, printed: Callable[[str, str], None]) -> None:
        import fcntl

        self._printed = printed
        self._lock = threading.Lock()
        self._ends: dict[int, tuple[str, codecs.IncrementalDecoder]] = {}
        faulthandler.enable(os.dup(2))
        for number, stream in ((1, "out"), (2, "err")):
            reading, writing = os.pipe()
            with contextlib.suppress(OSError):
                # F_SETPIPE_SZ of Linux: C code that prints while it holds the interpreter's lock stops us from reading.
                fcntl.fcntl(writing, 1031, 1 << 20)
            os.dup2(writing, number)
            os.close(writing)
            self._ends[reading] = (stream, codecs.getincrementaldecoder("utf-8")("backslashreplace"))
        for number, name in ((1, "__stdout__"), (2, "__stderr__")):
            setattr(sys, name, os.fdopen(number, "w", 1, "utf-8", "backslashreplace", closefd=False))
        self._flush_c = _line_buffered_c()
        start_thread(self._watch)

    def drain(self) -> None:
        """Pass on what was written until now."""
        # Another thread that does it may be waiting for a client, and a finalizer may call this while it is done.
        if not self._lock.acquire(timeout=0.2):
            return
        try:
            # Bounded, because a child that floods would keep us here for ever.
            for _ in range(32):
                ready = select.select(self._ends, [], [], 0)[0]
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
        """Pass on what an evaluation wrote, buffers included."""
        for stream in (sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):
                stream.flush()  # type: ignore[union-attr]  # user code may have set them to anything
        self._flush_c()
        self.drain()

    def _watch(self) -> None:
        while self._ends:
            select.select(self._ends, [], [])
            self.drain()


def _line_buffered_c() -> Callable[[], object]:
    """Let C code's lines arrive when they are printed; give what flushes the rest of one."""
    with contextlib.suppress(Exception):
        import ctypes

        libc = ctypes.CDLL(None)
        stdout = ctypes.c_void_p.in_dll(libc, "__stdoutp" if sys.platform == "darwin" else "stdout")
        libc.setvbuf(stdout, None, 1, 0)  # 1 is _IOLBF
        return lambda: libc.fflush(stdout)
    return lambda: None
