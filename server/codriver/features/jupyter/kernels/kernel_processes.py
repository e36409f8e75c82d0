"""The processes of kernels, found by the connection file in their command lines. Needs `/proc`.

Programs pass the file in many ways: as a separate argument, joined with an option (`--f=FILE` by VS Code, `-fFILE`), in
quotes, in code (`R -e 'main("FILE")'`), as a relative path, or as its bare name. Some processes that name the file are
not kernels, such as consoles that join one, or programs that display the file.

Source: proc(5); traitlets and ipykernel for the options; vscode-jupyter, `addPythonConnectionArgs`, for quotes around
paths with spaces; ipykernel's `init_connection_file` for bare names, which may be in Jupyter's runtime directory.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links, Rules
from codriver.net.kernel_sockets import listening_sockets
from codriver.systems.other_processes import interrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


PROCESSES: Final = Path("/proc")
COMMAND_RULES: Final = Rules(Links.NEVER, 64 * files.KIBIBYTE)
PARENT: Final = 1
GROUP: Final = 2
"""Fields of `/proc/PID/stat` after the command's name in parentheses, from 0: state, parent, group."""

JOINING: Final = "--existing"
"""The option of consoles that join a running kernel."""
QUOTED: Final = re.compile(r"""(["'])(.+?)\1""")
SHORT_OPTION: Final = re.compile(r"-[A-Za-z](?=[^-=])")


@dataclass(frozen=True, slots=True)
class KernelProcess:
    """A process of this machine that runs a kernel."""

    id: int
    leads: bool
    """Whether the process group is the kernel's alone: its leader is the kernel, or started only the kernel."""

    @property
    def directory(self) -> str | None:
        """Return the kernel's current directory; None if the system does not show it."""
        try:
            return str((PROCESSES / str(self.id) / "cwd").readlink())
        except OSError:
            return None

    def interrupt(self) -> bool:
        """Send SIGINT to the kernel's group, or in a group of others to the kernel alone; whether that worked.

        Only the group frees a kernel that waits for a child process.
        """
        return interrupt(self.id, is_group=self.leads)


def paths_in_command(words: Sequence[str]) -> Iterator[str]:
    """Yield each text in the words of a command that may be the path of the kernel's connection file.

    Nothing is yielded for a program that joins a kernel instead of running one.
    """
    if any(word == JOINING or word.startswith(f"{JOINING}=") for word in words):
        return
    for word in words[1:]:
        option, is_assigned, value = word.partition("=")
        spellings = [word]
        if is_assigned and option.startswith("-"):
            spellings.append(value)
        if short := SHORT_OPTION.match(word):
            spellings.append(word[short.end() :])
        for spelling in spellings:
            yield spelling
            yield from (quoted for _, quoted in QUOTED.findall(spelling))


def find_process(connection_file: str) -> KernelProcess | None:
    """Return the process of the kernel with this connection file; None without one, or if several may be it."""
    return find_processes([Path(connection_file)]).get(Path(connection_file))


def find_working_directories(connection_files: Iterable[Path]) -> dict[Path, Path]:
    """Return the working directories of the kernels with these connection files, as far as the system shows them."""
    found = find_processes(connection_files)
    directories = {path: process.directory for path, process in found.items()}
    return {path: Path(directory) for path, directory in directories.items() if directory is not None}


def find_processes(connection_files: Iterable[Path]) -> dict[Path, KernelProcess]:
    """Return the process of each kernel whose file is in exactly one command line of a process that may be a kernel."""
    expected = {os.path.realpath(path): path for path in connection_files}
    candidates: dict[Path, list[int]] = {}
    for process_id, words in _commands():
        for path in _files_of(process_id, words, expected):
            candidates.setdefault(path, []).append(process_id)
    return {path: found for path, ids in candidates.items() if (found := _kernel_among(ids)) is not None}


def _files_of(process_id: int, words: Sequence[str], expected: Mapping[str, Path]) -> set[Path]:
    """Return which of the expected files the command of a process names. Keys of `expected` are real paths."""
    names = {os.path.basename(path) for path in expected}  # noqa: PTH119  # compared with words, hundreds of times
    found: set[Path] = set()
    directory = ""
    for spelling in paths_in_command(words):
        name = os.path.basename(spelling)  # noqa: PTH119  # see above
        if name not in names:
            continue
        if name == spelling:
            found |= _with_bare_name(process_id, name, expected)
        else:
            directory = directory or _directory_of(process_id)
            path = os.path.realpath(os.path.join(directory, spelling))  # noqa: PTH118  # see above
            found |= {expected[path]} if path in expected else set()
    return found


def _with_bare_name(process_id: int, name: str, expected: Mapping[str, Path]) -> set[Path]:
    """Return the expected file that a bare name means: that in the process's directory, else the only one so named."""
    sibling = os.path.join(_directory_of(process_id), name)  # noqa: PTH118  # as above
    if os.path.exists(sibling):  # noqa: PTH110  # as above
        path = os.path.realpath(sibling)
        return {expected[path]} if path in expected else set()
    named = {path for real, path in expected.items() if real.endswith(f"{os.sep}{name}")}
    return named if len(named) == 1 else set()


def _directory_of(process_id: int) -> str:
    with suppress(OSError):
        return str((PROCESSES / str(process_id) / "cwd").readlink())
    return os.sep


def _kernel_among(candidates: Sequence[int]) -> KernelProcess | None:
    """Return the kernel among the processes that name its file; None if several may be it.

    A kernel listens, while its starters and viewers of the file do not. Its children may share its command line and
    its sockets, so the outermost listener is the kernel. Where none listens over TCP, the kernel is the innermost.
    """
    found: dict[int, tuple[int, int]] = {}
    for process_id in candidates:
        with suppress(OSError, ValueError, IndexError):
            fields = (PROCESSES / str(process_id) / "stat").read_bytes().rpartition(b")")[2].split()
            found[process_id] = int(fields[PARENT]), int(fields[GROUP])
    listeners = _listeners_among(found)
    parents = {parent for parent, _ in found.values()}
    outermost = [process_id for process_id in listeners if found[process_id][0] not in listeners]
    likely = outermost or [process_id for process_id in found if process_id not in parents]
    if len(likely) != 1:
        return None
    _, group = found[likely[0]]
    return KernelProcess(likely[0], group in found)


def _listeners_among(processes: Iterable[int]) -> set[int]:
    try:
        listening = {f"socket:[{inode}]" for inode in listening_sockets()}
    except OSError:
        return set()
    found = set()
    for process_id in processes:
        with suppress(OSError):
            if any(str(entry.readlink()) in listening for entry in (PROCESSES / str(process_id) / "fd").iterdir()):
                found.add(process_id)
    return found


def _commands() -> Iterator[tuple[int, list[str]]]:
    """Yield the id of each process and the words of its command."""
    for directory in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            words = files.read_head(directory / "cmdline", COMMAND_RULES).split(b"\0")
            yield int(directory.name), [os.fsdecode(word) for word in words]
