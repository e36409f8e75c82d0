"""Verification that a port's listener is the server of a workspace: the kernel is asked before a byte is sent.

Linux: the listener must be this user's, and of the process that holds the workspace's lock. Elsewhere the kernel does
not tell: there the port file counts that a process wrote who holds the lock, in a folder that is this user's alone, and
only for this machine.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

from codriver.errors import CodriverError
from codriver.net import kernel_sockets, server_record

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.net.server_record import ServerRecord

LOOPBACK: Final = "127.0.0.1"
WILDCARDS: Final = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104  # compared, not bound


class NotTheServerError(CodriverError):
    """The listener on a port is not the server of the workspace, or nobody can tell. Nothing was sent to it."""


def host_of(claimed: ServerRecord | None) -> str:
    """The address of this machine where a server says that it can be reached; loopback when it names another machine.

    A name is not looked up: only the address of an interface of this machine counts.
    """
    if claimed is None:
        return LOOPBACK
    host = WILDCARDS.get(claimed.host, claimed.host)
    try:
        ((family, _, _, _, address), *_) = socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)  # only an address of this machine can be had
    except (OSError, ValueError):
        return LOOPBACK
    return host


def verify(connection: socket.socket, folder: Path) -> int | None:
    """Make sure that a connection leads to the server of the workspace of `folder`; its process, where that is known.

    Raises:
        NotTheServerError: it leads to somebody else, or nobody can tell; its text says which.
    """
    try:
        return _judge(kernel_sockets.listener_of(connection), folder)
    except kernel_sockets.KernelSilentError:
        _believe(folder)
        return None


def process_of(claimed: ServerRecord, folder: Path) -> int | None:
    """The process of the server that a record names, when it is the one of this workspace, without connecting to it.

    Raises:
        NotTheServerError: it is not.
        KernelSilentError: this system does not tell.
    """
    return _judge(kernel_sockets.listener_at(kernel_sockets.plain((host_of(claimed), claimed.port))), folder)


def _judge(listener: kernel_sockets.Peer | None, folder: Path) -> int | None:
    if listener is None:
        raise NotTheServerError("nobody on this machine listens there")
    if listener.uid not in (os.geteuid(), 0):  # Linux alone comes here
        raise NotTheServerError("it belongs to another user of this machine")
    lock, claimed = server_record.lock_status(folder), server_record.read_record(folder)
    if lock is not None:
        process = kernel_sockets.holder_of(lock, listener.inode, hint=claimed.pid if claimed else None)
        if process is not None:
            return process
        if server_record.is_claimed(folder) is None:  # its file system knows no locks
            return None
    lock_path = server_record.lock_file(folder)
    why = f"it is not who holds {lock_path}, but another program, or the server of another workspace"
    raise NotTheServerError(why)


def _believe(folder: Path) -> None:
    """What is believed where the kernel tells nothing: files that were read are this user's alone already."""
    if server_record.is_claimed(folder) is False:
        why = f"nobody holds {server_record.lock_file(folder)}: the server that wrote the port file is gone"
        raise NotTheServerError(why)
