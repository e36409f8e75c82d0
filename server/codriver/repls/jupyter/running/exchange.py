"""One request of ours to a kernel, and what came of it.

A request is over by two signs on two sockets, which have no order: its reply, and the kernel's being idle again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.repls.jupyter.messages.channel import OnMessage
    from codriver.repls.jupyter.messages.messages import Message


class Exchange:
    """A request of ours and the signs of its end: its reply, and that the kernel is idle again, in any order."""

    __slots__ = ("ending", "heard", "id", "idle", "on_message", "replied", "reply")

    def __init__(self, on_message: OnMessage | None = None) -> None:
        """`on_message` is told of every message about it, its reply included."""
        self.id = ""
        self.on_message = on_message
        self.reply: Message | None = None
        self.heard = 0
        """Messages so far."""
        self.ending = anyio.Event()
        """The first of the two signs, whichever it is."""
        self.replied = anyio.Event()
        self.idle = anyio.Event()

    def take(self, message: Message) -> None:
        """A message about it."""
        self.heard += 1
        if self.on_message is not None:
            self.on_message(message)
        if message.socket in ("shell", "control"):
            self.reply = self.reply or message
            self.replied.set()
            self.ending.set()
        elif message.state == "idle":
            self.idle.set()
            self.ending.set()

    async def wait(self, sign: anyio.Event, silence_s: float, progress: Callable[[], int] = lambda: 0) -> bool:
        """Wait for one of its signs; False where it does not come, and nothing else about it for so long.

        While `progress` grows, something comes that is not whole yet.
        """
        while not sign.is_set():
            before = (self.heard, progress())
            with anyio.move_on_after(silence_s):
                await sign.wait()
            if before == (self.heard, progress()):
                break
        return sign.is_set()

    def end(self) -> None:
        """Wake who waits: nothing more will come."""
        self.ending.set()
        self.replied.set()
        self.idle.set()
