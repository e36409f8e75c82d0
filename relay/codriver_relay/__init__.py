"""The stdio relay: what an MCP client starts to reach a running Codriver server.

::

    MCP client ──stdin, stdout──> relay ──TCP, one JSON-RPC message a line──> codriver serve

It passes whole lines on, untouched, and survives the server: `reconnect` has the loop and the two sides. The modules
are one straight line::

    durations  messages  streams  own_files  peer  target  connection  reconnect  command_line

Imported where they are needed alone: `starter`, `kept_lists`, `roots`, and `windows`. `hook` is the program of
clients' hooks, a line of its own from `target` on.

Clients wait for a relay to start, so all of it keeps to modules of the standard library that cost nothing to import
(hence `_socket`, and no dataclasses, typing, pathlib, argparse or threading), and imports `json` and `subprocess` only
where they are needed. It imports nothing of the server, as it is copied to a stable place, beside which there is none.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the relay; the exit status. Given `arguments` are those behind the command's name."""
    from codriver_relay import command_line  # whoever needs one part of the relay loads no other

    return command_line.main(arguments)
