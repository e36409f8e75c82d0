"""Refuse edits of open notebooks, and of files that would run code or grant permissions."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from codriver.editing.editable_paths import PYTHON_SUFFIXES, SUFFIXES, plain_name
from codriver.editing.guarded_files import guard_reason
from codriver.repls.jupyter.connection_files import RuntimeDirectory, runtime_directory
from codriver.repls.jupyter.kernel_discovery import where_open

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.editing.file_changes import Change
    from codriver.settings.model import Settings

NOTEBOOK: Final = ".ipynb"
NEEDS_HUMAN: Final = "ask your human to edit it, or to set allowEditsOfClientFiles in their own settings"


def why_not(workspace: Path, settings: Settings, change: Change) -> str:
    """Return the reason why a change must not be made, or an empty string.

    Waits for servers that may have a notebook open.
    """
    path, name = change.path, plain_name(change.path.name)
    is_code = PurePath(name).suffix in (*SUFFIXES, *PYTHON_SUFFIXES)
    if not settings.enable_mcp_repl_evaluation and not is_code:
        return "only files of Python and Lisp can be edited while evaluation is switched off"
    if path.suffix == NOTEBOOK and change.before.data is not None and (where := find_open_notebook(path)):
        return f"it is open in {where}, whose copy would lack the edit; ask your human to close it in that program"
    if settings.allow_edits_of_client_files or not path.is_relative_to(workspace):
        return ""
    reason = guard_reason(workspace, change)
    return f"{reason}: {NEEDS_HUMAN}" if reason else ""


def find_open_notebook(path: Path) -> str | None:
    """Return a name for the Jupyter Server in which a notebook is open, or None.

    Waits for servers.
    """
    return where_open(path, RuntimeDirectory(runtime_directory(os.environ)).contents().servers)
