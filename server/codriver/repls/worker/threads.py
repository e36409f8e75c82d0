"""Threads of the worker's own: they belong to no evaluation, and keep no process alive."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

START = threading.Thread.start
"""Before it is replaced, to tell which evaluation a thread of user code belongs to."""
NAME = "codriver"


def start_thread(target: Callable[[], object]) -> None:
    """Run `target` in a thread of ours."""
    START(threading.Thread(target=target, name=NAME, daemon=True))
