"""Operating system features that the worker needs: users, locks, pipes, and the start time of the process."""

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
    """Seconds to retry opening a file that is in use. Virus scanners open each new file."""
    FILETIME_EPOCH_S = 11644473600
    """Seconds from 1601, the start of Windows time, to 1970."""

    def current_user() -> int | None:
        """Return None, because users have no numeric ids."""
        return None

    def is_process_running(_process: int) -> bool:
        """Return False, because `os.kill` would end the process instead of checking it."""
        return False

    def lock_directory(_file: int) -> None:
        """Do nothing, because directories cannot be locked."""

    def retry_while_open(act: Callable[[], Any]) -> Any:
        """Call `act`, and retry for up to `PATIENCE_S` while it fails because another process has the file open."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return act()
            except PermissionError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(PAUSE_S)

    def enlarge_pipe(_end: int) -> None:
        """Do nothing, because the capacity of a pipe cannot be changed later."""

    def wait_readable(ends: Iterable[int], *, waits: bool) -> list[int]:
        """Return the ends of pipes that have data or are closed. With `waits`, wait for at least one."""
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
        """Return the time at which this process started, in nanoseconds since 1970, or 0 if unknown."""
        times = [ctypes.c_uint64() for _ in range(4)]
        kernel = ctypes.windll.kernel32
        handle = ctypes.c_void_p(kernel.GetCurrentProcess())
        if not kernel.GetProcessTimes(handle, *map(ctypes.byref, times)):
            return 0
        return (times[0].value - FILETIME_EPOCH_S * 10**7) * 100

    def creation_ns(status: os.stat_result) -> int:
        """Return the time at which a file was created, in nanoseconds since 1970.

        The time of its last change is known only for an open file. Source: CPython's gh-157671.
        """
        return int(getattr(status, "st_birthtime_ns", status.st_ctime_ns))

else:
    import fcntl

    WIDER, PIPE_BYTES = 1031, 1 << 20
    """The fcntl command that sets the capacity of a pipe, and the capacity in bytes. Source: fcntl(2), F_SETPIPE_SZ."""

    def is_process_running(process: int) -> bool:
        """Return whether a process on this machine is running."""
        try:
            os.kill(process, 0)
        except PermissionError:
            return True
        except (OSError, OverflowError):
            return False
        return True

    def current_user() -> int | None:
        """Return the id of the current user."""
        return os.getuid()

    def creation_ns(status: os.stat_result) -> int:
        """Return the time at which the status of a file last changed, in nanoseconds since 1970.

        It cannot be set to an earlier time.
        """
        return status.st_ctime_ns

    def lock_directory(file: int) -> None:
        """Wait for the lock on an open file or directory, and hold it until the file is closed.

        Raises:
            OSError: the file system does not support locks.
        """
        fcntl.flock(file, fcntl.LOCK_EX)

    def retry_while_open(act: Callable[[], Any]) -> Any:
        """Call `act` once. On this system, other processes that have the file open do not interfere."""
        return act()

    def enlarge_pipe(end: int) -> None:
        """Set the capacity of a pipe to a megabyte.

        Raises:
            OSError: the system does not support this.
        """
        fcntl.fcntl(end, WIDER, PIPE_BYTES)

    def wait_readable(ends: Iterable[int], *, waits: bool) -> list[int]:
        """Return the ends of pipes that have data or are closed. With `waits`, wait for at least one."""
        return select.select(list(ends), [], [], None if waits else 0)[0]

    if sys.platform == "linux":
        LINUX_STATUS = "/proc/self/stat"
        START_FIELD = 19
        """The index of the start time among the fields following the name. Source: proc(5), `starttime`."""

        def process_start_ns() -> int:
            """Return the time at which this process started, in nanoseconds since 1970, or 0 if unknown."""
            try:
                with open(LINUX_STATUS, encoding="ascii", errors="replace") as status:
                    ticks = int(status.read().rpartition(")")[2].split()[START_FIELD])
            except (OSError, ValueError, IndexError):
                return 0
            # The kernel reports its boot time only in whole seconds.
            since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            # Round up to the next tick. No interpreter loads user code during its first tick.
            return time.time_ns() - since_boot + (ticks + 1) * 10**9 // os.sysconf("SC_CLK_TCK")

    elif sys.platform == "darwin":
        import ctypes

        DARWIN_INFO, DARWIN_BYTES, DARWIN_START = 3, 136, 120
        """The query for information about a process, the size of its result, and the offset of the start time in it.

        Source: `sys/proc_info.h`, `PROC_PIDTBSDINFO` and `pbi_start_tvsec`.
        """

        def process_start_ns() -> int:
            """Return the time at which this process started, in nanoseconds since 1970, or 0 if unknown."""
            info = ctypes.create_string_buffer(DARWIN_BYTES)
            size = ctypes.CDLL(None).proc_pidinfo(os.getpid(), DARWIN_INFO, ctypes.c_uint64(0), info, DARWIN_BYTES)
            start = int.from_bytes(info.raw[DARWIN_START : DARWIN_START + 8], sys.byteorder)
            return start * 10**9 if size == DARWIN_BYTES else 0

    else:

        def process_start_ns() -> int:
            """Return 0, because this system does not report it. All files then count as newer."""
            return 0


if sys.platform == "linux":
    DIAG_S = 1
    """Seconds to wait for the kernel's reply, in case a filter drops the request."""
    SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NETLINK_SOCK_DIAG = 20, 1, 4
    TABLE = "/proc/net/tcp"
    NOBODY = -1
    """The user of a socket without a process, for which the kernel reports 0."""

    def peer_user(remote: Address, local: Address) -> int | None:
        """Return the user of the process at the `remote` end of a connection, or None if unknown.

        Source: sock_diag(7), `struct inet_diag_req_v2` and `struct inet_diag_msg`.
        """
        family = _socket.AF_INET6 if ":" in local[0] else _socket.AF_INET
        request = struct.pack("=IHHII4BI", 72, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0, family, 6, 0, 0, 0xFFFFFFFF)
        hosts = [_socket.inet_pton(family, host.partition("%")[0]) for host in (remote[0], local[0])]
        request += struct.pack(">HH16s16s4x8s", remote[1], local[1], *hosts, b"\xff" * 8)
        try:
            # The original class is used, because the program may have replaced `socket.socket`.
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
        """Look up the user in the kernel's table of connections, which takes 5 ms. Source: proc(5)."""
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

    def peer_user(_remote: Address, _local: Address) -> int | None:
        """Return None, because this system does not report it."""
        return None
