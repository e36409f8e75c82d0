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
from codriver.files import FileRules, Links
from codriver.net.kernel_sockets import listening_sockets
from codriver.systems.other_processes import interrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


PROCESSES_DIRECTORY: Final = Path("/proc")
"""The directory with a subdirectory for each process."""
COMMAND_RULES: Final = FileRules(Links.NEVER, 64 * files.KIBIBYTE)
"""Limits for reading the command line of a process."""
PARENT_FIELD: Final = 1
GROUP_FIELD: Final = 2
"""Indexes of fields in `/proc/PID/stat` after the command's name in parentheses: state, parent, group."""

EXISTING_OPTION: Final = "--existing"
"""The option of consoles that join a running kernel."""
QUOTED_TEXT: Final = re.compile(r"""(["'])(.+?)\1""")
SHORT_OPTION: Final = re.compile(r"-[A-Za-z](?=[^-=])")


@dataclass(frozen=True, slots=True)
class KernelProcess:
    """A process on this machine that runs a kernel."""

    id: int
    leads_group: bool
    """Whether the process group contains only the kernel and its children, or a launcher of the kernel."""

    @property
    def directory(self) -> str | None:
        """Return the kernel's working directory, or None if the system does not show it."""
        try:
            return str((PROCESSES_DIRECTORY / str(self.id) / "cwd").readlink())
        except OSError:
            return None

    def interrupt(self) -> bool:
        """Send SIGINT, and return whether that worked.

        The signal goes to the kernel's process group if it has its own, because a kernel that waits for a child process
        only continues if the child is interrupted too.
        """
        return interrupt(self.id, is_group=self.leads_group)


def paths_in_command(arguments: Sequence[str]) -> Iterator[str]:
    """Yield every string in a command line that may be the path of the kernel's connection file.

    Nothing is yielded for programs that join a kernel instead of running one.
    """
    if any(argument == EXISTING_OPTION or argument.startswith(f"{EXISTING_OPTION}=") for argument in arguments):
        return
    for argument in arguments[1:]:
        option, is_assigned, value = argument.partition("=")
        spellings = [argument]
        if is_assigned and option.startswith("-"):
            spellings.append(value)
        if option_match := SHORT_OPTION.match(argument):
            spellings.append(argument[option_match.end() :])
        for spelling in spellings:
            yield spelling
            yield from (quoted for _, quoted in QUOTED_TEXT.findall(spelling))


def find_process(connection_file: str) -> KernelProcess | None:
    """Return the process of the kernel with this connection file, or None if there is none or it is ambiguous."""
    return find_processes([Path(connection_file)]).get(Path(connection_file))


def find_working_directories(connection_files: Iterable[Path]) -> dict[Path, Path]:
    """Return the working directories of the kernels with these connection files, where the system shows them."""
    processes = find_processes(connection_files)
    directories = {path: process.directory for path, process in processes.items()}
    return {path: Path(directory) for path, directory in directories.items() if directory is not None}


def find_processes(connection_files: Iterable[Path]) -> dict[Path, KernelProcess]:
    """Return the process of each kernel whose connection file is in the command line of exactly one kernel process."""
    paths_by_real_path = {os.path.realpath(path): path for path in connection_files}
    candidates: dict[Path, list[int]] = {}
    for process_id, arguments in _command_lines():
        for path in _files_of(process_id, arguments, paths_by_real_path):
            candidates.setdefault(path, []).append(process_id)
    return {path: process for path, ids in candidates.items() if (process := _kernel_among(ids)) is not None}


def _files_of(process_id: int, arguments: Sequence[str], paths_by_real_path: Mapping[str, Path]) -> set[Path]:
    """Return the connection files in the command line of a process. Keys of `paths_by_real_path` are resolved."""
    names = {os.path.basename(path) for path in paths_by_real_path}  # noqa: PTH119  # called for every process
    paths: set[Path] = set()
    directory = ""
    for spelling in paths_in_command(arguments):
        name = os.path.basename(spelling)  # noqa: PTH119  # see above
        if name not in names:
            continue
        if name == spelling:
            paths |= _with_bare_name(process_id, name, paths_by_real_path)
        else:
            directory = directory or _directory_of(process_id)
            path = os.path.realpath(os.path.join(directory, spelling))  # noqa: PTH118  # see above
            paths |= {paths_by_real_path[path]} if path in paths_by_real_path else set()
    return paths


def _with_bare_name(process_id: int, name: str, paths_by_real_path: Mapping[str, Path]) -> set[Path]:
    """Return the file that a bare name refers to.

    It is the one in the process's directory, or else the only one with this name.
    """
    sibling = os.path.join(_directory_of(process_id), name)  # noqa: PTH118  # as above
    if os.path.exists(sibling):  # noqa: PTH110  # as above
        path = os.path.realpath(sibling)
        return {paths_by_real_path[path]} if path in paths_by_real_path else set()
    paths = {path for real_path, path in paths_by_real_path.items() if real_path.endswith(f"{os.sep}{name}")}
    return paths if len(paths) == 1 else set()


def _directory_of(process_id: int) -> str:
    with suppress(OSError):
        return str((PROCESSES_DIRECTORY / str(process_id) / "cwd").readlink())
    return os.sep


def _kernel_among(candidates: Sequence[int]) -> KernelProcess | None:
    """Return the kernel among the processes that name its file, or None if it is ambiguous.

    Kernels listen, while their launchers and viewers of the file do not. Children may inherit the command line and the
    sockets, so the kernel is the outermost listener. If none listens over TCP, it is the innermost process.
    """
    parents_and_groups: dict[int, tuple[int, int]] = {}
    for process_id in candidates:
        with suppress(OSError, ValueError, IndexError):
            fields = (PROCESSES_DIRECTORY / str(process_id) / "stat").read_bytes().rpartition(b")")[2].split()
            parents_and_groups[process_id] = int(fields[PARENT_FIELD]), int(fields[GROUP_FIELD])
    listeners = _listeners_among(parents_and_groups)
    parents = {parent for parent, _ in parents_and_groups.values()}
    outermost = [process_id for process_id in listeners if parents_and_groups[process_id][0] not in listeners]
    likely = outermost or [process_id for process_id in parents_and_groups if process_id not in parents]
    if len(likely) != 1:
        return None
    _, group = parents_and_groups[likely[0]]
    return KernelProcess(likely[0], group in parents_and_groups)


def _listeners_among(processes: Iterable[int]) -> set[int]:
    try:
        socket_links = {f"socket:[{inode}]" for inode in listening_sockets()}
    except OSError:
        return set()
    listeners = set()
    for process_id in processes:
        with suppress(OSError):
            if any(
                str(entry.readlink()) in socket_links
                for entry in (PROCESSES_DIRECTORY / str(process_id) / "fd").iterdir()
            ):
                listeners.add(process_id)
    return listeners


def _command_lines() -> Iterator[tuple[int, list[str]]]:
    """Yield the id of each process and the words of its command."""
    for directory in PROCESSES_DIRECTORY.glob("[0-9]*"):
        with suppress(OSError):
            arguments = files.read_head(directory / "cmdline", COMMAND_RULES).split(b"\0")
            yield int(directory.name), [os.fsdecode(word) for word in arguments]
