"""Recognition of MCP clients that start `codriver serve` by mistake, in place of `codriver-relay`.

`serve` speaks MCP at its port alone. A client that starts it waits for an answer on standard output for ever.
"""

from __future__ import annotations

import _thread
import json
import os
import threading
from typing import TYPE_CHECKING, Final

from codriver.commands.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable

STDIN: Final = 0
LINE_BYTES: Final = 64 * 1024
"""Maximum length of the first line that is read. The first request of a client has a few hundred bytes."""
CHUNK_BYTES: Final = 4096
MESSAGE: Final = (
    "codriver: `codriver serve` is the server and speaks no MCP on standard input, where a client sends it now: let it "
    "start `codriver-relay --workspace auto --start`, or have `codriver init` write its entry"
)
EXIT_STATUS: Final = 2


class ClientWatch:
    """A thread that reads the first line of standard input. Lives as long as the process.

    When that line is JSON-RPC, the message is printed, and a server that runs in the main thread is interrupted.
    """

    def __init__(self) -> None:
        self._client_seen = threading.Event()
        self._is_serving = False

    def start(self) -> None:
        """Start to read, unless standard input is a terminal or closed."""
        try:
            if os.isatty(STDIN):
                return
            os.fstat(STDIN)
        except OSError:
            return
        threading.Thread(target=self._run, name="standard input", daemon=True).start()

    def status_of(self, serve: Callable[[], int]) -> int:
        """Serve, and return the exit status: that of the server, or `EXIT_STATUS` once a client was recognised."""
        self._is_serving = True  # from now on the other thread interrupts this one, which imports nothing any more
        if self._client_seen.is_set():
            return EXIT_STATUS
        try:
            status = serve()
        except KeyboardInterrupt:
            if not self._client_seen.is_set():
                raise
            return EXIT_STATUS
        return EXIT_STATUS if self._client_seen.is_set() else status

    def _run(self) -> None:
        if not is_json_rpc(_first_line()):
            return
        say(MESSAGE, err=True)
        self._client_seen.set()
        if self._is_serving:
            _thread.interrupt_main()


def is_json_rpc(line: bytes) -> bool:
    """Return whether a line is a message of JSON-RPC, or a batch of them."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    first = found[0] if isinstance(found, list) and found else found
    return isinstance(first, dict) and "jsonrpc" in first


def _first_line() -> bytes:
    """Read standard input up to the end of its first line that is not blank. Blocks."""
    line = b""
    while len(line) < LINE_BYTES:
        try:
            chunk = os.read(STDIN, CHUNK_BYTES)
        except OSError:
            break
        line = (line + chunk).lstrip()
        if not chunk or b"\n" in line:
            break
    return line.partition(b"\n")[0]
