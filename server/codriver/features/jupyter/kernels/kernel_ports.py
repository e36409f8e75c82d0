"""Choose the ports of a kernel that is about to be started.

A kernel may take seconds to bind its ports, and some kernels continue without a port that is in use by then. So the
ports are lower than those that the system assigns to outgoing connections, which could take a free port at any time.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

PORT_NAMES: Final = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
"""The ports in a connection file. Source: Jupyter messaging protocol, "Connection files"."""
MIN_PORT: Final = 20_000
"""The lowest port that is chosen for a kernel. Many well-known services use lower ones."""
EPHEMERAL_PORTS_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The file with the range of ports that Linux assigns to outgoing connections. Source: ip(7)."""
FIRST_EPHEMERAL_PORT: Final = 49_152
"""The first port that other systems assign to outgoing connections. Source: RFC 6335, section 6."""
MAX_PORT_ATTEMPTS: Final = 100
"""Maximum number of ports that are tried for a kernel."""


def choose_ports() -> dict[str, int]:
    """Return a free port for each of a kernel's sockets, by its name in the connection file.

    If not enough of the tried ports are free, the result is empty, and `jupyter_client` has to choose the ports.
    """
    candidates = range(MIN_PORT, _first_ephemeral_port())
    chosen: list[int] = []
    with contextlib.ExitStack() as sockets:
        for port in random.sample(candidates, min(MAX_PORT_ATTEMPTS, len(candidates))):
            bound = sockets.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                bound.bind(("127.0.0.1", port))
                chosen.append(port)
            if len(chosen) == len(PORT_NAMES):
                return dict(zip(PORT_NAMES, chosen, strict=True))
    return {}


def _first_ephemeral_port() -> int:
    """Return the lowest port that the system assigns to outgoing connections."""
    try:
        return int(EPHEMERAL_PORTS_FILE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return FIRST_EPHEMERAL_PORT
