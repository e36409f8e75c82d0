"""Kernels that a server starts: their connection files, from the first start to the server's end; their processes.

A file keeps its ports and key while its kernel is restarted, so that a human's console which is connected to it stays
so. It lies in Jupyter's runtime folder, where `jupyter console --existing` looks for it. Only some kernels tell their
process id, for an interrupt: the process of any other is found by the connection file that its command names, where
there is a `/proc`. Source: proc(5).
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver import files
from codriver.errors import StartError
from codriver.files import Links, Rules
from codriver.repls.jupyter.finding.connection_files import OWN_PREFIX
from codriver.systems.other_processes import interrupt, is_running

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


logger = logging.getLogger(__name__)

ANSWER_S: Final = 2.0


class StartedKernels:
    """The connection files of the kernels that one server starts, for its life. All of it may wait for a disk."""

    def __init__(self) -> None:
        self._written: set[Path] = set()

    def prepare(self, file: Path) -> None:
        """Have the file there: written before a kernel's first start, the same at the next.

        Raises:
            StartError: it cannot be written.
        """
        from jupyter_client.connect import write_connection_file  # noqa: PLC0415  # slow, and an extra

        if file in self._written and file.exists():
            return
        try:
            file.parent.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
            _remove_those_of_the_dead(file.parent)
            with contextlib.suppress(FileNotFoundError):
                _remove(file)
            write_connection_file(str(file), key=secrets.token_hex(32).encode())
        except OSError as error:
            raise StartError(f"the connection file {file} of a kernel cannot be written: {error}") from error
        self._written.add(file)

    def discard(self, file: Path) -> None:
        """Remove a file that led to no kernel: its ports may be somebody else's by now. Again is harmless."""
        self._written.discard(file)
        with contextlib.suppress(OSError):
            _remove(file)

    def discard_all(self) -> None:
        """Remove all files that are left."""
        for file in tuple(self._written):
            self.discard(file)


def _remove(file: Path) -> None:
    with files.locate(file, Links.NEVER, root=file.parent, is_last_followed=False) as place:
        place.remove()


def _remove_those_of_the_dead(folder: Path) -> None:
    """Remove what servers left that were killed."""
    for path in _of_the_dead(folder):
        with contextlib.suppress(OSError):
            _remove(path)


def _of_the_dead(folder: Path) -> Iterator[Path]:
    for path in folder.glob(f"{OWN_PREFIX}*.json"):
        process, _, _ = path.name.removeprefix(OWN_PREFIX).partition("-")
        if process.isdecimal() and not is_running(int(process)):
            yield path


async def say_farewell(file: Path) -> None:
    """Ask the kernel of a connection file to end, so that it runs what is to run at its end; never raises."""
    try:
        await anyio.to_thread.run_sync(_request_shutdown, file, abandon_on_cancel=True)
    except Exception as error:  # noqa: BLE001  # whatever is wrong with it, it is ended all the same
        logger.info("the kernel of %s was not asked to end: %r", file, error)


def _request_shutdown(file: Path) -> None:
    """Ask, and wait for the answer.

    Source: Jupyter messaging protocol 5.4, "Kernel shutdown", on the control channel.
    """
    from jupyter_client.blocking.client import BlockingKernelClient  # noqa: PLC0415  # slow, and an extra

    client = BlockingKernelClient()
    try:
        client.load_connection_file(str(file))
        client.control_channel.start()
        client.shutdown()
        client.control_channel.get_msg(timeout=ANSWER_S)
    finally:
        client.stop_channels()
        client.context.destroy(linger=0)


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
        """Its current folder; None if that cannot be seen."""
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
