"""The event file that a test process writes and the server reads, with one line of JSON per event.

The file is not kept open, because tests may close or count descriptors, or pass them to a child. Functions are saved at
the start of the process, because a test may replace them. `json` is not imported, because the runner may not import it.
"""

from __future__ import annotations

import os
from _json import encode_basestring_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_open, _write, _close, _getpid = os.open, os.write, os.close, os.getpid
OPEN_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening the event file."""


def encode_json(value: Any) -> str:
    """Encode a plain value as JSON. Objects of other types are encoded as the name of their type."""
    kind = type(value)
    if kind is str:
        return encode_basestring_ascii(value)
    if value is None or value is True or value is False:
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if kind is float:
        return repr(value) if value - value == 0 else "null"
    if kind is dict:
        return "{" + ",".join([encode_json(str(key)) + ":" + encode_json(item) for key, item in value.items()]) + "}"
    if kind is list or kind is tuple:
        return "[" + ",".join([encode_json(item) for item in value]) + "]"
    if isinstance(value, str):
        return encode_basestring_ascii(str.__str__(value))
    return encode_basestring_ascii(kind.__name__)


class EventFile:
    """Appends events to a file. Forked copies of the process write nothing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pid = _getpid()
        self._lines: list[str] = []

    def add(self, event: str, **fields: Any) -> None:
        """Add an event. It is written together with the next event that is flushed."""
        self.add_encoded(encode_json(dict(fields, event=event)))

    def add_encoded(self, text: str) -> None:
        """Add an event that is already encoded as JSON, which is faster for the many events about passed tests."""
        self._lines.append(text + "\n")

    def write(self, event: str, **fields: Any) -> None:
        """Add an event, and write all events that have not been written."""
        self.add(event, **fields)
        self.flush()

    def flush(self) -> None:
        """Write the added events. They are retained if the file cannot be opened."""
        if _getpid() != self._pid:
            self._lines = []
        if not self._lines:
            return
        data = "".join(self._lines).encode()
        try:
            file = _open(self._path, OPEN_FLAGS, 0o600)
        except OSError:
            return
        self._lines = []
        try:
            while data:
                data = data[_write(file, data) :]
        finally:
            _close(file)
