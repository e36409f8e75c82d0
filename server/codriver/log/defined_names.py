"""Definitions by name, in evaluated code and in the source files of a workspace.

Names are found by the shape of what defines them, at the beginning of a line: nothing is parsed, as this serves an
overview over hundreds of texts, some of them cut.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from codriver.files import KIBIBYTE, MEBIBYTE, Links, Rules, read
from codriver.files.workspace_walk import files_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SEARCH_BYTES: Final = 8 * MEBIBYTE
SEARCH_ENTRIES: Final = 20_000
RULES: Final = Rules(Links.WITHIN, 512 * KIBIBYTE)
LISP_NAME: Final = re.compile(r"^\s*\([^\s()]*def[^\s()]*\s+(?:\^\S+\s+)*([^\s()\[\]{}\"';,@^`~]+)", re.MULTILINE)
PYTHON_NAME: Final = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)


def names_in(code: str, *, is_lisp: bool) -> tuple[str, ...]:
    """The names that code defines, in its order: functions and classes of Python, `def…` forms of Lisp."""
    return tuple(dict.fromkeys((LISP_NAME if is_lisp else PYTHON_NAME).findall(code)))


def names_on_disk(workspace: Path, wanted: Iterable[str], suffixes: Sequence[str], search_s: float) -> frozenset[str]:
    """The names among `wanted` that a source file of the workspace defines, as far as time and size allow. Blocks.

    `suffixes`: the endings of source files. Where it is not allowed to look everywhere, all of them: nothing is said
    that may be wrong.
    """
    asked, found = frozenset(wanted), set[str]()
    ends_at, left = time.monotonic() + search_s, SEARCH_BYTES
    for path in files_of(workspace, tuple(suffixes), max_entries=SEARCH_ENTRIES) if asked else ():
        if time.monotonic() > ends_at or left <= 0:
            return asked
        try:
            text = read(path, RULES, root=workspace).decode("utf-8", "replace")
        except OSError:
            continue
        left -= len(text)
        found.update(names_in(text, is_lisp=path.suffix != ".py"))
        if asked <= found:
            break
    return asked & found
