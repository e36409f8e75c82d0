"""Point to files in the workspace that define a Python name that an evaluation did not find."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.profiles import PYTHON
from codriver.errors import CodriverError
from codriver.repls.contract.queries import ListNames

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.tools.calls.call import Call

UNDEFINED_NAME_PATTERN: Final = re.compile(r"name '(?P<name>[^\W\d]\w*)' is not defined")
"""Matches Python's message about an undefined name. Source: CPython's `Python/ceval.c`."""
SEARCH_TIMEOUT_S: Final = 2.0
"""Maximum time to wait for the names, in seconds. The REPL itself stops its search sooner."""
MAX_NAMED_MODULES: Final = 3
"""Maximum number of modules named in a note."""


async def describe_undefined_name(call: Call, evaluation: Evaluation) -> list[str]:
    """Return a note about how to import a name, if an evaluation failed because it was not defined."""
    failure, repl = evaluation.failure, call.state.repls.get(evaluation.repl)
    if failure is None or failure.type != "NameError" or repl is None or repl.dialect != PYTHON:
        return []
    found = UNDEFINED_NAME_PATTERN.match(failure.message)
    if found is None:
        return []
    name, names = found["name"], None
    with suppress(CodriverError), anyio.move_on_after(SEARCH_TIMEOUT_S):
        names = await call.services.repls.adapter(repl.id).query(ListNames(name, session=evaluation.session))
    modules = [full.removesuffix(f".{name}") for full in names.definitions_of(name)] if names is not None else []
    if not modules:
        return []
    imports = [f"from {module} import {name}" for module in modules[:MAX_NAMED_MODULES]]
    return [f"{name} is defined in the workspace: {' or '.join(imports)}"]
