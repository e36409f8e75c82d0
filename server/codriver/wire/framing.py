"""Newline framing: split received bytes into lines.

A message is one line that ends in a line feed. A carriage return before it is removed, and blank lines are skipped.
Chunks may be of any size, and may split a character, because lines are returned as bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.errors import PeerError

if TYPE_CHECKING:
    from collections.abc import Callable

UNCHARGED_LINE_BYTES = 64 * 1024
"""Incomplete lines up to this size are not charged to the budget, so that every client can have one."""


class LineTooLongError(PeerError):
    """Raised when a line exceeds its limit. The stream cannot be split into lines any further."""

    def __init__(self, line_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"a line of at least {line_bytes} bytes exceeds the limit of {limit_bytes} bytes. Send less in one "
            "message, or raise the setting maxLineBytes"
        )
        self.line_bytes = line_bytes
        self.limit_bytes = limit_bytes


class LineBudgetError(PeerError):
    """Raised for the longest incomplete line when the incomplete lines of all clients exceed their memory budget."""

    def __init__(self, line_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the incomplete lines of all clients together exceed {limit_bytes} bytes, and this one, with "
            f"{line_bytes} bytes so far, is the longest. Send less in one message, or try again later"
        )


class LineBudget:
    """A memory budget for the incomplete lines on all connections to a server.

    If it is exceeded, the longest line is dropped, so that a client that sends a lot cannot affect one that sends
    little.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._charged: dict[LineDecoder, int] = {}
        self._total = 0

    def charge(self, holder: LineDecoder, buffered_bytes: int) -> None:
        """Record how many bytes a decoder buffers. If this exceeds the budget, drop the longest lines."""
        before = self._charged.pop(holder, 0)
        if buffered_bytes > UNCHARGED_LINE_BYTES:
            self._charged[holder] = buffered_bytes
        self._total += self._charged.get(holder, 0) - before
        while self._total > self._max_bytes:
            longest = max(self._charged, key=self._charged.__getitem__)
            longest.drop_line(LineBudgetError(self._charged[longest], self._max_bytes))


class LineDecoder:
    """An incremental decoder that splits bytes into lines in linear time.

    `on_given_up` is called when the budget drops this decoder's line, after `error` is set.
    """

    def __init__(
        self, *, max_line_bytes: int, budget: LineBudget | None = None, on_given_up: Callable[[], object] = lambda: None
    ) -> None:
        self._max_line_bytes = max_line_bytes
        self._budget = budget
        self._on_given_up = on_given_up
        self._buffer = bytearray()
        self._reserved_bytes = 0
        self.is_counted = False
        """Whether the incomplete line is long enough to be charged to the budget."""
        self.error: PeerError | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes, in order and without their line endings.

        Raises:
            LineTooLongError: a line, complete or not, has more than `max_line_bytes`.
            LineBudgetError: the incomplete lines on all connections exceed their budget, and this one is the longest.
                The decoder cannot be used after either error.
        """
        if self.error is not None:
            raise self.error
        head, newline, rest = data.partition(b"\n")
        if not newline:
            self._append(data)
            return []
        first = self._complete_first_line(head)
        *whole, last = rest.split(b"\n")
        for line in whole:
            self._check(len(line))
        if last:
            self._append(last)
        return [line for line in (raw.removesuffix(b"\r") for raw in (first, *whole)) if line.strip()]

    def complete_line(self, data: bytes) -> bytes | None:
        """Return the line in `data` without its ending, or None unless `data` is exactly one complete line."""
        line, newline, rest = data.partition(b"\n")
        if rest or not newline or self._buffer or self.error is not None or len(line) > self._max_line_bytes:
            return None
        return line.removesuffix(b"\r")

    def drop_line(self, error: PeerError) -> None:
        """Discard the buffered line because the budget is exhausted. The next `feed` raises `error`."""
        self.error = error
        self._reserved_bytes = 0
        self.drop()
        self._on_given_up()

    def drop(self) -> None:
        """Discard the buffered bytes and release their share of the budget. Call this when the connection is closed."""
        self._buffer = bytearray()
        self._count()

    def reserve(self, line_bytes: int) -> None:
        """Charge the budget for a complete line waiting to be processed, in addition to the buffered bytes.

        The charge of `line_bytes` lasts until the next call, or until the buffer changes.
        """
        self._reserved_bytes = line_bytes
        self._count()

    def _complete_first_line(self, head: bytes) -> bytes:
        """Return the buffered start of a line with its end, and empty the buffer."""
        self._check(len(self._buffer) + len(head))
        if not self._buffer:
            return head
        self._buffer += head
        line = bytes(self._buffer)
        self.drop()
        return line

    def _append(self, chunk: bytes) -> None:
        self._check(len(self._buffer) + len(chunk))
        self._buffer += chunk
        self._count()
        if self.error is not None:
            raise self.error

    def _count(self) -> None:
        """Update the charge to the budget, if the line is or was long enough to be charged."""
        buffered_bytes = len(self._buffer) + self._reserved_bytes
        if self._budget is not None and (self.is_counted or buffered_bytes > UNCHARGED_LINE_BYTES):
            self.is_counted = buffered_bytes > UNCHARGED_LINE_BYTES
            self._budget.charge(self, buffered_bytes)

    def _check(self, line_bytes: int) -> None:
        if line_bytes > self._max_line_bytes:
            raise LineTooLongError(line_bytes, self._max_line_bytes)
