"""Leaving the processes that one was started by: some clients end all that they started, and what that started."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def detach() -> Callable[[], None]:
    """Go on in a new process; what is returned is to be called when the server can be reached.

    The process that was started waits for that call and then ends well, which leaves the new one without parents. If
    the new one ends before, the other ends as it did: whoever started it learns what became of the start. Nothing is
    done where processes cannot be copied. To be called before there is a second thread.
    """
    if not hasattr(os, "fork"):
        return _stay
    reading, writing = os.pipe()
    if new := os.fork():
        os.close(writing)
        _end_as(new, reading)
    os.close(reading)

    def reached() -> None:
        os.write(writing, b"\n")
        os.close(writing)

    return reached


def _end_as(process_id: int, reading: int) -> None:
    if os.read(reading, 1):
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
    # A signal's number is told as shells tell it.
    os._exit(status if status >= 0 else 128 - status)


def _stay() -> None:
    """Nothing is to be told to anybody."""
