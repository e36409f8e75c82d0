"""Refuse edits of files that would run code or grant permissions, and those that features forbid."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from codriver.editing.editable_paths import LISP_SUFFIXES, PYTHON_SUFFIXES, normalize_file_name
from codriver.editing.guarded_files import guard_reason

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.editing.file_changes import Change
    from codriver.settings.model import Settings
    from codriver.tools.calls.call import Services

NEEDS_HUMAN_HINT: Final = "ask your human to edit it, or to set allowEditsOfClientFiles in their own settings"


def refusal_reason(services: Services, who: str, change: Change) -> str:
    """Return the reason why a caller must not make a change, or an empty string. Guards of features may wait."""
    refusals = (guard(services, who, change) for guard in services.hooks.guards)
    return next(filter(None, refusals), "") or edit_refusal(services.workspace, services.live.settings, change)


def edit_refusal(workspace: Path, settings: Settings, change: Change) -> str:
    """Return the reason why nobody may make a change, or an empty string."""
    path, name = change.path, normalize_file_name(change.path.name)
    is_code = PurePath(name).suffix in (*LISP_SUFFIXES, *PYTHON_SUFFIXES)
    if not settings.enable_mcp_repl_evaluation and not is_code:
        return "only files of Python and Lisp can be edited while evaluation is switched off"
    if settings.allow_edits_of_client_files or not path.is_relative_to(workspace):
        return ""
    reason = guard_reason(workspace, change)
    return f"{reason}: {NEEDS_HUMAN_HINT}" if reason else ""
