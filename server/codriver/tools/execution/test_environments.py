"""Find the interpreter, directory and environment variables of a test run.

A run uses the interpreter, the directory and the initial environment variables of the chosen session's process, but
never runs in that process. Without such a session, it uses the environment of the embedded REPL.

A REPL that was found through a file must not choose a program. The interpreter of a session is used only if the
operating system confirms that the REPL's own process runs it, and if the user has accepted the workspace. Otherwise the
REPL itself has to start the run.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.core.profiles import PYTHON
from codriver.files import FileRules, Links
from codriver.net.kernel_sockets import listening_sockets
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.kinds import PYTHON_KIND, split_address
from codriver.systems.file_system import is_mine
from codriver.systems.programs import existing_python

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.core.state import Repl
    from codriver.tools.calls.call import Call, CallHooks

PROC_DIRECTORY: Final = Path("/proc")
"""The directory in which Linux describes running processes."""
PROCESS_FILE_RULES: Final = FileRules(Links.ANY, 4 * files.MEBIBYTE)
"""Limits for reading a process's command line and environment. Linux limits both together to 6 MB by default."""


@dataclass(frozen=True, slots=True)
class TestEnvironment:
    """The interpreter, directory and environment variables of a test run."""

    __test__ = False  # or pytest would collect it as a test

    python: str
    directory: Path
    variables: Mapping[str, str]
    session_key: str = ""
    """Key of the session, or empty for the project's environment."""
    caution: str | None = None
    """Warning that the interpreter may lack the project's packages."""


async def project_environment(call: Call) -> TestEnvironment:
    """Return the environment that the embedded REPL uses.

    Raises:
        CapabilityMissingError: the user has not accepted the workspace, whose plugins a test run would execute.
        RecipeError: no interpreter was found.
    """
    services = call.services
    recipe = await services.work.files.run(call.client, partial(services.recipe_of, PYTHON_KIND.repl))
    if why := recipe.withheld.get("test"):
        raise CapabilityMissingError(
            "test", why, message=("no test was run, because this workspace has not been accepted")
        )
    return TestEnvironment(recipe.command[0], services.workspace, recipe.env, caution=recipe.caution)


async def session_environment(call: Call, repl: Repl) -> TestEnvironment | None:
    """Return the environment of the process that a session runs in, or None if the REPL itself has to run the tests.

    Raises:
        CapabilityMissingError: see `project_environment`.
    """
    profile = repl.profile
    if profile is None or (repl.is_owned and repl.origin.text == PYTHON_KIND.repl):
        return await project_environment(call)
    if repl.dialect != PYTHON or profile.process_id is None:
        return None
    if not await call.services.work.files.run(call.client, call.services.may_run_files):
        return None
    read = partial(_read_environment, repl, profile.process_id, call.services.workspace, call.services.hooks)
    return await call.services.work.files.run(call.client, read)


def _read_environment(repl: Repl, process_id: int, workspace: Path, hooks: CallHooks) -> TestEnvironment | None:
    """Read the environment of the process that serves a REPL.

    Returns None if the process belongs to another user or does not serve the REPL, or if the variables with which its
    program was started are unknown. Reads files, so it blocks.
    """
    process_directory = PROC_DIRECTORY / str(process_id)
    with suppress(OSError, ValueError):
        if not (
            is_mine(process_directory.stat().st_uid)
            and (repl.is_owned or _serves(process_id, repl.address or "", hooks.process_of))
        ):
            return None
        pairs = [word.partition(b"=") for word in _read_strings(process_directory / "environ") if b"=" in word]
        variables = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
        program = next(iter(_read_strings(process_directory / "cmdline")), b"")
        python = _find_interpreter(process_directory, os.fsdecode(program), variables)
        root = repl.profile.project_root if repl.profile is not None else None
        is_inside = bool(root) and Path(root or "").is_relative_to(workspace) and Path(root or "").is_dir()
        directory = Path(root or "") if is_inside else workspace
        protocol, location = split_address(repl.address or "")
        if (find := hooks.variables_of.get(protocol)) is not None and not repl.is_owned:
            found = find(workspace, location)
            return None if found is None else TestEnvironment(python, directory, found)
        return TestEnvironment(python, directory, variables)
    return None


def _read_strings(file: Path) -> list[bytes]:
    """Return the null-terminated strings in a file below `/proc`, such as the words of a command line."""
    return files.read_head(file, PROCESS_FILE_RULES).split(b"\0")


def _serves(process_id: int, address: str, process_of: Mapping[str, Callable[[str], int | None]]) -> bool:
    """Return whether a process serves the REPL at an address.

    `process_of` maps a protocol to a function that returns the process id for a location. For other protocols, the
    process must listen on the port.
    """
    protocol, location = split_address(address)
    if (find := process_of.get(protocol)) is not None:
        return find(location) == process_id
    port = location.rpartition(":")[2]
    listening = {f"socket:[{inode}]" for inode, at in listening_sockets().items() if at.rpartition(":")[2] == port}
    open_files = (PROC_DIRECTORY / str(process_id) / "fd").iterdir()
    return any(str(file.readlink()) in listening for file in open_files)


def _find_interpreter(process_directory: Path, program: str, variables: Mapping[str, str]) -> str:
    """Return the path with which a process started its interpreter.

    This path determines which packages it finds. If the command line does not name the running executable, the
    executable of the process's virtual environment is used, or else the running executable itself.

    Raises:
        FileNotFoundError: the executable has been deleted or replaced.
    """
    running = os.path.realpath(process_directory / "exe")
    named = program if os.sep in program else shutil.which(program, path=variables.get("PATH")) or ""
    if named and not os.path.isabs(named):  # noqa: PTH117  # as the process gives it
        named = os.path.join(variables.get("PWD", ""), named)  # noqa: PTH118  # as above
    environment = variables.get("VIRTUAL_ENV")
    active = existing_python(Path(environment)) if environment else None
    for candidate in (named, str(active or "")):
        if candidate and os.path.isabs(candidate) and os.path.realpath(candidate) == running:  # noqa: PTH117  # as above
            return candidate
    if not os.access(running, os.X_OK):
        raise FileNotFoundError(running)  # an update has replaced it
    return running
