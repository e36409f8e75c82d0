"""The paths of Codriver's own files: per user, per workspace, and inside a workspace. None is created here.

The platform's conventions hold, and on every platform the XDG variables go before them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

NAME = "codriver"


def server_folder(workspace: Path) -> Path:
    """The folder in a workspace with its server's port file, record, token and lock. Clients know this place."""
    return workspace / ".calva" / "mcp-server"


def port_file(workspace: Path) -> Path:
    """The file that holds the port of the server that runs for a workspace: what a relay is given."""
    return server_folder(workspace) / "port"


def config_folder() -> Path:
    """The user's own settings and the installed relay: `~/.config/codriver` on Linux."""
    from platformdirs import user_config_path  # noqa: PLC0415  # only some commands need it, and it takes a while

    return _absolute(os.environ.get("XDG_CONFIG_HOME")) or user_config_path(NAME, appauthor=False)


def relay_folder() -> Path:
    """The folder in which the relay is installed, so that client configurations survive upgrades."""
    return config_folder()


def relay_file() -> Path:
    """The installed relay, as the script that clients start, with any Python."""
    return relay_folder() / "codriver_relay.py"


def hook_file(relay: Path) -> Path:
    """The program of hooks, as the script beside the installed relay `relay`."""
    return relay.with_name("codriver_hook.py")


def shipped_folder(name: str) -> Path:
    """A folder that comes with Codriver, such as `skills`: inside the package, or beside it in a source tree."""
    package = Path(__file__).parents[1]
    installed = package / "data" / name
    return installed if installed.is_dir() else package.parents[1] / name


def user_settings_file() -> Path:
    """The settings that hold in all workspaces of this user."""
    return config_folder() / "codriver.toml"


def state_folder() -> Path:
    """The folder of the user's state: it survives a restart and is no setting."""
    from platformdirs import user_state_path  # noqa: PLC0415  # as above

    return _absolute(os.environ.get("XDG_STATE_HOME")) or user_state_path(NAME, appauthor=False)


def cache_folder() -> Path:
    """The folder of the user's caches, which can be fetched or computed again."""
    from platformdirs import user_cache_path  # noqa: PLC0415  # as above

    return _absolute(os.environ.get("XDG_CACHE_HOME")) or user_cache_path(NAME, appauthor=False)


def workspace_state_folder(workspace: Path) -> Path:
    """The state of one workspace, outside of it: two workspaces never share one, whatever they are called."""
    import hashlib  # noqa: PLC0415  # the commands that are called a thousand times ask for other folders

    resolved = workspace.resolve()
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", resolved.name).strip("-")[:40] or "workspace"
    return state_folder() / "workspaces" / f"{slug}-{hashlib.sha256(os.fsencode(resolved)).hexdigest()[:12]}"


def history_file(workspace: Path) -> Path:
    """The file of a workspace's history. Its journal lies beside it."""
    return workspace_state_folder(workspace) / "eval-history.transit.json"


def _absolute(folder: str | None) -> Path | None:
    """`folder` as the base of ours; the XDG rules say that one which is not absolute is ignored."""
    return Path(folder) / NAME if folder and Path(folder).is_absolute() else None
