"""Listening sockets, including a listener that survives errors from `accept`."""

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

ACCEPT_RETRY_PAUSE_S = 0.1
"""Pause after a failed `accept`, in seconds."""
RESERVED_DESCRIPTORS = 256
"""Number of file descriptors reserved for REPLs, the log and pending connections, in addition to one per client."""


class ListenError(StartError):
    """Raised when the server cannot listen on its address."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {error.strerror or error}. Choose another address with --host and "
            "--port, or set mcpSocketServerPort"
        )


async def open_listener(host: str, port: int) -> tuple[SocketListener, int]:
    """Listen on `port`, or on any free port if `port` is in use. Return the listener and its port.

    Raises:
        ListenError: listening failed for another reason.
    """
    try:
        return await _bind_listener(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or port == 0:
            raise ListenError(host, port, error) from error
    try:
        return await _bind_listener(host, 0)
    except OSError as error:
        raise ListenError(host, 0, error) from error


async def _bind_listener(host: str, port: int) -> tuple[SocketListener, int]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        raw.bind((host, port))
        raw.listen(512)
        raw.setblocking(False)  # noqa: FBT003  # a positional-only parameter
        listener = PatientListener(await SocketListener.from_socket(raw))
    except BaseException:
        raw.close()
        raise
    return listener, int(raw.getsockname()[1])


class PatientListener(SocketListener):
    """A listener that survives errors on single connections, and waits while no file descriptors are free.

    anyio's listener raises every error from `accept`. A peer that disconnects too early, or a process with too many
    open files, would end the server.
    """

    def __init__(self, listener: SocketListener) -> None:
        self._listener = listener
        self._is_failing = False

    @property
    def _raw_socket(self) -> socket.socket:
        return self._listener._raw_socket  # noqa: SLF001  # required by the base class

    async def accept(self) -> SocketStream:
        """Return the next connection, waiting until one can be accepted."""
        while True:
            try:
                stream = await self._listener.accept()
            except OSError as error:
                if not self._is_failing:
                    logger.warning("cannot accept connections at the moment and will retry: %s", error)
                self._is_failing = True
                await anyio.sleep(ACCEPT_RETRY_PAUSE_S)
            else:
                self._is_failing = False
                return stream

    async def aclose(self) -> None:
        """Close the socket. This ends the loop that accepts connections."""
        await self._listener.aclose()
