"""Receive SIGINT, SIGTERM and, on Windows, SIGBREAK in an event loop."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable


async def watch_termination_signals(notify: Callable[[str], None]) -> None:
    """Call `notify` with the name of each termination signal until cancelled.

    Returns immediately outside of the main thread, because only the main thread can receive signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if sys.platform == "win32":  # its event loops do not support signals
        loop = asyncio.get_running_loop()
        send, receive = anyio.create_memory_object_stream[int](8)

        def note(number: int, _frame: object) -> None:
            loop.call_soon_threadsafe(send.send_nowait, number)

        for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK):
            signal.signal(signal_number, note)
        with send, receive:
            async for number in receive:
                notify(signal.Signals(number).name)
    else:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                notify(signal.Signals(number).name)
