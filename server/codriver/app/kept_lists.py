"""The lists of tools kept for relays: a relay that starts a server answers its client from them at once.

One file a workspace, in the user's state folder, with the newest clients. The file names the circumstances that must
not have changed: the Python, the files that settings and the version come from, and our variables. Its reader is
`codriver_relay.kept_lists`, which imports nothing from here.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import codriver
from codriver import files
from codriver.files.own_folders import state_directory
from codriver.net.background_writes import BackgroundWrites
from codriver.net.seen_clients import COMMAND_NAME_PREFIX
from codriver.settings import layers, machine_policy, trust

if TYPE_CHECKING:
    from collections.abc import Mapping

    Answer = Mapping[str, object]

logger = logging.getLogger(__name__)

MAX_CLIENTS: Final = 8
MAX_WORKSPACES: Final = 64
MAX_BYTES: Final = 512 * 1024
"""The size of one file. The list for one client takes 15 KB."""
RULES: Final = files.Rules(files.Links.OF_USER, most_bytes=MAX_BYTES)
NOT_COMPARED: Final = "_TOKEN"
"""The ends of the names of variables that are secrets: no list depends on them, and they are written nowhere."""


class KeptLists:
    """Keeps the first answers to clients, for the life of one server. No client waits for it, and no step of it raises.

    A client is its name, the protocol version it asked for, in its handshake or in each request, and whether it gets
    skills.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._writes = BackgroundWrites()
        self._kept: dict[tuple[object, ...], Answer] = {}
        """The answers that this server wrote, by client."""

    def keep(self, client_name: str, protocol: str, takes_skills: bool, greeting: Answer, tools: Answer) -> None:  # noqa: FBT001
        """Keep the list that this client got, with the greeting that holds while its server starts."""
        if not client_name or client_name.startswith(COMMAND_NAME_PREFIX):
            return
        who = {"name": client_name, "protocol": protocol, **({} if takes_skills else {"withoutSkills": True})}
        kept: Answer = {**who, "greeting": greeting, "tools": tools}
        if self._kept.get(_who(kept)) != kept:
            self._kept[_who(kept)] = kept
            self._writes.start(partial(write, self._workspace, kept))

    async def end(self) -> None:
        """Wait until all is written."""
        await self._writes.end()


def write(workspace: Path, client: Answer, *, only_new: bool = False) -> None:
    """Add a client to the file of a workspace, in place of the file's older entry for that client. Blocks.

    `only_new`: an older entry stays. A failure to write passes silently: the file only saves time.
    """
    try:
        path = _file(workspace)
        about = circumstances(workspace)
        if only_new and any(_who(one) == _who(client) for one in _clients(path, about)):
            return
        others = [one for one in _clients(path, about) if _who(one) != _who(client)]
        text = json.dumps({**about, "clients": [client, *others[: MAX_CLIENTS - 1]]}).encode()
        if len(text) > MAX_BYTES:
            text = json.dumps({**about, "clients": [client]}).encode()
        if len(text) <= MAX_BYTES:
            files.replace(path, text, links=files.Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE)
            _forget_oldest(path.parent)
    except OSError as error:
        logger.info("the list of tools is not kept for relays: %s", error)


def forget(workspace: Path) -> None:
    """Remove the file of a workspace; a file that cannot be removed stays, without a word."""
    try:
        with suppress(FileNotFoundError):
            files.remove(_file(workspace))
    except OSError as error:
        logger.info("the list of tools for relays stays: %s", error)


def circumstances(workspace: Path) -> dict[str, object]:
    """Return the circumstances under which a workspace's kept list counts: each has to be the same."""
    own = (trust.record_path(workspace), machine_policy.policy_file(), Path(codriver.__file__))
    stamped = (*layers.files(workspace), *own)
    named = {name: value for name, value in os.environ.items() if name.startswith("CODRIVER_")}
    ours = {name: value for name, value in named.items() if not name.endswith(NOT_COMPARED)}
    return {
        "workspace": str(workspace.resolve()),
        "python": sys.executable,
        "environment": ours,
        "files": {str(file): stamp_of(file) for file in stamped},
    }


def stamp_of(file: Path) -> list[int] | None:
    """Return the stamp of a file, as JSON has it; None for a missing file."""
    try:
        return list(files.stamp_of(file.stat()))
    except OSError:
        return None


def _file(workspace: Path) -> Path:
    status = workspace.stat()
    return state_directory() / "lists" / f"{status.st_dev}-{status.st_ino}.json"


def _clients(path: Path, about: Mapping[str, object]) -> list[Answer]:
    """Return the clients that a file holds, the newest first; none of a file from other circumstances."""
    kept = files.read_json(path, RULES)
    if not isinstance(kept, dict) or any(name not in kept or kept[name] != value for name, value in about.items()):
        return []
    clients = kept.get("clients")
    return [one for one in clients if isinstance(one, dict)] if isinstance(clients, list) else []


def _who(client: Answer) -> tuple[object, ...]:
    """Identify the client of an entry: name, version that it asks for, whether it makes a handshake and gets skills."""
    greeting = client.get("greeting")
    is_handshake = isinstance(greeting, dict) and "protocolVersion" in greeting
    return client.get("name"), client.get("protocol"), is_handshake, client.get("withoutSkills", False)


def _forget_oldest(folder: Path) -> None:
    """Remove the files that were not written for the longest time, if there are too many."""
    kept = sorted(folder.glob("*.json"), key=lambda file: file.lstat().st_mtime_ns, reverse=True)
    for file in kept[MAX_WORKSPACES:]:
        with suppress(FileNotFoundError):
            files.remove(file)
