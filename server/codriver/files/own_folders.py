"""Codriver's own folders: their paths, the making of them for this user alone, and locks on the files in them.

Asking for a path creates nothing. The platform's conventions hold, and on every platform the XDG variables go before
them. Folders that were open to others are closed. `Path.mkdir` with `parents` leaves the folders above to the umask, so
that others could list them. One process holds a lock at a time, and the system frees it when that process ends,
however.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path

from codriver.files.place import OTHERS, PRIVATE_DIRECTORY_MODE
from codriver.systems.file_system import is_mine, is_open, remove

NAME = "codriver"


def server_directory(workspace: Path) -> Path:
    """Return the directory in a workspace with its server's port file, record, token and lock.

    Clients know this place.
    """
    return workspace / ".calva" / "mcp-server"


def port_file(workspace: Path) -> Path:
    """Return the file that holds the port of the server that runs for a workspace: what a relay is given."""
    return server_directory(workspace) / "port"


def config_directory() -> Path:
    """Return the user's own settings and the installed relay: `~/.config/codriver` on Linux."""
    from platformdirs import user_config_path  # noqa: PLC0415  # only some commands need it, and it takes a while

    return _absolute(os.environ.get("XDG_CONFIG_HOME")) or user_config_path(NAME, appauthor=False)


def relay_directory() -> Path:
    """The folder in which the relay is installed, so that client configurations survive upgrades."""
    return config_directory()


def relay_file() -> Path:
    """Return the installed relay, as the script that clients start, with any Python."""
    return relay_directory() / "codriver_relay.py"


def hook_file(relay: Path) -> Path:
    """Return the program of hooks, as the script next to the installed relay `relay`."""
    return relay.with_name("codriver_hook.py")


def shipped_directory(name: str) -> Path:
    """A folder that comes with Codriver, such as `skills`: inside the package, or beside it in a source tree."""
    package = Path(__file__).parents[1]
    installed = package / "data" / name
    return installed if installed.is_dir() else package.parents[1] / name


def user_settings_file() -> Path:
    """Return the settings that hold in all workspaces of this user."""
    return config_directory() / "codriver.toml"


def state_directory() -> Path:
    """Return the directory of the user's state: it survives a restart and is no setting."""
    from platformdirs import user_state_path  # noqa: PLC0415  # as above

    return _absolute(os.environ.get("XDG_STATE_HOME")) or user_state_path(NAME, appauthor=False)


def cache_directory() -> Path:
    """Return the directory of the user's caches, which can be fetched or computed again."""
    from platformdirs import user_cache_path  # noqa: PLC0415  # as above

    return _absolute(os.environ.get("XDG_CACHE_HOME")) or user_cache_path(NAME, appauthor=False)


def workspace_state_directory(workspace: Path) -> Path:
    """The state of one workspace, outside of it: two workspaces never share one, whatever they are called."""
    import hashlib  # noqa: PLC0415  # the commands that are called a thousand times ask for other folders

    resolved = workspace.resolve()
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", resolved.name).strip("-")[:40] or "workspace"
    return state_directory() / "workspaces" / f"{slug}-{hashlib.sha256(os.fsencode(resolved)).hexdigest()[:12]}"


def history_file(workspace: Path) -> Path:
    """Return the file of a workspace's history. The counter of lines lies next to it."""
    return workspace_state_directory(workspace) / "eval-history.transit.json"


def _absolute(directory: str | None) -> Path | None:
    """Return `directory` as the base of our directories. The XDG rules ignore a directory that is not absolute."""
    return Path(directory) / NAME if directory and Path(directory).is_absolute() else None


def make_private_directory(directory: Path) -> None:
    """Make a folder and its missing parents, so that nobody else may enter any of them. Again is harmless.

    Within the folder of the user's state, other users lose their rights to an existing folder; a link stays.

    Raises:
        OSError: the folder cannot be made.
    """
    above = directory
    missing: list[Path] = []
    while not os.path.lexists(above):
        missing.append(above)
        above = above.parent
    for one in reversed(missing):
        one.mkdir(mode=PRIVATE_DIRECTORY_MODE, exist_ok=True)
    if not directory.is_dir():
        raise NotADirectoryError(20, "it is no folder", str(directory))
    state = state_directory()
    if directory.is_relative_to(state):
        for one in (directory, *directory.parents):
            _close(one)
            if one == state:
                break


def _close(directory: Path) -> None:
    """Close a directory of this user's to others. A file system without modes leaves the directory as it is."""
    with suppress(OSError):
        status = directory.lstat()
        if stat.S_ISDIR(status.st_mode) and is_mine(status.st_uid) and is_open(status, OTHERS):
            directory.chmod(PRIVATE_DIRECTORY_MODE)


if sys.platform == "win32":
    from codriver_relay.windows import try_lock as _try
else:
    from codriver_relay.peer import try_flock as _try


def try_lock(descriptor: int) -> bool:
    """Return whether the lock on this open file is held now. It is freed when the file is closed.

    Raises:
        OSError: its file system knows no locks.
    """
    try:
        return _try(descriptor)
    except PermissionError:
        return False


def remove_locked(file: Path, descriptor: int) -> None:
    """Remove a file by the descriptor that holds its lock, and close that: the lock's next holder sees the file gone.

    Raises:
        OSError: the file cannot be removed; the descriptor is closed all the same. Windows removes no open file, so
            another process may hold the lock there by now.
    """
    if sys.platform == "win32":
        os.close(descriptor)
        remove(file)
    else:
        try:
            remove(file)
        finally:
            os.close(descriptor)
