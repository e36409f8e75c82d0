"""The listener at the port of a REPL that a file led to: checked over each connection, before a byte is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from codriver.net.found_ports import objection_to
from codriver.repls.contract.errors import StrangeListenerError

if TYPE_CHECKING:
    import socket

    from codriver.repls.contract.adapter_values import Endpoint


async def check_listener(connection: socket.socket, endpoint: Endpoint) -> None:
    """Make sure that a connection leads to a process of this user's, where a file led to its endpoint.

    Raises:
        StrangeListenerError: it leads to somebody else's, or nobody can tell.
    """
    file = endpoint.found_by
    if file is None:
        return
    if why := await anyio.to_thread.run_sync(objection_to, connection, file):
        raise StrangeListenerError(endpoint, file, why, way=f"--nrepl {endpoint}, or nrepl in your own settings")
