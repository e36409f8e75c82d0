"""Terminals, pipes and signals to stop: a terminal's answers by keys, text as UTF-8, ends of a pipe, Ctrl-C.

Ends of a pipe never wait. Signals arrive in the way that each system's event loop supports.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


if sys.platform == "win32":

    def unechoed(_keys: int) -> contextlib.AbstractContextManager[None]:
        """Refuse: consoles answer no questions here. Raises OSError."""
        raise OSError("a console of Windows is no terminal that answers")

else:

    @contextlib.contextmanager
    def unechoed(keys: int) -> Iterator[None]:
        """Have keys read as they come and not shown, for as long as the context lasts.

        Raises:
            OSError: this is no terminal.
        """
        try:
            import termios  # noqa: PLC0415  # some builds of Python lack it
            import tty  # noqa: PLC0415  # as above
        except ImportError as error:
            raise OSError("this Python knows no terminals") from error
        try:
            before = termios.tcgetattr(keys)
        except termios.error as error:
            raise OSError(*error.args) from error
        try:
            tty.setcbreak(keys, termios.TCSANOW)
            yield
        finally:
            termios.tcsetattr(keys, termios.TCSANOW, before)


def write_utf8() -> None:
    """Have printed text be UTF-8 in pipes and files, on systems that would take an older code page."""
    if sys.platform == "win32":
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
                stream.reconfigure(encoding="utf-8")


def never_block(end: int) -> None:
    """Have reads from and writes to this end of a pipe fail in place of waiting. On Windows they go on waiting."""
    if sys.platform != "win32":
        os.set_blocking(end, False)  # the standard library takes it by position only


async def heed(tell: Callable[[str], None]) -> None:
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

        for wanted in (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK):
            signal.signal(wanted, note)
        with send, receive:
            async for number in receive:
                tell(signal.Signals(number).name)
    else:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                tell(signal.Signals(number).name)
