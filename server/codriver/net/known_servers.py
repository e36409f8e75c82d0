"""Notes of this user's servers in all workspaces, each kept while its server is reachable.

A note lies in the workspace's own state, in the user's state folder, and holds only the path of the workspace. A server
that ends removes its note; a killed server leaves it. So a note is only a claim, as the files in the workspace are, and
`codriver.net.client` verifies it. The notes of other users lie in their own state folders, which are not read.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.errors import CodriverError
from codriver.files import Links, Rules
from codriver.files.own_folders import make_private_folder, server_folder, state_folder, workspace_state_folder
from codriver.net import client, server_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


NOTE: Final = "workspace"
RULES: Final = Rules(Links.NEVER, 8 * files.KIBIBYTE, is_granting=True)
MOST_NOTES: Final = 1000
ANSWER_S: Final = 3.0
"""The time that a server may take to tell its state, so that a hanging server does not hold up the list."""
AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class KnownServer:
    """One noted workspace: its server's state, by `server_health`, or why there is none."""

    workspace: Path
    health: dict[str, Any] | None
    why: str = ""


def note(workspace: Path) -> None:
    """Note that a server of this workspace can be reached.

    Raises:
        OSError: the note cannot be written.
    """
    folder = workspace_state_folder(workspace)
    make_private_folder(folder)
    files.replace(folder / NOTE, os.fsencode(workspace.resolve()), links=Links.NEVER, root=folder)


def forget(workspace: Path) -> None:
    """Take the note of a workspace away. Again is harmless."""
    with suppress(OSError):
        files.remove(workspace_state_folder(workspace) / NOTE)


def noted_workspaces() -> tuple[Path, ...]:
    """The noted workspaces, by their paths; notes of missing folders are removed."""
    found = set()
    for workspace in _notes():
        if os.path.isdir(workspace):  # noqa: PTH112  # `is_dir` raises where it may not look
            found.add(workspace)
        else:
            forget(workspace)
    return tuple(sorted(found))


def ask_all(name: str) -> tuple[KnownServer, ...]:
    """The noted servers, asked side by side, as the client `name`. Blocks for a few seconds at most."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # only for this list

    workspaces = noted_workspaces()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return tuple(threads.map(lambda workspace: ask(workspace, name), workspaces))


def ask(workspace: Path, name: str) -> KnownServer:
    """The state of a workspace's server, asked as the client `name`."""
    try:
        with client.connect(workspace, name=name) as connection:
            connection.socket.settimeout(ANSWER_S)
            return KnownServer(workspace, connection.call("server_health", {}))
    except client.NoServerError as error:
        return KnownServer(workspace, None, _left_over(workspace) or error.why or str(error))
    except TimeoutError:
        return KnownServer(workspace, None, f"its server does not answer within {ANSWER_S:g} s: see `codriver doctor`")
    except (CodriverError, OSError) as error:
        return KnownServer(workspace, None, str(error))


def _left_over(workspace: Path) -> str:
    """The reason why no server is there, in a word; blank while a process holds the workspace."""
    is_claimed = server_record.is_claimed(server_folder(workspace))
    return "its server ended without a word" if is_claimed is False else ""


def _notes() -> Iterator[Path]:
    """The workspaces of all notes in the right places."""
    root = state_folder() / "workspaces"
    for folder in sorted(root.iterdir())[:MOST_NOTES] if root.is_dir() else ():
        try:
            workspace = Path(os.fsdecode(files.read(folder / NOTE, RULES, root=folder)))
        except (OSError, ValueError):
            continue
        if workspace.is_absolute() and workspace_state_folder(workspace).name == folder.name:
            yield workspace
