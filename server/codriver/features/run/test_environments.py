"""Find the environment variables for tests that are run with the interpreter of a program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from codriver.features.run.process_table import find_process
from codriver.features.run.program_copy import is_program_copy
from codriver.features.run.run_directory import DIRECTORY_VARIABLE, read_run, runs_directory

if TYPE_CHECKING:
    from collections.abc import Mapping


def serving_process_id(location: str) -> int:
    """Return the id of the process whose REPL has this location, as in `Member.address`."""
    return int(location.rpartition("/")[2])


def initial_variables(workspace: Path, location: str) -> dict[str, str] | None:
    """Return the environment variables with which the user started the program of a REPL, or None if they are unknown.

    Programs set variables for their children: Django's development server sets the settings module, which would have
    precedence over the one that is configured for tests. Blocks.
    """
    run = read_run(runs_directory(workspace) / location.partition("/")[0])
    first = None if run is None else find_process(run.pid)
    if run is None or first is None or first.started != run.started or first.isolation:
        return None
    if os.fsencode(DIRECTORY_VARIABLE) not in first.environ:  # the program has overwritten them, to set its title
        return None
    return _without_additions({os.fsdecode(name): os.fsdecode(value) for name, value in first.environ.items()})


def _without_additions(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables without those that `codriver run` added."""
    found = {name: value for name, value in variables.items() if name != DIRECTORY_VARIABLE}
    paths = found.pop("PYTHONPATH", "").split(os.pathsep)
    if left := [path for path in paths if path and not is_program_copy(Path(path))]:
        found["PYTHONPATH"] = os.pathsep.join(left)
    return found
