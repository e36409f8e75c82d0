"""Terminals that a program asks, and that answer by their keys."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
