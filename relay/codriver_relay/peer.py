"""The process at the other end of a connection, as the kernel knows it, and whether that process holds a lock.

Files say who listens on a port, and files can be written by anybody who was here before; the kernel's word cannot.
"""

from __future__ import annotations

import _socket as socket
import os
import sys

from codriver_relay.own_files import RECORD_BYTES, open_file, read_beside, value_of

GONE = (-1, 0)


def listener_of(connection: socket.socket) -> tuple[int, int] | None:
    """The user at the other end of a connection, and the inode of the socket that listened; None where it is elsewhere.

    The listener is asked for first: while the other end is not accepted yet, it has no user, and whoever listened
    before still does. Without an inode, no process has the socket any more.

    Raises:
        OSError: no kernel tells.
    """
    try:
        (there, port), (here, own) = [
            (plain(name[0]), name[1]) for name in (connection.getpeername(), connection.getsockname())
        ]
    except OSError:
        return GONE  # it has hung up already
    anywhere = bytes(len(there))
    listening = ask_kernel(there, port, anywhere, 0)
    other = ask_kernel(there, port, here, own)
    if other is None:
        return None
    if not other[1]:
        return listening or GONE
    return other[0], (listening or other)[1]


def plain(host: str) -> bytes:
    """An address as its bytes; one of IPv4 in the clothes of IPv6 as its own end has it."""
    host = host.partition("%")[0]
    host = host[7:] if host.startswith("::ffff:") and "." in host else host
    return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)


def ask_kernel(there: bytes, port: int, here: bytes, own: int) -> tuple[int, int] | None:
    """User and inode of the socket with these two addresses, `own` 0 for who listens; None when there is none.

    Source: sock_diag(7), `struct inet_diag_req_v2` and `struct inet_diag_msg`.

    Raises:
        OSError: neither a socket nor a table of the kernel's tells.
    """
    if sys.platform != "linux":
        raise OSError(0, "only Linux tells who listens")
    family = socket.AF_INET if len(there) == 4 else socket.AF_INET6
    ends = port.to_bytes(2, "big") + own.to_bytes(2, "big") + there.ljust(16, b"\0") + here.ljust(16, b"\0")
    question = bytes([family, socket.IPPROTO_TCP, 0, 0]) + b"\xff" * 4 + ends + bytes(4) + b"\xff" * 8
    numbers = ((16 + len(question), 4), (20, 2), (1, 2), (1, 4), (0, 4))  # length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST
    head = b"".join([number.to_bytes(size, sys.byteorder) for number, size in numbers])
    try:
        kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)  # NETLINK_SOCK_DIAG
        try:
            kernel.settimeout(1)
            kernel.send(head + question)
            answer = kernel.recv(RECORD_BYTES)
        finally:
            kernel.close()
    except OSError:
        return look_up(there, port, here, own)
    kind, code = native(answer[4:6]), native(answer[16:20])
    if kind == 2 and code == (1 << 32) - 2:
        return None
    if kind != 20 or len(answer) < 88:
        return look_up(there, port, here, own)
    if own and answer[22:24] == b"\0\0":
        return None  # there is no such connection: it is who listens
    return native(answer[80:84]), native(answer[84:88])


def native(data: bytes) -> int:
    """A number as the kernel writes it."""
    return int.from_bytes(data, sys.byteorder)


def look_up(there: bytes, port: int, here: bytes, own: int) -> tuple[int, int] | None:
    """User and inode from the kernel's tables, where `ask_kernel` has no answer. Source: proc(5), /proc/net/tcp."""
    for name in ("tcp", "tcp6") if len(there) == 4 else ("tcp6",):
        mapped = bytes(10) + b"\xff\xff" if len(there) == 4 and name == "tcp6" else b""
        size = 16 if name == "tcp6" else 4
        wanted = [row_form(mapped + there, port), row_form(mapped + here if own else bytes(size), own)]
        try:
            with open(f"/proc/net/{name}", "rb") as table:
                rows = [row.split() for row in table][1:]
        except FileNotFoundError:
            if name == "tcp":
                raise
            continue
        for row in rows:
            if row[1:3] == wanted or (not own and row[3] == b"0A" and row[1] == row_form(bytes(size), port)):
                return int(row[7]), int(row[9])
    return None


def row_form(address: bytes, port: int) -> bytes:
    """An address as the kernel's tables write it: hexadecimal, in the machine's byte order by 32-bit words."""
    words = [b"%08X" % native(address[start : start + 4]) for start in range(0, len(address), 4)]
    return b"".join(words) + b":%04X" % port


def holds_lock(folder: int, inode: int) -> bool:
    """Whether the process that has the socket `inode` holds the lock in a folder: it is the server of that workspace.

    The process is one that the kernel names for the lock, or the server's own files, and has both files open.
    Source: proc(5), /proc/locks: the 5th column is the process, the 6th ends with the file's inode.
    """
    try:
        lock = os.stat("lock", dir_fd=folder, follow_symlinks=False)
        with open("/proc/locks", "rb") as table:
            rows = [row.split() for row in table]
    except OSError:
        return False
    found = [row[4] for row in rows if row[1] != b"->" and row[5].rpartition(b":")[2] == b"%d" % lock.st_ino]
    hint = value_of(read_beside(folder, "server.json"), b"pid")
    return any(has_both(process.decode(), lock, inode) for process in {*found, hint} if process.isdigit())


def has_both(process: str, lock: os.stat_result, inode: int) -> bool:
    """Whether a process has the socket, and the file with a lock on it."""
    has_socket = has_lock = False
    try:
        for name in os.listdir(f"/proc/{process}/fd"):
            file = f"/proc/{process}/fd/{name}"
            try:
                has_socket = has_socket or os.readlink(file) == f"socket:[{inode}]"
                if not has_lock and os.path.samestat(os.stat(file), lock):
                    with open(f"/proc/{process}/fdinfo/{name}", "rb") as about:
                        has_lock = b"FLOCK" in about.read()
            except OSError:
                continue  # closed meanwhile
    except OSError:
        return False  # it has ended, or is another user's
    return has_socket and has_lock


def is_locked(folder: int) -> bool:
    """Whether somebody holds the lock in a folder. To know, it is taken for a moment."""
    try:
        import fcntl  # only where the kernel does not tell who listens
    except ImportError:
        return True  # as where the file system knows no locks
    try:
        lock = open_file(folder, "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True  # it is held, or the file system knows no locks
    finally:
        os.close(lock)
    return False
