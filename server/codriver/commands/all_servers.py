"""List all servers of a user, for `codriver status --all`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from codriver.commands.terminal import convert_field_errors, echo, echo_json
from codriver.log.control_characters import escape_to_one_line

if TYPE_CHECKING:
    from collections.abc import Mapping


NO_SERVER_STATUS = 3
"""The exit status if no server is running."""
CLIENT_NAME = "codriver-status"
"""Name with which the command connects to each server."""


def show_all_servers(*, as_json: bool) -> None:
    """Print the state of all servers of this user, and exit.

    Servers that have died are listed, too.
    """
    from codriver.net.known_servers import query_all_servers  # noqa: PLC0415  # only for this list

    known = query_all_servers(CLIENT_NAME)
    servers = [server.health for server in known if server.health is not None]
    gone = [server for server in known if server.health is None]
    if as_json:
        left_out = [{"workspace": str(server.workspace), "message": server.why} for server in gone]
        echo_json({"ok": bool(servers), "servers": servers, "count": len(servers), "leftOut": left_out}, indent=2)
    else:
        with convert_field_errors("server_health"):
            lines = [server_line(health) for health in servers]
        for line in lines or ["no codriver server of yours is running"]:
            echo(escape_to_one_line(line))
        for server in gone:
            echo(escape_to_one_line(f"left out: {server.workspace}: {server.why}"), err=True)
    sys.exit(0 if servers else NO_SERVER_STATUS)


def server_line(health: Mapping[str, Any]) -> str:
    """Describe a server in one line: its workspace, port, REPLs, clients and uptime."""
    repls = [_repl(repl) for repl in health["repls"]]
    names = [str(client["name"]) or "not introduced" for client in health["clients"] if client["name"] != CLIENT_NAME]
    words = [
        f"port {health['port']}",
        f"REPLs: {', '.join(repls) or 'none'}",
        f"clients: {', '.join(names) or 'none'}",
        f"up {_length(int(health['uptimeS']))}",
        f"pid {health['pid']}",
    ]
    return f"{health['workspace']}  {'; '.join(words)}"


def _repl(repl: Mapping[str, Any]) -> str:
    return str(repl["key"]) if repl["phase"] == "connected" else f"{repl['key']} ({repl['phase']})"


def _length(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
