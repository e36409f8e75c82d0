"""Files that an edit may not change: those by which a stranger's words would come to run something, or grant it."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from codriver.editing.file_changes import PYTHON_SUFFIXES, SUFFIXES, plain_name
from codriver.repls.jupyter.finding.connection_files import RuntimeFolder, runtime_folder
from codriver.repls.jupyter.finding.notebook_servers import where_open

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.editing.file_changes import Change
    from codriver.settings.model import Settings

OWN_FILE: Final = "codriver.toml"
NOTEBOOK: Final = ".ipynb"
PROJECT_FILE: Final = "pyproject.toml"
CLIENTS_FILES: Final = frozenset(
    {"opencode.json", "opencode.jsonc", "crush.json", "kilo.json", "kilo.jsonc", "gemini-extension.json"}
)
"""Files of clients whose names show, with the servers and hooks that they run."""
HARMLESS: Final = frozenset(
    {".gitignore", ".gitattributes", ".editorconfig", ".dockerignore", ".npmignore", ".cljfmt.edn"}
)
"""Hidden files that name no program."""
LINTER: Final = ".clj-kondo"
"""The folder of a linter's settings, which are data in EDN. Its hooks are code that editors run as they lint."""
ASK: Final = "ask your human to edit it, or to set allowEditsOfClientFiles in their own settings"


def why_not(workspace: Path, settings: Settings, change: Change) -> str:
    """Why a change must not be made; empty where it may. Of a notebook it waits for servers that may have it open."""
    path, name = change.path, plain_name(change.path.name)
    is_code = PurePath(name).suffix in (*SUFFIXES, *PYTHON_SUFFIXES)
    if not settings.enable_mcp_repl_evaluation and not is_code:
        return "where evaluation is switched off, files of Python and Lisp alone are edited"
    if path.suffix == NOTEBOOK and change.before.data is not None and (where := find_open_notebook(path)):
        return f"it is open in {where}, whose copy would not have the edit: ask your human to close it there"
    if settings.allow_edits_of_client_files or not path.is_relative_to(workspace):
        return ""
    if name == OWN_FILE:
        return f"its settings say what Codriver may do: {ASK}"
    if name == PROJECT_FILE and _settings_in(change.before.data) != _settings_in(change.after):
        return f"its table tool.codriver says what Codriver may do: {ASK}"
    # Code is no exception: scripts of hooks, settings of language servers in EDN and an editor's own scripts run by
    # themselves, as soon as a person opens the project or commits.
    parts = map(plain_name, path.relative_to(workspace).parts)
    hidden = [part for part in parts if part.startswith(".") and part not in HARMLESS]
    if hidden and not (hidden == [LINTER] and PurePath(name).suffix == ".edn"):
        return f"{hidden[0]} is hidden, as files are that say which programs clients and tools run: {ASK}"
    if name in CLIENTS_FILES:
        return f"it says which servers and hooks a client runs: {ASK}"
    return ""


def find_open_notebook(path: Path) -> str | None:
    """The Jupyter Server in which a notebook is open, in words; None where it is open in none. Waits for servers."""
    return where_open(path, RuntimeFolder(runtime_folder(os.environ)).look().servers)


def _settings_in(data: bytes | None) -> object:
    """The settings of Codriver in a project's file; what cannot be read is told apart by its bytes."""
    import tomllib  # noqa: PLC0415  # half a megabyte, which a workspace without such a file spares

    try:
        tool = tomllib.loads((data or b"").decode("utf-8-sig")).get("tool", {})
    except ValueError:
        return data
    return tool.get("codriver") if isinstance(tool, dict) else tool
