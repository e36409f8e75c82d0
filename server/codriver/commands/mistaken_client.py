"""Recognition of MCP clients that start `codriver serve` by mistake, in place of `codriver-relay`.

`serve` speaks MCP at its port alone. A client that starts it waits for an answer on standard output for ever.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from codriver.commands.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    When that line is JSON-RPC, `is_client` becomes true, the message is printed, and the main thread is interrupted.
    """

    def __init__(self) -> None:
        self.is_client = False

    def start(self) -> None:
        """Start to read, unless standard input is a terminal or closed."""
        try:
            if os.isatty(STDIN):
                return
            os.fstat(STDIN)
        except OSError:
            return
        threading.Thread(target=self._run, name="standard input", daemon=True).start()

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """A context that ends the process with `EXIT_STATUS` if a client was recognised in it."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            if self.is_client:
                sys.exit(EXIT_STATUS)
            raise

    def _run(self) -> None:
        if not is_json_rpc(_first_line()):
            return
        self.is_client = True
        say(MESSAGE, err=True)
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
