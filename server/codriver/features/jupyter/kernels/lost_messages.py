"""Count the messages that a kernel has dropped, using the numbers in message ids.

A kernel silently drops messages for a slow reader. Kernels that use jupyter_client number their messages, including
replies to other clients. In other kernels, losses are not detected.

Source: jupyter_client, `Session.msg_id`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent
from codriver.wire.untrusted import text_at

if TYPE_CHECKING:
    from codriver.features.jupyter.kernels.signed_messages import ReceivedMessage

MAX_SERIES: Final = 64
"""Maximum number of series of message numbers from a kernel and the processes that it forks."""
MAX_NUMBER_DIGITS: Final = 18
"""Maximum number of digits in a message number."""
MAX_FOREIGN_REPLIES: Final = 50
"""Maximum number of missing messages between two `idle` states that do not count as lost.

They may be replies to other clients. A kernel that publishes too quickly drops hundreds of messages at once.
"""
IDLE_STATE: Final = b'"idle"'
STATUS_SEARCH_BYTES: Final = 1024
"""Number of bytes at the start of the content to search for the execution state."""


class LostMessageCounter:
    """Counts the messages that were lost on one connection to a kernel.

    Message ids contain consecutive numbers, so missing numbers indicate lost messages.
    """

    def __init__(self) -> None:
        self.lost = 0
        """Number of messages lost so far, updated whenever the kernel becomes idle."""
        self._series_by_prefix: Recent[str, _Series] = Recent(MAX_SERIES)

    def add(self, message: ReceivedMessage) -> None:
        """Process a signed message received on any socket."""
        prefix, _, number = text_at(message.header, "msg_id").rpartition("_")
        if not prefix or not number.isdecimal() or len(number) > MAX_NUMBER_DIGITS:
            return
        series, message_number = self._series_by_prefix.get(prefix), int(number)
        if series is None:
            series = self._series_by_prefix[prefix] = _Series(message_number)
        elif message_number > series.last_counted:
            series.received += 1
            series.newest = max(series.newest, message_number)
        if message.type == "status" and IDLE_STATE in message.content_start(STATUS_SEARCH_BYTES):
            missing = series.newest - series.last_counted - series.received
            self.lost += missing if missing > MAX_FOREIGN_REPLIES else 0
            series.last_counted, series.received = series.newest, 0


@dataclass(slots=True)
class _Series:
    """The messages whose ids share a prefix, received since the kernel was last idle."""

    last_counted: int
    newest: int = 0
    received: int = 0

    def __post_init__(self) -> None:
        self.newest = self.last_counted
