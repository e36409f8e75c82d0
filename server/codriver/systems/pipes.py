"""The standard streams and pipes of a process."""

from __future__ import annotations

import io
import os
import sys


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
