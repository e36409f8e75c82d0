"""Read TOML files that may come from untrusted sources.

A dotted key of 100 KB occupies the standard library's parser for half a minute, because it searches all previous parts
for each part. So the file's size and the number of parts in a key are checked first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codriver import files
from codriver.files import FileRules, Links

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES: Final = files.MEBIBYTE
"""Maximum file size, five times the size of the largest pyproject.toml in thousands of public projects."""
MAX_KEY_PARTS: Final = 64
"""Maximum number of parts in a dotted key."""

_HIDDEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?:\\[^\n]|[^"\\\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
"""Matches strings and comments, even unterminated ones.

Each match consumes all text that it scanned, so matching takes linear time.
"""
_NON_KEY: Final = re.compile(r'[^\w\-". \t]+')
"""Characters that end a dotted key."""


class TomlFileError(ValueError):
    """Raised when a file cannot be read as TOML. `why` is the reason without the path."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def read_toml(path: Path, *, root: Path | None) -> dict[str, Any]:
    """Parse a TOML file. Return {} if the file does not exist.

    If `root` is the workspace, links must stay below it. If it is None, links must belong to the user.

    Raises:
        TomlFileError: the path is not a regular file, or the file is too large or not valid TOML.
    """
    try:
        return parse_toml(read_toml_bytes(path, root=root).decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:  # invalid TOML, oversized numbers, or excessive nesting
        raise TomlFileError(path, f"the file cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_toml_bytes(path: Path, *, root: Path | None) -> bytes:
    """Return the bytes of a TOML file. `root` has the same meaning as for `read_toml`.

    Raises:
        OSError: the file does not exist or must not be read.
    """
    return files.read(path, FileRules(Links.OF_USER if root is None else Links.WITHIN, MAX_FILE_BYTES), root=root)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML document. Documents that would take long to parse are rejected.

    Raises:
        ValueError: the text is not valid TOML, or a key has too many parts.
        RecursionError: the document is nested too deeply.
    """
    import tomllib  # noqa: PLC0415  # takes half a megabyte of memory, and many workspaces have no such file

    parts = 1 + max(part.count(".") for part in _NON_KEY.split(_HIDDEN.sub('"', text)))
    if parts > MAX_KEY_PARTS:
        raise ValueError(f"a dotted key has {parts:,} parts, but at most {MAX_KEY_PARTS} are allowed")
    return tomllib.loads(text)
