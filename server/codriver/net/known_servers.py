"""Find this user's servers in all workspaces, with notes that the servers write.

A note is in the state directory of its workspace and contains only the workspace's path. A server removes its note when
it stops, but not when it is killed. So a note is only a claim, like the files in the workspace, which
`codriver.net.client` verifies. Other users' notes are in their own state directories and are not read.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.errors import CodriverError
from codriver.files import FileRules, Links
from codriver.files.codriver_paths import server_directory, state_directory, workspace_state_directory
from codriver.files.private_directories import make_private_directory
from codriver.net import client, server_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


NOTE_NAME: Final = "workspace"
"""The name of the file in which a server notes its workspace."""
NOTE_RULES: Final = FileRules(Links.NEVER, 8 * files.KIBIBYTE, is_granting=True)
MAX_SEARCHED_DIRECTORIES: Final = 1000
"""Maximum number of state directories that are searched."""
ANSWER_TIMEOUT_S: Final = 3.0
"""Maximum time for a server to answer, in seconds, so that a hanging server does not delay the list."""
MAX_CONCURRENT_QUERIES: Final = 8
"""Maximum number of servers that are queried concurrently."""


@dataclass(frozen=True, slots=True)
class KnownServer:
    """A workspace with a note, and the `server_health` of its server or the reason why the server is unavailable."""

    workspace: Path
    health: dict[str, Any] | None
    why: str = ""


def write_note(workspace: Path) -> None:
    """Write a note that the server of this workspace can be reached.

    Raises:
        OSError: the note cannot be written.
    """
    directory = workspace_state_directory(workspace)
    make_private_directory(directory)
    files.replace(directory / NOTE_NAME, os.fsencode(workspace.resolve()), links=Links.NEVER, root=directory)


def remove_note(workspace: Path) -> None:
    """Remove the note of a workspace if there is one."""
    with suppress(OSError):
        files.remove(workspace_state_directory(workspace) / NOTE_NAME)


def noted_workspaces() -> tuple[Path, ...]:
    """Return the workspaces whose servers have written a note, sorted by path.

    Notes for workspaces that no longer exist are removed.
    """
    found = set()
    for workspace in _read_notes():
        if os.path.isdir(workspace):  # noqa: PTH112  # `Path.is_dir` raises if permission is denied
            found.add(workspace)
        else:
            remove_note(workspace)
    return tuple(sorted(found))


def query_all_servers(name: str) -> tuple[KnownServer, ...]:
    """Query the servers of all workspaces with a note concurrently. Blocks for a few seconds at most.

    `name` is the client name to use.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # only for this list

    workspaces = noted_workspaces()
    with ThreadPoolExecutor(MAX_CONCURRENT_QUERIES) as threads:
        return tuple(threads.map(lambda workspace: query_server(workspace, name), workspaces))


def query_server(workspace: Path, name: str) -> KnownServer:
    """Query the server of one workspace. `name` is the client name to use."""
    try:
        with client.connect(workspace, name=name) as connection:
            connection.socket.settimeout(ANSWER_TIMEOUT_S)
            return KnownServer(workspace, connection.call("server_health", {}))
    except client.NoServerError as error:
        return KnownServer(workspace, None, _unexpected_end(workspace) or error.why or str(error))
    except TimeoutError:
        return KnownServer(
            workspace, None, f"the server did not answer within {ANSWER_TIMEOUT_S:g} s. Run `codriver doctor`"
        )
    except (CodriverError, OSError) as error:
        return KnownServer(workspace, None, str(error))


def _unexpected_end(workspace: Path) -> str:
    """Return a message if the workspace's server was killed or lost its files, or "" if it may be running."""
    directory = server_directory(workspace)
    if server_record.lock_status(directory) is None:  # a killed server leaves its lock
        return f"{directory} was removed or cannot be read, so it is unknown whether the server is running"
    is_claimed = server_record.is_claimed(directory)
    return "the server ended unexpectedly" if is_claimed is False else ""


def _read_notes() -> Iterator[Path]:
    """Yield the workspaces of all notes. Notes in the wrong directory are ignored."""
    root = state_directory() / "workspaces"
    for directory in sorted(root.iterdir())[:MAX_SEARCHED_DIRECTORIES] if root.is_dir() else ():
        try:
            workspace = Path(os.fsdecode(files.read(directory / NOTE_NAME, NOTE_RULES, root=directory)))
        except (OSError, ValueError):
            continue
        if workspace.is_absolute() and workspace_state_directory(workspace).name == directory.name:
            yield workspace
