"""Listening sockets, and a listener that outlives failures to accept."""

from __future__ import annotations

import errno
import logging
import socket
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketListener

from codriver.errors import StartError

if TYPE_CHECKING:
    from anyio.abc import SocketStream


logger = logging.getLogger(__name__)

ACCEPT_AGAIN_S = 0.1
FILES_WITHOUT_CLIENTS = 256
"""The files that REPLs, the log and not yet admitted connections may need, next to one a client."""


class ListenError(StartError):
    """The listener could not be opened."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {error.strerror or error}; "
            "choose another with --host and --port, or set mcpSocketServerPort"
        )


async def listen(host: str, port: int) -> tuple[SocketListener, int]:
    """Return a listener on `host`, on `port` if it is free and else on any free port, and the actual port.

    Raises:
        ListenError: listening failed, for another reason than a port in use.
    """
    try:
        return await _bind(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or port == 0:
            raise ListenError(host, port, error) from error
    try:
        return await _bind(host, 0)
    except OSError as error:
        raise ListenError(host, 0, error) from error


async def _bind(host: str, port: int) -> tuple[SocketListener, int]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        raw.bind((host, port))
        raw.listen(512)
        raw.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        listener = PatientListener(await SocketListener.from_socket(raw))
    except BaseException:
        raw.close()
        raise
    return listener, int(raw.getsockname()[1])


class PatientListener(SocketListener):
    """A listener that outlives failures of single connections, and a time without free file descriptors.

    The library's own listener raises every error of `accept`: a waiting peer that hung up, or a process with too many
    open files, would end the server.
    """

    def __init__(self, listener: SocketListener) -> None:
        self._listener = listener
        self._is_failing = False

    @property
    def _raw_socket(self) -> socket.socket:
        return self._listener._raw_socket  # noqa: SLF001  # the base class asks for it by this name

    async def accept(self) -> SocketStream:
        """Return the next connection that can be accepted."""
        while True:
            try:
                stream = await self._listener.accept()
            except OSError as error:
                if not self._is_failing:
                    logger.warning("connections cannot be accepted, and wait until they can: %s", error)
                self._is_failing = True
                await anyio.sleep(ACCEPT_AGAIN_S)
            else:
                self._is_failing = False
                return stream

    async def aclose(self) -> None:
        """Close the listener."""
        await self._listener.aclose()
