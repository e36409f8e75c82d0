"""Query the machine's boot time, users and listening sockets, and configure the memory of this process.

Only macOS is queried for the sockets of a process. On Linux, `codriver.net.kernel_sockets` reads them.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Final

IDENTIFIES_USERS: Final = sys.platform == "linux"
"""Whether the kernel identifies the user at the other end of a connection. Other systems need a token instead."""
FD_ENTRY_BYTES: Final = 8
"""Size of an entry in the list of a process's descriptors: its number and its kind, 4 bytes each."""
SOCKET_FD_KIND: Final = 2
"""The kind of a socket in the lists of file descriptors that macOS returns."""
SOCKET_INFO_BYTES: Final = 792
"""Size of the structure that describes one socket. Source: macOS, `sys/proc_info.h`, `struct socket_fdinfo`."""
KIND_AT, PORT_AT, STATE_AT = 256, 268, 344
"""Offsets of `soi_kind`, `insi_lport` and `tcpsi_state` in the structure that describes a socket.

Each has 4 bytes, of which the port uses 2.
"""
IS_TCP, LISTENS = 2, 1
"""The kind of a TCP socket, and the state of a listening one. Source: macOS, `sys/proc_info.h`."""

if sys.platform == "win32":

    def boot_time_s() -> float:
        """Return the time at which the machine was started, in seconds since the epoch."""
        return time.time() - time.monotonic()

    def user_name(_number: int) -> str | None:
        """Return None, because Windows has no numeric user ids."""
        return None

    def allow_open_files(_requested: int) -> str:
        """Return an empty string, because Windows does not limit the number of sockets."""
        return ""

else:

    def boot_time_s() -> float:
        """Return the time at which the machine was started, in seconds since the epoch."""
        # On Linux, the monotonic clock stops while the machine is suspended.
        clock = time.CLOCK_MONOTONIC
        if sys.platform == "linux":
            clock = time.CLOCK_BOOTTIME
        return time.time() - time.clock_gettime(clock)

    def user_name(number: int) -> str | None:
        """Return the name of the user with this id, or None if there is no such user."""
        try:
            import pwd  # noqa: PLC0415  # some builds of Python lack it, and a refusal is rare

            return pwd.getpwuid(number).pw_name
        except (ImportError, KeyError):
            return None

    def allow_open_files(requested: int) -> str:
        """Raise this process's limit on open files, up to the hard limit. Return the error message if that fails."""
        try:
            import resource  # noqa: PLC0415  # as above
        except ImportError:
            return ""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY:
            requested = min(requested, hard)
        if soft == resource.RLIM_INFINITY or soft >= requested:
            return ""
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (requested, hard))
        except (OSError, ValueError) as error:
            return f"the limit of {soft} open files could not be raised: {error}"
        return ""


MMAP_THRESHOLD_BYTES: Final = 320 * 2**10
"""Minimum size of an allocated block that is mapped separately, so that freeing it returns it to the system.

Mapping a megabyte takes 0.1 ms, and four times as long in a virtual machine. Reads of the event loop, which take 256
KiB plus a header, are below the threshold.
"""
_MMAP_THRESHOLD_PARAMETER: Final = -3
"""The `mallopt` parameter that sets the threshold. Source: mallopt(3), `M_MMAP_THRESHOLD`."""


def sync_to_disk(descriptor: int) -> None:
    """Flush a file to permanent storage. On macOS, `fsync` would leave the data in the drive's cache.

    Source: macOS, fsync(2) and fcntl(2), `F_FULLFSYNC`.
    """
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415  # not on every system

        with suppress(OSError):  # a file system that only supports `fsync`
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def release_large_blocks() -> None:
    """Make glibc return large blocks of memory to the system when they are freed. Takes a few milliseconds.

    By default, glibc raises its threshold to the largest block that was freed, up to 32 MiB, and allocates smaller
    blocks among all others. Large strings that come and go then leave gaps of many megabytes between blocks that stay.
    """
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  # importing it would delay the start of the server

        with suppress(AttributeError, OSError):  # another C library, such as musl, which returns large blocks anyway
            ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD_PARAMETER, MMAP_THRESHOLD_BYTES)


if sys.platform == "darwin":
    import ctypes

    LIST_DESCRIPTORS, SOCKET_INFO = 1, 3
    SPARE = 16
    """Number of additional descriptors to allow for, in case some were opened since they were counted."""

    def is_listening_at(process: int, port: int) -> bool | None:
        """Return whether a process is listening on a TCP port, or None if unknown, as for other users' processes."""
        system = ctypes.CDLL(None, use_errno=True)
        nothing = ctypes.c_uint64(0)
        needed = system.proc_pidinfo(process, LIST_DESCRIPTORS, nothing, None, 0)
        if needed <= 0:
            return None
        rows = ctypes.create_string_buffer(needed + SPARE * FD_ENTRY_BYTES)
        given = system.proc_pidinfo(process, LIST_DESCRIPTORS, nothing, rows, len(rows))
        if given <= 0:
            return None
        info = ctypes.create_string_buffer(SOCKET_INFO_BYTES)
        for number in socket_descriptors(rows.raw[:given]):
            size = system.proc_pidfdinfo(process, number, SOCKET_INFO, info, SOCKET_INFO_BYTES)
            if size >= SOCKET_INFO_BYTES and listening_port(info.raw) == port:
                return True
        return False

else:

    def is_listening_at(_process: int, _port: int) -> bool | None:
        """Return None, because only macOS is queried this way."""
        return None


def socket_descriptors(rows: bytes) -> list[int]:
    """Parse a process's list of descriptors, and return the numbers of those that are sockets."""
    pairs = [
        (_number(rows, at), _number(rows, at + 4)) for at in range(0, len(rows) - FD_ENTRY_BYTES + 1, FD_ENTRY_BYTES)
    ]
    return [descriptor for descriptor, kind in pairs if kind == SOCKET_FD_KIND]


def listening_port(info: bytes) -> int | None:
    """Parse macOS's description of a socket. Return the port if it is a listening TCP socket, or else None."""
    if _number(info, KIND_AT) != IS_TCP or _number(info, STATE_AT) != LISTENS:
        return None
    return int.from_bytes(info[PORT_AT : PORT_AT + 2], "big")


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], sys.byteorder)
