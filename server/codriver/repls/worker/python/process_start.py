"""The time at which this process began, by the operating system's own word."""

from __future__ import annotations

import os
import sys
import time

LINUX_STATUS = "/proc/self/stat"
BEGAN = 19
"""The field of a process' begin, counted behind its name. Source: proc(5), `starttime`."""
DARWIN_INFO, DARWIN_BYTES, DARWIN_BEGAN = 3, 136, 120
"""Source: `sys/proc_info.h`, `PROC_PIDTBSDINFO` and `pbi_start_tvsec`."""
FILETIME_EPOCH_S = 11644473600
"""From 1601, where Windows begins to count, to 1970."""


def began_ns() -> int:
    """Nanoseconds since 1970; 0, by which every file is newer, where the system does not tell."""
    try:
        return BY_SYSTEM.get(sys.platform, _of_nowhere)()
    except (OSError, ValueError, AttributeError, IndexError):
        return 0


def _of_linux() -> int:
    with open(LINUX_STATUS, encoding="ascii", errors="replace") as status:
        ticks = int(status.read().rpartition(")")[2].split()[BEGAN])
    # The kernel's own time of boot is told in whole seconds.
    since_boot = time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", 0))
    # It is the tick before: no interpreter loads anything of the user's in its first.
    return time.time_ns() - since_boot + (ticks + 1) * 10**9 // os.sysconf("SC_CLK_TCK")


def _of_darwin() -> int:
    import ctypes

    told = ctypes.create_string_buffer(DARWIN_BYTES)
    size = ctypes.CDLL(None).proc_pidinfo(os.getpid(), DARWIN_INFO, ctypes.c_uint64(0), told, DARWIN_BYTES)
    began = int.from_bytes(told.raw[DARWIN_BEGAN : DARWIN_BEGAN + 8], sys.byteorder)
    return began * 10**9 if size == DARWIN_BYTES else 0


def _of_windows() -> int:
    import ctypes

    times = [ctypes.c_uint64() for _ in range(4)]
    kernel = ctypes.windll.kernel32  # type: ignore[attr-defined]  # of Windows alone
    handle = ctypes.c_void_p(kernel.GetCurrentProcess())
    if not kernel.GetProcessTimes(handle, *map(ctypes.byref, times)):
        return 0
    return (times[0].value - FILETIME_EPOCH_S * 10**7) * 100


def _of_nowhere() -> int:
    return 0


BY_SYSTEM = {"linux": _of_linux, "darwin": _of_darwin, "win32": _of_windows}
