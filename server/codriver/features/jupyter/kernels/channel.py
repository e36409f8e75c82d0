"""The interface of a channel, which is a connection to one kernel.

* **Order.** `on_message` is called on the event loop. The messages of each socket are in order, but messages from
  different sockets are not.
* **Draining.** A channel always reads, even if nobody is waiting for a message.
* **At most once.** A posted message is sent once. Nothing is sent again after a lost connection.
* **Closing.** A closed channel stays closed, and `wait_closed` returns the cause. Exiting the context that opened a
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
"""Called on the event loop with each message. It has to return quickly and must not raise."""
CatchUp = Callable[[], Awaitable[None]]
"""Waits until earlier messages are stored, if they are received faster than they can be stored."""


class Channel(Protocol):
    """A connection to one kernel over a transport, such as ZeroMQ or a WebSocket.

    By default, a channel can neither interrupt nor restart the kernel.
    """

    @property
    def session(self) -> str:
        """Return the session id in the headers of Codriver's messages."""
        ...

    @property
    def address(self) -> str:
        """Return the kernel's address for display: the path of its connection file, or its URL without a token."""
        ...

    @property
    def is_local(self) -> bool:
        """Return whether the kernel runs on this machine."""
        return False

    @property
    def process_id(self) -> int | None:
        """Return the process id of the kernel, or None if the kernel is not on this machine or the id is unknown."""
        return None

    @property
    def received_bytes(self) -> int:
        """Return the number of bytes received so far, or 0 if the transport does not count them.

        Bytes of incomplete messages are included, so a growing number means that a long message is arriving.
        """
        return 0

    @property
    def has_undelivered_messages(self) -> bool:
        """Return whether a received message has not been parsed and delivered yet.

        Parsing a long message can take seconds.
        """
        return False

    @property
    def notebook(self) -> str | None:
        """Return the absolute path of the kernel's notebook, or None if it is not known."""
        return None

    @property
    def lost_messages(self) -> int:
        """Return the number of messages from the kernel that are known to be lost."""
        return 0

    @property
    def can_interrupt(self) -> bool:
        """Return whether `interrupt` is supported."""
        return False

    @property
    def can_restart(self) -> bool:
        """Return whether `restart` is supported."""
        return False

    def post(
        self,
        socket: Socket,
        msg_type: str,
        content: Mapping[str, object],
        *,
        metadata: Mapping[str, object] | None = None,
        subshell: str | None = None,
    ) -> str:
        """Queue a message for sending, and return its message id.

        Raises:
            ReplDisconnectedError: the channel is closed.
        """
        ...

    async def wait_closed(self) -> str:
        """Wait until the channel is closed, and return the cause. Never raises."""
        ...

    async def silence_reason(self) -> str:
        """Return the likely reason why the kernel does not answer. Never raises."""
        return "the kernel did not answer"

    async def interrupt(self) -> bool:
        """Interrupt the kernel in the way that the transport supports, such as a signal. Return whether it worked."""
        return False

    async def restart(self) -> None:
        """Restart the kernel in the way that the transport supports.

        Raises:
            CapabilityMissingError: the transport cannot restart kernels.
        """
        raise CapabilityMissingError("restart")


Carrier = Callable[[OnMessage], "AbstractAsyncContextManager[Channel]"]
"""Opens a channel to one kernel. The caller must exit the context to close the channel.

Raises:
    ReplUnreachableError: nothing listens at the kernel's address.
    NotAReplError: the listener is not a kernel.
    PackageMissingError: a required package is not installed.
"""
