"""Read the processes of this machine from `/proc` on Linux. Start times are in clock ticks since boot.

Source: proc(5).
"""

# mypy: disable-error-code="attr-defined"
# It runs on Linux only, and other systems lack some of these functions.

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codriver.features.run.processes import RunProcess
from codriver.net.kernel_sockets import listening_sockets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

PROCESSES_DIRECTORY: Final = "/proc"
"""The directory in which Linux lists all processes."""
SIGNAL_BIT: Final = 1 << (int(getattr(signal, "SIGURG", 23)) - 1)
"""The bit of SIGURG in the signal masks in `/proc`."""
SOCKET_LINK_PREFIX: Final = "socket:["
"""The prefix of the link of an open socket, before its inode."""


def find_processes() -> dict[int, RunProcess]:
    """Return all of this user's processes by process id. Blocks."""
    found: dict[int, RunProcess] = {}
    for name in os.listdir(PROCESSES_DIRECTORY):  # noqa: PTH208  # there are hundreds of names, and this runs several times per second
        if name.isdecimal() and (process := find_process(int(name))) is not None:
            found[process.pid] = process
    return found


def started_ms(process: RunProcess) -> int:
    """Return the start time of a process in epoch milliseconds."""
    now = time.time()
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / os.sysconf("SC_CLK_TCK")
    return int((now - age) * 1000)


def find_process(pid: int) -> RunProcess | None:
    """Return the process with this id, or None if it does not exist or belongs to another user."""
    base = f"{PROCESSES_DIRECTORY}/{pid}/"
    try:
        # The fields follow the name in parentheses, which may contain any character.
        rest = _bytes(base + "stat").rpartition(b")")[2].split()
        if rest[0] in (b"Z", b"X"):
            return None
        environ = dict(part.partition(b"=")[::2] for part in _bytes(base + "environ").split(b"\0") if part)
        words = tuple(_bytes(base + "cmdline").decode("utf-8", "replace").rstrip("\0").split("\0"))
        status = {line.partition(b":")[0]: line.split()[1:] for line in _bytes(base + "status").splitlines()}
        masks = {name: int(status[name][0], 16) for name in (b"SigCgt", b"SigBlk", b"SigIgn") if name in status}
        isolation = ""
        if status[b"Uid"][1] != b"%d" % os.geteuid():
            isolation = "runs as a different user"
        elif status.get(b"NSpid", [b"%d" % pid])[-1] != b"%d" % pid:
            isolation = "has a different PID namespace"
        elif os.readlink(base + "root") != os.sep:  # noqa: PTH115  # as below
            isolation = "has a different root directory"
        is_caught = bool(masks.get(b"SigCgt", 0) & SIGNAL_BIT)
        return RunProcess(
            pid=pid,
            parent=int(rest[1]),
            started=int(rest[19]),
            words=words,
            is_ready=is_caught and not isolation,
            is_blocking=bool(masks.get(b"SigBlk", 0) & SIGNAL_BIT),
            is_ignoring=bool(masks.get(b"SigIgn", 0) & SIGNAL_BIT),
            executable=os.readlink(base + "exe"),  # noqa: PTH115  # this runs often
            isolation=isolation,
            environ=environ,
        )
    except (OSError, IndexError, ValueError):
        return None


def find_ports(pids: Collection[int]) -> dict[int, int]:
    """Return the lowest TCP port on which each process listens, by process id. Blocks."""
    try:
        ports = {inode: int(address.rpartition(":")[2]) for inode, address in listening_sockets().items()}
    except OSError:
        return {}
    found = {pid: [ports[inode] for inode in _socket_inodes(pid) if inode in ports] for pid in pids}
    return {pid: min(listening) for pid, listening in found.items() if listening}


def _socket_inodes(pid: int) -> Iterator[int]:
    """Yield the inodes of the sockets that a process has open."""
    directory = f"{PROCESSES_DIRECTORY}/{pid}/fd"
    with suppress(OSError):  # the process has ended
        for name in os.listdir(directory):  # noqa: PTH208  # as above
            with suppress(OSError):  # it was closed in the meantime
                link = os.readlink(f"{directory}/{name}")  # noqa: PTH115  # as above
                if link.startswith(SOCKET_LINK_PREFIX):
                    yield int(link[len(SOCKET_LINK_PREFIX) : -1])


def _bytes(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # as above
        parts = []
        while part := file.read(65536):
            parts.append(part)
    return b"".join(parts)
