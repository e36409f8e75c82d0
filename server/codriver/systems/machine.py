"""The machine itself: the time of its start, users' names, listeners at ports, bounds of open files, memory.

Only macOS is asked here for listeners, of this user's processes; Linux has tables of sockets. The system's allocator is
told to give large blocks back as soon as they are free, and written data is put on the disk for good.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Final

KNOWS_USERS: Final = sys.platform == "linux"
"""Whether the kernel tells the user at the other end of a connection. Other systems need a token."""
FD_BYTES: Final = 8
"""The length of one row of the list of a process' descriptors: its number, and its kind, both of 4 bytes."""
IS_SOCKET: Final = 2
INFO_BYTES: Final = 792
"""The length of the answer about one socket. Source: macOS, `sys/proc_info.h`, `struct socket_fdinfo`."""
KIND_AT, PORT_AT, STATE_AT = 256, 268, 344
"""The offsets of `soi_kind`, `insi_lport` and `tcpsi_state`, of 4 bytes each; the port has the first 2."""
IS_TCP, LISTENS = 2, 1

if sys.platform == "win32":

    def started_at() -> float:
        """Return the time at which the machine was started, in seconds since the epoch."""
        return time.time() - time.monotonic()

    def user_name(_number: int) -> str | None:
        """None: users have no numbers here."""
        return None

    def allow_open_files(_requested: int) -> str:
        """Empty, as sockets are not counted here."""
        return ""

else:

    def started_at() -> float:
        """Return the time at which the machine was started, in seconds since the epoch."""
        # The usual clock of Linux stands still while the machine sleeps; other systems' clocks go on.
        clock = time.CLOCK_MONOTONIC
        if sys.platform == "linux":
            clock = time.CLOCK_BOOTTIME
        return time.time() - time.clock_gettime(clock)

    def user_name(number: int) -> str | None:
        """Return the name of a user; None for an unknown user."""
        try:
            import pwd  # noqa: PLC0415  # some builds of Python lack it, and a refusal is rare

            return pwd.getpwuid(number).pw_name
        except (ImportError, KeyError):
            return None

    def allow_open_files(requested: int) -> str:
        """Let this process open so many files, as far as the system allows; the system's refusal, else nothing."""
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
            return f"not more than {soft} files may be open: {error}"
        return ""


LARGE_BYTES: Final = 320 * 2**10
"""From this size on a block is the system's own, with new pages each time: a megabyte takes 0.1 ms, and four times as
long in a virtual machine. One read of the event loop, 256 KiB and its header, is smaller.
"""
_MMAP_THRESHOLD: Final = -3
"""Source: mallopt(3), `M_MMAP_THRESHOLD`."""


def put_on_disk(descriptor: int) -> None:
    """Put written data on the disk for good. On macOS `fsync` leaves the data in the drive's own memory.

    Source: macOS, fsync(2) and fcntl(2), `F_FULLFSYNC`.
    """
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415  # not on every system

        with suppress(OSError):  # a file system that knows no more than `fsync`
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def give_back_large_blocks() -> None:
    """Have large blocks given back when they are free, where glibc allocates. Again is harmless; it takes some ms.

    By itself glibc raises its bound to the largest block that was freed, up to 32 MiB, and puts smaller blocks among
    all else: long texts that come and go then leave holes of many megabytes between the blocks that stay.
    """
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  # milliseconds, before which nobody can connect

        with suppress(AttributeError, OSError):  # another C library; musl's gives large blocks back by itself
            ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, LARGE_BYTES)


if sys.platform == "darwin":
    import ctypes

    LIST_DESCRIPTORS, SOCKET_INFO = 1, 3
    SPARE = 16
    """Room for so many more descriptors than were counted a moment before."""

    def listens(process: int, port: int) -> bool | None:
        """Whether a process listens at a port of TCP; None if the system does not tell, as of others' processes."""
        system = ctypes.CDLL(None, use_errno=True)
        nothing = ctypes.c_uint64(0)
        needed = system.proc_pidinfo(process, LIST_DESCRIPTORS, nothing, None, 0)
        if needed <= 0:
            return None
        rows = ctypes.create_string_buffer(needed + SPARE * FD_BYTES)
        given = system.proc_pidinfo(process, LIST_DESCRIPTORS, nothing, rows, len(rows))
        if given <= 0:
            return None
        info = ctypes.create_string_buffer(INFO_BYTES)
        for number in sockets_in(rows.raw[:given]):
            size = system.proc_pidfdinfo(process, number, SOCKET_INFO, info, INFO_BYTES)
            if size >= INFO_BYTES and listening_port(info.raw) == port:
                return True
        return False

else:

    def listens(_process: int, _port: int) -> bool | None:
        """None: this system is not asked in this way."""
        return None


def sockets_in(rows: bytes) -> list[int]:
    """Return the descriptors that are sockets, of a process' list of descriptors."""
    pairs = [(_number(rows, at), _number(rows, at + 4)) for at in range(0, len(rows) - FD_BYTES + 1, FD_BYTES)]
    return [descriptor for descriptor, kind in pairs if kind == IS_SOCKET]


def listening_port(info: bytes) -> int | None:
    """The port of a listening TCP socket, out of the system's answer about a socket; None for any other."""
    if _number(info, KIND_AT) != IS_TCP or _number(info, STATE_AT) != LISTENS:
        return None
    return int.from_bytes(info[PORT_AT : PORT_AT + 2], "big")


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], sys.byteorder)
