"""Ask the Linux kernel which user and process a socket belongs to.

Often only a file claims who is listening on a port. Any earlier process may have written it, but the kernel's answer
cannot be forged. A query takes 0.02 ms, so both ends of every connection are checked. If the port comes from a file,
such as a REPL's port file or a kernel's connection file, the user of the listener is checked before anything is sent,
because the process that wrote the file may have ended and another user may have the port now. A port that the user
names directly is trusted without a query.
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
from codriver.systems.machine import boot_time_s, user_name
from codriver_relay import peer

if TYPE_CHECKING:
    import os


GONE_USER_ID: Final = peer.UNOWNED_SOCKET[0]
"""The user id of a socket that no longer belongs to a process."""
LISTENING_STATE = "0A"
"""The state of listening sockets in the kernel's tables. Source: Linux, `include/net/tcp_states.h`, `TCP_LISTEN`."""
TABLES_DIRECTORY: Final = Path("/proc/net")
"""The directory with the kernel's tables of sockets."""
NETLINK_SOCK_DIAG: Final = 4
SOCK_DIAG_BY_FAMILY: Final = 20
NLM_F_REQUEST: Final = 0x1
NLM_F_DUMP: Final = 0x300
NLMSG_DONE: Final = 3
RECEIVE_BUFFER_BYTES: Final = 65536
"""Size of the receive buffer, which is larger than any part of the kernel's answer. Source: netlink(7)."""

LOOPBACK_BY_ANY_ADDRESS = MappingProxyType({"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"})  # noqa: S104  # nothing is bound here
"""The loopback address for reaching a listener on all interfaces, by the address on which it listens."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LocalSocket:
    """A socket on this machine. `uid` is the id of its user. `inode` is 0 if no process has the socket open."""

    uid: int
    inode: int


class UnsupportedQueryError(OSError):
    """Raised when this system cannot identify the user or process of a socket."""


def find_peer_listener(connection: socket.socket) -> LocalSocket | None:
    """Return the listening socket to which an outgoing connection leads.

    Returns None if the socket is on another machine or in another container.

    Raises:
        UnsupportedQueryError: this system cannot identify the socket.
    """
    try:
        return _socket_or_none(peer.find_listener(connection))
    except OSError as error:
        raise UnsupportedQueryError(error.errno, "/proc/net/tcp") from error


def find_listener(remote: Address) -> LocalSocket | None:
    """Return the socket listening at an address on this machine, or None if there is none.

    Raises:
        UnsupportedQueryError: this system cannot identify the socket.
    """
    packed = peer.packed_address(remote[0])
    try:
        return _socket_or_none(peer.find_socket(packed, remote[1], bytes(len(packed)), 0))
    except OSError as error:
        raise UnsupportedQueryError(error.errno, "/proc/net/tcp") from error


def find_lock_holder(lock: os.stat_result, inode: int, *, hint: int | None) -> int | None:
    """Return the id of the process that holds the lock on a file and has the socket `inode`, or None.

    `hint` is the id of a process to check first.

    Raises:
        UnsupportedQueryError: this system cannot identify the process.
    """
    try:
        return peer.find_lock_holder(lock, inode, hint)
    except OSError as error:
        raise UnsupportedQueryError(error.errno, "/proc/locks") from error


def normalize_address(address: tuple[str, int]) -> Address:
    """Return an address without its zone. IPv4-mapped IPv6 addresses are converted to IPv4."""
    host = address[0].partition("%")[0]
    return (host[7:] if host.startswith("::ffff:") and "." in host else host), address[1]


def format_address(host: str, port: int) -> str:
    """Format an address as in a URL, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def query_kernel(remote: Address, local: Address) -> LocalSocket | None:
    """Return the socket at the address `remote` that is connected to `local`, or else the one listening at `remote`.

    Returns None if there is neither.

    Raises:
        OSError: the kernel or the container does not support this query.
    """
    return _socket_or_none(
        peer.query_kernel(peer.packed_address(remote[0]), remote[1], peer.packed_address(local[0]), local[1])
    )


def search_tables(remote: Address, local: Address, *, directory: Path = TABLES_DIRECTORY) -> LocalSocket | None:
    """Do the same as `query_kernel` by reading the kernel's tables, which is slower but works on more systems.

    Raises:
        OSError: this system does not have the tables.
    """
    return _socket_or_none(
        peer.search_tables(
            peer.packed_address(remote[0]), remote[1], peer.packed_address(local[0]), local[1], tables=str(directory)
        )
    )


def listening_hosts(port: int, *, directory: Path = TABLES_DIRECTORY) -> list[str]:
    """Return this machine's addresses at which any process is listening on `port`.

    Raises:
        OSError: this system does not have the required tables.
    """
    tables = [table for table in (directory / "tcp", directory / "tcp6") if table.exists()]
    if not tables:
        raise UnsupportedQueryError(0, str(directory))
    listening = [
        fields[1].split(":") for table in tables for fields in _read_rows(table) if fields[3] == LISTENING_STATE
    ]
    return [_decode_host(words) for words, number in listening if int(number, 16) == port]


def listening_sockets(*, directory: Path = TABLES_DIRECTORY) -> dict[int, str]:
    """Return the addresses at which this user's listening sockets can be reached, by inode.

    Raises:
        OSError: this system does not have the required tables.
    """
    try:
        rows = _query_listeners()
    except OSError:
        rows = _read_listeners(directory)
    found = {}
    mine = {uid for uid in {row[0] for row in rows} if is_mine(uid)}
    for uid, inode, host, port in rows:
        if uid in mine:
            found[inode] = format_address(LOOPBACK_BY_ANY_ADDRESS.get(host, host), port)
    return found


Listener = tuple[int, int, str, int]
"""The user id of a listening socket, its inode, host and port."""


def _query_listeners() -> list[Listener]:
    """Query the kernel for all listening sockets. This takes 0.1 ms, regardless of the number of connections.

    Source: sock_diag(7), `struct inet_diag_req_v2` and `struct inet_diag_msg`; netlink(7), multipart messages.

    Raises:
        OSError: the kernel or the container does not support this query.
    """
    if not peer.IS_LINUX:
        raise UnsupportedQueryError(0, "sock_diag")
    found = []
    with socket.socket(getattr(socket, "AF_NETLINK", 0), socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(peer.DIAG_TIMEOUT_S)
        for family, size in ((socket.AF_INET, 4), (socket.AF_INET6, 16)):
            head = struct.pack("=IHHII", 72, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
            kernel.send(head + struct.pack("=4BI48x", family, socket.IPPROTO_TCP, 0, 0, 1 << int(LISTENING_STATE, 16)))
            is_over = False
            while not is_over:
                data = kernel.recv(RECEIVE_BUFFER_BYTES)
                while data and not is_over:
                    length, kind = struct.unpack_from("=IH", data)
                    if kind == NLMSG_DONE:
                        is_over = True
                    elif kind == SOCK_DIAG_BY_FAMILY:
                        port, host = struct.unpack_from(f">H2x{size}s", data, 20)
                        uid, inode = struct.unpack_from("=II", data, 80)
                        found.append((uid, inode, socket.inet_ntop(family, host), port))
                    else:
                        raise UnsupportedQueryError(
                            0, f"the kernel answered a sock_diag query with a message of the unexpected type {kind}"
                        )
                    data = data[length + 3 & ~3 :]
    return found


def _read_listeners(directory: Path) -> list[Listener]:
    """Read all listening sockets from the kernel's tables. This takes at least 5 ms.

    Raises:
        OSError: this system does not have the required tables.
    """
    found = []
    for table in (directory / "tcp", directory / "tcp6"):
        for fields in _read_rows(table) if table.exists() else ():
            if fields[3] == LISTENING_STATE:
                words, _, port = fields[1].partition(":")
                found.append((int(fields[7]), int(fields[9]), _decode_host(words), int(port, 16)))
    return found


def _read_rows(table: Path) -> list[list[str]]:
    return [line.split() for line in table.read_text(encoding="ascii").splitlines()[1:]]


def _socket_or_none(found: tuple[int, int] | None) -> LocalSocket | None:
    return None if found is None else LocalSocket(*found)


def _decode_host(words: str) -> str:
    """Decode an address in the format of the kernel's tables."""
    packed = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


UNIDENTIFIED_LISTENER_REASON = "this system cannot identify the process listening on the port"


def connection_distrust_reason(connection: socket.socket, file: Path) -> str | None:
    """Return the reason why nothing should be sent over a connection to the port in `file`, or None if it is safe.

    It is safe if one of this user's processes is listening on the port: see `listener_distrust_reason`.
    """
    try:
        return listener_distrust_reason(find_peer_listener(connection), file)
    except UnsupportedQueryError:
        return listener_distrust_reason(None, file)


def address_distrust_reason(address: Address, file: Path) -> str | None:
    """Return the reason why nothing should be sent to an address on this machine, or None if it is safe.

    Unlike `connection_distrust_reason`, this does not need a connection.
    """
    try:
        return listener_distrust_reason(find_listener(address), file)
    except UnsupportedQueryError:
        return listener_distrust_reason(None, file)


def listener_distrust_reason(listener: LocalSocket | None, file: Path | None) -> str | None:
    """Return the reason why nothing should be sent to a listening socket, or None if it is safe.

    The socket must belong to this user. If it is None because the system cannot identify it, the file with the port
    must belong to this user, be writable by nobody else, and be newer than the start of the machine.
    """
    if listener is None:
        return _file_distrust_reason(file) if file is not None else UNIDENTIFIED_LISTENER_REASON
    if listener.uid < 0:
        return "the process that was listening on the port has closed the connection"
    if is_mine(listener.uid):
        return None
    if listener.uid == 0:
        return "the process belongs to root, not to you: it may be a container's proxy"
    return f"the process belongs to another user of this machine, {_describe_user(listener.uid)}"


def _file_distrust_reason(file: Path) -> str | None:
    try:
        status = file.lstat()
    except OSError as error:
        return f"{UNIDENTIFIED_LISTENER_REASON}, and the file with its port cannot be checked: {error.strerror}"
    if not is_trusted(status.st_uid) or is_open(status, stat.S_IWOTH):
        return (
            f"{UNIDENTIFIED_LISTENER_REASON}, and the file with its port belongs to another user, or other users "
            "may write to it"
        )
    if status.st_mtime < boot_time_s():
        return (
            f"{UNIDENTIFIED_LISTENER_REASON}, and the file with its port was written before this machine started, "
            "so it is outdated"
        )
    return None


def _describe_user(uid: int) -> str:
    """Return a user's name and id as text for messages."""
    name = user_name(uid)
    return f"the user {uid}" if name is None else f"{name} (uid {uid})"
