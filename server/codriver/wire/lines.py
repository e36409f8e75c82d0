r"""Newline framing: bytes in, whole lines out.

A message is one line that ends in ``\n``; a ``\r`` before it is dropped and blank lines are skipped. Bytes may come in
any pieces. A line is bytes: a character split between two packets is whole again by the time anyone decodes it.
"""

from __future__ import annotations

from codriver.errors import PeerError


class LineTooLongError(PeerError):
    """A line went beyond the limit; what follows cannot be framed any more."""

    def __init__(self, line_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"a line of at least {line_bytes} bytes is longer than the limit of {limit_bytes} bytes; "
            "send less in one message, or raise the setting maxLineBytes"
        )
        self.line_bytes = line_bytes
        self.limit_bytes = limit_bytes


class LineDecoder:
    """Collects bytes and gives the lines they complete, in time linear in their number."""

    def __init__(self, *, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, in order, without their line ends.

        Raises:
            LineTooLongError: a line, complete or not, has more than `max_line_bytes`. Feed no more after that.
        """
        head, newline, rest = data.partition(b"\n")
        if not newline:
            self._hold(data)
            return []
        self._hold(head)
        first = b"".join(self._pieces)
        self._pieces.clear()
        self._held_bytes = 0
        *whole, last = rest.split(b"\n")
        for line in whole:
            self._check(len(line))
        if last:
            self._hold(last)
        return [line for line in (raw.removesuffix(b"\r") for raw in (first, *whole)) if line.strip()]

    def _hold(self, piece: bytes) -> None:
        self._held_bytes += len(piece)
        self._check(self._held_bytes)
        self._pieces.append(piece)

    def _check(self, line_bytes: int) -> None:
        if line_bytes > self._max_line_bytes:
            raise LineTooLongError(line_bytes, self._max_line_bytes)
