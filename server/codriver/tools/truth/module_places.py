"""Modules of the workspace that an import did not find: where they are, and the line that makes them importable.

A repository of several projects has their modules in folders that `sys.path` does not have. The files are looked for by
their names alone: nothing of them is read, imported or run.
"""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.files.workspace_walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.core.values import Evaluation
    from codriver.tools.calls.base import Call

MOST_LEVELS: Final = 7
MOST_ENTRIES: Final = 50_000
SEARCH_S: Final = 0.5
MOST_PLACES: Final = 3
MOST_CHARACTERS: Final = 300
"""Of a path that an answer is to name."""
_MISSING: Final = re.compile(r"No module named '(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)'$")
"""Source: CPython's `importlib._bootstrap`."""


async def notes_of_missing_module(call: Call, evaluation: Evaluation) -> list[str]:
    """The note on a module that is in the workspace and was not found by an import, if that was the failure."""
    failure = evaluation.failure
    if failure is None or failure.type != "ModuleNotFoundError":
        return []
    repl, match = call.state.repls.get(evaluation.repl), _MISSING.match(failure.message)
    if repl is None or match is None or repl.dialect != "python" or repl.origin.kind == "address":
        return []
    find = partial(places, call.services.workspace, match["name"])
    found = await call.services.work.files.run(call.client, find)
    if not found:
        return []
    first, *others = map(repr, found)
    more = f" (or {', '.join(others)})" if others else ""
    how = f"evaluate import sys; sys.path.append({first}){more} at each start"
    return [f"{match['name']} is in a folder of the workspace that this REPL does not search: {how}"]


def places(workspace: Path, name: str) -> list[str]:
    """The folders of the workspace that make a module importable when they are on `sys.path`, the nearest first.

    Not those that the embedded REPL searches by itself. A package with an `__init__.py` goes before one without.
    """
    searched = {str(workspace), str(workspace / "src")}
    found: dict[str, bool] = {}
    for folder, is_sure in _candidates(workspace, name):
        is_new = folder not in searched and len(folder) <= MOST_CHARACTERS
        if is_new and not (Path(folder) / "__init__.py").exists():
            found[folder] = found.get(folder, False) or is_sure
    return sorted(found, key=lambda folder: not found[folder])[:MOST_PLACES]


def _candidates(workspace: Path, name: str) -> Iterator[tuple[str, bool]]:
    """Folders in which the module may be, each with whether it is no package without an `__init__.py`."""
    parts = tuple(name.split("."))
    until = time.monotonic() + SEARCH_S
    for path, _, entries in walk(workspace, max_depth=MOST_LEVELS, max_entries=MOST_ENTRIES):
        within = Path(path).relative_to(workspace).parts
        names = {entry.name for entry in entries}
        if within[-len(parts) :] == parts and any(file.endswith(".py") for file in names):
            yield str(workspace.joinpath(*within[: -len(parts)])), "__init__.py" in names
        outer = len(within) - len(parts) + 1
        if f"{parts[-1]}.py" in names and within[max(outer, 0) :] == parts[:-1]:
            yield str(workspace.joinpath(*within[:outer])), True
        if time.monotonic() > until:
            return
