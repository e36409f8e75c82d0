"""A process that goes on without the terminal and the readers of whoever started it."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def stay() -> None:
    """Tell nobody, as nobody waits for this process."""


if sys.platform == "win32":

    def daemonize() -> Callable[[], None]:
        """Nothing: processes cannot be copied here."""
        return stay

else:

    def daemonize() -> Callable[[], None]:
        """Daemonize: go on in a new process. The caller calls what is returned when the server can be reached.

        The process that was started waits for that call and then ends well, which leaves the new one without parents.
        If the new one ends before, the other ends as it did: whoever started it learns what became of the start. To be
        called before there is a second thread.
        """
        reading, writing = os.pipe()
        if new := os.fork():
            os.close(writing)
            _end_as(new, reading)
        os.close(reading)

        def reached() -> None:
            _leave_readers()
            os.write(writing, b"\n")
            os.close(writing)

        return reached

    def _leave_readers() -> None:
        """Let go of the terminal, and of pipes at standard output and error: nobody who reads them waits for more."""
        with suppress(OSError):  # of a session of its own already
            os.setsid()
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            if stat.S_ISFIFO(os.fstat(stream).st_mode):
                os.dup2(nothing, stream)
        os.close(nothing)

    def _end_as(process_id: int, reading: int) -> None:
        if os.read(reading, 1):
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
        # A signal's number is told as shells tell it.
        os._exit(status if status >= 0 else 128 - status)
