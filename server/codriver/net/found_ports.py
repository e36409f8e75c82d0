"""The user who listens at a port that a file names: asked of the kernel before a byte goes there.

Such a file, a REPL's port file or a kernel's connection file, is a claim: its writer may be gone, and the port another
user's by now. A port that the user names by itself is the user's word, and nobody asks.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from codriver.net.kernel_sockets import KernelSilentError, listener_at, listener_of
from codriver.systems.machine import started_at, user_name
from codriver.systems.owners import is_mine, is_open, is_trusted

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from codriver.net.kernel_sockets import Address, Peer

SILENT = "this system does not tell who listens there"


def objection_to(connection: socket.socket, file: Path) -> str | None:
    """The reason, in words, to send nothing over a connection to the port in `file`; None where nothing speaks for one.

    Waits for the kernel, and for a disk where the kernel does not tell.
    """
    try:
        return judge(listener_of(connection), file)
    except KernelSilentError:
        return judge(None, file)


def objection_at(address: Address, file: Path) -> str | None:
    """The reason to send nothing to an address of this machine, to which no connection is made; see `objection_to`."""
    try:
        return judge(listener_at(address), file)
    except KernelSilentError:
        return judge(None, file)


def judge(listener: Peer | None, file: Path) -> str | None:
    """The reason to send nothing to a listener; None as one means that nobody can be asked who it is.

    It has to be this user's. Where nobody can be asked, the file has to be, which nobody else may write, and younger
    than the machine's start: no listener is older.
    """
    if listener is None:
        return _objection_to_file(file)
    if listener.uid < 0:
        return "whoever listened there has hung up"
    if is_mine(listener.uid):
        return None
    if listener.uid == 0:
        return "root listens there, as the proxy of a container does, and not you"
    return f"{_named(listener.uid)} listens there, another user of this machine"


def _objection_to_file(file: Path) -> str | None:
    try:
        status = file.lstat()
    except OSError as error:
        return f"{SILENT}, and the file that names it cannot be looked at: {error.strerror}"
    if not is_trusted(status.st_uid) or is_open(status, stat.S_IWOTH):
        return f"{SILENT}, and the file that names it is another user's, or others may write to it"
    if status.st_mtime < started_at():
        return f"{SILENT}, and the file that names it is older than this machine's start, so that its writer is gone"
    return None


def _named(uid: int) -> str:
    """A user by name and number; by number where no name is known."""
    name = user_name(uid)
    return f"the user {uid}" if name is None else f"{name} (uid {uid})"
