"""Processes of kernels on this machine, found by the connection files that their commands name; their interrupt.

Only some kernels tell their process id. Without `/proc` none is found. Source: proc(5).
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links, Rules
from codriver.systems.other_processes import interrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROCESSES: Final = Path("/proc")
COMMAND_RULES: Final = Rules(Links.NEVER, 64 * files.KIBIBYTE)
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
        return interrupt(self.id, is_group=self.leads)


def find_process(connection_file: str) -> KernelProcess | None:
    """The process that was started with this connection file, the innermost of several; None if none is seen."""
    wanted, found = os.fsencode(connection_file), dict[int, tuple[int, int]]()
    for folder, words in _commands():
        if any(word == wanted or word.endswith(b"=" + wanted) for word in words):
            with suppress(OSError, ValueError, IndexError):
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                found[int(folder.name)] = int(fields[PARENT]), int(fields[GROUP])
    parents = {parent for parent, _ in found.values()}
    innermost = [process for process in found if process not in parents]
    if len(innermost) != 1:
        return None
    _, group = found[innermost[0]]
    return KernelProcess(innermost[0], group in found)


def folders_of_processes(connection_files: Iterable[Path]) -> dict[Path, Path]:
    """The working directories of the kernels of these connection files, where the system tells: that is Linux."""
    wanted, found = {os.fsencode(path): path for path in connection_files}, dict[Path, Path]()
    for folder, words in _commands():
        path = next((wanted[word] for word in words if word in wanted), None)
        # A console of that kernel names its file as well.
        if path is not None and b"--existing" not in words:
            with suppress(OSError):
                found[path] = (folder / "cwd").readlink()
    return found


def _commands() -> Iterator[tuple[Path, list[bytes]]]:
    """Each process, as its folder, and the words of its command."""
    for folder in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            yield folder, files.read_head(folder / "cmdline", COMMAND_RULES).split(b"\0")
