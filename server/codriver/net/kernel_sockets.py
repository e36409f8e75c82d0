"""The kernel's tables of sockets: the user and the inode of one, and whether its process holds a lock. Linux only.

Files say who listens on a port, and files can be written by anybody who was here before; the kernel's word cannot. It
costs 0.02 ms a question, so it is asked for every connection, on both of its ends.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

GONE: Final = -1
"""The user of a socket that no process has any more: nobody can be held to be behind it.

The kernel shows user 0 for such a socket, so that a stranger who sends and closes at once would pass for root.
"""

SOCK_DIAG_BY_FAMILY, NETLINK_SOCK_DIAG, NLM_F_REQUEST, NLMSG_ERROR = 20, 4, 1, 2
ENOENT = 2
ANY_STATE = 0xFFFFFFFF
LISTENING = "0A"
"""The state of a listening socket in the kernel's tables. Source: Linux, `include/net/tcp_states.h`, `TCP_LISTEN`."""
DIAG_S = 1.0
"""The kernel answers at once; a socket filter that swallows the question must not hold up an admission."""
TABLE_READS = 3
"""While a table is read, what others close can move a row out of sight."""
LOCKS: Final = Path("/proc/locks")
TABLES: Final = Path("/proc/net")

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Peer:
    """A socket of this machine as the kernel knows it: its user, and its inode, 0 when no process has it."""

    uid: int
    inode: int


class KernelSilentError(OSError):
    """The kernel does not answer this way of asking."""


def listener_of(connection: socket.socket) -> Peer | None:
    """The peer of a connection that was made from here: the user at its other end, and the socket that listened.

    None when the other end is not on this machine, or not in this container. The listener is asked for first: while the
    other end is not accepted yet, it has no user, and whoever listened before still does.

    Raises:
        KernelSilentError: this system does not tell.
    """
    try:
        there, here = plain(connection.getpeername()), plain(connection.getsockname())
    except OSError:
        return Peer(GONE, 0)  # it has hung up already
    listening = listener_at(there)
    other = _ask(there, here)
    if other is None:
        return None
    if other.inode:
        return Peer(other.uid, listening.inode if listening else other.inode)
    return listening or Peer(GONE, 0)


def listener_at(there: Address) -> Peer | None:
    """The listener that gets the connections to an address of this machine; None when nobody does.

    Raises:
        KernelSilentError: this system does not tell.
    """
    return _ask(there, ("::" if ":" in there[0] else "0.0.0.0", 0))  # noqa: S104  # asked for, not bound


def holder_of(lock: os.stat_result, inode: int, *, hint: int | None) -> int | None:
    """The process that holds the lock on a file and has the socket `inode`; None when no process of ours has both.

    `hint`: a process to ask too, where the kernel names the locked file otherwise than its status does.
    Source: proc(5), /proc/locks: after `->` for those that wait, column 2 is the kind, 5 the process, 6 the file.

    Raises:
        KernelSilentError: this system does not tell.
    """
    try:
        rows = [row.split() for row in LOCKS.read_text(encoding="ascii").splitlines()]
    except OSError as error:
        raise KernelSilentError(error.errno, "/proc/locks") from error
    found = [row[4] for row in rows if row[1] != "->" and row[5].rpartition(":")[2] == str(lock.st_ino)]
    for process in dict.fromkeys([*found, *([str(hint)] if hint else [])]):
        if process.isdigit() and _has_both(process, lock, inode):
            return int(process)
    return None


def plain(address: tuple[str, int]) -> Address:
    """An address without its zone; one of IPv4 that came in over an IPv6 listener as its own end has it."""
    host = address[0].partition("%")[0]
    return (host[7:] if host.startswith("::ffff:") and "." in host else host), address[1]


def ask_kernel(there: Address, here: Address) -> Peer | None:
    """The socket whose own address is `there` and whose peer's is `here`; None when there is none.

    Where no connection is between them, it is the one that listens at `there`. One question for one socket: 0.02 ms,
    however many there are. Reading the table costs 5 ms even when it is empty, as the kernel walks all its buckets.
    Source: sock_diag(7), `struct inet_diag_req_v2` and `struct inet_diag_msg`.

    Raises:
        OSError: this kernel, or the container it is in, does not answer such questions.
    """
    family = _family(there[0])
    addresses = (socket.inet_pton(family, host).ljust(16, b"\0") for host, _ in (there, here))
    identity = struct.pack("!HH", there[1], here[1]) + b"".join(addresses) + bytes(4) + b"\xff" * 8
    question = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, ANY_STATE) + identity
    head = struct.pack("=IHHII", 16 + len(question), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0)
    if sys.platform != "linux":
        raise KernelSilentError(0, "sock_diag")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(DIAG_S)
        kernel.send(head + question)
        answer = kernel.recv(4096)
    (kind,) = struct.unpack_from("=H", answer, 4)
    if kind == NLMSG_ERROR:
        (negative,) = struct.unpack_from("=i", answer, 16)
        if negative == -ENOENT:
            return None
        raise KernelSilentError(-negative, "sock_diag")
    if kind != SOCK_DIAG_BY_FAMILY or len(answer) < 88:
        raise KernelSilentError(0, f"sock_diag answered a message of type {kind}")
    uid, inode = struct.unpack_from("=II", answer, 16 + 64)
    found_port, peer_port = struct.unpack_from("!HH", answer, 16 + 4)
    is_listener = not peer_port and found_port == there[1]
    return None if is_listener and here[1] else Peer(uid, inode)


def look_up(there: Address, here: Address, *, folder: Path = TABLES) -> Peer | None:
    """The peer as the kernel's tables have it, for where the kernel answers no questions.

    Source: proc(5), /proc/net/tcp: column 2 is a socket's local address, 3 its peer's, 4 its state, 8 its user, 10 its
    inode.

    Raises:
        OSError: there are no such tables.
    """
    for _ in range(TABLE_READS):
        for name, rows in _tables(folder, there[0]):
            wanted = [_table_form(name, *there), _table_form(name, *here)]
            anywhere = _table_form(name, "::" if name == "tcp6" else "0.0.0.0", there[1])  # noqa: S104  # asked for
            for fields in rows:
                is_open_to_all = not here[1] and fields[3] == LISTENING and fields[1] == anywhere
                if fields[1:3] == wanted or is_open_to_all:
                    return Peer(int(fields[7]), int(fields[9]))
    return None


def listening_hosts(port: int, *, folder: Path = TABLES) -> list[str]:
    """The addresses of this machine at which `port` is listened on, as the kernel's tables have them.

    Raises:
        OSError: there are no such tables.
    """
    tables = [table for table in (folder / "tcp", folder / "tcp6") if table.exists()]
    if not tables:
        raise KernelSilentError(0, str(folder))
    listening = [fields[1].split(":") for table in tables for fields in _rows(table) if fields[3] == LISTENING]
    return [_host(words) for words, number in listening if int(number, 16) == port]


def _tables(folder: Path, host: str) -> Iterator[tuple[str, Iterator[list[str]]]]:
    """The tables where a socket of such an address can be: a listener of IPv6 may take connections of IPv4 too."""
    if ":" not in host:
        yield "tcp", _rows(folder / "tcp")
    if ":" in host or (folder / "tcp6").exists():
        yield "tcp6", _rows(folder / "tcp6")


def _rows(table: Path) -> Iterator[list[str]]:
    return (line.split() for line in table.read_text(encoding="ascii").splitlines()[1:])


def _ask(there: Address, here: Address) -> Peer | None:
    try:
        return ask_kernel(there, here)
    except OSError:
        try:
            return look_up(there, here)
        except OSError as error:
            raise KernelSilentError(error.errno, "/proc/net/tcp") from error


def _has_both(process: str, lock: os.stat_result, inode: int) -> bool:
    """Whether a process has the socket, and the file with a lock on it that it holds."""
    folder = Path("/proc") / process
    has_socket = has_lock = False
    try:
        for entry in os.scandir(folder / "fd"):
            try:
                has_socket = has_socket or os.readlink(entry.path) == f"socket:[{inode}]"  # noqa: PTH115  # it is a string
                if not has_lock and os.path.samestat(os.stat(entry.path), lock):  # noqa: PTH116  # it is a string
                    has_lock = "FLOCK" in (folder / "fdinfo" / entry.name).read_text(encoding="ascii")
            except OSError:
                continue  # closed meanwhile
    except OSError:
        return False  # it has ended, or is another user's
    return has_socket and has_lock


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _table_form(name: str, host: str, port: int) -> str:
    """An address as a kernel's table writes it: hexadecimal, in the machine's byte order by 32-bit words."""
    is_mapped = name == "tcp6" and ":" not in host
    packed = socket.inet_pton(_family(host), host)
    if is_mapped and any(packed):
        packed = bytes(10) + b"\xff\xff" + packed
    words = struct.unpack("=4I" if name == "tcp6" else "=I", packed.rjust(16, b"\0") if name == "tcp6" else packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _host(words: str) -> str:
    """An address out of a kernel's table, without its port: what `_table_form` writes."""
    packed = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
