"""Outboxes: the lines that wait to be written to one client.

A response is never dropped. A notification may be dropped: beyond the limits the oldest waiting notification goes
first, and is counted. So a slow reader loses notifications of its own, and costs no one else anything. A client that
sends without ever reading is not read while `is_congested`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from anyio.abc import SocketStream


BATCH_BYTES = 64 * 1024
"""About as much as a socket takes in one call."""


def immediately(stream: SocketStream) -> Callable[[bytes], bool]:
    """Return a function that sends a line immediately if nothing else is being sent, and returns whether it did.

    The stream's own `send` gives all other tasks a turn for each line: one notification to 200 clients took three times
    as long. The library keeps the transport private; without the transport every line goes the long way.
    """
    transport: asyncio.WriteTransport | None = getattr(stream, "_transport", None)
    if transport is None:
        return lambda _line: False

    def write(line: bytes) -> bool:
        if len(line) > BATCH_BYTES or transport.is_closing() or transport.get_write_buffer_size():
            return False
        transport.write(line)
        return True

    return write


class Outbox:
    """A queue of encoded lines for one connection.

    `write_now` accepts a line that can be sent without waiting; while nothing else waits, such a line is not queued.
    Otherwise `start_writer` starts a writer, which takes batches until none is left: most clients never need a writer.
    """

    def __init__(
        self,
        *,
        max_notifications: int,
        max_notification_bytes: int,
        congested_bytes: int,
        write_now: Callable[[bytes], bool] = lambda _line: False,
        start_writer: Callable[[], object] = lambda: None,
    ) -> None:
        self._max_notifications = max_notifications
        self._max_notification_bytes = max_notification_bytes
        self._congested_bytes = congested_bytes
        self._lines: OrderedDict[int, bytes] = OrderedDict()
        self._notifications: OrderedDict[int, int] = OrderedDict()
        self._next = 0
        self._waiting_bytes = 0
        self._notification_bytes = 0
        self._space: anyio.Event | None = None
        self._closed = False
        self._write_now = write_now
        self.start_writer = start_writer
        self.on_first_loss: Callable[[], object] = lambda: None
        """Called when the client loses a notification for the first time."""
        self._is_idle = True
        """Whether no writer runs, so that a new line can overtake nothing."""
        self.dropped = 0
        """The number of notifications that this client lost."""

    @property
    def waiting(self) -> int:
        """Return the number of lines that wait."""
        return len(self._lines)

    @property
    def is_congested(self) -> bool:
        """Return whether too many bytes wait to read anything more from this client."""
        return self._waiting_bytes > self._congested_bytes

    def put(self, line: bytes) -> None:
        """Add a response. It stays until it is written or the connection is gone."""
        if not self._closed and not (self._is_idle and self._write_now(line)):
            self._add(line)

    def offer(self, line: bytes) -> None:
        """Add a notification, dropping the oldest waiting ones if the outbox is full."""
        if self._closed:
            return
        if self._is_idle and self._write_now(line):
            return
        self._notifications[self._next] = len(line)
        self._notification_bytes += len(line)
        self._add(line)
        while (
            len(self._notifications) > self._max_notifications
            or self._notification_bytes > self._max_notification_bytes
        ):
            oldest, size = self._notifications.popitem(last=False)
            self._notification_bytes -= size
            self._waiting_bytes -= len(self._lines.pop(oldest))
            self.dropped += 1
            if self.dropped == 1:
                self.on_first_loss()

    def batch(self) -> bytes | None:
        """Return the next lines as one chunk of bytes, in order; None when nothing waits, so that the writer ends."""
        if not self._lines:
            self._is_idle = True
            return None
        size, lines = 0, []
        while self._lines and size < BATCH_BYTES:
            number, line = self._lines.popitem(last=False)
            self._notification_bytes -= self._notifications.pop(number, 0)
            size += len(line)
            lines.append(line)
        return lines[0] if len(lines) == 1 else b"".join(lines)

    def written(self, size: int) -> None:
        """Note that the writer has written `size` bytes of a batch."""
        self._waiting_bytes -= size
        if self._space is not None and not self.is_congested:
            self._space.set()

    async def wait_for_space(self) -> None:
        """Return once the outbox is not congested."""
        while self.is_congested and not self._closed:
            self._space = anyio.Event()
            await self._space.wait()

    def close(self) -> None:
        """Close the outbox: no more lines are added."""
        self._closed = True
        if self._space is not None:
            self._space.set()

    def _add(self, line: bytes) -> None:
        self._lines[self._next] = line
        self._next += 1
        self._waiting_bytes += len(line)
        if self._is_idle:
            self._is_idle = False
            self.start_writer()
