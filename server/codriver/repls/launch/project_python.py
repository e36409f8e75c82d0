"""The interpreter in which a project's own Python code runs: the one that was chosen, or the one of its environment.

A linked working tree of git seldom has an environment of its own. It takes that of the checkout it belongs to, as both
sides of the link say so: a file `.git` alone may be a stranger's.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.files.working_trees import main_checkout
from codriver.repls.kinds import PYTHON

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTO: Final = "auto"
ENVIRONMENTS: Final = (".venv", "venv")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter. `whose` it is, in words; `caution`, where the project's packages may not be there."""

    path: str
    whose: str
    caution: str | None = None


def find_python(workspace: Path, environ: Mapping[str, str], chosen: str = AUTO) -> Interpreter:
    """The interpreter of the project in `workspace`. `chosen`: the setting `python`, a path or a program of `PATH`."""
    if chosen != AUTO:
        named = str(workspace / chosen) if os.sep in chosen else shutil.which(chosen, path=environ.get("PATH"))
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
    if found := shutil.which("python3", path=environ.get("PATH")):
        return Interpreter(found, "python3 of PATH", _caution(workspace, found))
    return Interpreter(sys.executable, "codriver's own interpreter", _caution(workspace, sys.executable))


def _python_of(environment: Path) -> str | None:
    python = environment / "bin" / "python"
    return str(python) if python.exists() else None


def _caution(workspace: Path, python: str) -> str | None:
    """The warning for a Python project that has no environment."""
    if not any((workspace / mark).exists() for mark in PYTHON.marks):
        return None
    return (
        f"this project has no environment of its own (.venv, venv), so its code runs in {python}, perhaps without its "
        "packages: make one, or choose an interpreter by `codriver serve --python PATH` or python = … in codriver.toml"
    )
