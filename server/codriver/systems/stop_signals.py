"""The signals by which a server is told to stop, as the event loop of each system takes them."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable


async def heed(tell: Callable[[str], None]) -> None:
    """Tell the name of each signal that asks for the end, until cancelled. On the main thread."""
    if sys.platform == "win32":  # whose event loops take no signals
        loop = asyncio.get_running_loop()
        send, receive = anyio.create_memory_object_stream[int](8)

        def note(number: int, _frame: object) -> None:
            loop.call_soon_threadsafe(send.send_nowait, number)

        for wanted in (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK):
            signal.signal(wanted, note)
        with send, receive:
            async for number in receive:
                tell(signal.Signals(number).name)
    else:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                tell(signal.Signals(number).name)
