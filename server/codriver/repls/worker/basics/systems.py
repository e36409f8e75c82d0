"""The differences between operating systems that the worker meets: users, locks, pipes, and when a process began."""

from __future__ import annotations

import _socket
import os
import select
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Address = tuple[Any, ...]

if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    PAUSE_S = 0.02
    PATIENCE_S = 1.0
    """The time for retries on a file that somebody else holds, as virus scanners hold each new one."""
    FILETIME_EPOCH_S = 11644473600
    """From 1601, where Windows begins to count, to 1970."""

    def current_user() -> int | None:
        """None: users have no numbers here."""
        return None

    def lock(_file: int) -> None:
        """Nothing: folders cannot be locked here."""

    def patiently(act: Callable[[], Any]) -> Any:
        """Retry an act that is refused while somebody else has a file open, until it succeeds or the time is over."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return act()
            except PermissionError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(PAUSE_S)

    def widen(_end: int) -> None:
        """Nothing: the width of a pipe is set when one is made."""

    def readable(ends: Iterable[int], *, waits: bool) -> list[int]:
        """The ends of pipes that have something to read, or have ended; `waits`: at least one."""
        while True:
            found = [end for end in ends if _has_bytes(end)]
            if found or not waits:
                return found
            time.sleep(PAUSE_S)

    def _has_bytes(end: int) -> bool:
        count = wintypes.DWORD()
        handle = wintypes.HANDLE(msvcrt.get_osfhandle(end))
        is_open = ctypes.windll.kernel32.PeekNamedPipe(handle, None, 0, None, ctypes.byref(count), None)
        return bool(count.value) or not is_open

    def process_start_ns() -> int:
        """Nanoseconds since 1970 at which this process began; 0 if the system does not tell."""
        times = [ctypes.c_uint64() for _ in range(4)]
        kernel = ctypes.windll.kernel32
        handle = ctypes.c_void_p(kernel.GetCurrentProcess())
        if not kernel.GetProcessTimes(handle, *map(ctypes.byref, times)):
            return 0
        return (times[0].value - FILETIME_EPOCH_S * 10**7) * 100

    def status_ns(status: os.stat_result) -> int:
        """Nanoseconds since 1970 at which a file was made: only an open file tells the time of its last change.

        Source: CPython's gh-157671: `st_ctime_ns` is the making for a path, and the change for an open file.
        """
        return int(getattr(status, "st_birthtime_ns", status.st_ctime_ns))

else:
    import fcntl

    WIDER, PIPE_BYTES = 1031, 1 << 20
    """Source: fcntl(2), F_SETPIPE_SZ of Linux."""

    def current_user() -> int | None:
        """The number of this user."""
        return os.getuid()

    def status_ns(status: os.stat_result) -> int:
        """Nanoseconds since 1970 at which the status of a file changed last, which nobody can set back."""
        return status.st_ctime_ns

    def lock(file: int) -> None:
        """Wait until no other process has the lock of an open file or folder, and hold it until that is closed.

        Raises:
            OSError: the file system has no locks.
        """
        fcntl.flock(file, fcntl.LOCK_EX)

    def patiently(act: Callable[[], Any]) -> Any:
        """Do it at once: this system opens, renames and removes a file that another process has open."""
        return act()

    def widen(end: int) -> None:
        """Let a pipe hold a megabyte. Raises OSError on systems that cannot."""
        fcntl.fcntl(end, WIDER, PIPE_BYTES)

    def readable(ends: Iterable[int], *, waits: bool) -> list[int]:
        """The ends of pipes that have something to read, or have ended; `waits`: at least one."""
        return select.select(list(ends), [], [], None if waits else 0)[0]

    if sys.platform == "linux":
        LINUX_STATUS = "/proc/self/stat"
        START_FIELD = 19
        """The field of a process' begin, counted behind its name. Source: proc(5), `starttime`."""

        def process_start_ns() -> int:
            """Nanoseconds since 1970 at which this process began; 0 if the system does not tell."""
            try:
                with open(LINUX_STATUS, encoding="ascii", errors="replace") as status:
                    ticks = int(status.read().rpartition(")")[2].split()[START_FIELD])
            except (OSError, ValueError, IndexError):
                return 0
            # The kernel's own time of boot is told in whole seconds.
            since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            # The tick before is meant: no interpreter loads anything of the user's in its first tick.
            return time.time_ns() - since_boot + (ticks + 1) * 10**9 // os.sysconf("SC_CLK_TCK")

    elif sys.platform == "darwin":
        import ctypes

        DARWIN_INFO, DARWIN_BYTES, DARWIN_START = 3, 136, 120
        """Source: `sys/proc_info.h`, `PROC_PIDTBSDINFO` and `pbi_start_tvsec`."""

        def process_start_ns() -> int:
            """Nanoseconds since 1970 at which this process began; 0 if the system does not tell."""
            info = ctypes.create_string_buffer(DARWIN_BYTES)
            size = ctypes.CDLL(None).proc_pidinfo(os.getpid(), DARWIN_INFO, ctypes.c_uint64(0), info, DARWIN_BYTES)
            start = int.from_bytes(info.raw[DARWIN_START : DARWIN_START + 8], sys.byteorder)
            return start * 10**9 if size == DARWIN_BYTES else 0

    else:

        def process_start_ns() -> int:
            """0, so that every file is newer: the system does not tell the beginning of a process."""
            return 0


if sys.platform == "linux":
    DIAG_S = 1
    """The kernel answers at once; a filter that swallows the question must not hold up anybody."""
    SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NETLINK_SOCK_DIAG = 20, 1, 4
    TABLE = "/proc/net/tcp"
    NOBODY = -1
    """The user of a socket without a process, for which the kernel shows 0."""

    def user_behind(remote: Address, local: Address) -> int | None:
        """The user of the process at the other end, `remote`, of a connection; None if unknown.

        Source: sock_diag(7), `struct inet_diag_req_v2` and `struct inet_diag_msg`.
        """
        family = _socket.AF_INET6 if ":" in local[0] else _socket.AF_INET
        request = struct.pack("=IHHII4BI", 72, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0, family, 6, 0, 0, 0xFFFFFFFF)
        hosts = [_socket.inet_pton(family, host.partition("%")[0]) for host in (remote[0], local[0])]
        request += struct.pack(">HH16s16s4x8s", remote[1], local[1], *hosts, b"\xff" * 8)
        try:
            # The original class, whatever the program has put in place of `socket.socket`.
            kernel = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, NETLINK_SOCK_DIAG)
            try:
                kernel.settimeout(DIAG_S)
                kernel.send(request)
                answer = kernel.recv(4096)
            finally:
                kernel.close()
            if len(answer) >= 88 and struct.unpack_from("=H", answer, 4) == (SOCK_DIAG_BY_FAMILY,):
                user, inode = struct.unpack_from("=II", answer, 80)
                return user if inode else NOBODY
        except OSError:
            pass
        return _user_in_table(remote[1], local[1])

    def _user_in_table(port: int, local_port: int) -> int | None:
        """The user by the kernel's table of connections (5 ms), for a kernel that is silent. Source: proc(5)."""
        ends = [f"0100007F:{port:04X}", f"0100007F:{local_port:04X}"] if sys.byteorder == "little" else []
        try:
            with open(TABLE, encoding="ascii") as table:
                rows: list[list[str]] = [line.split() for line in table]
        except OSError:
            return None
        # Columns: number, local address, remote address, state, queues, timer, retransmits, user, timeout, inode.
        found: Any = next((row for row in rows if row[1:3] == ends), None)
        if found is None:
            return None
        return int(found[7]) if found[9] != "0" else NOBODY

else:

    def user_behind(_remote: Address, _local: Address) -> int | None:
        """None: the system does not tell."""
        return None
