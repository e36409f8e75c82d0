"""The contract of a channel: one connection to one kernel, whatever carries its messages.

* **Order.** Messages reach `on_message` on the event loop, in the order of each socket; between sockets there is none.
* **Draining.** A channel always reads, also when nobody waits.
* **Never twice.** What was posted is sent once. After a lost connection nothing is sent again.
* **The end.** A channel that is over stays over; `wait_closed` gives the cause. Leaving the context that opened it
  closes it, and leaves the kernel alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from codriver.repls.contract.errors import CapabilityMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from codriver.repls.jupyter.messages.messages import Message, Socket

OnMessage = Callable[["Message"], None]
"""Called on the event loop with each message. It must return quickly and not raise."""


class Channel(Protocol):
    """One connection to one kernel. A class that derives from it need not have its own interrupt and restart."""

    @property
    def session(self) -> str:
        """Our session id, in the headers of what we send."""
        ...

    @property
    def place(self) -> str:
        """The kernel's place, for people: the path of its connection file, or its URL without a token."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether the kernel runs on this machine."""
        return False

    @property
    def process_id(self) -> int | None:
        """The kernel's process on this machine, where the carrier knows it."""
        return None

    @property
    def received_bytes(self) -> int:
        """A number that grows while anything comes, also in the middle of a message, where the carrier knows it."""
        return 0

    @property
    def notebook(self) -> str | None:
        """The absolute path of the notebook whose kernel it is, where the carrier knows it."""
        return None

    @property
    def can_interrupt(self) -> bool:
        """Whether the carrier has its own way to interrupt the kernel."""
        return False

    @property
    def can_restart(self) -> bool:
        """Whether the carrier has its own way to restart the kernel."""
        return False

    def post(
        self,
        socket: Socket,
        type: str,  # noqa: A002  # the protocol's word
        content: Mapping[str, object],
        *,
        metadata: Mapping[str, object] | None = None,
        subshell: str | None = None,
    ) -> str:
        """Put a message in order to be sent, at once; its id.

        Raises:
            ReplDisconnectedError: the channel is over.
        """
        ...

    async def wait_closed(self) -> str:
        """Wait until the channel is over and give the cause in words. Never raises; after the end at once."""
        ...

    async def silence(self) -> str:
        """Why the kernel may have answered nothing, in words, as far as the carrier can tell. Never raises."""
        return "it answered nothing"

    async def interrupt(self) -> bool:
        """Interrupt the kernel in the way of the carrier; whether it could. Else a control message may do it."""
        return False

    async def restart(self) -> None:
        """Restart the kernel in the carrier's own way.

        Raises:
            CapabilityMissingError: it has none.
        """
        raise CapabilityMissingError("restart")


Carrier = Callable[[OnMessage], "AbstractAsyncContextManager[Channel]"]
"""How to open a channel to one kernel. The context is left by whoever opened it.

Raises:
    ReplUnreachableError: nobody listens there.
    NotAnReplError: what listens there is no kernel.
    PackageMissingError: what it needs is not installed.
"""
