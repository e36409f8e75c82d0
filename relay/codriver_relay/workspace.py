"""The workspace: which folders may be one, and the nearest from the current one upward."""

from __future__ import annotations

import os
import sys

from codriver_relay.own_files import PLACE, is_mine, is_open

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
    given = [os.path.expanduser("~"), *TEMPORARY, os.environ.get("TMPDIR") or "/"]
    if sys.platform == "win32":
        from codriver_relay.windows import places_of_all

        given += places_of_all()
    try:
        status = os.stat(folder)
    except (OSError, ValueError):
        return True
    if not is_mine(status.st_uid) or is_open(status, OTHERS_WRITE):
        return True
    real = comparable(folder)
    return os.path.dirname(real) == real or real in {comparable(place) for place in given}


def comparable(path: str) -> str:
    """A path as it is compared: links followed, and in one case where names differ by none."""
    return os.path.normcase(os.path.realpath(path))


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
    if not os.path.isabs(path) or not os.path.isdir(path):
        return None
    folder = os.path.realpath(path)
    return None if is_border(folder) else folder


def workspace_of(port_file: str | None) -> str | None:
    """The workspace of a port file at `<workspace>/.calva/mcp-server/port`; None for any other."""
    if port_file is None:
        return None
    place, _, name = port_file.rpartition(os.path.join("", *PLACE, "").join((os.sep, "")))
    return place if place and name and os.sep not in name else None
