"""The threads on which requests are answered: a look-up that never ends keeps no other request from being read."""

from __future__ import annotations

import queue
import threading
import traceback

from ..basics import sensitive_texts
from ..basics.connections import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..basics.connections import Connection, Message
    from ..basics.jobs import Session

    Op = Callable[[Message, Connection, Session], object]

LOOK_UPS = frozenset(
    ("completions", "complete", "lookup", "codriver/names", "codriver/source", "codriver/drift", "codriver/stacks")
)
"""Ops that read files, or what the user made."""
SHOWING = frozenset({"lookup", "codriver/names", "codriver/locals"})
"""Ops that show values without running anything."""
MOST_THREADS = 64
"""Where so many are busy, what comes next waits."""


class RequestThreads:
    """Threads that take one look-up after another, for the life of the worker. One is added where all are busy."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._spare = 0
        """Threads that wait for something to do, less what waits for a thread."""

    def perform(self, op: Op, message: Message, connection: Connection, session: Session) -> None:
        """Answer a request: a look-up on one of the threads, any other here."""
        if message["op"] in LOOK_UPS:
            self._run(lambda: _answer(op, message, connection, session))
        else:
            _answer(op, message, connection, session)

    def _run(self, act: Callable[[], object]) -> None:
        with self._lock:
            self._spare -= 1
            is_added = self._spare < 0 and self._count < MOST_THREADS
            if is_added:
                self._count += 1
                self._spare += 1
        self._waiting.put(act)
        if is_added:
            start_thread(self._serve)

    def _serve(self) -> None:
        while True:
            self._waiting.get()()
            with self._lock:
                self._spare += 1


def _answer(op: Op, message: Message, connection: Connection, session: Session) -> None:
    try:
        if message["op"] in SHOWING:
            sensitive_texts.look_briefly()
        op(message, connection, session)
    except Exception as error:  # whatever a request does, the server goes on
        words = "".join(traceback.format_exception_only(type(error), error)).strip()
        connection.refuse(message, "failed", words)
