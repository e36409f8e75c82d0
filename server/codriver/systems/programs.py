"""The places of programs and the syntax of command lines, by the conventions of each system.

Messages advise commands as they are typed in the system at hand.
"""

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
    "LAUNCHD_PATH",
    "complete_path",
    "directories_to_add",
    "is_path",
    "passes_quotes_on",
    "program_in",
    "python_in_path",
    "python_of",
    "split_command",
    "typed",
]

_IS_WINDOWS: Final = sys.platform == "win32"
_PYTHON: Final = "python" if _IS_WINDOWS else "python3"


LAUNCHD_PATH: Final = frozenset({"/usr/bin", "/bin", "/usr/sbin", "/sbin"})
"""The PATH of programs with a window on macOS, and of all that they start. Source: launchctl(1), path_helper(8)."""
USUAL_DIRECTORIES: Final = ("/opt/homebrew/bin", "/usr/local/bin", "/opt/local/bin", "~/.local/bin", "~/.cargo/bin")
"""Folders of `clojure`, `npx`, `uvx` and `java` in a login shell on macOS: Homebrew's, MacPorts', the user's own."""


def directories_to_add(path: str, *, system: str = sys.platform) -> list[str]:
    """Return the directories of programs that a PATH made by launchd lacks. Empty for any other PATH."""
    if system != "darwin" or not set(path.split(os.pathsep)) <= LAUNCHD_PATH:
        return []
    return [directory for directory in map(os.path.expanduser, USUAL_DIRECTORIES) if os.path.isdir(directory)]  # noqa: PTH112  # texts of a PATH


def complete_path() -> None:
    """Let this process and all that it starts find programs as a login shell does, if launchd made its PATH."""
    path = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([path, *directories_to_add(path)])


def is_path(program: str) -> bool:
    """Return true if a program is named by its path, not looked up in PATH."""
    return any(mark in program for mark in (os.sep, os.altsep) if mark)


def typed(words: Sequence[str], *, system: str = sys.platform) -> str:
    """Return a command line as it is typed in a shell: a console on Windows knows double quotes alone."""
    return subprocess.list2cmdline(words) if system == "win32" else shlex.join(words)


def passes_quotes_on(program: str, *, system: str = sys.platform) -> bool:
    """Return true if a program gets its arguments as given. A batch file of Windows gets them through `cmd.exe`."""
    return system != "win32" or not program.lower().endswith((".cmd", ".bat"))


def python_of(environment: Path) -> Path | None:
    """Return the interpreter of a virtual environment; None if it has none."""
    python = python_path(environment)
    return python if python.exists() else None


def python_path(environment: Path) -> Path:
    """Return the path at which a virtual environment has its interpreter."""
    return environment / "Scripts" / "python.exe" if _IS_WINDOWS else environment / "bin" / "python"


def program_in(directory: Path, name: str) -> str | None:
    """Return a program in a directory, with whatever ending programs have; None without one."""
    if not _IS_WINDOWS:
        return str(directory / name) if (directory / name).exists() else None
    return shutil.which(name, path=os.pathsep.join([str(directory), str(directory / "Scripts")]))


def python_in_path(path: str | None) -> str | None:
    """Return a Python in PATH. A file of length 0 opens the Store in place of running."""
    found = shutil.which(_PYTHON, path=path)
    return None if found and _IS_WINDOWS and not os.path.getsize(found) else found  # noqa: PTH202  # as `which` gives it


if sys.platform == "win32":

    def to_end(process: int | str) -> str:
        """Return the command that ends a process at once."""
        return f"taskkill /F /PID {process}"

    def to_name_holder(file: Path) -> str:
        """Return the command that names who holds a file."""
        return f"handle {file}"

    def to_open(path: Path) -> str:
        """Return the command that lets this user read, write and enter."""
        return f'icacls "{path}" /grant "%USERNAME%:(OI)(CI)F"'

else:

    def to_end(process: int | str) -> str:
        """Return the command that ends a process at once."""
        return f"kill -9 {process}"

    def to_name_holder(file: Path) -> str:
        """Return the command that names who holds a file."""
        return f"fuser {file}"

    def to_open(path: Path) -> str:
        """Return the command that lets this user read, write and enter."""
        return f"chmod u+rwx {shlex.quote(str(path))}"
