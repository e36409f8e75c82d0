"""Ask the operating system which process is at the other end of a connection, and whether it holds a lock.

Files may name any process as the listener on a port, and may be out of date. The kernel's answer cannot be forged.
"""

from __future__ import annotations

import _socket as socket
import os
import sys

from codriver_relay.safe_files import MAX_RECORD_BYTES, Directory, json_member, open_file, read_if_possible, status_in

UNOWNED_SOCKET = (-1, 0)
"""The user id and inode of a socket that belongs to no process.

The kernel reports user 0 for a closed socket, so a user who sends data and closes the socket at once would look like
root.
"""
IS_LINUX = sys.platform == "linux"
DIAG_TIMEOUT_S = 1
"""Seconds to wait for the kernel's reply, in case a socket filter drops the request."""
LOCKS_FILE = "/proc/locks"
"""Path of the kernel's table of file locks. Source: proc(5)."""
MAX_TABLE_READS = 3
"""Maximum number of times that a table is read, because sockets closed in the meantime may hide a row."""


def find_listener(connection: socket.socket) -> tuple[int, int] | None:
    """Return the user of the process listening at the other end of a connection, and the inode of its socket.

    Returns None if the other end is not on this machine. The inode is 0 if no process has the socket open anymore. The
    listening socket is looked up before the connection, because a connection that is not accepted yet belongs to no
    user.

    Raises:
        OSError: the kernel does not provide this information.
    """
    try:
        (address, port), (peer_address, peer_port) = [
            (packed_address(name[0]), name[1]) for name in (connection.getpeername(), connection.getsockname())
        ]
    except OSError:
        return UNOWNED_SOCKET  # the peer has disconnected
    anywhere = bytes(len(address))
    listening = find_socket(address, port, anywhere, 0)
    other = find_socket(address, port, peer_address, peer_port)
    if other is None:
        return None
    if not other[1]:
        return listening or UNOWNED_SOCKET
    return other[0], (listening or other)[1]


def packed_address(host: str) -> bytes:
    """Convert an IP address to its binary form. An IPv4 address mapped to IPv6 becomes an IPv4 address."""
    host = host.partition("%")[0]
    host = host[7:] if host.startswith("::ffff:") and "." in host else host
    return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)


def find_socket(address: bytes, port: int, peer_address: bytes, peer_port: int) -> tuple[int, int] | None:
    """Return the user and the inode of the socket with these two addresses, or None if there is no such socket.

    `peer_port` is 0 for a listening socket.

    Raises:
        OSError: the kernel supports neither queries nor tables.
    """
    try:
        return query_kernel(address, port, peer_address, peer_port)
    except OSError:
        if IS_LINUX:
            return search_tables(address, port, peer_address, peer_port)
        raise


def query_kernel(address: bytes, port: int, peer_address: bytes, peer_port: int) -> tuple[int, int] | None:
    """Query the kernel for the user and the inode of a single socket. Return None if there is no such socket.

    This takes 0.02 ms, no matter how many sockets there are.

    Source: sock_diag(7), `struct inet_diag_req_v2` and `struct inet_diag_msg`.

    Raises:
        OSError: the kernel or the container does not support such queries.
    """
    if not IS_LINUX:
        raise OSError(0, "the process listening on a port can only be identified on Linux")
    family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
    ends = (
        port.to_bytes(2, "big")
        + peer_port.to_bytes(2, "big")
        + address.ljust(16, b"\0")
        + peer_address.ljust(16, b"\0")
    )
    request = bytes([family, socket.IPPROTO_TCP, 0, 0]) + b"\xff" * 4 + ends + bytes(4) + b"\xff" * 8
    numbers = ((16 + len(request), 4), (20, 2), (1, 2), (1, 4), (0, 4))  # length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST
    head = b"".join([number.to_bytes(size, sys.byteorder) for number, size in numbers])
    kernel = socket.socket(getattr(socket, "AF_NETLINK", 0), socket.SOCK_RAW, 4)  # NETLINK_SOCK_DIAG
    try:
        kernel.settimeout(DIAG_TIMEOUT_S)
        kernel.send(head + request)
        answer = kernel.recv(MAX_RECORD_BYTES)
    finally:
        kernel.close()
    kind, code = native_integer(answer[4:6]), native_integer(answer[16:20])
    if kind == 2 and code == (1 << 32) - 2:
        return None
    if kind != 20 or len(answer) < 88:
        raise OSError(0, f"the kernel answered a sock_diag query with a message of the unexpected type {kind}")
    if peer_port and answer[22:24] == b"\0\0":
        return None  # there is no such connection, and the reply is about the listener
    return native_integer(answer[80:84]), native_integer(answer[84:88])


def native_integer(data: bytes) -> int:
    """Decode an integer in the machine's byte order."""
    return int.from_bytes(data, sys.byteorder)


def search_tables(
    address: bytes, port: int, peer_address: bytes, peer_port: int, *, tables: str = "/proc/net"
) -> tuple[int, int] | None:
    """Search the kernel's tables for the user and the inode of a socket. Return None if there is no such socket.

    This is the fallback for `query_kernel`. An IPv6 listener may also accept IPv4 connections. Reading a table takes 5
    ms even if it is empty.

    Source: proc(5), /proc/net/tcp.

    Raises:
        OSError: this system has no such tables.
    """
    names = ("tcp", "tcp6") if len(address) == 4 else ("tcp6",)
    for name in names * MAX_TABLE_READS:
        mapped = bytes(10) + b"\xff\xff" if len(address) == 4 and name == "tcp6" else b""
        size = 16 if name == "tcp6" else 4
        expected = [
            format_table_address(mapped + address, port),
            format_table_address(mapped + peer_address if peer_port else bytes(size), peer_port),
        ]
        try:
            with open(f"{tables}/{name}", "rb") as table:
                rows = [row.split() for row in table][1:]
        except FileNotFoundError:
            if name == names[0]:
                raise
            continue
        for row in rows:
            if row[1:3] == expected or (
                not peer_port and row[3] == b"0A" and row[1] == format_table_address(bytes(size), port)
            ):
                return int(row[7]), int(row[9])
    return None


def format_table_address(address: bytes, port: int) -> bytes:
    """Format an address as in the kernel's tables.

    The result consists of hexadecimal 32-bit words in the machine's byte order, and the port.
    """
    words = [b"%08X" % native_integer(address[start : start + 4]) for start in range(0, len(address), 4)]
    return b"".join(words) + b":%04X" % port


def is_running(process: int) -> bool:
    """Return whether a process is running. Return True if that cannot be determined."""
    if sys.platform != "win32":  # where this call would end the process
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True  # another user's process
    return True


def owns_lock(directory: Directory, inode: int) -> bool:
    """Return whether the process with the socket `inode` holds the lock in a directory, as its server does."""
    hint = json_member(read_if_possible(directory, "server.json"), b"pid")
    try:
        lock = status_in(directory, "lock")
        return find_lock_holder(lock, inode, int(hint) if hint.isdigit() else None) is not None
    except OSError:
        return False


def find_lock_holder(
    lock: os.stat_result, inode: int, hint: int | None, *, table: str | os.PathLike[str] = LOCKS_FILE
) -> int | None:
    """Return the id of the process that holds the lock on a file and has the socket `inode` open, or None.

    `hint` is the id of a process to check first, because reading the kernel's table takes about 10 ms. The table may
    identify the file differently than its status does.

    Source: proc(5), /proc/locks: column 2 is the type, 5 the process, and 6 the file. Waiting processes have `->` in
    front.

    Raises:
        OSError: this system has no such table.
    """
    if hint and has_socket_and_lock(str(hint), lock, inode):
        return hint
    for _ in range(MAX_TABLE_READS):
        with open(table, "rb") as locks:
            rows = [row.split() for row in locks]
        found = [row[4] for row in rows if row[1] != b"->" and row[5].rpartition(b":")[2] == b"%d" % lock.st_ino]
        for process in dict.fromkeys(found):
            if process.isdigit() and has_socket_and_lock(process.decode(), lock, inode):
                return int(process)
    return None


def has_socket_and_lock(process: str, lock: os.stat_result, inode: int) -> bool:
    """Return whether a process has the socket `inode` open and holds a lock on the file with the status `lock`."""
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
                continue  # closed in the meantime
    except OSError:
        return False  # the process has ended, or belongs to another user
    return has_socket and has_lock


def is_locked(directory: Directory) -> bool:
    """Return whether a process holds the lock in a directory.

    If the lock is free, it is acquired for a moment.
    """
    try:
        lock = open_file(directory, "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        return not try_lock(lock)
    except (OSError, ImportError):
        return True  # the file system or this Python does not support locks
    finally:
        os.close(lock)


def try_lock(file: int) -> bool:
    """Try to lock an open file, and return False if another process holds the lock. Closing the file releases the lock.

    Raises:
        OSError: the file system does not support locks.
        ImportError: this Python does not support locks.
    """
    if sys.platform == "win32":
        from codriver_relay.windows import try_lock as try_system_lock
    else:
        try_system_lock = try_flock
    return try_system_lock(file)


if sys.platform != "win32":

    def try_flock(file: int) -> bool:
        """Implement `try_lock` on POSIX."""
        from fcntl import LOCK_EX, LOCK_NB, flock  # needed only if the kernel does not report the listener

        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        return True
