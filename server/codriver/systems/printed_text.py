"""Printed text: UTF-8 wherever it goes, but for a console, which knows by itself what it can show."""

from __future__ import annotations

import io
import sys


def write_utf8() -> None:
    """Have what is printed into pipes and files be UTF-8, where the system would take an older code page."""
    if sys.platform == "win32":
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
                stream.reconfigure(encoding="utf-8")
