"""Unix sockets on which programs connect to the server, and the processes on the other end."""

# mypy: disable-error-code="attr-defined"
# Windows is not supported, and lacks some of these functions.

from __future__ import annotations

import os
import secrets
import socket
import struct
import sys
import tempfile
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files

if TYPE_CHECKING:
    from collections.abc import Iterator

HAS_DESCRIPTOR_PATHS: Final = sys.platform == "linux"
"""Whether a file in an open directory has a short path, such as `/proc/self/fd/5/name`."""
SHORT_DIRECTORY: Final = "/tmp"  # noqa: S108  # a private directory is created in it
"""A directory for sockets on systems without such paths. The path of a socket in it is never too long.

On macOS, such a path may have 103 bytes, which most directories in the user's library exceed. Source: macOS, unix(4).
"""
MAX_WAITING_CONNECTIONS: Final = 4
LINUX_CREDENTIALS: Final = struct.Struct("3i")
"""The process, user and group of a peer. Source: unix(7), `SO_PEERCRED`."""
MACOS_SOCKET_LEVEL, MACOS_PEER_CREDENTIALS, MACOS_PEER_PROCESS = 0, 1, 2
"""Names of socket options. Source: macOS, `sys/un.h`, `SOL_LOCAL`, `LOCAL_PEERCRED` and `LOCAL_PEERPID`."""
MACOS_CREDENTIALS: Final = struct.Struct("=IIhxx16I")
"""The version of this structure, the user, and the groups. Source: macOS, `sys/ucred.h`, `struct xucred`."""
MACOS_CREDENTIALS_VERSION: Final = 0
"""The only version of that structure. Source: macOS, `sys/ucred.h`, `XUCRED_VERSION`."""


@contextmanager
def listen_for_program(directory: Path) -> Iterator[tuple[socket.socket, str]]:
    """Listen on a new socket while the context is active. Yield the socket and the address to put into the request.

    The address is the socket's name in `directory`. On systems where the path of a socket in this directory may be too
    long, it is a path in a private temporary directory.

    Raises:
        OSError: the socket cannot be created.
    """
    name = f"{secrets.token_hex(4)}.socket"
    with closing(socket.socket(socket.AF_UNIX)) as listener, ExitStack() as cleanup:
        listener.setblocking(False)  # noqa: FBT003  # the standard library's signature
        if HAS_DESCRIPTOR_PATHS:
            address = name
            bind_in_directory(listener, directory, name)
            cleanup.callback(_remove_socket, directory / name)
        else:
            private_directory = Path(tempfile.mkdtemp(prefix="codriver-", dir=SHORT_DIRECTORY))
            cleanup.callback(files.remove_tree, private_directory)
            address = str(private_directory / name)
            listener.bind(address)
        listener.listen(MAX_WAITING_CONNECTIONS)
        yield listener, address


def _remove_socket(path: Path) -> None:
    with suppress(OSError):
        files.remove(path)


def bind_in_directory(listener: socket.socket, directory: Path, name: str) -> None:
    """Bind a socket to a name in a directory. The path may exceed the limit for socket addresses."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)


def peer_ids(sock: socket.socket) -> tuple[int, int] | None:
    """Return the ids of the process and the user at the other end of a Unix socket, or None if unknown.

    On macOS, the process is unknown after it has closed its end of the socket.
    """
    return macos_peer_ids(sock) if sys.platform == "darwin" else linux_peer_ids(sock)


def linux_peer_ids(sock: socket.socket) -> tuple[int, int]:
    """Return the ids of the process and the user at the other end of a Unix socket on Linux."""
    option = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, LINUX_CREDENTIALS.size)
    process, user, _group = LINUX_CREDENTIALS.unpack(option)
    return process, user


def macos_peer_ids(sock: socket.socket) -> tuple[int, int] | None:
    """Return the ids of the process and the user at the other end of a Unix socket on macOS, or None if unknown."""
    try:
        credentials = sock.getsockopt(MACOS_SOCKET_LEVEL, MACOS_PEER_CREDENTIALS, MACOS_CREDENTIALS.size)
        version, user, *_groups = MACOS_CREDENTIALS.unpack(credentials)
        process = sock.getsockopt(MACOS_SOCKET_LEVEL, MACOS_PEER_PROCESS)
    except (OSError, struct.error):
        return None
    return (process, user) if version == MACOS_CREDENTIALS_VERSION else None
