r"""Newline framing: bytes in, whole lines out.

A message is one line that ends in ``\n``; a ``\r`` before it is dropped and blank lines are skipped. Bytes may come in
any pieces. A line is bytes: a character split between two packets is whole again by the time anyone decodes it. Of a
line that is too long the beginning and the end are kept, and the bytes between are counted.
"""

from __future__ import annotations

from collections import deque
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


def left_out_mark(count: int) -> str:
    """The words in the place of bytes that are left out."""
    return f"\n[... {count:,} bytes are left out here ...]\n"


class HeadAndTail:
    """Bytes as they come, of which at most `most_head` and then `most_tail` are held."""

    def __init__(self, most_head: int, most_tail: int) -> None:
        self._room = most_head
        self._most_tail = most_tail
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.size = 0
        """Bytes so far, those that are not held among them."""

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        self.size += len(data)
        if self._room:
            head, data = data[: self._room], data[self._room :]
            self._room -= len(head)
            self._head.append(head)
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail_bytes - len(self._tail[0]) >= self._most_tail:
                self._tail_bytes -= len(self._tail.popleft())
                if not self._tail:
                    break

    @property
    def head(self) -> bytes:
        """The beginning: all of it when nothing is left out."""
        return b"".join(self.pieces[0])

    @property
    def tail(self) -> bytes:
        """The end, if something before it is left out; empty otherwise."""
        return b"".join(self.pieces[1])

    @property
    def pieces(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Head and tail in pieces, as they came."""
        if not self.left_out:
            return (*self._head, *self._tail), ()
        if not self._most_tail:
            return tuple(self._head), ()
        first, *others = self._tail
        return tuple(self._head), (first[self._tail_bytes - self._most_tail :], *others)

    @property
    def left_out(self) -> int:
        """The bytes between head and tail that are not held."""
        beyond = self.size - sum(map(len, self._head))
        return max(0, beyond - self._most_tail)
