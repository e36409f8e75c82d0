"""The process of a kernel on this machine, found by the connection file that its command names; and its interrupt.

Only some kernels tell their process id. Without `/proc` it is not found. Source: proc(5).
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROCESSES: Final = Path("/proc")
PARENT: Final = 1
GROUP: Final = 2
"""Fields of `/proc/PID/stat` behind the command's name in brackets, from 0: state, parent, group."""


@dataclass(frozen=True, slots=True)
class KernelProcess:
    """A process of this machine that runs a kernel."""

    id: int
    leads: bool
    """Whether its process group is the kernel's alone: it leads that, or who started it for its sake does."""

    @property
    def folder(self) -> str | None:
        """Its current folder; None where that cannot be seen."""
        try:
            return str((PROCESSES / str(self.id) / "cwd").readlink())
        except OSError:
            return None

    def interrupt(self) -> bool:
        """Send SIGINT to its group, or to it alone in a group of others; whether it could be sent.

        Only the group frees a kernel that waits for a child process.
        """
        try:
            if self.leads:
                os.killpg(os.getpgid(self.id), signal.SIGINT)
            else:
                os.kill(self.id, signal.SIGINT)
        except (OSError, AttributeError):  # Windows has no process groups
            return False
        return True


def find_process(connection_file: str) -> KernelProcess | None:
    """The process that was started with this connection file, the innermost of several; None if none is seen."""
    found: dict[int, tuple[int, int]] = {}
    with suppress(OSError):
        for folder in PROCESSES.iterdir():
            if folder.name.isdecimal() and (ancestry := _ancestry(folder, connection_file.encode())):
                found[int(folder.name)] = ancestry
    parents = {parent for parent, _ in found.values()}
    innermost = [process for process in found if process not in parents]
    if len(innermost) != 1:
        return None
    _, group = found[innermost[0]]
    return KernelProcess(innermost[0], group in found)


def _ancestry(folder: Path, connection_file: bytes) -> tuple[int, int] | None:
    """The parent and the group of the process, if its command names the file."""
    with suppress(OSError, ValueError, IndexError):
        words = (folder / "cmdline").read_bytes().split(b"\0")
        if any(word == connection_file or word.endswith(b"=" + connection_file) for word in words):
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            return int(fields[PARENT]), int(fields[GROUP])
    return None
