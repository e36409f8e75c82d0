"""The inbox of a socket: a bounded queue of messages that drops the middle of a flood.

Only output and displays are dropped, and counted by their parent. The oldest and the newest of them remain. If other
messages alone exceed the bounds, `has_space` is false and the socket is not read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.wire.untrusted import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.signed_messages import Received


MAX_FIRST_BYTES: Final = 4 * 2**20
MAX_LAST_BYTES: Final = 8 * 2**20
"""The bytes of a flood held at its beginning and at its end; a single message may be longer."""
MESSAGE_BYTES: Final = 2048
"""The bytes counted for a message beside its content: its header and parent as objects."""
STREAM_NAME_BYTES: Final = 64
DROPPABLE: Final = frozenset({"stream", "display_data", "update_display_data", "clear_output", "comm_msg", "comm_open"})
"""Types of messages that come in any number, and that nobody waits for."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A mark in the place of dropped messages about one parent, with their size."""

    parent: Mapping[str, object]
    stream: str
    """The stream of all of them; empty for displays and the like."""
    size: int
    """Bytes of their contents."""


class Inbox:
    """The waiting messages of one socket, for its life."""

    def __init__(self, most_first: int = MAX_FIRST_BYTES, most_last: int = MAX_LAST_BYTES) -> None:
        self._most_first = most_first
        self._most_last = most_last
        self._first: deque[Received | Dropped] = deque()
        self._last: deque[Received] = deque()
        self._first_bytes = self._last_bytes = 0
        self._droppable = 0
        """The number of newest messages that may be dropped. One of them stays, however long: a flood may end in one
        message.
        """

    def __len__(self) -> int:
        return len(self._first) + len(self._last)

    @property
    def has_space(self) -> bool:
        """Return true if another message may be put in without exceeding the bounds."""
        return self._first_bytes + self._last_bytes <= self._most_first + self._most_last

    @property
    def is_started(self) -> bool:
        """Return true if so much waits that the next message may push another out."""
        return self._first_bytes + self._last_bytes > self._most_first

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
        """Take the oldest of the newest messages out: drop it if droppable, and count it."""
        oldest = self._last.popleft()
        self._last_bytes -= _weight(oldest)
        if oldest.type not in DROPPABLE:
            self._first.append(oldest)
            self._first_bytes += _weight(oldest)
            return
        self._droppable -= 1
        stream, size = _stream(oldest), oldest.size_bytes + oldest.left_out
        before = self._first[-1] if self._first else None
        if isinstance(before, Dropped) and (_id(before.parent), before.stream) == (_id(oldest.parent), stream):
            self._first.pop()
            self._first_bytes -= MESSAGE_BYTES
            size += before.size
        self._first.append(Dropped(oldest.parent, stream, size))
        self._first_bytes += MESSAGE_BYTES

    def receive_next(self) -> Received | Dropped:
        """Return the oldest message; the inbox must not be empty."""
        if not self._first:
            self._first, self._last = deque(self._last), deque()
            self._first_bytes, self._last_bytes = self._last_bytes, 0
            self._droppable = 0
        oldest = self._first.popleft()
        self._first_bytes -= MESSAGE_BYTES if isinstance(oldest, Dropped) else _weight(oldest)
        return oldest


def _weight(message: Received) -> int:
    return MESSAGE_BYTES + message.size_bytes


def _stream(message: Received) -> str:
    """Return the stream of a message, told by the beginning of its unread content."""
    if message.type != "stream":
        return ""
    return "stderr" if b'"stderr"' in message.begins(STREAM_NAME_BYTES) else "stdout"


def _id(parent: Mapping[str, object]) -> str:
    return text_of(parent, "msg_id")
