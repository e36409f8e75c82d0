"""Locations of programs, and the syntax of command lines, on all operating systems."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from codriver_relay.starter import split_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


__all__ = [
    "LAUNCHD_PATH_DIRECTORIES",
    "complete_path",
    "existing_python",
    "find_program",
    "is_path",
    "missing_program_directories",
    "passes_arguments_unchanged",
    "python_in_path",
    "quote_command_line",
    "split_command",
]

_IS_WINDOWS: Final = sys.platform == "win32"
_PYTHON: Final = "python" if _IS_WINDOWS else "python3"


LAUNCHD_PATH_DIRECTORIES: Final = frozenset({"/usr/bin", "/bin", "/usr/sbin", "/sbin"})
"""The PATH that macOS gives to graphical applications and their child processes.

Source: launchctl(1), path_helper(8).
"""
USUAL_DIRECTORIES: Final = ("/opt/homebrew/bin", "/usr/local/bin", "/opt/local/bin", "~/.local/bin", "~/.cargo/bin")
"""Directories that a macOS login shell usually searches: those of Homebrew, MacPorts and the user.

`clojure`, `npx`, `uvx` and `java` are usually installed there.
"""


def missing_program_directories(path: str, *, system: str = sys.platform) -> list[str]:
    """Return the usual program directories to add to a PATH that launchd has set, or [] for any other PATH."""
    if system != "darwin" or not set(path.split(os.pathsep)) <= LAUNCHD_PATH_DIRECTORIES:
        return []
    return [directory for directory in map(os.path.expanduser, USUAL_DIRECTORIES) if os.path.isdir(directory)]  # noqa: PTH112  # entries of a PATH are strings


def complete_path() -> None:
    """Add the usual program directories to the PATH of this process and its children, if launchd has set it."""
    path = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([path, *missing_program_directories(path)])


def is_path(program: str) -> bool:
    """Return whether a program is specified by a path, and not by a name to search in PATH."""
    return any(mark in program for mark in (os.sep, os.altsep) if mark)


def quote_command_line(words: Sequence[str], *, system: str = sys.platform) -> str:
    """Quote a command line for the system's shell. The Windows console only supports double quotes."""
    return subprocess.list2cmdline(words) if system == "win32" else shlex.join(words)


def passes_arguments_unchanged(program: str, *, system: str = sys.platform) -> bool:
    """Return whether a program receives its arguments as they are passed.

    Batch files on Windows do not, because they run in `cmd.exe`.
    """
    return system != "win32" or not program.lower().endswith((".cmd", ".bat"))


def existing_python(environment: Path) -> Path | None:
    """Return the interpreter of a virtual environment, or None if it does not exist."""
    python = python_path(environment)
    return python if python.exists() else None


def python_path(environment: Path) -> Path:
    """Return the path that the interpreter of a virtual environment has, whether it exists or not."""
    return environment / "Scripts" / "python.exe" if _IS_WINDOWS else environment / "bin" / "python"


def find_program(directory: Path, name: str) -> str | None:
    """Return the path of a program in a directory, or None. On Windows, the name has no extension."""
    if not _IS_WINDOWS:
        return str(directory / name) if (directory / name).exists() else None
    return shutil.which(name, path=os.pathsep.join([str(directory), str(directory / "Scripts")]))


def python_in_path(path: str | None) -> str | None:
    """Return the path of a Python in the search path `path`, or None.

    The empty file that opens the Microsoft Store on Windows is ignored.
    """
    found = shutil.which(_PYTHON, path=path)
    return None if found and _IS_WINDOWS and not os.path.getsize(found) else found  # noqa: PTH202  # as `which` gives it


if sys.platform == "win32":

    def kill_command(process: int | str) -> str:
        """Return the shell command that kills a process."""
        return f"taskkill /F /PID {process}"

    def open_file_users_command(file: Path) -> str:
        """Return the shell command that lists the processes that have a file open."""
        return f"handle {file}"

    def grant_access_command(path: Path) -> str:
        """Return the shell command that gives this user full access to a directory."""
        return f'icacls "{path}" /grant "%USERNAME%:(OI)(CI)F"'

else:

    def kill_command(process: int | str) -> str:
        """Return the shell command that kills a process."""
        return f"kill -9 {process}"

    def open_file_users_command(file: Path) -> str:
        """Return the shell command that lists the processes that have a file open."""
        return f"fuser {file}"

    def grant_access_command(path: Path) -> str:
        """Return the shell command that gives this user full access to a directory."""
        return f"chmod u+rwx {shlex.quote(str(path))}"
