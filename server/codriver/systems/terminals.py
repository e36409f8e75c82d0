"""Terminals, pipes and termination signals on all operating systems."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def use_utf8_output() -> None:
    """On Windows, encode output to pipes and files as UTF-8 instead of an older code page."""
    if sys.platform == "win32":
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
                stream.reconfigure(encoding="utf-8")


def make_nonblocking(end: int) -> None:
    """Make reads and writes at one end of a pipe fail instead of blocking. On Windows, they still block."""
    if sys.platform != "win32":
        os.set_blocking(end, False)  # a positional-only parameter


async def watch_termination_signals(notify: Callable[[str], None]) -> None:
    """Call `notify` with the name of each termination signal until cancelled.

    Returns immediately outside of the main thread, because only the main thread can receive signals.
    """
    import asyncio  # noqa: PLC0415  # only the server has an event loop
    import signal  # noqa: PLC0415  # as above
    import threading  # noqa: PLC0415  # as above

    import anyio  # noqa: PLC0415  # as above

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
