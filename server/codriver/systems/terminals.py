"""Terminals, pipes and signals to stop: text as UTF-8, ends of a pipe, Ctrl-C.

Ends of a pipe never wait. Signals arrive in the way that each system's event loop supports.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def write_utf8() -> None:
    """Have printed text be UTF-8 in pipes and files, on systems that would take an older code page."""
    if sys.platform == "win32":
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
                stream.reconfigure(encoding="utf-8")


def never_block(end: int) -> None:
    """Have reads from and writes to this end of a pipe fail in place of waiting. On Windows they continue waiting."""
    if sys.platform != "win32":
        os.set_blocking(end, False)  # the standard library takes it by position only


async def heed(notify: Callable[[str], None]) -> None:
    """Tell the name of each signal that asks for the end, until cancelled. Signals come to the main thread alone."""
    import asyncio  # noqa: PLC0415  # no command but the server has an event loop
    import signal  # noqa: PLC0415  # as above
    import threading  # noqa: PLC0415  # as above

    import anyio  # noqa: PLC0415  # as above

    if threading.current_thread() is not threading.main_thread():
        return
    if sys.platform == "win32":  # its event loops take no signals
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
