"""Python programs of the workspace that listen on a port, such as a web application: none of them is a REPL of ours.

An agent that evaluates in a REPL which we started may take it for the application that runs beside it. So it is told of
such a program, as long as no REPL of the program's own is known. Asked of Linux alone, which tells it in files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.core.actions import ProgramsSeen
from codriver.core.values import ListeningProgram
from codriver.files.polling import Poller
from codriver.net.kernel_sockets import listening_sockets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.core.dispatch import Core

LOOK_S: Final = 3.0
"""How often the kernel's tables are looked at: two short files, and the processes where a socket came or went."""
REST_TIMES: Final = 2000
"""Looks take no more than this part of the time."""
PROCESSES: Final = Path("/proc")
INTERPRETER: Final = "python"
OF_TOOLS: Final = ("codriver", "jupyter", "ipykernel", "debugpy")
"""The beginnings of names in command lines of programs that listen and are no applications."""


class ListeningPrograms:
    """Looks for the programs of one workspace, for the life of a server. Not for several threads at once."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace.resolve()
        self._sockets: Mapping[int, str] = {}
        self._found: tuple[ListeningProgram, ...] = ()

    def look(self) -> tuple[ListeningProgram, ...]:
        """The programs that listen now, a row for each port. Blocks; none where the system does not tell."""
        try:
            sockets = listening_sockets()
        except OSError:
            return ()
        if sockets != self._sockets:
            self._found = tuple(sorted(self._search(sockets), key=lambda one: (one.address, one.pid)))
            self._sockets = sockets
        return self._found

    def _search(self, sockets: Mapping[int, str]) -> Iterator[ListeningProgram]:
        seen: set[str] = set()
        own = os.getpid()
        for folder in PROCESSES.iterdir():
            if not folder.name.isdecimal() or int(folder.name) == own:
                continue
            try:
                if not self._is_program(folder, own):
                    continue
                links = [str(entry.readlink()) for entry in (folder / "fd").iterdir()]
            except OSError:  # it is gone, or another user's
                continue
            inodes = [int(link[8:-1]) for link in links if link.startswith("socket:[")]
            for address in sorted({sockets[inode] for inode in inodes if inode in sockets} - seen):
                seen.add(address)
                yield ListeningProgram(int(folder.name), address)

    def _is_program(self, folder: Path, own: int) -> bool:
        """True where a process is Python, works in the workspace, and was not started by this server."""
        if not (folder / "cwd").readlink().is_relative_to(self._workspace):
            return False
        if not (folder / "exe").readlink().name.startswith(INTERPRETER):
            return False
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        if any(part.startswith(OF_TOOLS) for word in words[1:4] for part in Path(word).parts[-4:]):
            return False
        # After the name in parentheses, which may hold any character. Source: proc(5).
        parent = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
        return int(parent) != own


async def watch_programs(core: Core, workspace: Path) -> None:
    """Report the programs, when they are known and when they change."""
    programs = ListeningPrograms(workspace)
    seen: tuple[ListeningProgram, ...] = ()

    def is_news(found: tuple[ListeningProgram, ...]) -> bool:
        return found != seen

    poller = Poller(programs.look, interval_s=LOOK_S, rest_times=REST_TIMES)
    while True:
        seen = await poller.next(is_news)
        core.report(ProgramsSeen(seen))
