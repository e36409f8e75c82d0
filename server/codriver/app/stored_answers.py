"""Store tool lists with which the relay can answer a client while the server starts.

There is one file per workspace in the user's state directory, with the most recent clients. It also records the
circumstances under which it is valid: the Python interpreter, the files that determine settings and version, and
Codriver's environment variables. Relays read it in `codriver_relay.stored_answers`, which cannot import this module.
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
from codriver.files.codriver_paths import state_directory
from codriver.net.background_writes import BackgroundWrites
from codriver.net.seen_clients import COMMAND_NAME_PREFIX
from codriver.settings import acceptance_records, layers, machine_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    Answer = Mapping[str, object]

logger = logging.getLogger(__name__)

MAX_CLIENTS: Final = 8
"""Maximum number of clients per workspace whose lists of tools are stored."""
MAX_WORKSPACES: Final = 64
"""Maximum number of workspaces for which lists of tools are stored."""
MAX_FILE_BYTES: Final = 512 * 1024
"""Maximum size of a file of stored answers. The list of tools for one client takes 15 KB."""
FILE_RULES: Final = files.FileRules(files.Links.OF_USER, max_bytes=MAX_FILE_BYTES)
"""Rules for reading the files of stored answers."""
EXCLUDED_VARIABLE_SUFFIX: Final = "_TOKEN"
"""Environment variables with this suffix contain secrets, and are neither compared nor stored."""


class StoredLists:
    """Stores clients' lists of tools and greetings in the background, for the lifetime of a server. Errors are ignored.

    An entry is identified by the client's name, the protocol version that it requests, whether it performs a handshake,
    and whether it accepts skills.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._writes = BackgroundWrites()
        self._stored: dict[tuple[object, ...], Answer] = {}
        """The answers that this server has stored, by client."""

    def store(self, client_name: str, protocol: str, accepts_skills: bool, greeting: Answer, tools: Answer) -> None:  # noqa: FBT001
        """Store the list of tools that a client received, with the greeting to send while a server is starting."""
        if not client_name or client_name.startswith(COMMAND_NAME_PREFIX):
            return
        who = {"name": client_name, "protocol": protocol, **({} if accepts_skills else {"withoutSkills": True})}
        entry: Answer = {**who, "greeting": greeting, "tools": tools}
        if self._stored.get(_client_identity(entry)) != entry:
            self._stored[_client_identity(entry)] = entry
            self._writes.schedule(partial(store_client_entry, self._workspace, entry))

    async def end(self) -> None:
        """Wait until all entries are written."""
        await self._writes.wait_until_written()


def store_client_entry(workspace: Path, client: Answer, *, only_new: bool = False) -> None:
    """Add a client's entry to the file of a workspace, replacing its previous entry.

    With `only_new`, an existing entry is not replaced. Errors are logged and ignored, because the file only saves time.
    Writes a file, so it blocks.
    """
    try:
        path = _stored_lists_file(workspace)
        about = validity_conditions(workspace)
        if only_new and any(
            _client_identity(listed) == _client_identity(client) for listed in _read_entries(path, about)
        ):
            return
        others = [
            listed for listed in _read_entries(path, about) if _client_identity(listed) != _client_identity(client)
        ]
        text = json.dumps({**about, "clients": [client, *others[: MAX_CLIENTS - 1]]}).encode()
        if len(text) > MAX_FILE_BYTES:
            text = json.dumps({**about, "clients": [client]}).encode()
        if len(text) <= MAX_FILE_BYTES:
            files.replace(path, text, links=files.Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE)
            _remove_oldest(path.parent)
    except OSError as error:
        logger.info("cannot store the list of tools for relays: %s", error)


def remove_stored_lists(workspace: Path) -> None:
    """Remove the stored lists of a workspace. Errors are logged and ignored."""
    try:
        with suppress(FileNotFoundError):
            files.remove(_stored_lists_file(workspace))
    except OSError as error:
        logger.info("cannot remove the list of tools for relays: %s", error)


def validity_conditions(workspace: Path) -> dict[str, object]:
    """Return everything that must be unchanged for stored lists to be valid, as JSON."""
    stamped_files = (acceptance_records.record_path(workspace), machine_policy.policy_file(), Path(codriver.__file__))
    all_files = (*layers.settings_files(workspace), *stamped_files)
    variables = {name: value for name, value in os.environ.items() if name.startswith("CODRIVER_")}
    compared = {name: value for name, value in variables.items() if not name.endswith(EXCLUDED_VARIABLE_SUFFIX)}
    return {
        "workspace": str(workspace.resolve()),
        "python": sys.executable,
        "environment": compared,
        "files": {str(file): json_stamp(file) for file in all_files},
    }


def json_stamp(file: Path) -> list[int] | None:
    """Return the stamp of a file as JSON, or None if the file does not exist."""
    try:
        return list(files.stamp_from_status(file.stat()))
    except OSError:
        return None


def _stored_lists_file(workspace: Path) -> Path:
    status = workspace.stat()
    return state_directory() / "lists" / f"{status.st_dev}-{status.st_ino}.json"


def _read_entries(path: Path, about: Mapping[str, object]) -> list[Answer]:
    """Return the entries in a file, newest first, or an empty list if a condition in `about` has changed."""
    stored = files.read_json(path, FILE_RULES)
    if not isinstance(stored, dict) or any(
        name not in stored or stored[name] != value for name, value in about.items()
    ):
        return []
    clients = stored.get("clients")
    return [client for client in clients if isinstance(client, dict)] if isinstance(clients, list) else []


def _client_identity(client: Answer) -> tuple[object, ...]:
    """Return the properties of a client that determine its entry."""
    greeting = client.get("greeting")
    is_handshake = isinstance(greeting, dict) and "protocolVersion" in greeting
    return client.get("name"), client.get("protocol"), is_handshake, client.get("withoutSkills", False)


def _remove_oldest(directory: Path) -> None:
    """Remove the files that were written least recently, if there are too many."""
    stored = sorted(directory.glob("*.json"), key=lambda file: file.lstat().st_mtime_ns, reverse=True)
    for file in stored[MAX_WORKSPACES:]:
        with suppress(FileNotFoundError):
            files.remove(file)
