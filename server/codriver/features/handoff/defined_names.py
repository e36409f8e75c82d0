"""Use regular expressions to find the names that code defines.

The code is not parsed, because hundreds of sources are scanned at once, and some of them are truncated.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from codriver.files import KIBIBYTE, MEBIBYTE, FileRules, Links, read
from codriver.files.tree_walk import walk_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MAX_SEARCHED_BYTES: Final = 8 * MEBIBYTE
"""Maximum total size of the source files to read in a search."""
MAX_VISITED_ENTRIES: Final = 20_000
"""Maximum number of directory entries to visit in a search."""
SOURCE_RULES: Final = FileRules(Links.WITHIN, 512 * KIBIBYTE)
"""Limits for reading a source file."""
LISP_DEFINITION: Final = re.compile(r"^\s*\([^\s()]*def[^\s()]*\s+(?:\^\S+\s+)*([^\s()\[\]{}\"';,@^`~]+)", re.MULTILINE)
"""Matches the start of a Lisp form that defines a name."""
PYTHON_DEFINITION: Final = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)
"""Matches the start of a top-level Python function or class."""
PYTHON_ASSIGNMENT: Final = re.compile(r"(?:^|;[ \t]*)(\w+(?:,[ \t]*\w+)*)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
"""Matches a top-level Python assignment to one or more names."""


def assigned_names(code: str) -> tuple[str, ...]:
    """Return the public names that Python code assigns at the top level, in order."""
    names = [name.strip() for found in PYTHON_ASSIGNMENT.findall(code) for name in found.split(",")]
    return tuple(dict.fromkeys(name for name in names if name.isidentifier() and not name.startswith("_")))


def defined_names(code: str, *, is_lisp: bool) -> tuple[str, ...]:
    """Return the names of the functions and classes in code, or of its Lisp definitions, in order."""
    return tuple(dict.fromkeys((LISP_DEFINITION if is_lisp else PYTHON_DEFINITION).findall(code)))


def names_on_disk(workspace: Path, names: Iterable[str], suffixes: Sequence[str], search_s: float) -> frozenset[str]:
    """Return the given names that source files in the workspace define. Blocks.

    `suffixes` are the suffixes of source files. If the search exceeds its time or size limit, return all names, so that
    none is wrongly reported as missing from the files.
    """
    searched, found = frozenset(names), set[str]()
    ends_at, left = time.monotonic() + search_s, MAX_SEARCHED_BYTES
    for path in walk_files(workspace, tuple(suffixes), max_entries=MAX_VISITED_ENTRIES) if searched else ():
        if time.monotonic() > ends_at or left <= 0:
            return searched
        try:
            text = read(path, SOURCE_RULES, root=workspace).decode("utf-8", "replace")
        except OSError:
            continue
        left -= len(text)
        found.update(defined_names(text, is_lisp=path.suffix != ".py"))
        if searched <= found:
            break
    return searched & found
