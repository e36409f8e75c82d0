"""Recognize Codriver's entries in the configuration files of clients, and find out who wrote them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codriver.setup.environment import path_exists
from codriver.setup.shared_command import RELAY_COMMAND
from codriver_relay.safe_files import SERVER_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Mapping


def command_line(entry: object) -> tuple[str, ...]:
    """Return the command line of an entry, in any of the three formats that clients use. Return () if there is none."""
    if isinstance(entry, dict):
        entry = entry.get("transport", entry)
    if not isinstance(entry, dict):
        return ()
    parts = (entry.get("command", []), entry.get("args", []))
    return tuple(str(word) for part in parts for word in (part if isinstance(part, list) else [part]))


def starts_relay(entry: object) -> bool:
    """Return whether an entry starts Codriver's relay, wherever the relay is installed."""
    return any(re.search(r"codriver[-_]relay(\.py)?\Z", word) for word in command_line(entry))


def is_shareable(words: tuple[str, ...]) -> bool:
    """Return whether `init` writes this command line to shared files."""
    return words == RELAY_COMMAND or (
        words[:2] == ("uvx", "--from") and words[3:] == RELAY_COMMAND and "codriver" in words[2]
    )


def is_written_by_init(present: object, entry: object) -> bool:
    """Return whether `init` wrote the existing entry, which `entry` would replace.

    It may have been written by a different version or on another machine.
    """
    if not isinstance(present, dict) or not isinstance(entry, dict):
        return False
    words = command_line(present)
    paths = words[3:] if words[1:3] == ("-I", "-S") else words[1:]  # entries from earlier versions were not isolated
    has_paths = (
        len(paths) == len(RELAY_COMMAND) - 1
        and Path(paths[1]).parts[-3:] == (*SERVER_DIRECTORY, "port")
        and paths[2] == "--start"
    )
    if not starts_relay(present) or not (has_paths or is_shareable(words)):
        return False
    chosen = _without_command(entry)
    return all(key in chosen and chosen[key] == value for key, value in _without_command(present).items())


def is_acceptable_command(present: object, entry: object) -> bool:
    """Return whether an existing entry in a shared file can stay, although `init` would write a different one."""
    if not isinstance(present, dict) or not isinstance(entry, dict):
        return False
    return is_shareable(command_line(present)) and _without_command(present) == _without_command(entry)


def is_versioned(workspace: Path) -> bool:
    """Return whether a directory is in a git repository, in which case its files may be shared."""
    return any(path_exists(directory / ".git") for directory in (workspace, *workspace.parents))


def _without_command(entry: Mapping[str, Any]) -> dict[str, Any]:
    rest = ((key, value) for key, value in entry.items() if key not in ("command", "args"))
    return {
        key: _without_command(setting) if key == "transport" and isinstance(setting, dict) else setting
        for key, setting in rest
    }
