"""The outbox of a client: a queue of lines to send.

Responses are never dropped. Notifications may be: if there are too many, the oldest one is dropped and counted. So a
slow reader only loses its own notifications and does not affect others. While an outbox `is_congested`, no more
requests are read from its client.
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
"""Approximate size of a batch of lines, small enough for a socket to accept it in one call."""


def immediate_sender(stream: SocketStream) -> Callable[[bytes], bool]:
    """Return a function that sends a line without waiting, and returns False if it would have to wait.

    anyio's `send` yields to all other tasks for each line, so a notification to 200 clients takes three times as long.
    The function uses anyio's private transport. If that is not accessible, it always returns False.
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
    """A queue of encoded lines to send to one client.

    While the queue is empty, a line is passed to `write_now`, which may send it immediately. If it does not, the line
    is queued and `start_writer` is called, which starts a task that sends batches until the queue is empty.
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
        """Called when a notification is dropped for the first time."""
        self._is_idle = True
        """Whether no writer is running, in which case a line may be sent immediately without overtaking others."""
        self.dropped = 0
        """Number of notifications that were dropped."""

    @property
    def waiting(self) -> int:
        """Return the number of queued lines."""
        return len(self._lines)

    @property
    def is_congested(self) -> bool:
        """Return whether so much is queued that no more requests should be read from this client."""
        return self._waiting_bytes > self._congested_bytes

    def put(self, line: bytes) -> None:
        """Send or queue a response. Responses are never dropped."""
        if not self._closed and not (self._is_idle and self._write_now(line)):
            self._append(line)

    def offer(self, line: bytes) -> None:
        """Send or queue a notification. If too many are queued, the oldest notifications are dropped."""
        if self._closed:
            return
        if self._is_idle and self._write_now(line):
            return
        self._notifications[self._next] = len(line)
        self._notification_bytes += len(line)
        self._append(line)
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

    def pop_batch(self) -> bytes | None:
        """Remove and return the next lines as one chunk. Returns None if the queue is empty, which ends the writer."""
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

    def record_written(self, size: int) -> None:
        """Record that the writer has sent `size` bytes."""
        self._waiting_bytes -= size
        if self._space is not None and not self.is_congested:
            self._space.set()

    async def wait_for_space(self) -> None:
        """Wait until the outbox is closed or no longer congested."""
        while self.is_congested and not self._closed:
            self._space = anyio.Event()
            await self._space.wait()

    def close(self) -> None:
        """Discard lines that are added later, and wake the tasks in `wait_for_space`."""
        self._closed = True
        if self._space is not None:
            self._space.set()

    def _append(self, line: bytes) -> None:
        self._lines[self._next] = line
        self._next += 1
        self._waiting_bytes += len(line)
        if self._is_idle:
            self._is_idle = False
            self.start_writer()
