"""Which workspaces get a Python REPL without being asked: the server starts it, and `codriver init` foretells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.repls.kinds import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

NO_MARKS: Final = ("codriver.toml", "opencode.json", "opencode.jsonc", "AGENTS.md", "CLAUDE.md", "GEMINI.md")
"""Files that are about agents and clients: a workspace that holds nothing else is as good as empty."""


def is_python_or_empty(workspace: Path) -> bool:
    """Whether the folder shows Python at its top, or nothing at all. Names that begin with a dot show nothing.

    Raises:
        OSError: the folder cannot be read.
    """
    names = [path.name for path in workspace.iterdir() if not path.name.startswith(".") and path.name not in NO_MARKS]
    return not names or any(name in PYTHON.marks or name.endswith(PYTHON.suffixes) for name in names)
