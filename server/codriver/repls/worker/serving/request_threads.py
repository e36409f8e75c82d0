"""Threads that answer lookups, so that a hanging lookup does not block others."""

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


LOOKUP_OPS = frozenset(
    ("completions", "complete", "lookup", "codriver/names", "codriver/source", "codriver/drift", "codriver/stacks")
)
"""Ops that read files or the user's objects."""


DISPLAYING_OPS = frozenset({"lookup", "codriver/names", "codriver/locals"})
"""Ops that return values without running code."""


MAX_BUSY_THREADS = 64
"""Maximum number of busy threads. Further requests wait."""


class RequestThreads:
    """A pool of threads for lookups. A thread is added if all are busy, up to `MAX_BUSY_THREADS`."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._spare = 0
        """The number of idle threads minus the number of waiting requests."""

    def handle(self, op: Op, message: Message, connection: Connection, session: Session) -> None:
        """Handle a request. Lookups run on a thread from the pool."""
        if message["op"] in LOOKUP_OPS:
            self._run(lambda: _answer(op, message, connection, session))
        else:
            _answer(op, message, connection, session)

    def _run(self, act: Callable[[], object]) -> None:
        with self._lock:
            self._spare -= 1
            is_added = self._spare < 0 and self._count < MAX_BUSY_THREADS
            if is_added:
                self._count += 1
                self._spare += 1
        self._waiting.put(act)
        if is_added:
            start_thread(self._serve)

    def end(self) -> None:
        """End all threads after they have handled their current request. No request may follow."""
        with self._lock:
            count, self._count = self._count, 0
        for _ in range(count):
            self._waiting.put(None)

    def _serve(self) -> None:
        while (act := self._waiting.get()) is not None:
            act()
            with self._lock:
                self._spare += 1


def _answer(op: Op, message: Message, connection: Connection, session: Session) -> None:
    """Handle a request. If that fails, reply with the error."""
    try:
        if message["op"] in DISPLAYING_OPS:
            sensitive_texts.check_sensitive_values_with_timeout()
        op(message, connection, session)
    except Exception as error:  # the server must survive any error in a request
        words = "".join(traceback.format_exception_only(type(error), error)).strip()
        connection.reply_failure(message, "failed", words)
