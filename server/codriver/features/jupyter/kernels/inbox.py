"""A bounded queue of received messages, which drops some if a kernel sends too many at once.

Only output and displays are dropped, and they are counted by parent. The oldest and the newest of them remain. If other
messages alone exceed the bounds, `has_space` is false and the socket is not read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.wire.untrusted import text_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.signed_messages import ReceivedMessage


MAX_FLOOD_START_BYTES: Final = 4 * 2**20
"""Maximum size of the stored start of a flood."""
MAX_FLOOD_END_BYTES: Final = 8 * 2**20
"""Maximum size of the stored end of a flood. A single message may be larger."""
MESSAGE_OVERHEAD_BYTES: Final = 2048
"""Memory counted for a message in addition to its content: its header and parent as objects."""
STREAM_NAME_SEARCH_BYTES: Final = 64
"""Number of bytes at the start of the content to search for the name of a stream."""
DROPPABLE_TYPES: Final = frozenset(
    {"stream", "display_data", "update_display_data", "clear_output", "comm_msg", "comm_open"}
)
"""Types of messages that may be sent in any number and that nothing waits for."""


@dataclass(frozen=True, slots=True)
class DroppedMessages:
    """A placeholder in an inbox for dropped messages about the same request and stream."""

    parent: Mapping[str, object]
    stream: str
    """The stream to which all of the dropped messages belong. Empty for displays and similar messages."""
    size: int
    """Total size of the contents of the dropped messages in bytes."""


class Inbox:
    """A bounded queue of the messages received by one socket.

    If too many messages are queued, output messages in the middle are dropped. The oldest and the newest remain.
    """

    def __init__(self, max_first: int = MAX_FLOOD_START_BYTES, max_last: int = MAX_FLOOD_END_BYTES) -> None:
        self._max_first = max_first
        self._max_last = max_last
        self._first: deque[ReceivedMessage | DroppedMessages] = deque()
        self._last: deque[ReceivedMessage] = deque()
        self._first_bytes = self._last_bytes = 0
        self._droppable = 0
        """Number of droppable messages among the newest. One of them always remains, however large, because a flood may
        end in a single message.
        """

    def __len__(self) -> int:
        return len(self._first) + len(self._last)

    @property
    def has_space(self) -> bool:
        """Return whether the queued messages are within the size limit."""
        return self._first_bytes + self._last_bytes <= self._max_first + self._max_last

    @property
    def is_dropping(self) -> bool:
        """Return whether the oldest part of the queue is full, so that the next message may cause one to be dropped."""
        return self._first_bytes + self._last_bytes > self._max_first

    def put(self, message: ReceivedMessage) -> None:
        """Append a message. Drop messages in the middle of the queue if it is too large."""
        memory_bytes = _memory_bytes(message)
        if not self._last and self._first_bytes + memory_bytes <= self._max_first:
            self._first.append(message)
            self._first_bytes += memory_bytes
            return
        self._last.append(message)
        self._last_bytes += memory_bytes
        self._droppable += message.type in DROPPABLE_TYPES
        while self._last_bytes > self._max_last and self._may_move():
            self._move_oldest()

    def _may_move(self) -> bool:
        return len(self._last) > 1 and (self._droppable > 1 or self._last[0].type not in DROPPABLE_TYPES)

    def _move_oldest(self) -> None:
        """Move the oldest message of the newest part to the oldest part of the queue, or drop it if it is output."""
        oldest = self._last.popleft()
        self._last_bytes -= _memory_bytes(oldest)
        if oldest.type not in DROPPABLE_TYPES:
            self._first.append(oldest)
            self._first_bytes += _memory_bytes(oldest)
            return
        self._droppable -= 1
        stream, size = _stream_name(oldest), oldest.size_bytes + oldest.omitted_bytes
        previous = self._first[-1] if self._first else None
        if isinstance(previous, DroppedMessages) and (_message_id(previous.parent), previous.stream) == (
            _message_id(oldest.parent),
            stream,
        ):
            self._first.pop()
            self._first_bytes -= MESSAGE_OVERHEAD_BYTES
            size += previous.size
        self._first.append(DroppedMessages(oldest.parent, stream, size))
        self._first_bytes += MESSAGE_OVERHEAD_BYTES

    def pop(self) -> ReceivedMessage | DroppedMessages:
        """Remove and return the oldest item. The inbox must not be empty."""
        if not self._first:
            self._first, self._last = deque(self._last), deque()
            self._first_bytes, self._last_bytes = self._last_bytes, 0
            self._droppable = 0
        oldest = self._first.popleft()
        self._first_bytes -= MESSAGE_OVERHEAD_BYTES if isinstance(oldest, DroppedMessages) else _memory_bytes(oldest)
        return oldest


def _memory_bytes(message: ReceivedMessage) -> int:
    return MESSAGE_OVERHEAD_BYTES + message.size_bytes


def _stream_name(message: ReceivedMessage) -> str:
    """Return the stream that a message prints to, found at the start of its unparsed content."""
    if message.type != "stream":
        return ""
    return "stderr" if b'"stderr"' in message.content_start(STREAM_NAME_SEARCH_BYTES) else "stdout"


def _message_id(parent: Mapping[str, object]) -> str:
    return text_at(parent, "msg_id")
