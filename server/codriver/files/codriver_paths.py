"""The paths of Codriver's files and directories. None of the functions creates anything.

Paths follow the platform's conventions, but the XDG variables take precedence on every platform.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

DIRECTORY_NAME = "codriver"
"""The name of Codriver's directory in each of the user's base directories."""


def server_directory(workspace: Path) -> Path:
    """Return the directory in a workspace that contains the server's port file, record, token and lock.

    Clients find the server through this path.
    """
    return workspace / ".calva" / "mcp-server"


def port_file(workspace: Path) -> Path:
    """Return the path of the file that contains the port of a workspace's server."""
    return server_directory(workspace) / "port"


def config_directory() -> Path:
    """Return the directory for the user's settings and the installed relay: `~/.config/codriver` on Linux."""
    from platformdirs import user_config_path  # noqa: PLC0415  # slow to import, and only some commands need it

    return _absolute(os.environ.get("XDG_CONFIG_HOME")) or user_config_path(DIRECTORY_NAME, appauthor=False)


def relay_directory() -> Path:
    """Return the directory in which the relay is installed.

    It does not change with upgrades, because clients' configurations contain it.
    """
    return config_directory()


def relay_file() -> Path:
    """Return the path of the installed relay, a script that any Python can run."""
    return relay_directory() / "codriver_relay.py"


def hook_file(relay: Path) -> Path:
    """Return the path of the script for clients' hooks, which is in the relay's directory."""
    return relay.with_name("codriver_hook.py")


def shipped_directory(name: str) -> Path:
    """Return a directory that is distributed with Codriver, such as `skills`.

    It is inside the installed package, or next to the package in a source tree.
    """
    package = Path(__file__).parents[1]
    installed = package / "data" / name
    return installed if installed.is_dir() else package.parents[1] / name


def user_settings_file() -> Path:
    """Return the path of the user's settings for all workspaces."""
    return config_directory() / "codriver.toml"


def state_directory() -> Path:
    """Return the directory for data that must survive a restart but is not configuration."""
    from platformdirs import user_state_path  # noqa: PLC0415  # as above

    return _absolute(os.environ.get("XDG_STATE_HOME")) or user_state_path(DIRECTORY_NAME, appauthor=False)


def cache_directory() -> Path:
    """Return the directory for data that can be downloaded or computed again."""
    from platformdirs import user_cache_path  # noqa: PLC0415  # as above

    return _absolute(os.environ.get("XDG_CACHE_HOME")) or user_cache_path(DIRECTORY_NAME, appauthor=False)


def workspace_state_directory(workspace: Path) -> Path:
    """Return the state directory of a workspace, which is outside the workspace.

    Its name is unique to the workspace's path.
    """
    import hashlib  # noqa: PLC0415  # the commands that run most often do not need it

    resolved = workspace.resolve()
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", resolved.name).strip("-")[:40] or "workspace"
    return state_directory() / "workspaces" / f"{slug}-{hashlib.sha256(os.fsencode(resolved)).hexdigest()[:12]}"


def history_file(workspace: Path) -> Path:
    """Return the path of a workspace's history."""
    return workspace_state_directory(workspace) / "eval-history.transit.json"


def _absolute(directory: str | None) -> Path | None:
    """Return Codriver's directory below `directory`, or None if `directory` is not absolute.

    The XDG specification requires that relative paths are ignored.
    """
    return Path(directory) / DIRECTORY_NAME if directory and Path(directory).is_absolute() else None
