"""Loopback listeners that other programs cannot replace: on 127.0.0.1 and [::1], with the same port.

A browser tries both addresses of a name below `localhost`. If a server used only one of them, any user of the machine
could listen on the other one.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from itertools import repeat
from typing import TYPE_CHECKING, Final

from anyio.abc import SocketListener

from codriver.errors import StartError
from codriver.net.listening_sockets import PatientListener

if TYPE_CHECKING:
    from collections.abc import Iterable

Address = tuple[socket.AddressFamily, str]
IPV4_LOOPBACK: Final[Address] = (socket.AF_INET, "127.0.0.1")
IPV6_LOOPBACK: Final[Address] = (socket.AF_INET6, "::1")
MAX_TRIED_PORTS: Final = 64
"""Maximum number of ports to try. If all of these are in use, another program probably blocks them on purpose."""
MAX_WAITING_CONNECTIONS: Final = 128
"""Maximum number of connections waiting to be accepted."""
IN_USE_ERRORS: Final = frozenset({errno.EADDRINUSE, errno.EACCES})
"""Error numbers for a port that is in use. Windows uses the second if another program bound the port exclusively."""
ABSENT_ADDRESS_ERRORS: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
"""Error numbers for an address that this machine does not have. No other program can bind it either."""


class NoPortError(StartError):
    """Raised when no port is free on both loopback addresses."""

    def __init__(self) -> None:
        super().__init__(
            f"cannot listen on 127.0.0.1 and [::1]. All {MAX_TRIED_PORTS} ports that were tried are in use on one or "
            "both addresses. Run `ss -ltnp` to list the programs that use them"
        )


async def listen_on_loopback(ports: Iterable[int] = repeat(0, MAX_TRIED_PORTS)) -> tuple[list[SocketListener], int]:
    """Listen on 127.0.0.1 and [::1] with the same port. Return the listeners and the port.

    `ports` are tried in order. Port 0 means any free port. If the machine has no IPv6, listen on 127.0.0.1
    only.

    Raises:
        NoPortError: every port is in use on one of the addresses.
        OSError: listening fails for another reason.
    """
    for number, port in enumerate(ports):
        # The system chooses a port for the first address. Alternating addresses prevents others from blocking both.
        addresses = (IPV4_LOOPBACK, IPV6_LOOPBACK) if number % 2 == 0 else (IPV6_LOOPBACK, IPV4_LOOPBACK)
        try:
            sockets = _bind_all(addresses, port)
        except OSError as error:
            if error.errno in IN_USE_ERRORS:
                continue
            raise
        listeners: list[SocketListener] = [
            PatientListener(await SocketListener.from_socket(opened)) for opened in sockets
        ]
        return listeners, int(sockets[0].getsockname()[1])
    raise NoPortError


def _bind_all(addresses: Iterable[Address], port: int) -> list[socket.socket]:
    """Bind a socket to the port on each of the addresses. Skip addresses that this machine does not have."""
    sockets: list[socket.socket] = []
    with contextlib.ExitStack() as opened:
        for address in addresses:
            try:
                raw = opened.enter_context(_bind(address, sockets[0].getsockname()[1] if sockets else port))
            except OSError as error:
                if address is not IPV6_LOOPBACK or error.errno not in ABSENT_ADDRESS_ERRORS:
                    raise
            else:
                sockets.append(raw)
        opened.pop_all()
    return sockets


def _bind(address: Address, port: int) -> socket.socket:
    family, host = address
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        if family == socket.AF_INET6:
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # SO_REUSEADDR would allow binding a port that another program has already bound.
        raw.bind((host, port))
        raw.listen(MAX_WAITING_CONNECTIONS)
        raw.setblocking(False)  # noqa: FBT003  # the signature of the standard library
    except BaseException:
        raw.close()
        raise
    return raw
