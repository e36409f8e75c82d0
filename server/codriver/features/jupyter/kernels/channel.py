"""The contract of a channel, a connection to one kernel over any transport.

* **Order.** `on_message` is called on the event loop, in the order of each socket. Messages of different sockets have
  no order.
* **Draining.** A channel always reads, even if nobody waits for a message.
* **At most once.** A posted message is sent once. Nothing is sent again after a connection was lost.
* **Closing.** A closed channel stays closed, and `wait_closed` returns the cause. Leaving the context that opened a
  channel closes it. The kernel continues to run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from codriver.repls.contract.adapter import CapabilityMissingError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from codriver.features.jupyter.kernels.messages import Message, Socket


OnMessage = Callable[["Message"], None]
"""Called on the event loop with each message. It must return quickly and not raise."""
CatchUp = Callable[[], Awaitable[None]]
"""Waits until earlier messages are kept, if they come faster than they are kept."""


class Channel(Protocol):
    """One connection to one kernel. A subclass need not have its own interrupt and restart."""

    @property
    def session(self) -> str:
        """Our session id, in the headers of our messages."""
        ...

    @property
    def address(self) -> str:
        """Return the kernel's place, for people: the path of its connection file, or its URL without a token."""
        ...

    @property
    def is_local(self) -> bool:
        """Return whether the kernel runs on this machine."""
        return False

    @property
    def process_id(self) -> int | None:
        """Return the kernel's process on this machine, if the carrier knows it."""
        return None

    @property
    def received_bytes(self) -> int:
        """A number that grows while bytes come, also in the middle of a message, if the carrier counts them."""
        return 0

    @property
    def notebook(self) -> str | None:
        """Return the absolute path of the kernel's notebook, if the carrier knows it."""
        return None

    @property
    def lost_messages(self) -> int:
        """Return the number of lost messages of the kernel so far, as far as known."""
        return 0

    @property
    def can_interrupt(self) -> bool:
        """Return whether the carrier has its own way to interrupt the kernel."""
        return False

    @property
    def can_restart(self) -> bool:
        """Return whether the carrier has its own way to restart the kernel."""
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
            ReplDisconnectedError: the channel has finished.
        """
        ...

    async def wait_closed(self) -> str:
        """Wait until the channel is over and give the cause in words. Never raises; after the end at once."""
        ...

    async def silence(self) -> str:
        """Return the likely reason in words for a kernel's silence, as far as the carrier can tell. Never raises."""
        return "it answered nothing"

    async def interrupt(self) -> bool:
        """Interrupt the kernel in the way of the carrier; whether that worked. Else a control message may do it."""
        return False

    async def restart(self) -> None:
        """Restart the kernel in the carrier's own way.

        Raises:
            CapabilityMissingError: the carrier has no such way.
        """
        raise CapabilityMissingError("restart")


Carrier = Callable[[OnMessage], "AbstractAsyncContextManager[Channel]"]
"""How to open a channel to one kernel. The opener leaves the context.

Raises:
    ReplUnreachableError: nobody listens there.
    NotAnReplError: the listener is no kernel.
    PackageMissingError: a needed package is not installed.
"""
