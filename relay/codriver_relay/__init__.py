"""The stdio relay, which MCP clients start to reach a running Codriver server.

::

    MCP client ──stdin, stdout──> relay ──TCP, one JSON-RPC message per line──> codriver serve

It forwards complete lines unchanged, and reconnects if the server is restarted. `main_loop` contains the main loop.
Each module may import only from those before it::

    durations  messages  streams  safe_files  peer  server_verification  connection  main_loop  command_line

`starter`, `stored_answers`, `roots` and `windows` are imported only when they are needed. `hook` is the program for
clients' hooks, which needs only the modules up to `server_verification`.

Clients wait for the relay to start, so it uses only standard-library modules that are cheap to import. That is why it
uses `_socket`, and no dataclasses, typing, pathlib, argparse or threading. `json` and `subprocess` are imported on
demand. It imports nothing from the server, because it is copied to a stable directory that does not contain the server.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the relay and return its exit status. `arguments` default to `sys.argv[1:]`."""
    from codriver_relay import command_line  # parts of the relay are used without the rest

    return command_line.main(arguments)
