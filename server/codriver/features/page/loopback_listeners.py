"""Listeners on loopback that no other program can take the place of: on 127.0.0.1 and [::1], at one port.

A browser tries both addresses of a name below `localhost`. Who holds only one leaves the other to any user of the
machine.
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
IPV4: Final[Address] = (socket.AF_INET, "127.0.0.1")
IPV6: Final[Address] = (socket.AF_INET6, "::1")
MAX_TRIES: Final = 64
"""Ports that are tried: more are taken on one of the addresses only if somebody means to keep us out."""
BACKLOG: Final = 128
TAKEN: Final = frozenset({errno.EADDRINUSE, errno.EACCES})
"""The errors for a port that another program has. On Windows the second, where that program bound it exclusively."""
ABSENT: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
"""The errors for an address that this machine does not have, so that nobody else can bind it either."""


class NoPortError(StartError):
    """No port is free on both addresses."""

    def __init__(self) -> None:
        super().__init__(
            f"cannot listen on 127.0.0.1 and [::1]: other programs have one of the two at each of {MAX_TRIES} ports "
            "that were tried; `ss -ltnp` lists them"
        )


async def listen_on_loopback(ports: Iterable[int] = repeat(0, MAX_TRIES)) -> tuple[list[SocketListener], int]:
    """Listen on 127.0.0.1 and [::1] at one port, and return the listeners and the port.

    `ports`: the ports to try in turn; 0 is any free one. Without IPv6, the only listener is on 127.0.0.1.

    Raises:
        NoPortError: each port is taken on one of the addresses.
        OSError: listening failed for another reason.
    """
    for number, port in enumerate(ports):
        # The system picks a free port for the first address only: by turns, so that neither can be blocked as a whole.
        addresses = (IPV4, IPV6) if number % 2 == 0 else (IPV6, IPV4)
        try:
            sockets = _bind_all(addresses, port)
        except OSError as error:
            if error.errno in TAKEN:
                continue
            raise
        listeners: list[SocketListener] = [PatientListener(await SocketListener.from_socket(one)) for one in sockets]
        return listeners, int(sockets[0].getsockname()[1])
    raise NoPortError


def _bind_all(addresses: Iterable[Address], port: int) -> list[socket.socket]:
    """Return sockets that listen on all of the addresses that this machine has, at one port."""
    sockets: list[socket.socket] = []
    with contextlib.ExitStack() as opened:
        for address in addresses:
            try:
                raw = opened.enter_context(_bind(address, sockets[0].getsockname()[1] if sockets else port))
            except OSError as error:
                if address is not IPV6 or error.errno not in ABSENT:
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
        # Not SO_REUSEADDR: with it, a socket that another program has bound already would be no obstacle.
        raw.bind((host, port))
        raw.listen(BACKLOG)
        raw.setblocking(False)  # noqa: FBT003  # the standard library's own signature
    except BaseException:
        raw.close()
        raise
    return raw
