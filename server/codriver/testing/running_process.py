"""Open the process of a test run, and end it together with its child processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio import to_thread

from codriver.systems.other_processes import NEW_CONSOLE, ProcessTree
from codriver.testing import program_bundle
from codriver.testing.exit_deadlines import KILL_TIMEOUT_S
from codriver.testing.process_guard import release_guard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import Process

    from codriver.testing.runs import RunSpec


class RunningProcess(Protocol):
    """The process of a test run. It leads a process group."""

    @property
    def pid(self) -> int:
        """Return the process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """Return the exit status as defined by `subprocess`, or None while the process is running."""
        ...

    async def wait(self) -> int:
        """Wait until the process exits, and return the exit status."""
        ...

    def kill(self) -> None:
        """Kill the process."""
        ...

    async def aclose(self) -> None:
        """Release the resources of the process."""
        ...


OpenProcess = Callable[["RunSpec", "Sequence[str]", Path], "Awaitable[RunningProcess]"]
"""A function that starts a command, whose output goes to the file `output` in the given directory."""


async def end_process(process: RunningProcess, tree: ProcessTree, guard: Process | None, directory: Path) -> None:
    """End a process and its child processes, and remove the run's files."""
    if process.returncode is None and not tree.kill():
        process.kill()
    with anyio.move_on_after(KILL_TIMEOUT_S):
        await process.wait()
    tree.kill()
    await process.aclose()
    await release_guard(guard)
    await to_thread.run_sync(remove_directory, directory)


def remove_directory(directory: Path) -> None:
    """Remove the directory of a run. Errors are ignored. Blocks."""
    shutil.rmtree(directory, ignore_errors=True)


async def open_plain_process(spec: RunSpec, command: Sequence[str], run_directory: Path) -> Process:
    """Run a command in a new process, with its output written to a file. See `OpenProcess`."""
    with (run_directory / "output").open("ab") as output:
        return await anyio.open_process(
            program_bundle.script_command(*command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=spec.directory,
            env=spec.environment,
            start_new_session=sys.platform != "win32",
            creationflags=NEW_CONSOLE,
        )
