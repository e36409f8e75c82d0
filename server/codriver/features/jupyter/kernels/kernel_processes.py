"""Find the processes of kernels in `/proc`, by the connection file in their command lines.

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
"""The directory that has a subdirectory for each process."""
COMMAND_RULES: Final = FileRules(Links.NEVER, 64 * files.KIBIBYTE)
"""Limits for reading a process's command line."""
PARENT_FIELD: Final = 1
"""Index of the parent's process id among the fields of `/proc/PID/stat` after the command's name."""
GROUP_FIELD: Final = 2
"""Index of the process group's id among the same fields."""

EXISTING_OPTION: Final = "--existing"
"""The option with which consoles join a running kernel."""
QUOTED_TEXT: Final = re.compile(r"""(["'])(.+?)\1""")
"""Matches quoted text on a command line."""
SHORT_OPTION: Final = re.compile(r"-[A-Za-z](?=[^-=])")
"""Matches a short option that is directly followed by its value."""


@dataclass(frozen=True, slots=True)
class KernelProcess:
    """A process on this machine that is running a kernel."""

    id: int
    leads_group: bool
    """Whether the process group is led by the kernel or its launcher, and therefore contains nothing else."""

    @property
    def directory(self) -> str | None:
        """Return the kernel's working directory, or None if it cannot be determined."""
        try:
            return str((PROCESSES_DIRECTORY / str(self.id) / "cwd").readlink())
        except OSError:
            return None

    def interrupt(self) -> bool:
        """Send SIGINT and return whether that succeeded.

        If the kernel leads a process group, the signal is sent to the whole group. A kernel waiting for a child process
        continues only when the child is interrupted, too.
        """
        return interrupt(self.id, is_group=self.leads_group)


def paths_in_command(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the strings in a command line that may be the path of a kernel's connection file.

    Yield nothing for programs that connect to an existing kernel.
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
    """Return the process of the kernel with this connection file, or None if it cannot be identified."""
    return find_processes([Path(connection_file)]).get(Path(connection_file))


def find_working_directories(connection_files: Iterable[Path]) -> dict[Path, Path]:
    """Return the working directory of each kernel whose process can be found, by connection file."""
    processes = find_processes(connection_files)
    directories = {path: process.directory for path, process in processes.items()}
    return {path: Path(directory) for path, directory in directories.items() if directory is not None}


def find_processes(connection_files: Iterable[Path]) -> dict[Path, KernelProcess]:
    """Find the processes of kernels by their connection files.

    A file is omitted from the result if no kernel process, or more than one, has it in its command line.
    """
    paths_by_real_path = {os.path.realpath(path): path for path in connection_files}
    candidates: dict[Path, list[int]] = {}
    for process_id, arguments in _command_lines():
        for path in _find_connection_files(process_id, arguments, paths_by_real_path):
            candidates.setdefault(path, []).append(process_id)
    return {path: process for path, ids in candidates.items() if (process := _select_kernel(ids)) is not None}


def _find_connection_files(
    process_id: int, arguments: Sequence[str], paths_by_real_path: Mapping[str, Path]
) -> set[Path]:
    """Return the connection files named in the command line of a process.

    The keys of `paths_by_real_path` are resolved paths.
    """
    names = {os.path.basename(path) for path in paths_by_real_path}  # noqa: PTH119  # called for every process
    paths: set[Path] = set()
    directory = ""
    for spelling in paths_in_command(arguments):
        name = os.path.basename(spelling)  # noqa: PTH119  # see above
        if name not in names:
            continue
        if name == spelling:
            paths |= _resolve_bare_name(process_id, name, paths_by_real_path)
        else:
            directory = directory or _working_directory(process_id)
            path = os.path.realpath(os.path.join(directory, spelling))  # noqa: PTH118  # see above
            paths |= {paths_by_real_path[path]} if path in paths_by_real_path else set()
    return paths


def _resolve_bare_name(process_id: int, name: str, paths_by_real_path: Mapping[str, Path]) -> set[Path]:
    """Return the connection file that a name without a directory refers to.

    A file in the process's working directory is preferred. Otherwise, the name must be unique.
    """
    sibling = os.path.join(_working_directory(process_id), name)  # noqa: PTH118  # as above
    if os.path.exists(sibling):  # noqa: PTH110  # as above
        path = os.path.realpath(sibling)
        return {paths_by_real_path[path]} if path in paths_by_real_path else set()
    paths = {path for real_path, path in paths_by_real_path.items() if real_path.endswith(f"{os.sep}{name}")}
    return paths if len(paths) == 1 else set()


def _working_directory(process_id: int) -> str:
    with suppress(OSError):
        return str((PROCESSES_DIRECTORY / str(process_id) / "cwd").readlink())
    return os.sep


def _select_kernel(candidates: Sequence[int]) -> KernelProcess | None:
    """Return the kernel among processes whose command lines name the same file, or None if it cannot be identified.

    Unlike launchers and programs that display the file, kernels listen on ports. Child processes may inherit both the
    command line and the sockets, so the outermost listener is the kernel. If no process is listening on TCP, the
    innermost process is the kernel.
    """
    parents_and_groups: dict[int, tuple[int, int]] = {}
    for process_id in candidates:
        with suppress(OSError, ValueError, IndexError):
            fields = (PROCESSES_DIRECTORY / str(process_id) / "stat").read_bytes().rpartition(b")")[2].split()
            parents_and_groups[process_id] = int(fields[PARENT_FIELD]), int(fields[GROUP_FIELD])
    listeners = _select_listeners(parents_and_groups)
    parents = {parent for parent, _ in parents_and_groups.values()}
    outermost = [process_id for process_id in listeners if parents_and_groups[process_id][0] not in listeners]
    likely = outermost or [process_id for process_id in parents_and_groups if process_id not in parents]
    if len(likely) != 1:
        return None
    _, group = parents_and_groups[likely[0]]
    return KernelProcess(likely[0], group in parents_and_groups)


def _select_listeners(processes: Iterable[int]) -> set[int]:
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
    """Yield the process id and the command line of each running process."""
    for directory in PROCESSES_DIRECTORY.glob("[0-9]*"):
        with suppress(OSError):
            arguments = files.read_head(directory / "cmdline", COMMAND_RULES).split(b"\0")
            yield int(directory.name), [os.fsdecode(word) for word in arguments]
