"""Names that code defines, found by the shape of definitions at the beginning of a line.

Nothing is parsed: this serves an overview over hundreds of texts, some of them cut.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from codriver.files import KIBIBYTE, MEBIBYTE, Links, Rules, read
from codriver.files.working_trees import files_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SEARCH_BYTES: Final = 8 * MEBIBYTE
SEARCH_ENTRIES: Final = 20_000
RULES: Final = Rules(Links.WITHIN, 512 * KIBIBYTE)
LISP_NAME: Final = re.compile(r"^\s*\([^\s()]*def[^\s()]*\s+(?:\^\S+\s+)*([^\s()\[\]{}\"';,@^`~]+)", re.MULTILINE)
PYTHON_NAME: Final = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)
ASSIGNED: Final = re.compile(r"(?:^|;[ \t]*)(\w+(?:,[ \t]*\w+)*)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE)


def assigned_names(code: str) -> tuple[str, ...]:
    """Return the names that code of Python assigns at the top, in its order, without private ones (`_x`)."""
    names = [name.strip() for found in ASSIGNED.findall(code) for name in found.split(",")]
    return tuple(dict.fromkeys(name for name in names if name.isidentifier() and not name.startswith("_")))


def names_in(code: str, *, is_lisp: bool) -> tuple[str, ...]:
    """Return the names that code defines, in its order: functions and classes of Python, `def…` forms of Lisp."""
    return tuple(dict.fromkeys((LISP_NAME if is_lisp else PYTHON_NAME).findall(code)))


def names_on_disk(workspace: Path, names: Iterable[str], suffixes: Sequence[str], search_s: float) -> frozenset[str]:
    """Return those of the names that a source file of the workspace defines. Blocks.

    `suffixes`: the endings of source files. If time or size do not allow a complete search, all names are returned, so
    that no name is reported as missing that may be in a file.
    """
    searched, found = frozenset(names), set[str]()
    ends_at, left = time.monotonic() + search_s, SEARCH_BYTES
    for path in files_of(workspace, tuple(suffixes), max_entries=SEARCH_ENTRIES) if searched else ():
        if time.monotonic() > ends_at or left <= 0:
            return searched
        try:
            text = read(path, RULES, root=workspace).decode("utf-8", "replace")
        except OSError:
            continue
        left -= len(text)
        found.update(names_in(text, is_lisp=path.suffix != ".py"))
        if searched <= found:
            break
    return searched & found
