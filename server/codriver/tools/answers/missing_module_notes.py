"""Explain why a module cannot be imported although it is in the workspace.

In a repository with several projects, a module may be in a directory that is not on `sys.path`. If importing such a
module fails, a note names its directory and the line that makes it importable. Files are found only by name: none is
read, imported or run.
"""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.files.tree_walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.core.evaluations import Evaluation
    from codriver.tools.calls.call import Call

MAX_SEARCH_DEPTH: Final = 7
"""Maximum depth of directories that are searched for a missing module."""
MAX_SCANNED_ENTRIES: Final = 50_000
"""Maximum number of directory entries that are scanned for a missing module."""
SEARCH_TIMEOUT_S: Final = 0.5
"""Maximum time to search for a missing module, in seconds."""
MAX_NAMED_DIRECTORIES: Final = 3
"""Maximum number of directories named in a note about a missing module."""
MAX_PATH_CHARACTERS: Final = 300
"""Maximum number of characters in a path in an answer."""
_MISSING_MODULE_PATTERN: Final = re.compile(r"No module named '(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)'$")
"""Matches Python's message about a missing module. Source: CPython's `importlib._bootstrap`."""


async def describe_missing_module(call: Call, evaluation: Evaluation) -> list[str]:
    """Return a note if an evaluation failed to import a module that exists in the workspace."""
    failure = evaluation.failure
    if failure is None or failure.type != "ModuleNotFoundError":
        return []
    repl, match = call.state.repls.get(evaluation.repl), _MISSING_MODULE_PATTERN.match(failure.message)
    if repl is None or match is None or repl.dialect != "python" or repl.origin.kind == "address":
        return []
    find = partial(find_import_directories, call.services.workspace, match["name"])
    found = await call.services.work.files.run(call.client, find)
    if not found:
        return []
    first, *others = map(repr, found)
    more = f" (or {', '.join(others)})" if others else ""
    how = f"evaluate import sys; sys.path.append({first}){more} at each start"
    return [(f"{match['name']} is in a folder of the workspace that this REPL does not search. To change that, {how}")]


def find_import_directories(workspace: Path, name: str) -> list[str]:
    """Return the workspace's directories from which a module could be imported, most likely first.

    Directories that the embedded REPL already searches are left out. Modules and packages with an `__init__.py` come
    before packages without one.
    """
    searched = {str(workspace), str(workspace / "src")}
    found: dict[str, bool] = {}
    for directory, is_sure in _candidates(workspace, name):
        is_new = directory not in searched and len(directory) <= MAX_PATH_CHARACTERS
        if is_new and not (Path(directory) / "__init__.py").exists():
            found[directory] = found.get(directory, False) or is_sure
    return sorted(found, key=lambda directory: not found[directory])[:MAX_NAMED_DIRECTORIES]


def _candidates(workspace: Path, name: str) -> Iterator[tuple[str, bool]]:
    """Yield directories that may contain a module.

    The second value is true if the module is a file or has an `__init__.py`.
    """
    parts = tuple(name.split("."))
    until = time.monotonic() + SEARCH_TIMEOUT_S
    for path, _, entries in walk(workspace, max_depth=MAX_SEARCH_DEPTH, max_entries=MAX_SCANNED_ENTRIES):
        within = Path(path).relative_to(workspace).parts
        names = {entry.name for entry in entries}
        if within[-len(parts) :] == parts and any(file.endswith(".py") for file in names):
            yield str(workspace.joinpath(*within[: -len(parts)])), "__init__.py" in names
        outer = len(within) - len(parts) + 1
        if f"{parts[-1]}.py" in names and within[max(outer, 0) :] == parts[:-1]:
            yield str(workspace.joinpath(*within[:outer])), True
        if time.monotonic() > until:
            return
