"""Find the workspace: the nearest suitable directory at or above the current one."""

from __future__ import annotations

import os
import sys

from codriver_relay.safe_files import (
    SERVER_DIRECTORY,
    is_mine,
    is_open,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROJECT_FILES = (
    "codriver.toml", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "deps.edn",
    "project.clj", "bb.edn", "shadow-cljs.edn", "nbb.edn", "build.boot", "package.json",
)  # fmt: skip
"""Files that mark a directory as a workspace. Source: `codriver.repls.kinds`, project_file_names."""


TEMPORARY_DIRECTORIES = ("/tmp", "/var/tmp")  # noqa: S108  # only compared, not written to


OTHERS_WRITE_BIT = 0o002
"""The bit in a file's mode that allows other users to write to the file."""


def is_search_boundary(directory: str) -> bool:
    """Return whether neither this directory nor any directory above it can be a workspace.

    This is true for the home directory, the root, directories for temporary files, and directories that other users own
    or can write to.
    """
    try:
        status = os.stat(directory)
    except (OSError, ValueError):
        return True
    return bool(reason_not_to_trust(status)) or is_common_directory(directory)


def is_common_directory(directory: str) -> bool:
    """Return whether a directory is the home directory, a root, or one for temporary files."""
    given = [os.path.expanduser("~"), *TEMPORARY_DIRECTORIES, os.environ.get("TMPDIR") or "/"]
    if sys.platform == "win32":
        from codriver_relay.windows import shared_directories

        given += shared_directories()
    real = normalize_path(directory)
    return os.path.dirname(real) == real or real in {normalize_path(path) for path in given}


def reason_not_to_trust(status: os.stat_result) -> str:
    """Return the reason why other users could control what a server in this directory does, or ""."""
    if not is_mine(status.st_uid):
        return "belongs to another user"
    return "can be written to by all users" if is_open(status, OTHERS_WRITE_BIT) else ""


def describe_untrusted_directory(directories: Iterable[str]) -> str:
    """Return a clause that names the first directory skipped because of other users, or "" if there is none."""
    for directory in directories:
        try:
            reason = reason_not_to_trust(os.stat(directory))
        except (OSError, ValueError):
            continue
        if reason and not is_common_directory(directory):
            return f"{directory} {reason}"
    return ""


def named_directories() -> list[str]:
    """Return the directory named by the environment, if it is an absolute path."""
    named = os.environ.get("CLAUDE_PROJECT_DIR", "")
    return [os.path.realpath(named)] if os.path.isabs(named) else []


def searched_directories() -> Iterator[str]:
    """Yield the directory named by the environment, and those that `find_workspace` checks, up to the boundary."""
    yield from named_directories()
    try:
        directory = os.getcwd()
    except OSError:
        return
    while not is_search_boundary(directory):
        yield directory
        directory = os.path.dirname(directory)
    yield directory


def normalize_path(path: str) -> str:
    """Resolve the links in a path. Convert it to lower case on systems that ignore case."""
    return os.path.normcase(os.path.realpath(path))


def is_workspace(directory: str) -> bool:
    """Return whether a directory contains a server's directory, `codriver.toml`, a project file or `.git`."""
    join, is_file = os.path.join, os.path.isfile
    if os.path.isdir(join(directory, *SERVER_DIRECTORY)) or os.path.exists(join(directory, ".git")):
        return True
    return any(is_file(join(directory, name)) for name in PROJECT_FILES)


def find_workspace() -> str | None:
    """Return the workspace named by the environment, or the nearest one at or above the current directory.

    Returns None if there is neither.
    """
    named = resolve_workspace(os.environ.get("CLAUDE_PROJECT_DIR", ""))
    if named is not None:
        return named
    try:
        directory = os.getcwd()
    except OSError:  # the directory was removed
        return None
    while not is_search_boundary(directory):
        if is_workspace(directory):
            return directory
        directory = os.path.dirname(directory)
    return None


def resolve_workspace(path: str) -> str | None:
    """Return the resolved path of a directory, or None if the directory cannot be a workspace."""
    if not os.path.isabs(path) or not os.path.isdir(path):
        return None
    directory = os.path.realpath(path)
    return None if is_search_boundary(directory) else directory
