"""The number of messages that a kernel dropped, computed from the numbers in message ids.

A kernel silently drops messages for a slow reader. Kernels that use jupyter_client number their messages, including
replies to other clients. For other kernels, losses are not detected.

Source: jupyter_client, `Session.msg_id`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent
from codriver.wire.untrusted import text_of

if TYPE_CHECKING:
    from codriver.features.jupyter.kernels.signed_messages import Received

MAX_SERIES: Final = 64
"""The number series of a kernel, and of processes that it forks."""
MAX_DIGITS: Final = 18
MAX_OF_OTHERS: Final = 50
"""Of the messages between two `idle`s of the kernel, so many may be replies to other clients. When a kernel publishes
too fast, hundreds of messages are dropped at once.
"""
IDLE: Final = b'"idle"'
STATUS_BYTES: Final = 1024


class Numbers:
    """The lost messages of one kernel, told by the numbers in message ids. Lives as long as a connection.

    A kernel silently drops messages for a slow reader. Kernels that use jupyter_client number their messages, including
    replies to other clients; without numbers, no loss is known.

    Source: jupyter_client, `Session.msg_id`.
    """

    def __init__(self) -> None:
        self.lost = 0
        """The messages lost so far, counted whenever the kernel is idle."""
        self._counted: Recent[str, _Counted] = Recent(MAX_SERIES)

    def received(self, message: Received) -> None:
        """Count a signed message of any socket."""
        series, _, number = text_of(message.header, "msg_id").rpartition("_")
        if not series or not number.isdecimal() or len(number) > MAX_DIGITS:
            return
        counted, numbered = self._counted.get(series), int(number)
        if counted is None:
            counted = self._counted[series] = _Counted(numbered)
        elif numbered > counted.since:
            counted.received += 1
            counted.newest = max(counted.newest, numbered)
        if message.type == "status" and IDLE in message.begins(STATUS_BYTES):
            missing = counted.newest - counted.since - counted.received
            self.lost += missing if missing > MAX_OF_OTHERS else 0
            counted.since, counted.received = counted.newest, 0


@dataclass(slots=True)
class _Counted:
    """The messages of one series since the kernel's last `idle`."""

    since: int
    newest: int = 0
    received: int = 0

    def __post_init__(self) -> None:
        self.newest = self.since
