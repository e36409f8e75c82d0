"""Programs that a project's REPL needs, and the parts that a linked working tree of git has of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.files.working_trees import main_checkout
from codriver.repls import kinds
from codriver.repls.launch.project_python import find_python
from codriver.setup.clients import is_there

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from codriver.repls.launch.projects import Project
    from codriver.setup.clients import Environment

_BESIDE: Final = ("node_modules/.bin", ".venv/bin", "venv/bin")
"""Where programs of a project lie that are not on the search path."""


def can_start(project: Project, workspace: Path, environment: Environment) -> bool:
    """True where a program that the project's REPL needs is installed. Python and its Lisp need none but ours."""
    return not project.programs or any(_has_program(name, workspace, environment) for name in project.programs)


def _has_program(name: str, workspace: Path, environment: Environment) -> bool:
    if environment.has_command(name):
        return True
    return any(is_there(workspace / folder / name) for folder in _BESIDE)


def describe_tree(workspace: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """The lines for a terminal on what a linked working tree of git has of its own; none for any other folder."""
    main = main_checkout(workspace)
    if main is None:
        return
    yield f"tree       linked to {main}; its server, REPLs, log and history are its own"
    if any(is_there(workspace / mark) for mark in kinds.PYTHON.marks):
        python = find_python(workspace, environ)
        yield f"Python     {python.whose}"
        if python.caution:
            yield "           `python3 -m venv .venv`, and the project's packages in it, gives it one of its own"
