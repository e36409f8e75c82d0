"""Read the processes of this machine, from `/proc` on Linux and with psutil on macOS."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Protocol

if sys.platform == "linux":
    from codriver.features.run import linux_processes as implementation
else:
    from codriver.features.run import psutil_processes as implementation

if TYPE_CHECKING:
    from collections.abc import Collection

    from codriver.features.run.processes import RunProcess

SUPPORTED_SYSTEMS: Final = ("Linux", "Darwin")
"""The systems on which programs can be run and found, by their names in `platform`."""


class ProcessTable(Protocol):
    """Provides information about the processes on this machine. All methods block."""

    def find_processes(self) -> dict[int, RunProcess]:
        """Return all of this user's processes by process id."""

    def find_process(self, pid: int) -> RunProcess | None:
        """Return the process with this id, or None if it does not exist or belongs to another user."""

    def started_ms(self, process: RunProcess) -> int:
        """Return the start time of a process in epoch milliseconds."""

    def find_ports(self, pids: Collection[int]) -> dict[int, int]:
        """Return the TCP port on which each process listens, by process id. Of several ports, return the lowest."""


PROCESS_TABLE: Final[ProcessTable] = implementation
"""The process table of this operating system."""


def find_processes() -> dict[int, RunProcess]:
    """Return all of this user's processes by process id. Blocks."""
    return PROCESS_TABLE.find_processes()


def find_process(pid: int) -> RunProcess | None:
    """Return the process with this id, or None if it does not exist or belongs to another user. Blocks."""
    return PROCESS_TABLE.find_process(pid)


def started_ms(process: RunProcess) -> int:
    """Return the start time of a process in epoch milliseconds."""
    return PROCESS_TABLE.started_ms(process)


def find_ports(pids: Collection[int]) -> dict[int, int]:
    """Return the TCP port on which each process listens, by process id. Blocks.

    A process that listens on no port is not in the result. If a process listens on several ports, the result contains
    the lowest.
    """
    return PROCESS_TABLE.find_ports(pids)
