"""The private directory of a run, with a description of the program and the requests to its processes.

It is in the workspace's state directory and has mode 0700. The next server or run removes it after all processes of the
run have ended, even if they were killed.
"""

# mypy: disable-error-code="attr-defined"
# Windows is not supported, and lacks some of these functions.

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.features.run.process_table import find_process, find_processes
from codriver.features.run.processes import select_run_processes
from codriver.files import FileRules, Links
from codriver.files.codriver_paths import workspace_state_directory
from codriver.files.file_locks import try_lock
from codriver.files.private_directories import make_private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

RECORD_NAME: Final = "run.json"
"""The name of the file that describes a run."""
RECORD_RULES: Final = FileRules(Links.ANY, 256 * 1024)
"""Limits for reading the file that describes a run."""
DIRECTORY_VARIABLE: Final = "CODRIVER_RUN"
"""The environment variable that contains the path of the run's directory. The path is not a secret."""

LOCK_TIMEOUT_S: Final = 2.0
"""Maximum time to wait while other runs choose their names. Each takes a few milliseconds."""
LOCK_RETRY_INTERVAL_S: Final = 0.005
"""Time between two attempts to acquire the lock."""


class InsecureDirectoryError(OSError):
    """Raised when other users may write to a directory, in which case the requests in it cannot be trusted."""


@dataclass(frozen=True, slots=True)
class Run:
    """A program started by `codriver run`."""

    directory: Path
    pid: int
    command: tuple[str, ...]
    name: str
    """The name of the program, unique among the workspace's runs."""
    started_ms: int
    started: int
    """The start time of the run's first process as in `RunProcess.started`, because the process id may be reused."""


def runs_directory(workspace: Path) -> Path:
    """Return the directory that contains the directories of all runs of a workspace."""
    return workspace_state_directory(workspace) / "programs"


def check_private(directory: Path) -> None:
    """Check that a directory belongs to this user and is not accessible to other users.

    Raises:
        InsecureDirectoryError: the path belongs to another user, is accessible to others, or is not a directory.
    """
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise InsecureDirectoryError(20, "the path is not a directory", str(directory))
    if status.st_uid != os.getuid() or status.st_mode & 0o77:
        raise InsecureDirectoryError(
            1,
            "the directory is not private, so other users could use it to request a REPL in your programs",
            str(directory),
        )


def create_run_directory(workspace: Path, command: Sequence[str], name: str) -> Run:
    """Create the directory of a new run whose first process is this one.

    Raises:
        OSError: the directory cannot be created or is not private.
    """
    parent = runs_directory(workspace)
    make_private_directory(parent)
    check_private(parent)
    directory = parent / f"{os.getpid()}-{secrets.token_hex(4)}"
    directory.mkdir(mode=0o700)
    process = find_process(os.getpid())
    with _name_lock(parent):
        used = {run.name for run in remove_finished_runs(workspace)}
        numbered = next(
            candidate for number in range(1, len(used) + 2) if (candidate := _numbered_name(name, number)) not in used
        )
        started_ms = time.time_ns() // 1_000_000
        run = Run(directory, os.getpid(), tuple(command), numbered, started_ms, process.started if process else 0)
        record = {
            "pid": run.pid,
            "command": list(run.command),
            "name": run.name,
            "startedMs": run.started_ms,
            "started": run.started,
        }
        files.replace(directory / RECORD_NAME, json.dumps(record).encode(), links=Links.ANY, is_durable=False)
    return run


@contextmanager
def _name_lock(parent: Path) -> Iterator[None]:
    """Lock the directory of all runs while the context is active, so that concurrent runs get different names.

    If another process holds the lock for too long, for example because it is stopped, continue without the lock.
    """
    descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        with suppress(OSError):  # some file systems have no locks
            while not try_lock(descriptor) and time.monotonic() < deadline:
                time.sleep(LOCK_RETRY_INTERVAL_S)
        yield
    finally:
        os.close(descriptor)


def _numbered_name(name: str, number: int) -> str:
    """Return a name with a number as its suffix. The first run's name has no suffix."""
    return name if number == 1 else f"{name}-{number}"


def read_runs(workspace: Path) -> list[Run]:
    """Return a workspace's runs, oldest first. Directories that are not private are ignored."""
    parent = runs_directory(workspace)
    try:
        check_private(parent)
        names = sorted(os.listdir(parent))  # noqa: PTH208  # called before evaluations
    except OSError:
        return []
    found = [run for name in names if (run := read_run(parent / name)) is not None]
    return sorted(found, key=lambda run: (run.started_ms, run.pid))


def read_run(directory: Path) -> Run | None:
    """Return the run of a directory, or None if it is missing, invalid or not private."""
    try:
        check_private(directory)
        record = json.loads(files.read(directory / RECORD_NAME, RECORD_RULES))
        command = tuple(str(word) for word in record["command"])
        return Run(
            directory,
            int(record["pid"]),
            command,
            str(record["name"]),
            int(record["startedMs"]),
            int(record["started"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_finished_runs(workspace: Path) -> list[Run]:
    """Remove the directories of runs whose processes have all ended. Return the other runs. Blocks.

    A directory may not be removed if another process is removing it at the same time.
    """
    running, runs = [], read_runs(workspace)
    everyone = find_processes() if runs else {}
    for run in runs:
        if select_run_processes(everyone, str(run.directory), (run.pid, run.started)):
            running.append(run)
        else:
            with suppress(OSError):
                files.remove_tree(run.directory)
    return running
