"""Find the folders that Visual Studio Code or a related editor has open, by reading the editor's state files.

Unsaved changes to an open notebook conflict with a write to its file, and there is no way to find out which notebooks
are open. Source: VS Code, `environmentMainService` for `code.lock`, which contains the main process's id while the
editor is running; `backupMainService` and `windowsStateHandler` for the folders of open windows in
`globalStorage/storage.json`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from codriver import files
from codriver.files import FileRules, Links
from codriver.systems.other_processes import is_running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


EDITOR_DIRECTORIES: Final = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
"""Names of the directories with user data, one for each editor."""
STATE_RULES: Final = FileRules(Links.ANY, 16 * files.MEBIBYTE)
"""Rules for reading an editor's state file."""
LOCK_RULES: Final = FileRules(Links.ANY, files.KIBIBYTE)
"""Rules for reading an editor's lock file."""


def find_open_editor(directory: Path, environ: Mapping[str, str]) -> str | None:
    """Return the name of a running editor that has this directory, a parent or a subdirectory open, or None."""
    for name in EDITOR_DIRECTORIES:
        data = _config_directory(environ) / name
        if _is_running(data) and any(
            directory.is_relative_to(opened) or opened.is_relative_to(directory) for opened in _opened_directories(data)
        ):
            return "VS Code" if name.startswith("Code") else name
    return None


def _config_directory(environ: Mapping[str, str]) -> Path:
    home = Path(environ.get("HOME") or Path.home())
    system = str(sys.platform)  # so that each branch is type-checked on every system
    if system == "darwin":
        return home / "Library" / "Application Support"
    if system == "win32":
        return Path(environ.get("APPDATA") or home)
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def _is_running(data: Path) -> bool:
    try:
        return is_running(int(files.read(data / "code.lock", LOCK_RULES)), of_this_user=True)
    except (OSError, ValueError):
        return False


def _opened_directories(data: Path) -> Iterator[Path]:
    try:
        state = json.loads(files.read(data / "User" / "globalStorage" / "storage.json", STATE_RULES))
    except (OSError, ValueError, RecursionError):
        return
    for uri in _uris(state):
        parts = urlsplit(uri)
        if parts.scheme == "file" and not parts.netloc:
            path = unquote(parts.path)
            yield Path(path.lstrip("/") if os.name == "nt" else path)


def _uris(state: object) -> Iterator[str]:
    """Yield the URIs of the folders that were open when the editor wrote its state."""
    backups, windows = _get_member(state, "backupWorkspaces"), _get_member(state, "windowsState")
    rows = [*_as_list(_get_member(backups, "folders")), _get_member(windows, "lastActiveWindow")]
    for row in (*rows, *_as_list(_get_member(windows, "openedWindows"))):
        for key in ("folderUri", "folder"):
            if isinstance(uri := _get_member(row, key), str):
                yield uri


def _get_member(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
