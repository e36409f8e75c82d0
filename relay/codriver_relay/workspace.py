"""The workspace: which folders may be one, and the nearest from the current one upward."""

from __future__ import annotations

import os

from codriver_relay.own_files import PLACE

PROJECT_FILES = (
    "codriver.toml", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "deps.edn",
    "project.clj", "bb.edn", "shadow-cljs.edn", "nbb.edn", "squint.edn", "build.boot", "package.json",
)  # fmt: skip
"""Files that make a folder a workspace. Source: `codriver.repls.kinds`, project_marks."""
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - compared, not written to
OTHERS_WRITE = 0o002


def is_border(folder: str) -> bool:
    """Whether a folder is never a workspace that is found, nor any above it, as it is beyond the user's own ground.

    Such are the home folder, the root of all, those for temporary files, and those of other users or to which others
    may write.
    """
    given = (os.path.expanduser("~"), "/", *TEMPORARY, os.environ.get("TMPDIR") or "/")
    try:
        status = os.stat(folder)
    except (OSError, ValueError):
        return True
    is_others = hasattr(os, "geteuid") and status.st_uid != os.geteuid()
    if is_others or status.st_mode & OTHERS_WRITE:
        return True
    return os.path.realpath(folder) in {os.path.realpath(place) for place in given}


def is_workspace(folder: str) -> bool:
    """Whether a folder has, or had, a server, or has `codriver.toml`, a project file or `.git`."""
    join, is_file = os.path.join, os.path.isfile
    if os.path.isdir(join(folder, *PLACE)) or os.path.exists(join(folder, ".git")):
        return True
    return any(is_file(join(folder, name)) for name in PROJECT_FILES)


def find_workspace() -> str | None:
    """The workspace that the environment names, else the nearest from the current folder upward; None without any."""
    named = own_folder(os.environ.get("CLAUDE_PROJECT_DIR", ""))
    if named is not None:
        return named
    try:
        folder = os.getcwd()
    except OSError:  # it was removed
        return None
    while not is_border(folder):
        if is_workspace(folder):
            return folder
        folder = os.path.dirname(folder)
    return None


def own_folder(path: str) -> str | None:
    """The folder at an absolute path, links followed; None where there is none that may be a workspace."""
    if not path.startswith("/") or not os.path.isdir(path):
        return None
    folder = os.path.realpath(path)
    return None if is_border(folder) else folder


def workspace_of(port_file: str | None) -> str | None:
    """The workspace of a port file at `<workspace>/.calva/mcp-server/port`; None for any other."""
    if port_file is None:
        return None
    place, _, name = port_file.rpartition(f"/{'/'.join(PLACE)}/")
    return place if place and name and "/" not in name else None
