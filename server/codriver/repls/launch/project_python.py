"""The interpreter in which a project's own Python code runs: the one that was chosen, or the one of its environment.

A linked working tree of git seldom has an environment of its own. It takes that of the checkout it belongs to, as both
sides of the link say so: a file `.git` alone may be a stranger's.

Where nobody has accepted the checkout that such an environment lies in, code runs in an interpreter from outside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.files.working_trees import main_checkout
from codriver.repls.kinds import PYTHON
from codriver.systems.programs import is_path, python_in_path, python_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

AUTO: Final = "auto"
ENVIRONMENTS: Final = (".venv", "venv")
OF_PATH: Final = "python3 of PATH"

NO_CHECKOUT: Final = os.sep
"""The folder in which a program of PATH is asked for its interpreter: the shims of version managers read files of the
folder that they run in, and of those above it."""
ASK: Final = "import sys; print(sys.executable if sys.version_info >= (3, 8) else '')"
"""The version is the worker's oldest."""
ASK_S: Final = 10.0
"""Far above the 10 ms of an interpreter and the 100 ms of a shim, on a disk that is busy."""
OF_FOLDER: Final = frozenset({"PWD", "OLDPWD", "PYENV_DIR"})
"""The variables that tell a shim of the folder that a client runs in."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter. `whose` it is, in words; `caution`, where the project's packages may not be there."""

    path: str
    whose: str
    caution: str | None = None
    waits_for: Path | None = None
    """The checkout to accept, where the interpreter stands in for one of its environment."""


def find_python(workspace: Path, environ: Mapping[str, str], chosen: str = AUTO) -> Interpreter:
    """The interpreter of the project in `workspace`. `chosen`: the setting `python`, a path or a program of `PATH`."""
    if chosen != AUTO:
        named = str(workspace / chosen) if is_path(chosen) else shutil.which(chosen, path=environ.get("PATH"))
        return Interpreter(named or chosen, "chosen by the setting python")
    if (active := environ.get("VIRTUAL_ENV")) and (python := _python_of(Path(active))):
        return Interpreter(python, f"the active environment {active}")
    for name in ENVIRONMENTS:
        if python := _python_of(workspace / name):
            return Interpreter(python, f"the project's {name}")
    main = main_checkout(workspace)
    for name in ENVIRONMENTS if main else ():
        if main and (python := _python_of(main / name)):
            whose = f"{name} of the main checkout {main}, as this working tree has none"
            caution = f"Python code runs in {whose}: make an environment here where they need other packages"
            return Interpreter(python, whose, caution)
    if found := python_in_path(environ.get("PATH")):
        return Interpreter(found, OF_PATH, _caution(workspace, found))
    return _own(workspace)


def find_safe_python(
    workspace: Path, environ: Mapping[str, str], chosen: str, is_accepted: Callable[[Path], bool]
) -> Interpreter:
    """The interpreter of the project in `workspace` that runs nothing of a checkout that nobody has accepted. Blocks.

    It is the project's, unless that lies in such a checkout: then it is a `python3` of `PATH` from outside of it,
    else Codriver's own, which alone may lie there.
    """
    found = find_python(workspace, environ, chosen)
    inside = checkouts(workspace)
    if found.path != sys.executable:
        for folder in inside:
            if lies_in(found.path, folder, workspace) and not is_accepted(folder):
                return replace(_outside(workspace, environ), waits_for=folder)
    return found if found.whose != OF_PATH or is_accepted(workspace) else _outside(workspace, environ)


def checkouts(workspace: Path) -> tuple[Path, ...]:
    """The workspace, and the main checkout of one that is a linked working tree."""
    return tuple(filter(None, (workspace, main_checkout(workspace))))


def lies_in(program: str, folder: Path, workspace: Path) -> bool:
    """Whether a program, as it is named in the workspace, lies below a folder, by its own name or its real path."""
    return any(
        path.is_relative_to(root)
        for path in (Path(os.path.abspath(workspace / program)), Path(os.path.realpath(workspace / program)))  # noqa: PTH100  # without following links
        for root in (folder, Path(os.path.realpath(folder)))
    )


def outside_environment(workspace: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what leads into the checkouts, or is of Python: a PATH of folders outside them alone."""
    inside = checkouts(workspace)
    names = [str(path) for folder in inside for path in (folder, os.path.realpath(folder))]
    kept = {
        name: value
        for name, value in environ.items()
        if name not in OF_FOLDER and not name.startswith("PYTHON") and not any(one in value for one in names)
    }
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    return {**kept, "PATH": os.pathsep.join(folder for folder in folders if _is_outside(folder, workspace))}


def _outside(workspace: Path, environ: Mapping[str, str]) -> Interpreter:
    """`python3` of the folders of `PATH` that lie in no checkout, else Codriver's own."""
    outside = outside_environment(workspace, environ)
    named = python_in_path(outside["PATH"]) if outside["PATH"] else None
    if named is not None and _is_outside(named, workspace):
        found = _executable(named, outside)
        if found and _is_outside(found, workspace):
            return Interpreter(found, OF_PATH, _caution(workspace, found))
    return _own(workspace)


def _is_outside(path: str, workspace: Path) -> bool:
    return Path(path).is_absolute() and not any(lies_in(path, folder, workspace) for folder in checkouts(workspace))


def _executable(program: str, environ: Mapping[str, str]) -> str:
    """The interpreter that `program` is or leads to, as it says itself; empty if it says none that is new enough."""
    try:
        said = subprocess.run(  # noqa: S603  # it is the user's own, of PATH and of no checkout
            [program, "-I", "-S", "-c", ASK], cwd=NO_CHECKOUT, env=environ, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=ASK_S, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return os.fsdecode(said).strip()


def _own(workspace: Path) -> Interpreter:
    return Interpreter(sys.executable, "codriver's own interpreter", _caution(workspace, sys.executable))


def _python_of(environment: Path) -> str | None:
    python = python_of(environment)
    return None if python is None else str(python)


def _caution(workspace: Path, python: str) -> str | None:
    """The warning for a Python project that has no environment."""
    if not any((workspace / mark).exists() for mark in PYTHON.marks):
        return None
    return (
        f"this project has no environment of its own (.venv, venv), so its code runs in {python}, perhaps without its "
        "packages: make one, or choose an interpreter by `codriver serve --python PATH` or python = … in codriver.toml"
    )
