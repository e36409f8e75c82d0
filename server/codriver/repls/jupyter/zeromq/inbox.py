"""Messages of one socket of a kernel that wait to be read, within a bound: what nobody can keep up with is dropped.

A kernel is not held up by who does not read: its socket of output drops what is too much without a word, the end of an
evaluation too. So everything is taken off the socket, and what is too much is dropped here: of output and displays the
middle, counted by their parent, while the oldest and the newest stay. Nothing else is ever dropped: where such
messages alone are too many, `has_room` is false, and the socket is not read on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.repls.jupyter.messages.messages import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.repls.jupyter.zeromq.signed_messages import Received

MOST_FIRST_BYTES: Final = 4 * 2**20
MOST_LAST_BYTES: Final = 8 * 2**20
"""What is held of a flood, at its beginning and at its end; a single message may be longer."""
MESSAGE_BYTES: Final = 2048
"""What each message is counted for beside its content: its header and parent as objects."""
STREAM_NAME_BYTES: Final = 64
DROPPABLE: Final = frozenset({"stream", "display_data", "update_display_data", "clear_output", "comm_msg", "comm_open"})
"""Types that come in any number, and that nothing waits for."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """So much in the place of messages about one parent that were dropped."""

    parent: Mapping[str, object]
    stream: str
    """The stream that all of them are of; empty of displays and the like."""
    size: int
    """Bytes of their contents."""


class Inbox:
    """The messages of one socket that wait, for its life."""

    def __init__(self, most_first: int = MOST_FIRST_BYTES, most_last: int = MOST_LAST_BYTES) -> None:
        self._most_first = most_first
        self._most_last = most_last
        self._first: deque[Received | Dropped] = deque()
        self._last: deque[Received] = deque()
        self._first_bytes = self._last_bytes = 0
        self._droppable = 0
        """How many of the last may be dropped. One of them stays, however long: the end of a flood may be a message."""

    def __len__(self) -> int:
        return len(self._first) + len(self._last)

    @property
    def has_room(self) -> bool:
        """True where more may be put in without anything beyond the bounds staying there."""
        return self._first_bytes + self._last_bytes <= self._most_first + self._most_last

    def put(self, message: Received) -> None:
        """Add the newest message."""
        weight = _weight(message)
        if not self._last and self._first_bytes + weight <= self._most_first:
            self._first.append(message)
            self._first_bytes += weight
            return
        self._last.append(message)
        self._last_bytes += weight
        self._droppable += message.type in DROPPABLE
        while self._last_bytes > self._most_last and self._may_shift():
            self._shift()

    def _may_shift(self) -> bool:
        return len(self._last) > 1 and (self._droppable > 1 or self._last[0].type not in DROPPABLE)

    def _shift(self) -> None:
        """Take the oldest of the last ones out: drop it if that may be, and count it."""
        oldest = self._last.popleft()
        self._last_bytes -= _weight(oldest)
        if oldest.type not in DROPPABLE:
            self._first.append(oldest)
            self._first_bytes += _weight(oldest)
            return
        self._droppable -= 1
        stream, size = _stream(oldest), oldest.held_bytes + oldest.left_out
        before = self._first[-1] if self._first else None
        if isinstance(before, Dropped) and (_id(before.parent), before.stream) == (_id(oldest.parent), stream):
            self._first.pop()
            self._first_bytes -= MESSAGE_BYTES
            size += before.size
        self._first.append(Dropped(oldest.parent, stream, size))
        self._first_bytes += MESSAGE_BYTES

    def take(self) -> Received | Dropped:
        """The oldest of what is there, which there must be."""
        if not self._first:
            self._first, self._last = deque(self._last), deque()
            self._first_bytes, self._last_bytes = self._last_bytes, 0
            self._droppable = 0
        oldest = self._first.popleft()
        self._first_bytes -= MESSAGE_BYTES if isinstance(oldest, Dropped) else _weight(oldest)
        return oldest


def _weight(message: Received) -> int:
    return MESSAGE_BYTES + message.held_bytes


def _stream(message: Received) -> str:
    """The stream that it is of, told by the beginning of its content, which nobody has read."""
    if message.type != "stream":
        return ""
    return "stderr" if b'"stderr"' in message.head[:STREAM_NAME_BYTES] else "stdout"


def _id(parent: Mapping[str, object]) -> str:
    return text_of(parent, "msg_id")
