"""Newline framing: bytes in, whole lines out.

A message is one line that ends in a line feed. A carriage return before it is dropped, and blank lines are skipped.
Bytes may arrive in chunks of any size. A line is bytes: a character split between two packets is whole again by the
time anyone decodes it. Of a line that is too long the start and the end are kept, and the bytes between are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.errors import PeerError

if TYPE_CHECKING:
    from collections.abc import Callable

UNCOUNTED_BYTES = 64 * 1024
"""A begun line up to here is no burden: every client may have one."""


class LineTooLongError(PeerError):
    """A line went beyond the limit; the bytes behind it cannot be framed any more."""

    def __init__(self, line_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"a line of at least {line_bytes} bytes is longer than the limit of {limit_bytes} bytes; "
            "send less in one message, or raise the setting maxLineBytes"
        )
        self.line_bytes = line_bytes
        self.limit_bytes = limit_bytes


class LinesCrowdedError(PeerError):
    """The begun lines of all clients together went beyond their limit, and this one was the longest."""

    def __init__(self, line_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{line_bytes} bytes of this line are here, more than of any other client's, and all lines that are not "
            f"whole yet may have {limit_bytes} bytes together; send less in one message, or again when others are done"
        )


class LineRoom:
    """The bytes that the begun lines of all connections may take together, for the life of one server.

    When the lines take more, the longest is given up: a client that sends little never waits for one that sends much.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: dict[LineDecoder, int] = {}
        self._total = 0

    def hold(self, holder: LineDecoder, held_bytes: int) -> None:
        """Count so many bytes as held for this decoder; beyond the limit the decoder that holds most lets go of it."""
        before = self._held.pop(holder, 0)
        if held_bytes > UNCOUNTED_BYTES:
            self._held[holder] = held_bytes
        self._total += self._held.get(holder, 0) - before
        while self._total > self._max_bytes:
            longest = max(self._held, key=self._held.__getitem__)
            longest.give_up(LinesCrowdedError(self._held[longest], self._max_bytes))


class LineDecoder:
    """Collects bytes and gives the lines they complete, in time linear in their number.

    `on_given_up` is called when the decoder's line had to make room for other lines: `fault` says so from then on.
    """

    def __init__(
        self, *, max_line_bytes: int, room: LineRoom | None = None, on_given_up: Callable[[], object] = lambda: None
    ) -> None:
        self._max_line_bytes = max_line_bytes
        self._room = room
        self._on_given_up = on_given_up
        self._held = bytearray()
        self._kept_bytes = 0
        self.is_counted = False
        """Whether so much is held that others could need the room."""
        self.fault: PeerError | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, in order, without their line ends.

        Raises:
            LineTooLongError: a line, complete or not, has more than `max_line_bytes`. Feed no more after that.
            LinesCrowdedError: all connections' begun lines have too much together, and this line is the longest. Feed
                no more either.
        """
        if self.fault is not None:
            raise self.fault
        head, newline, rest = data.partition(b"\n")
        if not newline:
            self._hold(data)
            return []
        first = self._completed(head)
        *whole, last = rest.split(b"\n")
        for line in whole:
            self._check(len(line))
        if last:
            self._hold(last)
        return [line for line in (raw.removesuffix(b"\r") for raw in (first, *whole)) if line.strip()]

    def whole(self, data: bytes) -> bytes | None:
        """The one line in `data`, without its line end; None for a part of a line, or more than one."""
        line, newline, rest = data.partition(b"\n")
        if rest or not newline or self._held or self.fault is not None or len(line) > self._max_line_bytes:
            return None
        return line.removesuffix(b"\r")

    def give_up(self, fault: PeerError) -> None:
        """Let go of the held bytes, as there is no room for them."""
        self.fault = fault
        self._kept_bytes = 0
        self.drop()
        self._on_given_up()

    def drop(self) -> None:
        """Let go of the held bytes: nothing more comes."""
        self._held = bytearray()
        self._count()

    def keep(self, line_bytes: int) -> None:
        """Count a whole line of so many bytes too, until another number is told: the line waits to be read."""
        self._kept_bytes = line_bytes
        self._count()

    def _completed(self, head: bytes) -> bytes:
        self._check(len(self._held) + len(head))
        if not self._held:
            return head
        self._held += head
        line = bytes(self._held)
        self.drop()
        return line

    def _hold(self, piece: bytes) -> None:
        self._check(len(self._held) + len(piece))
        self._held += piece
        self._count()
        if self.fault is not None:
            raise self.fault

    def _count(self) -> None:
        """Tell the room how many bytes are held, if that number counts or did before."""
        held_bytes = len(self._held) + self._kept_bytes
        if self._room is not None and (self.is_counted or held_bytes > UNCOUNTED_BYTES):
            self.is_counted = held_bytes > UNCOUNTED_BYTES
            self._room.hold(self, held_bytes)

    def _check(self, line_bytes: int) -> None:
        if line_bytes > self._max_line_bytes:
            raise LineTooLongError(line_bytes, self._max_line_bytes)
