"""Find Python programs in the workspace that are listening on a port, such as web applications.

They are reported until their own REPL is known. Without this, an agent could mistake a REPL that Codriver started for
the application running next to it. Such programs are only found on Linux, in `/proc`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.actions import ProgramsFound
from codriver.core.listening_program import ListeningProgram
from codriver.files.polling import PORT_FILE_CHECK_INTERVAL_S, Poller
from codriver.net.kernel_sockets import listening_sockets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.core.dispatch import Core

SEARCH_INTERVAL_S: Final = 8 * PORT_FILE_CHECK_INTERVAL_S
"""Seconds between queries of the listening sockets. Processes are scanned only if there is a new socket."""
MIN_REST_RATIO: Final = 2000
"""Minimum ratio of the time between searches to the duration of a search."""
PROC_DIRECTORY: Final = Path("/proc")
INTERPRETER_PREFIX: Final = "python"
NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})
TOOL_NAME_PREFIXES: Final = ("codriver", "jupyter", "ipykernel", "debugpy")
"""Prefixes of names in the command lines of tools that listen on a port but are not applications."""


class ListeningPrograms:
    """Finds the listening programs in one workspace. Not thread-safe.

    `variables` maps environment variables to advice. A program with such a variable offers a REPL to Codriver on
    request, and the advice is how to start any program in this way.
    """

    def __init__(self, workspace: Path, variables: Mapping[str, str] = NO_VARIABLES) -> None:
        self._marks = [f"{variable}=".encode() for variable in variables]
        self._start_advice = ", or ".join(variables.values())
        self._workspace = workspace.resolve()
        self._sockets: Mapping[int, str] = {}
        self._found: tuple[ListeningProgram, ...] = ()

    def search(self) -> tuple[ListeningProgram, ...]:
        """Return the programs that are listening now, with one entry per port. This blocks.

        The result is empty if the system does not provide this information.
        """
        try:
            sockets = listening_sockets()
        except OSError:
            return ()
        if sockets.keys() - self._sockets.keys():
            self._found = tuple(sorted(self._search(sockets), key=lambda item: (item.address, item.pid)))
        elif len(sockets) < len(self._sockets):
            left = set(sockets.values())
            self._found = tuple(item for item in self._found if item.address in left)
        self._sockets = sockets
        return self._found

    def _search(self, sockets: Mapping[int, str]) -> Iterator[ListeningProgram]:
        seen: set[str] = set()
        this_pid = os.getpid()
        for directory in map(PROC_DIRECTORY.joinpath, self._process_ids()):
            try:
                if not self._is_program(directory, this_pid):
                    continue
                links = [str(entry.readlink()) for entry in (directory / "fd").iterdir()]
                environ = (directory / "environ").read_bytes()
            except OSError:  # it has ended, or is another user's
                continue
            inodes = [int(link[8:-1]) for link in links if link.startswith("socket:[")]
            for address in sorted({sockets[inode] for inode in inodes if inode in sockets} - seen):
                seen.add(address)
                can_connect = any(mark in environ for mark in self._marks)
                yield ListeningProgram(int(directory.name), address, can_connect, self._start_advice)

    def _process_ids(self) -> Iterator[str]:
        """Yield the ids of processes whose working directory is in the workspace.

        This uses functions from `os`, because creating a `Path` for each of hundreds of processes is slow.
        """
        for name in filter(str.isdecimal, os.listdir(PROC_DIRECTORY)):  # noqa: PTH208  # see above
            with suppress(OSError):  # it has ended, or is another user's
                directory = os.readlink(f"{PROC_DIRECTORY}/{name}/cwd")  # noqa: PTH115  # see above
                if directory.startswith(str(self._workspace)) and Path(directory).is_relative_to(self._workspace):
                    yield name

    def _is_program(self, directory: Path, codriver_pid: int) -> bool:
        """Return whether a process is a Python program other than a tool, this server, or a child of this server."""
        if int(directory.name) == codriver_pid:
            return False
        if not (directory / "exe").readlink().name.startswith(INTERPRETER_PREFIX):
            return False
        words = (directory / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        if any(part.startswith(TOOL_NAME_PREFIXES) for word in words[1:4] for part in Path(word).parts[-4:]):
            return False
        # The fields follow the name in parentheses, which may contain any character. Source: proc(5).
        parent = (directory / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
        return int(parent) != codriver_pid


async def watch_listening_programs(core: Core, workspace: Path, variables: Mapping[str, str]) -> None:
    """Report the listening programs to the core, immediately and then after each change.

    See `ListeningPrograms` for `variables`.
    """
    programs = ListeningPrograms(workspace, variables)
    seen: tuple[ListeningProgram, ...] = ()

    def is_changed(found: tuple[ListeningProgram, ...]) -> bool:
        return found != seen

    poller = Poller(programs.search, interval_s=SEARCH_INTERVAL_S, rest_times=MIN_REST_RATIO)
    while True:
        seen = await poller.next_result(is_changed)
        core.report(ProgramsFound(seen))
