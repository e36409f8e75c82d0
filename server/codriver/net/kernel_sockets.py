"""The kernel's tables of sockets: the user and the inode of a socket, and whether its process holds a lock. Linux only.

Files name the listener on a port, and anybody's earlier process may have written them. The kernel's answer cannot be
forged. A query costs 0.02 ms, so it is made for every connection, on both ends. For a port named by a file, a REPL's
port file or a kernel's connection file, the listener's user is queried before a byte is sent: the file's writer may be
gone, and the port another user's by now. A port that the user names directly is trusted without a query.
"""

from __future__ import annotations

import socket
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.systems.file_system import is_mine, is_open, is_trusted
from codriver.systems.machine import started_at, user_name
from codriver_relay import peer

if TYPE_CHECKING:
    import os


GONE: Final = peer.GONE[0]
"""The user of a socket without a process, which belongs to no one."""
LISTENING = "0A"
"""The state of a listening socket in the kernel's tables. Source: Linux, `include/net/tcp_states.h`, `TCP_LISTEN`."""
TABLES: Final = Path("/proc/net")
NETLINK_SOCK_DIAG: Final = 4
SOCK_DIAG_BY_FAMILY: Final = 20
NLM_F_REQUEST: Final = 0x1
NLM_F_DUMP: Final = 0x300
NLMSG_DONE: Final = 3
DIAG_BYTES: Final = 65536
"""More than the kernel puts into one part of an answer. Source: netlink(7)."""

ANY = MappingProxyType({"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"})  # noqa: S104  # nothing is bound here
"""By the address of a listener on all interfaces: the address at which this machine reaches the listener."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Peer:
    """A socket of this machine as the kernel knows it: its user, and its inode, 0 when no process has it."""

    uid: int
    inode: int


class KernelSilentError(OSError):
    """The kernel does not answer this kind of query."""


def listener_of(connection: socket.socket) -> Peer | None:
    """Return the peer of an outgoing connection: the user at its other end, and the socket that listened.

    None when the other end is not on this machine, or not in this container.

    Raises:
        KernelSilentError: this system does not name the peer.
    """
    try:
        return _peer(peer.listener_of(connection))
    except OSError as error:
        raise KernelSilentError(error.errno, "/proc/net/tcp") from error


def listener_at(remote: Address) -> Peer | None:
    """Return the listener that gets the connections to an address of this machine; None without one.

    Raises:
        KernelSilentError: this system does not name it.
    """
    packed = peer.plain(remote[0])
    try:
        return _peer(peer.find(packed, remote[1], bytes(len(packed)), 0))
    except OSError as error:
        raise KernelSilentError(error.errno, "/proc/net/tcp") from error


def holder_of(lock: os.stat_result, inode: int, *, hint: int | None) -> int | None:
    """Return the process with the lock on a file and the socket `inode`, found by `codriver_relay.peer`.

    Raises:
        KernelSilentError: this system does not name it.
    """
    try:
        return peer.holder_of(lock, inode, hint)
    except OSError as error:
        raise KernelSilentError(error.errno, "/proc/locks") from error


def plain(address: tuple[str, int]) -> Address:
    """Return an address without its zone; an IPv4 address seen by an IPv6 listener in its plain form."""
    host = address[0].partition("%")[0]
    return (host[7:] if host.startswith("::ffff:") and "." in host else host), address[1]


def query_kernel(remote: Address, local: Address) -> Peer | None:
    """Return the socket at the address `there` with the peer `here`; None without one.

    Without a connection between them, the socket that listens at `there`.

    Raises:
        OSError: this kernel, or the container, does not answer such questions.
    """
    return _peer(peer.ask_kernel(peer.plain(remote[0]), remote[1], peer.plain(local[0]), local[1]))


def look_up(remote: Address, local: Address, *, directory: Path = TABLES) -> Peer | None:
    """Return the peer from the kernel's tables, for a kernel that answers no questions.

    Raises:
        OSError: this system has no such tables.
    """
    return _peer(peer.look_up(peer.plain(remote[0]), remote[1], peer.plain(local[0]), local[1], tables=str(directory)))


def listening_hosts(port: int, *, directory: Path = TABLES) -> list[str]:
    """Return the addresses of this machine with a listener at `port`, from the kernel's tables.

    Raises:
        OSError: this system has no such tables.
    """
    tables = [table for table in (directory / "tcp", directory / "tcp6") if table.exists()]
    if not tables:
        raise KernelSilentError(0, str(directory))
    listening = [fields[1].split(":") for table in tables for fields in _rows(table) if fields[3] == LISTENING]
    return [_host(words) for words, number in listening if int(number, 16) == port]


def listening_sockets(*, directory: Path = TABLES) -> dict[int, str]:
    """Return the listening sockets of this user, from the kernel: by inode the address at which they are reached.

    Raises:
        OSError: this system has no such tables.
    """
    try:
        rows = _query_listeners()
    except OSError:
        rows = _read_listeners(directory)
    found = {}
    mine = {uid for uid in {row[0] for row in rows} if is_mine(uid)}
    for uid, inode, host, port in rows:
        if uid in mine:
            quoted = f"[{host}]" if ":" in host else host
            found[inode] = f"{ANY.get(host, quoted)}:{port}"
    return found


Listener = tuple[int, int, str, int]
"""The user of a listening socket, its inode, and its address."""


def _query_listeners() -> list[Listener]:
    """Return the listeners, from the kernel's answers to two questions: 0.1 ms, for any number of connections.

    Source: sock_diag(7), `struct inet_diag_req_v2` and `struct inet_diag_msg`; netlink(7), multipart messages.

    Raises:
        OSError: this kernel, or the container, does not answer such questions.
    """
    if not peer.IS_LINUX:
        raise KernelSilentError(0, "sock_diag")
    found = []
    with socket.socket(getattr(socket, "AF_NETLINK", 0), socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(peer.DIAG_S)
        for family, size in ((socket.AF_INET, 4), (socket.AF_INET6, 16)):
            head = struct.pack("=IHHII", 72, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
            kernel.send(head + struct.pack("=4BI48x", family, socket.IPPROTO_TCP, 0, 0, 1 << int(LISTENING, 16)))
            is_over = False
            while not is_over:
                data = kernel.recv(DIAG_BYTES)
                while data and not is_over:
                    length, kind = struct.unpack_from("=IH", data)
                    if kind == NLMSG_DONE:
                        is_over = True
                    elif kind == SOCK_DIAG_BY_FAMILY:
                        port, host = struct.unpack_from(f">H2x{size}s", data, 20)
                        uid, inode = struct.unpack_from("=II", data, 80)
                        found.append((uid, inode, socket.inet_ntop(family, host), port))
                    else:
                        raise KernelSilentError(0, f"sock_diag answered a message of type {kind}")
                    data = data[length + 3 & ~3 :]
    return found


def _read_listeners(directory: Path) -> list[Listener]:
    """Return the listeners from the kernel's tables, for a kernel that answers no questions: 5 ms or more.

    Raises:
        OSError: this system has no such tables.
    """
    found = []
    for table in (directory / "tcp", directory / "tcp6"):
        for fields in _rows(table) if table.exists() else ():
            if fields[3] == LISTENING:
                words, _, port = fields[1].partition(":")
                found.append((int(fields[7]), int(fields[9]), _host(words), int(port, 16)))
    return found


def _rows(table: Path) -> list[list[str]]:
    return [line.split() for line in table.read_text(encoding="ascii").splitlines()[1:]]


def _peer(found: tuple[int, int] | None) -> Peer | None:
    return None if found is None else Peer(*found)


def _host(words: str) -> str:
    """Return an address out of a kernel's table, without its port."""
    packed = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


SILENT = "this system does not tell who listens there"


def objection_to(connection: socket.socket, file: Path) -> str | None:
    """Return the reason to send nothing over a connection to the port in `file`, or None if there is none.

    Waits for the kernel, or for a disk if the kernel does not answer.
    """
    try:
        return objection_to_listener(listener_of(connection), file)
    except KernelSilentError:
        return objection_to_listener(None, file)


def objection_at(address: Address, file: Path) -> str | None:
    """Return the reason to send nothing to an address of this machine, to which no connection is made.

    See `objection_to`.
    """
    try:
        return objection_to_listener(listener_at(address), file)
    except KernelSilentError:
        return objection_to_listener(None, file)


def objection_to_listener(listener: Peer | None, file: Path | None) -> str | None:
    """Return the reason to send nothing to a listener; `None` as listener means that the system cannot name it.

    The listener has to be this user's. If the system cannot tell, the file has to be this user's, writable by no one
    else, and younger than the machine's start: no listener is older.
    """
    if listener is None:
        return _objection_to_file(file) if file is not None else SILENT
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
    """Return a user by name and number; by number without a known name."""
    name = user_name(uid)
    return f"the user {uid}" if name is None else f"{name} (uid {uid})"
