"""Logging to stderr by a thread of its own, which never blocks the server.

Whoever starts a server may give it a pipe for stderr and never read it. A write to a full pipe blocks, and with it
everything the server does for anybody. So a thread of its own writes, and what it cannot get rid of is dropped.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from codriver.log.control_characters import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

STDERR = 2
MOST_WAITING = 1000
FAREWELL_S = 1.0
"""How long an end waits for the last words to be read."""


class NonBlockingHandler(logging.Handler):
    """Handler of log records that writes them to stderr in a thread, which lives until the process ends."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: queue.Queue[str] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record to the thread; when too many wait it is dropped, and counted."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="stderr", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(self.format(record))
        except queue.Full:
            self._dropped += 1

    def drain(self) -> None:
        """Wait until all is written, but not for long."""
        deadline = time.monotonic() + FAREWELL_S
        while self._waiting.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.01)

    def _write(self) -> None:
        while True:
            text = self._waiting.get()
            dropped, self._dropped = self._dropped, 0
            if dropped:
                text += f"\ncodriver: {dropped} more complaints were dropped, as nobody read these"
            left = memoryview(f"{visible(text)}\n".encode())
            with suppress(OSError):  # nobody can read it any more
                # Not by `sys.stderr`: a write that blocks would hold its lock, which the interpreter wants at its end.
                while left:
                    left = left[os.write(STDERR, left) :]
            self._waiting.task_done()


@contextmanager
def on_stderr(level: int) -> Iterator[None]:
    """Write complaints from a `level` on to stderr for the length of the context."""
    handler = NonBlockingHandler()
    logging.basicConfig(level=level, format="codriver: %(message)s", handlers=[handler])
    try:
        yield
    finally:
        handler.drain()
