"""Detect MCP clients that mistakenly start `codriver serve` instead of `codriver-relay`.

`serve` speaks MCP only on its port, so such a client would wait forever for an answer on standard output.
"""

from __future__ import annotations

import _thread
import json
import os
import threading
from typing import TYPE_CHECKING, Final

from codriver.commands.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Callable

STDIN_FD: Final = 0
"""File descriptor of standard input."""
MAX_FIRST_LINE_BYTES: Final = 64 * 1024
"""Maximum length of the first line that is read. A client's first request has a few hundred bytes."""
CHUNK_BYTES: Final = 4096
"""Maximum number of bytes read from standard input at once."""
MISTAKEN_CLIENT_MESSAGE: Final = (
    "codriver: an MCP client started `codriver serve`, which does not speak MCP on standard input. Configure the "
    "client to start `codriver-relay --workspace auto --start` instead, or run `codriver init`"
)
MISTAKEN_CLIENT_STATUS: Final = 2
"""Exit status if an MCP client started `codriver serve`."""


class MistakenClientDetector:
    """Detects an MCP client that has started the server by mistake, by reading the first line of standard input.

    If the line is a JSON-RPC message, an error is printed and the server in the main thread is interrupted.
    """

    def __init__(self) -> None:
        self._client_seen = threading.Event()
        self._is_serving = False

    def start(self) -> None:
        """Start reading in a thread, unless standard input is a terminal or closed."""
        try:
            if os.isatty(STDIN_FD):
                return
            os.fstat(STDIN_FD)
        except OSError:
            return
        threading.Thread(target=self._run, name="standard input", daemon=True).start()

    def run_server(self, serve: Callable[[], int]) -> int:
        """Run the server and return its exit status, or `MISTAKEN_CLIENT_STATUS` if a client was detected."""
        self._is_serving = True  # imports are complete, so the other thread may interrupt this one
        if self._client_seen.is_set():
            return MISTAKEN_CLIENT_STATUS
        try:
            status = serve()
        except KeyboardInterrupt:
            if not self._client_seen.is_set():
                raise
            return MISTAKEN_CLIENT_STATUS
        return MISTAKEN_CLIENT_STATUS if self._client_seen.is_set() else status

    def _run(self) -> None:
        if not is_json_rpc(_read_first_line()):
            return
        echo(MISTAKEN_CLIENT_MESSAGE, err=True)
        self._client_seen.set()
        if self._is_serving:
            _thread.interrupt_main()


def is_json_rpc(line: bytes) -> bool:
    """Return whether a line is a JSON-RPC message or a batch of messages."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    first = found[0] if isinstance(found, list) and found else found
    return isinstance(first, dict) and "jsonrpc" in first


def _read_first_line() -> bytes:
    """Return the first line of standard input that is not blank.

    Blocks until it has been received.
    """
    line = b""
    while len(line) < MAX_FIRST_LINE_BYTES:
        try:
            chunk = os.read(STDIN_FD, CHUNK_BYTES)
        except OSError:
            break
        line = (line + chunk).lstrip()
        if not chunk or b"\n" in line:
            break
    return line.partition(b"\n")[0]
