"""One TOML file that a stranger may have written: opened safely, and parsed only if parsing ends soon.

A dotted key of 100 KB keeps the standard library's parser busy for half a minute, as each part looks through all parts
before it. So the size of a file and the parts of its longest key are looked at first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codriver import files
from codriver.files import Links, Rules

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = files.MEBIBYTE
"""The largest pyproject.toml among thousands of public projects has a fifth of it."""
MAX_KEY_PARTS: Final = 64

_HIDDEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?:\\[^\n]|[^"\\\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
"""Strings and comments, also unfinished ones. A match consumes all text that it looked at, so matching is linear."""
_NO_KEY: Final = re.compile(r'[^\w\-". \t]+')


class TomlFileError(ValueError):
    """A file that should be TOML cannot be read as such; `why` says so without its path."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def read(path: Path, *, root: Path | None) -> dict[str, Any]:
    """Return the document at `path`; empty when there is no such file.

    With `root`, the workspace, links are followed as long as they stay below it; without, as long as they are the
    user's own.

    Raises:
        TomlFileError: the path leads to no regular file, too large, or no TOML.
    """
    try:
        return parse(content(path, root=root).decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:  # no TOML, numbers too long to read, nesting too deep
        raise TomlFileError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def content(path: Path, *, root: Path | None) -> bytes:
    """Return the bytes of a TOML file, found as by `read`.

    Raises:
        OSError: the file is missing, or must not be read.
    """
    return files.read(path, Rules(Links.OF_USER if root is None else Links.WITHIN, MAX_BYTES), root=root)


def parse(text: str) -> dict[str, Any]:
    """Return a TOML document.

    Raises:
        ValueError: the text is no TOML, or has a key of too many parts.
        RecursionError: the document is nested too deeply.
    """
    import tomllib  # noqa: PLC0415  # half a megabyte, which a workspace without such a file spares

    parts = 1 + max(part.count(".") for part in _NO_KEY.split(_HIDDEN.sub('"', text)))
    if parts > MAX_KEY_PARTS:
        raise ValueError(f"a key has {parts:,} parts between dots, and {MAX_KEY_PARTS} are the most that is read")
    return tomllib.loads(text)
