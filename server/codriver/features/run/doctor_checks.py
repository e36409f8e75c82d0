"""The doctor's checks for `codriver run`: running programs, and commands that could be run with it."""

from __future__ import annotations

import platform
import re
import shlex
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.features.run.naming import name_processes
from codriver.features.run.process_table import SUPPORTED_SYSTEMS, find_processes
from codriver.features.run.processes import select_run_processes
from codriver.features.run.run_directory import read_runs
from codriver.files import FileRules, Links
from codriver.files.tree_walk import walk_files
from codriver.repls import kinds
from codriver.repls.launch.projects import find_projects
from codriver.setup.doctor_checks import Check, FeatureChecks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHECK_AREA: Final = "programs"
MAX_SUGGESTED_COMMANDS: Final = 4
"""Maximum number of suggested commands."""
MAX_DIRECTORY_DEPTH: Final = 2
"""Maximum depth of directories to search for applications."""
MAX_SEARCHED_FILES: Final = 500
"""Maximum number of files to search for applications. The doctor must answer quickly even in a large project."""
SOURCE_RULES: Final = FileRules(Links.NEVER, 256 * files.KIBIBYTE)
"""Limits for reading a source file."""
APPLICATION_PATTERN: Final = re.compile(r"^(\w+)\s*(?::[^=\n]+)?=\s*(?:\w+\.)*(Flask|FastAPI|Celery)\(", re.MULTILINE)
"""Matches the creation of an application at the top level of a module."""
FLASK_VARIABLE_NAMES: Final = ("app", "application")
"""Names of variables in which Flask finds an application by itself.

Source: Flask's documentation, "Application Discovery".
"""
UNSUPPORTED_MESSAGE: Final = "`codriver run` works only on Linux and macOS"


def check_programs(workspace: Path) -> Iterator[Check]:
    """Yield checks of the programs that `codriver run` has started.

    If there are none, suggest commands that start the project's programs.
    """
    projects = find_projects(workspace)
    has_python = any(project.repl == kinds.PYTHON_KIND.repl for project in projects)
    if platform.system() not in SUPPORTED_SYSTEMS:
        if has_python:
            yield Check(
                CHECK_AREA,
                "ok",
                f"{UNSUPPORTED_MESSAGE}. On other systems, a program can call codriver_seam.start_repl(True)",
            )
        return
    running = [*_check_runs(workspace)]
    yield from running
    if has_python and not running:
        found = [f"codriver run -- {command}" for command in find_start_commands(workspace)]
        text = ", or ".join(found) or "codriver run -- COMMAND, for any Python program"
        yield Check(CHECK_AREA, "ok", f"to let agents inspect a running program, start it with: {text}")


def _check_runs(workspace: Path) -> Iterator[Check]:
    """Yield a check for each run, with its sessions or the reason why it has none."""
    runs = read_runs(workspace)
    everyone = find_processes() if runs else {}
    for run in runs:
        processes = select_run_processes(everyone, str(run.directory), (run.pid, run.started))
        rows = name_processes(run.name, processes, {})
        keys = [row.key for row in rows if row.role == "serves"]
        command = shlex.join(run.command)
        if keys:
            yield Check(CHECK_AREA, "ok", f"{command} is running; its sessions: {', '.join(keys)}")
        elif processes:
            reason = next(
                filter(None, (process.no_repl_reason for process in processes)), "none of its processes can have a REPL"
            )
            yield Check(CHECK_AREA, "note", f"{command} is running without a REPL: {reason}")


def find_start_commands(workspace: Path) -> list[str]:
    """Return commands that start the applications found in source files. The code is not executed."""
    found: dict[str, None] = {}
    if "django" in _read_source(workspace / "manage.py"):
        found["python manage.py runserver"] = None
    for file in walk_files(workspace, (".py",), max_entries=MAX_SEARCHED_FILES, max_depth=MAX_DIRECTORY_DEPTH):
        parts = file.relative_to(workspace).with_suffix("").parts
        parts = parts[1:] if parts[0] == "src" else parts
        if any(part.startswith("test") for part in parts):
            continue
        module = ".".join(part for part in parts if part != "__init__")
        for match in APPLICATION_PATTERN.finditer(_read_source(file)):
            found[_start_command(match[2], module, match[1])] = None
    return [*found][:MAX_SUGGESTED_COMMANDS]


def _start_command(kind: str, module: str, name: str) -> str:
    if kind == "Celery":
        return f"celery -A {module} worker"
    if kind == "FastAPI":
        return f"uvicorn {module}:{name}"
    return f"flask --app {module if name in FLASK_VARIABLE_NAMES else f'{module}:{name}'} run"


def _read_source(file: Path) -> str:
    """Return the content of a source file, or an empty string if it cannot be read."""
    try:
        return files.read_text(file, SOURCE_RULES)
    except (OSError, UnicodeDecodeError):
        return ""


CHECKS: Final = FeatureChecks(always=check_programs)
