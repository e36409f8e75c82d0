"""Find functions and classes by name in the source files below the working directory.

The search covers files that code in the REPL could import. These are the files below each directory on the module
search path that is the working directory or inside it.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import time

from .unimported_names import definition_row, parse_lines, read_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_SEARCH_S = 1.0
"""Maximum duration of a search, in seconds. Definitions in files not reached by then are not found."""
ENVIRONMENT_FILE = "pyvenv.cfg"
"""A file that marks a virtual environment, whose packages are not the project's."""
SKIPPED_DIRECTORIES = frozenset({"__pycache__", "node_modules", "site-packages"})
"""Names of directories that are not searched. Directories whose names start with a dot are not searched either."""


def workspace_definitions(fragment: str, is_match: Callable[[str], object]) -> list[dict[str, str]]:
    """Return a row for each matching top-level function and class of a module, sorted by qualified name.

    `is_match` receives names qualified by their module. Only files that contain `fragment` are parsed, ignoring case.
    Every possible match contains it.
    """
    deadline = time.monotonic() + MAX_SEARCH_S
    contains = re.compile(re.escape(fragment), re.IGNORECASE).search
    rows = {}
    for module, file in _source_files():
        if time.monotonic() > deadline:
            break
        lines = read_lines(file)
        tree = parse_lines(lines) if any(map(contains, lines)) else None
        for node in tree.body if tree is not None else ():
            qualified = f"{module}.{getattr(node, 'name', '')}"
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and is_match(qualified):
                rows[qualified] = {**definition_row(node), "name": qualified}
    return [rows[name] for name in sorted(rows)]


def _source_files() -> Iterator[tuple[str, str]]:
    """Yield the module name and path of each source file below the working directory that code could import."""
    seen = set()
    try:
        workspace = os.path.realpath(os.getcwd())
    except OSError:  # it was deleted
        return
    roots = [os.path.realpath(entry) for entry in list(sys.path) if isinstance(entry, str)]
    roots.sort(key=len, reverse=True)  # a file belongs to the nearest entry of the path
    for root in roots:
        if root != workspace and not root.startswith(workspace + os.sep):
            continue
        if not SKIPPED_DIRECTORIES.isdisjoint(os.path.relpath(root, workspace).split(os.sep)):
            continue  # the packages of an environment inside the working directory
        for directory, names, files in os.walk(root):
            if ENVIRONMENT_FILE in files or (directory != root and directory in seen):
                names.clear()
                continue
            seen.add(directory)
            names[:] = sorted(name for name in names if name[:1] != "." and name not in SKIPPED_DIRECTORIES)
            for file in sorted(files):
                parts = os.path.relpath(os.path.join(directory, file), root).split(os.sep)
                named = [*parts[:-1], *([] if file == "__init__.py" else [file[:-3]])]
                is_importable = file.endswith(".py") and named and all(part.isidentifier() for part in named)
                if is_importable and os.path.isfile(os.path.join(directory, file)):
                    yield ".".join(named), os.path.join(directory, file)
