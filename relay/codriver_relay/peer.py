"""The process at the other end of a connection, as the kernel knows it, and whether that process holds a lock.

Files name the listener on a port, and an earlier process of anybody may have written them; the kernel's answer cannot
be forged.
"""

from __future__ import annotations

import _socket as socket
import os
import sys

from codriver_relay.own_files import RECORD_BYTES, Folder, open_file, read_beside, status_in, value_of

GONE = (-1, 0)
"""The user and inode of a socket without a process: nobody can be named for it.

The kernel shows user 0 for such a socket, so that a stranger who sends and closes at once would pass for root.
"""
IS_LINUX = sys.platform == "linux"
DIAG_S = 1
"""The kernel answers at once; a socket filter that swallows the question must not hold up anybody."""
LOCKS = "/proc/locks"
TABLE_READS = 3
"""The readings of a table: while it is read, a socket closed by others can move a row out of sight."""


def listener_of(connection: socket.socket) -> tuple[int, int] | None:
    """The user at the other end of a connection, and the inode of the socket that listened; None if it is elsewhere.

    The listener is asked for first: an end that is not accepted yet has no user, and the listener from before still
    listens. Without an inode, no process has the socket any more.

    Raises:
        OSError: no kernel tells.
    """
    try:
        (there, port), (here, own) = [
            (plain(name[0]), name[1]) for name in (connection.getpeername(), connection.getsockname())
        ]
    except OSError:
        return GONE  # the peer has hung up already
    anywhere = bytes(len(there))
    listening = find(there, port, anywhere, 0)
    other = find(there, port, here, own)
    if other is None:
        return None
    if not other[1]:
        return listening or GONE
    return other[0], (listening or other)[1]


def plain(host: str) -> bytes:
    """Return an address as its bytes; an IPv4 address in IPv6 form in its plain form."""
    host = host.partition("%")[0]
    host = host[7:] if host.startswith("::ffff:") and "." in host else host
    return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)


def find(there: bytes, port: int, here: bytes, own: int) -> tuple[int, int] | None:
    """User and inode of the socket with these two addresses, `own` 0 for a listener; None without one.

    Raises:
        OSError: neither a socket nor a table of the kernel's tells.
    """
    try:
        return ask_kernel(there, port, here, own)
    except OSError:
        if IS_LINUX:
            return look_up(there, port, here, own)
        raise


def ask_kernel(there: bytes, port: int, here: bytes, own: int) -> tuple[int, int] | None:
    """User and inode as the kernel tells them by one question for one socket: 0.02 ms, however many there are.

    Source: sock_diag(7), `struct inet_diag_req_v2` and `struct inet_diag_msg`.

    Raises:
        OSError: this kernel, or the container, does not answer such questions.
    """
    if not IS_LINUX:
        raise OSError(0, "only Linux tells who listens")
    family = socket.AF_INET if len(there) == 4 else socket.AF_INET6
    ends = port.to_bytes(2, "big") + own.to_bytes(2, "big") + there.ljust(16, b"\0") + here.ljust(16, b"\0")
    question = bytes([family, socket.IPPROTO_TCP, 0, 0]) + b"\xff" * 4 + ends + bytes(4) + b"\xff" * 8
    numbers = ((16 + len(question), 4), (20, 2), (1, 2), (1, 4), (0, 4))  # length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST
    head = b"".join([number.to_bytes(size, sys.byteorder) for number, size in numbers])
    kernel = socket.socket(getattr(socket, "AF_NETLINK", 0), socket.SOCK_RAW, 4)  # NETLINK_SOCK_DIAG
    try:
        kernel.settimeout(DIAG_S)
        kernel.send(head + question)
        answer = kernel.recv(RECORD_BYTES)
    finally:
        kernel.close()
    kind, code = native(answer[4:6]), native(answer[16:20])
    if kind == 2 and code == (1 << 32) - 2:
        return None
    if kind != 20 or len(answer) < 88:
        raise OSError(0, f"sock_diag answered a message of type {kind}")
    if own and answer[22:24] == b"\0\0":
        return None  # no such connection: the answer is the listener
    return native(answer[80:84]), native(answer[84:88])


def native(data: bytes) -> int:
    """Return a number as the kernel writes it."""
    return int.from_bytes(data, sys.byteorder)


def look_up(there: bytes, port: int, here: bytes, own: int, *, tables: str = "/proc/net") -> tuple[int, int] | None:
    """User and inode from the kernel's tables, where `ask_kernel` has no answer. Source: proc(5), /proc/net/tcp.

    A listener of IPv6 may take connections of IPv4 too. Reading a table costs 5 ms even when it is empty.

    Raises:
        OSError: this system has no such tables.
    """
    names = ("tcp", "tcp6") if len(there) == 4 else ("tcp6",)
    for name in names * TABLE_READS:
        mapped = bytes(10) + b"\xff\xff" if len(there) == 4 and name == "tcp6" else b""
        size = 16 if name == "tcp6" else 4
        wanted = [row_form(mapped + there, port), row_form(mapped + here if own else bytes(size), own)]
        try:
            with open(f"{tables}/{name}", "rb") as table:
                rows = [row.split() for row in table][1:]
        except FileNotFoundError:
            if name == names[0]:
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


def lives(process: int) -> bool:
    """Return whether a process runs; one unknown to the system's answer counts as running."""
    if sys.platform != "win32":  # where the question would end the process
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True  # another user's process
    return True


def holds_lock(folder: Folder, inode: int) -> bool:
    """Whether the process with the socket `inode` holds the lock in a folder: it is the server of that workspace."""
    hint = value_of(read_beside(folder, "server.json"), b"pid")
    try:
        lock = status_in(folder, "lock")
        return holder_of(lock, inode, int(hint) if hint.isdigit() else None) is not None
    except OSError:
        return False


def holder_of(
    lock: os.stat_result, inode: int, hint: int | None, *, table: str | os.PathLike[str] = LOCKS
) -> int | None:
    """The process that holds the lock on a file and has the socket `inode`; None when no process of ours has both.

    `hint`: a process to ask first, as the kernel may name the locked file otherwise than its status does. The table of
    all locks comes after the hint: its reader waits until every processor has passed the kernel, some 10 ms. Source:
    proc(5), /proc/locks: after `->` for those that wait, column 2 is the kind, 5 the process, 6 the file.

    Raises:
        OSError: this system does not tell.
    """
    if hint and has_both(str(hint), lock, inode):
        return hint
    for _ in range(TABLE_READS):
        with open(table, "rb") as locks:
            rows = [row.split() for row in locks]
        found = [row[4] for row in rows if row[1] != b"->" and row[5].rpartition(b":")[2] == b"%d" % lock.st_ino]
        for process in dict.fromkeys(found):
            if process.isdigit() and has_both(process.decode(), lock, inode):
                return int(process)
    return None


def has_both(process: str, lock: os.stat_result, inode: int) -> bool:
    """Return whether a process has the socket, and the file with a lock on it."""
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
        return False  # the process has ended, or is another user's
    return has_socket and has_lock


def is_locked(folder: Folder) -> bool:
    """Return whether somebody holds the lock in a directory. The check takes the lock for a moment."""
    try:
        lock = open_file(folder, "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        return not try_lock(lock)
    except (OSError, ImportError):
        return True  # the file system, or Python here, knows no locks
    finally:
        os.close(lock)


def try_lock(file: int) -> bool:
    """Take the lock on an open file, until that is closed; False if another process has it.

    Raises:
        OSError: the file system knows no locks.
        ImportError: Python here knows none.
    """
    if sys.platform == "win32":
        from codriver_relay.windows import try_lock as take
    else:
        take = try_flock
    return take(file)


if sys.platform != "win32":

    def try_flock(file: int) -> bool:
        """Return `try_lock` by the lock of POSIX systems."""
        from fcntl import LOCK_EX, LOCK_NB, flock  # only if the kernel does not tell the listener

        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        return True
