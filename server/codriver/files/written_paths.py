"""Convert paths as people and programs write them, such as file URIs and paths with a line number."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

_POSITION: Final = re.compile(r"(?<=[^:])(?::\d+(?:[-:]\d+){0,3}:?|#L\d+(?:[-,:]L?\d+)*|#\d+|\(\d+(?:,\s?\d+)?\))$")
"""Matches a line or a range, with optional columns: `m.py:3`, `m.py:3:7`, `m.py:3-9`, `m.py#L3-L9`, `m.py(3,7)`."""
_QUOTE_PAIRS: Final = frozenset({"``", '""', "''", "<>"})
"""Pairs of quotes around a path."""
_EDITOR_LINK_START: Final = re.compile(r"(?i:(?:vscode(?:-insiders)?|vscodium|cursor|windsurf)://file(?=/))")
"""Matches the start of a link with which editors open a file. Source: VS Code, "Opening VS Code with URLs"."""
_UNUSUAL_START: Final = re.compile(rf"(?i:file:)|~/|[@`\"'<\s]|{_EDITOR_LINK_START.pattern}")
"""Matches the start of a string that is not a plain path: a URI, `~/`, `@`, a quote, `<` or whitespace."""
_LOCAL: Final = frozenset({"", "localhost"})
"""Hosts of file URIs that refer to this machine."""


def may_need_conversion(given: str) -> bool:
    """Return whether `convert_written_path` may change this path."""
    return _UNUSUAL_START.match(given) is not None or _POSITION.search(given) is not None or given[-1:].isspace()


def convert_written_path(given: str, root: Path) -> str:
    """Return the path that a string refers to, relative to `root` unless it is absolute. Blocks on disk I/O.

    If a file with exactly this name exists, the string is returned unchanged. Otherwise `file:///w/m.py`, `@m.py`,
    `m.py:3`, `vscode://file/w/m.py`, and `m.py` in quotes, backticks or angle brackets all refer to `m.py`. `~` is the
    home directory.
    """
    if not given.strip() or os.path.lexists(root / given):
        return given
    path = given.strip()
    while len(path) > 2 and path[0] + path[-1] in _QUOTE_PAIRS:
        path = path[1:-1].strip()
    path = _EDITOR_LINK_START.sub("file://", path)
    if path[:5].lower() == "file:":
        path = _parse_file_uri(path)
    elif path.startswith("@") and not (root / path.split("/", 1)[0]).is_dir():
        path = path[1:]
    elif path.startswith("~/") and not os.path.lexists(root / "~"):
        path = os.path.expanduser(path)  # noqa: PTH111  # unlike with `Path`, an unknown home directory is no error
    if os.path.lexists(root / path):
        return path
    return _POSITION.sub("", path) or given


def _parse_file_uri(uri: str) -> str:
    """Return the path in a file URI, or the URI unchanged if it refers to another machine."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    if parts.netloc.lower() not in _LOCAL or not parts.path:
        return uri
    position = f"#{parts.fragment}" if parts.fragment else ""
    from urllib.request import url2pathname  # noqa: PLC0415  # slow to import, and few callers write URIs

    return url2pathname(parts.path) + position
